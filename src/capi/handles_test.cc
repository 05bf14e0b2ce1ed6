#include "src/capi/handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace pergola::capi {
namespace {

using ::testing::HasSubstr;

TEST(HandleTable, DestroyedHandle_IsKnownForWhatItIs) {
  HandleTable table;
  void* first = *table.add(HandleKind::kArray, std::make_shared<int>(1));
  EXPECT_EQ(*std::static_pointer_cast<int>(*table.find(HandleKind::kArray, first, "array")), 1);
  ASSERT_TRUE(table.remove(HandleKind::kArray, first, "array").ok());
  void* second = *table.add(HandleKind::kArray, std::make_shared<int>(2));
  EXPECT_NE(first, second) << "the slot is used again, under another generation";
  const auto stale = table.find(HandleKind::kArray, first, "array");
  ASSERT_EQ(stale.code(), Code::kInvalidArgument);
  EXPECT_THAT(stale.message(), HasSubstr("not a live handle"));
  EXPECT_EQ(table.remove(HandleKind::kArray, first, "array").code(), Code::kInvalidArgument);
  EXPECT_EQ(table.live(), 1u);
}

TEST(HandleTable, OtherKind_IsNamed) {
  HandleTable table;
  void* handle = *table.add(HandleKind::kKernel, std::make_shared<int>(1));
  const auto wrong = table.find(HandleKind::kSession, handle, "session");
  ASSERT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "The session is the handle of a kernel; it should be that of a session.");
  EXPECT_THAT(table.find(HandleKind::kEvent, nullptr, "event").message(), HasSubstr("is null"));
}

TEST(HandleTable, MadeUpHandles_AreRefused) {
  HandleTable table;
  std::vector<void*> live;
  for (int i = 0; i < 100; ++i) live.push_back(*table.add(HandleKind::kEvent, std::make_shared<int>(i)));
  std::mt19937_64 random(7);
  SCOPED_TRACE("seed 7");
  for (int i = 0; i < 100000; ++i) {
    void* made_up = reinterpret_cast<void*>(i % 2 == 0 ? random() : random() % 4096);
    if (std::find(live.begin(), live.end(), made_up) != live.end()) continue;
    EXPECT_FALSE(table.find(HandleKind::kEvent, made_up, "event").ok());
  }
}

// Each thread destroys its own handles while others look them up: a lookup gives the object or an error, never another.
TEST(HandleTable, ConcurrentUse_GivesTheObjectOrAnError) {
  HandleTable table;
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::atomic<void*>> current(kThreads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        void* mine = *table.add(HandleKind::kArray, std::make_shared<int>(t));
        current[t].store(mine);
        const int other = (t + 1) % kThreads;
        if (void* theirs = current[other].load()) {
          const auto found = table.find(HandleKind::kArray, theirs, "array");
          if (found.ok() && *std::static_pointer_cast<int>(*found) != other) ++wrong;
        }
        if (!table.remove(HandleKind::kArray, mine, "array").ok()) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(table.live(), 0u);
}

}  // namespace
}  // namespace pergola::capi
