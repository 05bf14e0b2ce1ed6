#include "src/base/plural.h"

#include <gtest/gtest.h>

namespace pergola {
namespace {

TEST(Plural, OneAndMore) {
  EXPECT_EQ(plural(0, "byte"), "0 bytes");
  EXPECT_EQ(plural(1, "byte"), "1 byte");
  EXPECT_EQ(plural(2, "byte"), "2 bytes");
  EXPECT_EQ(plural(1, "launch"), "1 launch");
  EXPECT_EQ(plural(3, "launch"), "3 launches");
  EXPECT_EQ(plural(1, "copy"), "1 copy");
  EXPECT_EQ(plural(2, "copy"), "2 copies");
}

TEST(Plural, OfItsOwn_AsItIsSaid) {
  EXPECT_EQ(plural(1, "task goes", "tasks go"), "1 task goes");
  EXPECT_EQ(plural(7, "task goes", "tasks go"), "7 tasks go");
}

}  // namespace
}  // namespace pergola
