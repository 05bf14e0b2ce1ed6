// Guard pages and quarantine: what lies around a block of memory, and what is left of it once it is freed.
#include "src/device/cpu/guarded_bytes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pergola::device::cpu {
namespace {

// Whether the system lets this process read the byte: a write() from it fails with EFAULT where not.
bool readable(const std::byte* at) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool can = write(ends[1], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

TEST(GuardedBytes, DataEndsAtAGuardPage_UpToItsAlignment) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{256}, std::size_t{4000}, std::size_t{4096}, std::size_t{100000}}) {
    const GuardedBytes bytes = GuardedBytes::make(size, 256);
    ASSERT_TRUE(bytes.guarded());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 256, 0u);
    EXPECT_LT(bytes.slack_after(), 256u);
    std::memset(bytes.data() - bytes.slack_before(), 1, bytes.slack_before() + size + bytes.slack_after());
    EXPECT_FALSE(readable(bytes.data() + size + bytes.slack_after()));
    EXPECT_FALSE(readable(bytes.data() - bytes.slack_before() - 1));
  }
}

TEST(GuardedBytes, FreedMemory_StaysWithoutAccess) {
  const std::byte* freed = nullptr;
  {
    const GuardedBytes bytes = GuardedBytes::make(10000, 256);
    freed = bytes.data();
    EXPECT_TRUE(readable(freed));
  }
  EXPECT_FALSE(readable(freed));
  const GuardedBytes other = GuardedBytes::make(10000, 256);
  EXPECT_NE(other.data(), freed);
}

TEST(GuardedBytes, BeyondTheLimit_MemoryIsPlainAndWorks) {
  std::vector<GuardedBytes> all;
  for (std::size_t n = 0; n < GuardedBytes::kMostGuarded + 10; ++n) all.push_back(GuardedBytes::make(64, 256));
  EXPECT_FALSE(all.back().guarded());
  ASSERT_NE(all.back().data(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back().data()) % 256, 0u);
  std::memset(all.back().data() - all.back().slack_before(), 1, 64 + all.back().slack_before() + all.back().slack_after());
  all.clear();
  EXPECT_TRUE(GuardedBytes::make(64, 256).guarded());
}

TEST(GuardedBytes, AGapAroundEachBuffer_IsAsLargeAsItIs) {
  if (DeviceRange::instance().size_bytes() == 0) GTEST_SKIP() << "the host has no range of addresses left";
  std::vector<GuardedBytes> all;
  for (int n = 0; n < 20; ++n) all.push_back(GuardedBytes::make(n % 2 == 0 ? 256 : std::size_t{3} << 20, 256));
  for (const GuardedBytes& bytes : all) {
    const std::size_t gap = std::max<std::size_t>(DeviceRange::kLeastGapBytes, bytes.size_bytes());
    for (std::size_t off = 8192; off < gap; off += gap / 64) {
      ASSERT_FALSE(readable(bytes.data() - off));
      ASSERT_FALSE(readable(bytes.data() + bytes.size_bytes() + off));
    }
  }
}

TEST(GuardedBytes, FreedAddresses_AreUsedAgain_AfterQuarantine) {
  const std::byte *lowest = nullptr, *highest = nullptr;
  for (std::size_t n = 0; n < 20 * GuardedBytes::kQuarantined; ++n) {
    const GuardedBytes bytes = GuardedBytes::make(256, 256);
    lowest = lowest == nullptr ? bytes.data() : std::min<const std::byte*>(lowest, bytes.data());
    highest = std::max<const std::byte*>(highest, bytes.data());
  }
  if (DeviceRange::instance().size_bytes() == 0) GTEST_SKIP() << "the host has no range of addresses left";
  EXPECT_LT(static_cast<std::size_t>(highest - lowest), 4 * GuardedBytes::kQuarantined * DeviceRange::kLeastGapBytes);
}

TEST(GuardedBytes, MoreThanThereIs_IsNull) {
  EXPECT_EQ(GuardedBytes::make(std::size_t{1} << 60, 256).data(), nullptr);
  EXPECT_EQ(GuardedBytes::make(SIZE_MAX - 4096, 256).data(), nullptr);
}

}  // namespace
}  // namespace pergola::device::cpu
