#include "src/device/cpu/memory_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "src/device/cpu/device_range.h"
#include "src/device/cpu/heap.h"
#include "tests/support/sanitized.h"

namespace pergola::device::cpu {
namespace {

TEST(MemoryMap, Find_NeedsTheWholeRangeInside) {
  MemoryMap map;
  map.add({1000, 100, "buffer 1 (100 bytes)"});
  EXPECT_TRUE(map.find(1000, 100));
  EXPECT_TRUE(map.find(1096, 4));
  EXPECT_TRUE(map.find(1100, 0));
  EXPECT_FALSE(map.find(1097, 4));
  EXPECT_FALSE(map.find(999, 4));
  EXPECT_FALSE(map.find(1000, ~std::size_t{0}));
  EXPECT_FALSE(map.find(~std::uintptr_t{0} - 1, 4));
}

TEST(MemoryMap, DescribeNearest_SaysHowFarAndOnWhichSide) {
  MemoryMap map;
  EXPECT_EQ(map.describe_nearest(5), "no buffer exists on the device");
  map.add({10000, 100, "buffer 1 (100 bytes)"});
  map.add({20000, 100, "buffer 2 (100 bytes)"});
  EXPECT_EQ(map.describe_nearest(9996), "4 bytes before buffer 1 (100 bytes)");
  EXPECT_EQ(map.describe_nearest(10100), "0 bytes past the end of buffer 1 (100 bytes)");
  EXPECT_EQ(map.describe_nearest(10104), "4 bytes past the end of buffer 1 (100 bytes)");
  EXPECT_EQ(map.describe_nearest(19000), "1000 bytes before buffer 2 (100 bytes)");
  EXPECT_EQ(map.describe_nearest(20050), "at byte 50 of buffer 2 (100 bytes)");
  EXPECT_EQ(map.describe_nearest(1u << 30), "no buffer is within 1 MiB of it");
}

TEST(MemoryMap, DescribeNearest_FarAwayAmongTheDevicesMemory_StillNamesIt) {
  DeviceRange& range = DeviceRange::instance();
  if (range.size_bytes() == 0) GTEST_SKIP() << "the host has no range of addresses left";
  const DeviceRange::Place place = range.place(4096);
  const auto begin = reinterpret_cast<std::uintptr_t>(place.inner);
  MemoryMap map;
  map.add({begin, 4096, "buffer 1 (4096 bytes)"});
  EXPECT_EQ(map.describe_nearest(begin + (4u << 20)), "4190208 bytes past the end of buffer 1 (4096 bytes)");
  range.close(place);
  range.release(place);
}

TEST(MemoryMap, Remove_MovesTheGeneration_AndIsRemembered) {
  MemoryMap map;
  map.add({10000, 100, "buffer 1 (100 bytes)"});
  const std::uint64_t before = map.generation();
  map.remove(10000);
  EXPECT_NE(map.generation(), before);
  EXPECT_FALSE(map.find(10000, 1));
  EXPECT_EQ(map.describe_nearest(10008), "at byte 8 of buffer 1 (100 bytes), which has been freed");
  map.add({10000, 16, "buffer 2 (16 bytes)"});
  EXPECT_EQ(map.describe_nearest(10020), "4 bytes past the end of buffer 2 (16 bytes)");
}

TEST(MemoryMap, FreedRanges_AreForgottenOldestFirst) {
  MemoryMap map;
  for (std::uintptr_t i = 0; i < 1000; ++i) {
    map.add({(i + 1) << 21, 16, "buffer"});
    map.remove((i + 1) << 21);
  }
  EXPECT_EQ(map.describe_nearest(std::uintptr_t{1} << 21), "no buffer is within 1 MiB of it");
  EXPECT_EQ(map.describe_nearest(std::uintptr_t{1000} << 21), "at byte 0 of buffer, which has been freed");
}

TEST(MemoryMap, ReadersAndWriters_MayRunTogether) {
  MemoryMap map;
  map.add({1 << 20, 64, "always"});
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        EXPECT_TRUE(map.find(1 << 20, 64));
        EXPECT_FALSE(map.describe_nearest(100).empty());
      }
    });
  }
  for (std::uintptr_t i = 0; i < 2000; ++i) {
    map.add({4096 + i * 64, 32, "buffer"});
    map.remove(4096 + i * 64);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(DeviceHeap, Allocate_IsAlignedRegisteredAndLimited) {
  MemoryMap map;
  DeviceHeap heap(map, 100);
  const std::uint64_t one = heap.allocate(40);
  ASSERT_NE(one, 0u);
  EXPECT_EQ(one % 16, 0u);
  EXPECT_EQ(heap.used_bytes(), 48u);
  EXPECT_TRUE(map.find(one, 40));
  EXPECT_FALSE(map.find(one, 41));
  EXPECT_EQ(heap.allocate(0), 0u);
  EXPECT_EQ(heap.allocate(60), 0u);
  EXPECT_EQ(heap.allocate(~std::uint64_t{0}), 0u);
  EXPECT_TRUE(heap.free(one).ok());
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_NE(heap.allocate(90), 0u);
}

TEST(DeviceHeap, OfMoreThanThereIs_IsNone_AndSaysSo) {
  MemoryMap map;
  ::testing::internal::CaptureStderr();
  // More than is kept for all of a device's memory; AddressSanitizer ends the process at such a request, and is not asked.
  const std::uint64_t bytes = std::uint64_t{1} << (test_support::kSanitized ? 45 : 43);
  DeviceHeap heap(map, bytes);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(fmt::format("no room for a heap of {} bytes", bytes)),
            std::string::npos);
  EXPECT_EQ(heap.allocate(1), 0u);
}

TEST(DeviceHeap, WrongFree_IsAFaultThatSaysWhatIsThere) {
  MemoryMap map;
  DeviceHeap heap(map, 1000);
  EXPECT_TRUE(heap.free(0).ok());
  const std::uint64_t block = heap.allocate(64);
  EXPECT_EQ(heap.free(block + 16).code(), Code::kDeviceFault);
  EXPECT_TRUE(heap.free(block).ok());
  const Status again = heap.free(block);
  EXPECT_EQ(again.code(), Code::kDeviceFault);
  EXPECT_NE(again.message().find("heap block 1 (64 bytes), which has been freed"), std::string::npos)
      << again.message();
}

TEST(DeviceHeap, WriteOutsideABlock_IsToldOnce_OfNewBlocksAndOfOlderOnesInTurn) {
  MemoryMap map;
  DeviceHeap heap(map, 100000);
  std::vector<std::uint64_t> blocks;
  for (int n = 0; n < 50; ++n) blocks.push_back(heap.allocate(20));
  const auto at = [&](std::size_t block, std::int64_t offset) -> std::byte& {
    return *reinterpret_cast<std::byte*>(blocks[block] + static_cast<std::uint64_t>(offset));
  };
  EXPECT_TRUE(heap.check("k", 1).ok());
  at(30, 20) = std::byte{1};
  at(31, 19) = std::byte{1};  // its own
  const Status fresh = heap.check("k", 1);
  EXPECT_EQ(fresh.message(), "Kernel 'k' wrote outside heap block 31 (20 bytes), 0 bytes past its end; this shows only now that it "
                             "has ended. PERGOLA_CPU_CHECK=1 or `pergola run --check` names thread and line.");
  EXPECT_TRUE(heap.check("k", 1).ok());
  at(40, -1) = std::byte{1};
  std::string told;
  for (std::size_t n = 0; n < 50 / DeviceHeap::kInTurn + 1; ++n) told += heap.check("later", heap.next_id()).message();
  EXPECT_EQ(told.find("Kernel 'later', or one before it or beside it, wrote outside heap block 41 (20 bytes), 1 byte before its "
                      "start"), 0u) << told;
  EXPECT_EQ(told.find("Kernel", 1), std::string::npos);
}

TEST(DeviceHeap, WriteToAFreedBlock_IsToldOnce_AtOnceOrInTurn) {
  MemoryMap map;
  DeviceHeap heap(map, 100000);
  std::vector<std::uint64_t> blocks;
  for (int n = 0; n < 40; ++n) blocks.push_back(heap.allocate(64));
  for (const std::uint64_t block : blocks) ASSERT_TRUE(heap.free(block).ok());
  EXPECT_NE(heap.allocate(64), blocks[0]);  // not given out again so soon
  const auto write = [&](std::size_t block) { *reinterpret_cast<std::uint32_t*>(blocks[block] + 4) = 1; };
  write(2);
  EXPECT_EQ(heap.check("k", heap.next_id()).message(),
            "Kernel 'k', or one before it or beside it, wrote to heap block 3 (64 bytes) after it was freed, bytes 4 "
            "to 7; this shows only "
            "now that it has ended. PERGOLA_CPU_CHECK=1 or `pergola run --check` names thread and line.");
  EXPECT_TRUE(heap.check("k", heap.next_id()).ok());
  write(20);
  std::string told;
  for (std::size_t n = 0; n < 40 / DeviceHeap::kInTurn; ++n) told += heap.check("later", heap.next_id()).message();
  EXPECT_EQ(
      told.find("Kernel 'later', or one before it or beside it, wrote to heap block 21 (64 bytes) after it was freed"),
      0u)
      << told;
  EXPECT_EQ(told.find("Kernel", 1), std::string::npos);
}

TEST(DeviceHeap, WriteToAFreedBlock_IsToldWhenTheBlockIsNeededAgain) {
  MemoryMap map;
  DeviceHeap heap(map, 100000);
  const std::uint64_t block = heap.allocate(64);
  ASSERT_TRUE(heap.free(block).ok());
  ASSERT_TRUE(heap.check("first", heap.next_id()).ok());
  *reinterpret_cast<std::uint32_t*>(block) = 1;
  for (std::size_t n = 0; n < DeviceHeap::kQuarantined; ++n) ASSERT_TRUE(heap.free(heap.allocate(16)).ok());
  EXPECT_NE(heap.check("k", heap.next_id())
                .message()
                .find("wrote to heap block 1 (64 bytes) after it was freed, bytes 0 to 3"),
            std::string::npos);
}

TEST(DeviceHeap, WhatIsFreed_IsTakenAgain) {
  MemoryMap map;
  DeviceHeap heap(map, 1 << 16);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> blocks;
    for (int n = 0; n < 64; ++n) blocks.push_back(heap.allocate(n % 2 == 0 ? 16 : 2000 - 16));
    for (const std::uint64_t block : blocks) {
      ASSERT_NE(block, 0u) << round;
      ASSERT_TRUE(heap.free(block).ok());
    }
  }
}

TEST(DeviceHeap, End_GivesEverythingBack) {
  MemoryMap map;
  std::uint64_t block = 0;
  {
    DeviceHeap heap(map, 1000);
    block = heap.allocate(64);
  }
  EXPECT_FALSE(map.find(block, 1));
}

}  // namespace
}  // namespace pergola::device::cpu
