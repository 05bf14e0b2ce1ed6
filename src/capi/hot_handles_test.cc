#include "src/capi/hot_handles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>
#include <vector>

namespace pergola::capi {
namespace {

constexpr std::uint32_t kAlive = 0x600d, kDead = 0xdead;
struct Object {
  explicit Object(std::atomic<int>& counter) : live(counter) { ++live; }
  ~Object() {
    state.store(kDead);
    --live;
  }
  std::atomic<std::uint32_t> state{kAlive};
  std::atomic<int>& live;
};

// As a handle of HandleTable, in a slot that its tests do not reach.
void* handle_of(std::uint64_t slot, std::uint32_t generation) {
  return reinterpret_cast<void*>((std::uint64_t{generation} << 32) | (slot << kHandleKindBits) |
                                 static_cast<std::uint64_t>(HandleKind::kTaskKind));
}

TEST(HotHandles, Handles_FindTheirObjectsUntilRemoved) {
  std::atomic<int> live{0};
  // On both sides of the borders of chunks.
  for (const std::uint64_t slot : {0, 1, 4095, 4096, 8191, 8192, 200'000'000}) {
    const auto object = std::make_shared<Object>(live);
    void* const handle = handle_of(slot + 1'048'576, 7);
    EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), nullptr);
    ASSERT_TRUE(HotHandles::add(handle, object.get()).ok());
    EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), object.get()) << slot;
    EXPECT_EQ(HotHandles::Use(handle_of(slot + 1'048'576, 8), HandleKind::kTaskKind).object(), nullptr)
        << "another generation";
    HotHandles::remove(handle, object);
    EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), nullptr);
  }
  EXPECT_EQ(live.load(), 0);
}

TEST(HotHandles, AnotherKindOrASecondUse_FindsNothing) {
  std::atomic<int> live{0};
  const auto object = std::make_shared<Object>(live);
  void* const handle = handle_of(1'000'001, 7);
  ASSERT_TRUE(HotHandles::add(handle, object.get()).ok());
  EXPECT_EQ(HotHandles::Use(handle, HandleKind::kKernel).object(), nullptr);
  {
    const HotHandles::Use first(handle, HandleKind::kTaskKind);
    EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), nullptr) << "a thread has one note";
    EXPECT_EQ(first.object(), object.get());
  }
  EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), object.get());
  HotHandles::remove(handle, object);
}

TEST(HotHandles, MadeUpHandles_FindNothing) {
  std::mt19937_64 random(7);
  SCOPED_TRACE("seed 7");
  EXPECT_EQ(HotHandles::Use(nullptr, HandleKind::kTaskKind).object(), nullptr);
  EXPECT_EQ(HotHandles::Use(reinterpret_cast<void*>(~std::uint64_t{0}), HandleKind::kTaskKind).object(), nullptr);
  for (int i = 0; i < 100'000; ++i) {
    void* const made_up = reinterpret_cast<void*>(random());
    EXPECT_EQ(HotHandles::Use(made_up, kind_of(made_up)).object(), nullptr);
  }
}

// The object goes with its last user, and the destroyer does not wait for that.
TEST(HotHandles, RemovedWhileUsed_LivesUntilTheLastUserIsDone) {
  std::atomic<int> live{0};
  void* const handle = handle_of(1'000'000, 20);
  auto object = std::make_shared<Object>(live);
  ASSERT_TRUE(HotHandles::add(handle, object.get()).ok());
  std::promise<void> first_in, second_in, first_out, second_out;
  const auto use = [&](std::promise<void>& in, std::promise<void>& out) {
    const HotHandles::Use mine(handle, HandleKind::kTaskKind);
    ASSERT_NE(mine.object(), nullptr);
    in.set_value();
    out.get_future().wait();
    EXPECT_EQ(static_cast<Object*>(mine.object())->state.load(), kAlive);
  };
  std::thread first([&] { use(first_in, first_out); }), second([&] { use(second_in, second_out); });
  first_in.get_future().wait();
  second_in.get_future().wait();
  HotHandles::remove(handle, std::move(object));
  EXPECT_EQ(HotHandles::Use(handle, HandleKind::kTaskKind).object(), nullptr);
  EXPECT_EQ(live.load(), 1);
  first_out.set_value();
  first.join();
  EXPECT_EQ(live.load(), 1);
  second_out.set_value();
  second.join();
  EXPECT_EQ(live.load(), 0) << "the second dropped it";
}

// Handles come and go, in the same slots, while threads use whichever they know of: what they find is alive and theirs.
TEST(HotHandles, ConcurrentUse_GivesLiveObjectsOrNothing) {
  constexpr int kSlots = 3, kUsers = 3, kRounds = 3000;
  std::atomic<int> live{0}, wrong{0}, found{0};
  std::array<std::atomic<void*>, kSlots> handles{};
  std::atomic<bool> stop{false};
  std::vector<std::thread> users;
  for (int t = 0; t < kUsers; ++t)
    users.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      while (!stop.load()) {
        const HotHandles::Use use(handles[random() % kSlots].load(), HandleKind::kTaskKind);
        if (use.object() == nullptr) continue;
        ++found;
        if (static_cast<Object*>(use.object())->state.load() != kAlive) ++wrong;
      }
    });
  for (int round = 0; round < kRounds; ++round)
    for (int slot = 0; slot < kSlots; ++slot) {
      const auto object = std::make_shared<Object>(live);
      void* const handle =
          handle_of(static_cast<std::uint64_t>(slot) + 1'000'000, static_cast<std::uint32_t>(round + 100));
      ASSERT_TRUE(HotHandles::add(handle, object.get()).ok());
      handles[static_cast<std::size_t>(slot)].store(handle);
      HotHandles::remove(handle, object);
    }
  stop.store(true);
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(live.load(), 0);
}

}  // namespace
}  // namespace pergola::capi
