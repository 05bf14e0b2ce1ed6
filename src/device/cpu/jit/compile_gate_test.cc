#include "src/device/cpu/jit/compile_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
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

#ifndef PERGOLA_ASAN  // which looks for leaks of the threads that the child has not
TEST(CompileGate, AForkedChild_EndsThoughSomebodyWasInside) {
  CompileGate::watch_for_exit();
  std::atomic<bool> is_inside{false}, leaves{false};
  std::thread compiling([&] {
    const CompileGate::Inside inside;
    is_inside = true;
    while (!leaves) std::this_thread::yield();
  });
  while (!is_inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    std::exit(3);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  leaves = true;
  compiling.join();
}
#endif

}  // namespace
}  // namespace pergola::device::cpu::jit
