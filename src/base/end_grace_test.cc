#include "src/base/end_grace.h"

#include <gtest/gtest.h>

#include <thread>

namespace pergola {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(Stillness, BetweenTwoLooks_ATenthOfASecondCounts) {
  Stillness stillness;
  EXPECT_EQ(stillness.after_look(false), nanoseconds(0)) << "nobody has looked before";
  std::this_thread::sleep_for(milliseconds(150));  // as if the process had been stopped
  EXPECT_EQ(stillness.after_look(false), milliseconds(100));
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_GE(stillness.after_look(false), milliseconds(102));
  EXPECT_EQ(stillness.after_look(true), nanoseconds(0));
}

TEST(Stillness, GoesOnFromWhatHasPassedAlready) {
  Stillness stillness(milliseconds(70));
  EXPECT_EQ(stillness.after_look(false), milliseconds(70));
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_GE(stillness.after_look(false), milliseconds(72));
  EXPECT_EQ(stillness.after_look(true), nanoseconds(0));
}

}  // namespace
}  // namespace pergola
