#include "src/base/at_exit.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

namespace pergola {
namespace {

// Never destroyed, and within reach of whoever looks for leaks.
AtExit* leave(const char* text) {
  static auto* const all = new std::deque<AtExit*>;
  return all->emplace_back(new AtExit([text] { std::fputs(text, stderr); }));
}

TEST(AtExitDeath, WhatLives_Acts_AndWhatIsCancelledDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    leave("left ");
    const AtExit on_the_stack([] { std::fputs("on the stack ", stderr); });
    AtExit* const cancelled = leave("cancelled ");
    if (!cancelled->cancel([] { std::fputs("instead ", stderr); })) std::_Exit(1);
    if (cancelled->cancel()) std::_Exit(2);
    {
      const AtExit gone([] { std::fputs("gone ", stderr); });
    }
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "^instead (left on the stack|on the stack left) $");
}

TEST(AtExitDeath, WhatIsMadeOnceOthersHaveActed_ActsAsWell) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    std::atexit([] { leave("late "); });  // runs behind those that are made after this
    leave("first ");
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "^first late $");
}

}  // namespace
}  // namespace pergola
