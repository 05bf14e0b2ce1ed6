// `chain` and `fork-join` through the driver for python_dag_bench.py, which measures them by turns with its own
// launches in one process: what this process is given of the machine is the same for both then. From Python itself the
// calls would cost more.
#include <cstdio>
#include <exception>

#include "driver.h"

namespace {

// Milliseconds of the host's time a launch; negative, with a message on stderr, where there is none or the result is
// wrong. For one thread.
template <typename Run>
double measured(const char* name, unsigned expected, const Run& run) {
  try {
    static bench::Driver driver;
    const double ms = run(driver);
    if (driver.value(0) == expected) return ms;
    std::fprintf(stderr, "The driver's %s has a wrong result.\n", name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "The driver's %s: %s\n", name, error.what());
  }
  return -1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) double driver_chain_ms(int batch) {
  return measured("chain", static_cast<unsigned>(batch), [=](bench::Driver& driver) { return driver.chain_ms(batch); });
}

extern "C" __attribute__((visibility("default"))) double driver_fork_join_ms(int batch) {
  return measured("fork-join", bench::fork_join_value(batch / 3),
                  [=](bench::Driver& driver) { return driver.fork_join_ms(batch); });
}
