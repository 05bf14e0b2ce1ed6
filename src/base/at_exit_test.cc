#include "src/base/at_exit.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace pergola {
namespace {

AtExit* leak(const char* text) {
  return new AtExit([text] { std::fputs(text, stderr); });
}

TEST(AtExitDeath, WhatLives_Acts_AndWhatIsCancelledDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    leak("left ");
    const AtExit on_the_stack([] { std::fputs("on the stack ", stderr); });
    AtExit* const cancelled = leak("cancelled ");
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
    std::atexit([] { leak("late "); });  // runs behind those that are made after this
    leak("first ");
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "^first late $");
}

}  // namespace
}  // namespace pergola
