// What fences know of memory, on the host: ranges that come and go, held against a list of them. PERGOLA_SEED repeats
// it.
#include "src/executor/fence_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

namespace pergola::executor {
namespace {

using device::KnownMemory;

constexpr std::uint32_t kShift = 12;
constexpr std::uint64_t kGranule = std::uint64_t{1} << kShift, kLap = kGranule << abi::kFenceIndexBits;

std::uint32_t seed() {
  const char* given = std::getenv("PERGOLA_SEED");
  return given == nullptr ? std::random_device()() : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
}

TEST(FenceEntries, WhatIsThere_IsMemory_AndNothingElseWhereNoneShareAnEntry) {
  const std::uint32_t of = seed();
  SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << of);
  std::mt19937_64 random(of);
  FenceEntries entries(kShift);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::vector<FenceEntries::Span> changed;
  const auto has = [&](std::uint64_t granule) {
    for (const auto& [begin, size] : ranges)
      if (begin >> kShift <= granule && granule <= (begin + size - 1) >> kShift) return true;
    return false;
  };
  for (int step = 0; step < 2000; ++step) {
    if (ranges.size() < 3 || (ranges.size() < 40 && random() % 2 == 0)) {
      // Neighbours too, which share a granule at their ends.
      const std::uint64_t begin = kGranule * 100 + random() % (kGranule * 4000), size = 1 + random() % (5 * kGranule);
      ranges.emplace_back(begin, size);
      entries.add(begin, size, changed);
    } else {
      const std::size_t gone = random() % ranges.size();
      const auto [begin, size] = ranges[gone];
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(gone));
      entries.remove(begin, size, changed);
    }
    for (const auto& [begin, size] : ranges) {
      ASSERT_TRUE(entries.is_memory(begin));
      ASSERT_TRUE(entries.is_memory(begin + size - 1));
      ASSERT_TRUE(entries.is_memory(begin + random() % size));
    }
    for (int n = 0; n < 20; ++n) {
      const std::uint64_t address = random() % (kGranule * 4200);
      ASSERT_EQ(entries.is_memory(address), has(address >> kShift)) << address;
      ASSERT_FALSE(entries.is_memory(address + kLap)) << "the same entry, another tag";
    }
  }
}

TEST(FenceEntries, TwoThatDifferInTheirTagsAlone_BothPass) {
  FenceEntries entries(kShift);
  std::vector<FenceEntries::Span> changed;
  const std::uint64_t first = 7 * kGranule, second = first + 3 * kLap;
  entries.add(first, kGranule, changed);
  EXPECT_FALSE(entries.is_memory(second));
  entries.add(second, kGranule, changed);
  EXPECT_TRUE(entries.is_memory(first));
  EXPECT_TRUE(entries.is_memory(second));
  entries.remove(first, kGranule, changed);
  EXPECT_TRUE(entries.is_memory(second));
}

// Held against a walk over the entries, among them some that several addresses share.
TEST(FenceEntries, Runs_AreAsLongAsMemoryIs) {
  const std::uint32_t of = seed();
  SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << of);
  std::mt19937_64 random(of);
  constexpr std::uint64_t kGranules = 60, kIndexMask = (std::uint64_t{1} << abi::kFenceIndexBits) - 1;
  FenceEntries entries(kShift);
  std::vector<std::uint16_t> device(std::size_t{1} << abi::kFenceIndexBits);  // what the device is told
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::vector<FenceEntries::Span> changed;
  const std::uint64_t laps[] = {0, kLap, 5 * kLap};
  // The first and the last entries are neighbours too.
  const std::uint64_t first = (kIndexMask + 1 - kGranules / 2) * kGranule;
  const auto own = [&](std::uint64_t granule) {
    return entries.table()[granule & kIndexMask] == granule >> abi::kFenceIndexBits;
  };
  for (int step = 0; step < 1500; ++step) {
    if (ranges.size() < 4 || (ranges.size() < 14 && random() % 2 == 0)) {
      const std::uint64_t lap = random() % 10 == 0 ? laps[1 + random() % 2] : 0;
      const std::uint64_t begin = first + lap + random() % (kGranules * kGranule), size = 1 + random() % (9 * kGranule);
      ranges.emplace_back(begin, size);
      entries.add(begin, size, changed);
    } else {
      const std::size_t gone = random() % ranges.size();
      entries.remove(ranges[gone].first, ranges[gone].second, changed);
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    for (const FenceEntries::Span& span : entries.take_changed_runs())
      for (std::size_t n = span.first; n < span.first + span.count; ++n) device[n] = entries.runs()[n];
    for (const std::uint64_t lap : laps)
      for (std::uint64_t granule = (first + lap) >> kShift; granule < ((first + lap) >> kShift) + kGranules + 12;
           ++granule) {
        if (!own(granule)) continue;
        std::uint32_t length = 0;
        while (own(granule + length)) ++length;
        ASSERT_EQ(entries.runs()[granule & kIndexMask], length) << step;
        ASSERT_EQ(device[granule & kIndexMask], length) << step;
      }
    if (step % 100 == 0) {  // and nothing where no memory is, or several share an entry
      for (std::size_t n = 0; n < device.size(); ++n) {
        if (entries.table()[n] < abi::kFenceSeveral) continue;
        ASSERT_EQ(device[n], 0u);
      }
    }
  }
}

TEST(FenceEntries, LongRuns_SayWhatTheyCan) {
  FenceEntries entries(kShift);
  std::vector<FenceEntries::Span> changed;
  entries.add(kGranule, 70'000 * kGranule, changed);
  EXPECT_EQ(entries.runs()[1], abi::kFenceLongestRun);
  EXPECT_EQ(entries.runs()[70'000], 1u);
  (void)entries.take_changed_runs();
  entries.add(70'001 * kGranule, kGranule, changed);
  EXPECT_EQ(entries.runs()[70'000], 2u);
  std::size_t told = 0;
  for (const FenceEntries::Span& span : entries.take_changed_runs()) told += span.count;
  EXPECT_LE(told, abi::kFenceLongestRun + 1u) << "not the whole run";
}

TEST(FenceEntries, WhatChanges_IsSaid) {
  FenceEntries entries(kShift);
  std::vector<FenceEntries::Span> changed;
  entries.add(10 * kGranule, 4 * kGranule, changed);
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].first, 10u);
  EXPECT_EQ(changed[0].count, 4u);
  changed.clear();
  entries.add(11 * kGranule, kGranule, changed);
  EXPECT_TRUE(changed.empty()) << "it was there";
}

TEST(KnownMemory, WhoIsBehind_IsToldTheChanges_WhoIsFarBehind_All) {
  KnownMemory& known = KnownMemory::instance();
  constexpr std::uint64_t kBegin = std::uint64_t{1} << 50;
  std::uint64_t seen = known.generation();
  bool all = true;
  known.add(kBegin, 64);
  known.remove(kBegin, 64);
  known.add(kBegin + 4096, 100);
  auto changes = known.changes_since(seen, all);
  EXPECT_FALSE(all);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_TRUE(changes[1].is_gone);
  EXPECT_EQ(changes[2].begin, kBegin + 4096);
  EXPECT_EQ(seen, known.generation());
  EXPECT_TRUE(known.changes_since(seen, all).empty());

  for (std::size_t n = 0; n < KnownMemory::kMostChanges; ++n) {
    known.add(kBegin, 64);
    known.remove(kBegin, 64);
  }
  changes = known.changes_since(seen, all);
  EXPECT_TRUE(all);
  std::size_t found = 0;
  for (const KnownMemory::Change& change : changes) {
    EXPECT_FALSE(change.is_gone);
    found += change.begin == kBegin + 4096 ? 1 : 0;
    EXPECT_NE(change.begin, kBegin);
  }
  EXPECT_EQ(found, 1u);
  known.remove(kBegin + 4096, 100);
}

}  // namespace
}  // namespace pergola::executor
