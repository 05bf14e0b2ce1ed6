#include <gtest/gtest.h>

#include "src/executor/executor.h"

namespace pergola::executor {
namespace {

// Of kinds of 1, 4 and 31 warps, as Executor::add_kind() makes them.
TEST(KindTest, UrgentOnes_FindRoomBehindManyAtOnce_AndTheOthersAreAsTheyWere) {
  for (const auto& [usual, most] : {std::pair{47u, 47u}, {12u, 27u}, {2u, 21u}}) {
    Kind kind;
    kind.usual_depth = usual, kind.usual_most_depth = most;
    const Kind normal = kind.with_urgency(false), urgent = normal.with_urgency(true);
    EXPECT_EQ(normal.depth, usual);
    EXPECT_EQ(normal.most_depth, most);
    EXPECT_GT(urgent.depth, normal.most_depth);
    EXPECT_EQ(urgent.most_depth, urgent.depth);
    EXPECT_LE(urgent.depth, abi::kRingRecords);
    EXPECT_TRUE(urgent.is_urgent);
    const Kind again = urgent.with_urgency(true).with_urgency(false);
    EXPECT_EQ(again.depth, usual);
    EXPECT_EQ(again.most_depth, most);
    EXPECT_FALSE(again.is_urgent);
  }
}

}  // namespace
}  // namespace pergola::executor
