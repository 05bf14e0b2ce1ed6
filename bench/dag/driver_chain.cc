// `chain` through the driver for python_dag_bench.py, which measures it by turns with its own launches in one process:
// what this process is given of the machine is the same for both then. From Python itself the calls would cost more.
#include <cstdio>
#include <exception>

#include "driver.h"

// Milliseconds of the host's time a launch; negative, with a message on stderr, where there is none or the result is
// wrong. For one thread.
extern "C" __attribute__((visibility("default"))) double driver_chain_ms(int batch) {
  try {
    static bench::Driver driver;
    const double ms = driver.chain_ms(batch);
    if (driver.value(0) == static_cast<unsigned>(batch)) return ms;
    std::fprintf(stderr, "The driver's chain has a wrong result.\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "The driver's chain: %s\n", error.what());
  }
  return -1;
}
