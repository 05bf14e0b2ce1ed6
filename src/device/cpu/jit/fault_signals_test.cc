// A fault where the run time holds locks ends the process with a line, and does not leave a lock held for ever.
#include "src/device/cpu/jit/fault_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

namespace pergola::device::cpu::jit {
namespace {

void write_to_nowhere() {
  volatile std::uintptr_t nowhere = 64;  // volatile: no compiler may know it
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}

// As on a fiber of a block, which the handler looks at only outside sections.
void run_a_block() {
  static char block = 0, stack[256];
  prepare_fault_signals();
  set_running_block(reinterpret_cast<BlockRun*>(&block), stack + sizeof stack);
}

TEST(FaultSignalsDeathTest, FaultInARuntimeSection_EndsTheProcessWithALine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        run_a_block();
        const RuntimeSection section;
        write_to_nowhere();
      },
      "pergola: the CPU device's own memory is damaged");
}

TEST(FaultSignalsDeathTest, NestedSections_CountUntilTheLastHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        run_a_block();
        const RuntimeSection section;
        {
          const RuntimeSection inner;
        }
        write_to_nowhere();
      },
      "pergola: the CPU device's own memory is damaged");
}

#ifndef PERGOLA_ASAN  // whose own handler ends the process, as the one before ours
// One that was sent comes from no instruction, which would raise it again.
TEST(FaultSignalsDeathTest, ASignalThatIsSent_EndsTheProcessTheFirstTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        prepare_fault_signals();
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}
#endif

}  // namespace
}  // namespace pergola::device::cpu::jit
