#include "src/device/cpu/jit/compile_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pergola::device::cpu::jit {
namespace {

TEST(CompileGate, Closing_WaitsForWhoIsInside_AndLetsNobodyInAnyMore) {
  CompileGate gate;
  ASSERT_TRUE(gate.enter());
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    gate.close();
    closed = true;
  });
  while (gate.enter()) gate.leave();  // until it is being closed
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(closed) << "this thread is inside";
  gate.leave();
  closing.join();
  EXPECT_FALSE(gate.enter());
}

TEST(CompileGate, ClosingFromInside_DoesNotWaitForItself) {
  CompileGate gate;
  ASSERT_TRUE(gate.enter());
  ASSERT_TRUE(gate.enter()) << "one thread may be inside several times";
  gate.close();
  EXPECT_FALSE(gate.enter());
  gate.leave();
  gate.leave();
}

}  // namespace
}  // namespace pergola::device::cpu::jit
