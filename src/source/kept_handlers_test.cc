// A library's handlers are set back while it goes on, and those of anybody else stay. The library is the C library,
// whose function abs() stands for a handler that is never called.
#include "src/source/kept_handlers.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>

namespace pergola::source {
namespace {

void own_handler(int) {}
void other_handler(int) {}

using Handler = void (*)(int);

Handler handler_of(int signal) {
  struct sigaction action{};
  EXPECT_EQ(sigaction(signal, nullptr, &action), 0);
  return action.sa_handler;
}
void set(int signal, Handler handler) {
  struct sigaction action{};
  action.sa_handler = handler;
  ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
}
bool becomes(int signal, Handler handler) {
  for (int n = 0; n < 5000 && handler_of(signal) != handler; ++n)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return handler_of(signal) == handler;
}

class KeptHandlersTest : public testing::Test {
 protected:
  void SetUp() override {
    interrupt_ = handler_of(SIGINT), terminate_ = handler_of(SIGTERM);
    void* const abs = dlsym(RTLD_NEXT, "abs");
    ASSERT_NE(abs, nullptr);
    of_library_ = reinterpret_cast<Handler>(abs);
    set(SIGINT, own_handler);
    set(SIGTERM, SIG_DFL);
    kept_.emplace(abs);
  }
  ~KeptHandlersTest() override {
    kept_.reset();
    set(SIGINT, interrupt_), set(SIGTERM, terminate_);
  }

  Handler of_library_ = nullptr, interrupt_ = nullptr, terminate_ = nullptr;
  std::optional<KeptHandlers> kept_;
};

TEST_F(KeptHandlersTest, TheLibrarysAreSetBack_EachTime) {
  for (int n = 0; n < 3; ++n) {
    set(SIGINT, of_library_), set(SIGTERM, of_library_);
    EXPECT_TRUE(becomes(SIGINT, own_handler));
    EXPECT_TRUE(becomes(SIGTERM, SIG_DFL));
  }
}

TEST_F(KeptHandlersTest, WhatTheProgramSetsMeanwhile_Stays) {
  set(SIGINT, other_handler);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(handler_of(SIGINT), other_handler);
}

TEST_F(KeptHandlersTest, TheEnd_SetsThemBackToo_AndNothingAfterIt) {
  KeptHandlers second(reinterpret_cast<const void*>(of_library_));
  set(SIGINT, of_library_);
  kept_.reset();
  EXPECT_EQ(handler_of(SIGINT), own_handler);
}

TEST_F(KeptHandlersTest, TheLibrarysOwn_IsNotKept) {
  kept_.reset();
  set(SIGINT, of_library_);
  {
    const KeptHandlers late(reinterpret_cast<const void*>(of_library_));
    set(SIGINT, own_handler);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(handler_of(SIGINT), own_handler);
  }
  EXPECT_EQ(handler_of(SIGINT), own_handler);
}

}  // namespace
}  // namespace pergola::source
