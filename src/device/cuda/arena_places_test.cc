#include "src/device/cuda/arena_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <span>

namespace pergola::device::cuda {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kPage = 4096;

std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs(std::span<const ArenaPlaces::Pages> pages) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  for (const ArenaPlaces::Pages& each : pages)
    if (each.count != 0) all.emplace_back(each.first, each.count);
  return all;
}
using One = std::pair<std::uint64_t, std::uint64_t>;

TEST(ArenaPlaces, BlocksShareThePageBetweenThem) {
  ArenaPlaces places(kPage, 100);
  const auto a = places.take(3 * kPage - 600), b = places.take(kPage), c = places.take(1);
  EXPECT_EQ(a->offset_bytes, 0u);
  EXPECT_THAT(pairs(a->missing), ElementsAre(One(0, 2), One(2, 1)));
  EXPECT_EQ(b->offset_bytes, 3 * kPage - 512) << "the next of 512 bytes";
  EXPECT_THAT(pairs(b->missing), ElementsAre(One(3, 1)));
  EXPECT_THAT(pairs(c->missing), ElementsAre());
  EXPECT_EQ(places.mapped_pages(), 4u);
  EXPECT_THAT(pairs(places.give(a->offset_bytes)), ElementsAre(One(0, 2))) << "b lies in page 2";
  EXPECT_THAT(pairs(places.give(c->offset_bytes)), ElementsAre());
  EXPECT_THAT(pairs(places.give(b->offset_bytes)), ElementsAre(One(2, 1), One(3, 1)));
  EXPECT_EQ(places.mapped_pages(), 0u);
}

TEST(ArenaPlaces, WholePages_AreOneMapping) {
  ArenaPlaces places(kPage, 100);
  EXPECT_THAT(pairs(places.take(5 * kPage)->missing), ElementsAre(One(0, 5)));
  EXPECT_THAT(pairs(places.take(kPage)->missing), ElementsAre(One(5, 1)));
}

TEST(ArenaPlaces, ABlockGoesWhereItNeedsTheFewestPagesMore) {
  ArenaPlaces places(kPage, 100);
  const auto a = places.take(kPage / 2), b = places.take(kPage), c = places.take(kPage / 4);
  EXPECT_EQ(c->offset_bytes, kPage + kPage / 2);
  places.give(b->offset_bytes);  // half of page 0, half of page 1; both stay
  EXPECT_EQ(places.mapped_pages(), 2u);
  const auto d = places.take(kPage);
  EXPECT_EQ(d->offset_bytes, b->offset_bytes);
  EXPECT_THAT(pairs(d->missing), ElementsAre());
  EXPECT_EQ(places.take(kPage)->offset_bytes, c->offset_bytes + kPage / 4);
  (void)a;
}

TEST(ArenaPlaces, WhatDoesNotFit_IsRefused) {
  ArenaPlaces places(kPage, 2);
  EXPECT_FALSE(places.take(2 * kPage + 1));
  const auto all = places.take(2 * kPage);
  ASSERT_TRUE(all);
  EXPECT_FALSE(places.take(1));
  places.give(all->offset_bytes);
  EXPECT_TRUE(places.take(0)) << "is one byte";
  EXPECT_FALSE(ArenaPlaces(kPage, 0).take(1));
}

// Against a model that has a set of pages for each block.
TEST(ArenaPlaces, OfRandomBlocks_NoneOverlapsAndAllHaveTheirPages) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  ArenaPlaces places(kPage, 400);
  struct Block {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<Block> blocks;
  std::map<std::uint64_t, std::uint64_t> mapped;  // count by first page
  const auto has = [&](std::uint64_t page) {
    return std::ranges::any_of(mapped,
                               [&](const auto& one) { return one.first <= page && page < one.first + one.second; });
  };
  for (int step = 0; step < 800; ++step) {
    if (random() % 5 < 2 && !blocks.empty()) {
      const std::size_t which = random() % blocks.size();
      for (const ArenaPlaces::Pages& gone : places.give(blocks[which].begin)) {
        ASSERT_EQ(mapped.at(gone.first), gone.count) << "as it was mapped";
        mapped.erase(gone.first);
      }
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::uint64_t bytes = 1 + random() % (random() % 8 == 0 ? 30 * kPage : 2 * kPage);
      const auto place = places.take(bytes);
      if (!place) continue;
      for (const ArenaPlaces::Pages& missing : place->missing) {
        for (std::uint64_t page = missing.first; page < missing.first + missing.count; ++page) ASSERT_FALSE(has(page));
        if (missing.count != 0) mapped[missing.first] = missing.count;
      }
      const Block block{place->offset_bytes, place->offset_bytes + bytes};
      ASSERT_EQ(block.begin % ArenaPlaces::kAlignBytes, 0u);
      ASSERT_LE(block.end, 400 * kPage);
      for (const Block& other : blocks) ASSERT_TRUE(block.end <= other.begin || other.end <= block.begin);
      blocks.push_back(block);
    }
    std::set<std::uint64_t> needed;
    for (const Block& block : blocks)
      for (std::uint64_t page = block.begin / kPage; page <= (block.end - 1) / kPage; ++page) {
        ASSERT_TRUE(has(page));
        needed.insert(page);
      }
    std::uint64_t count = 0;
    for (const auto& [first, pages] : mapped) {
      bool is_needed = false;
      for (std::uint64_t page = first; page < first + pages; ++page) is_needed = is_needed || needed.contains(page);
      ASSERT_TRUE(is_needed) << "page " << first << " has no block";
      count += pages;
    }
    ASSERT_EQ(count, places.mapped_pages());
    ASSERT_EQ(count, needed.size()) << "a mapping is one block's alone or a page";
  }
  while (!blocks.empty()) {
    places.give(blocks.back().begin);
    blocks.pop_back();
  }
  EXPECT_EQ(places.mapped_pages(), 0u);
  EXPECT_EQ(places.take(400 * kPage)->offset_bytes, 0u);
}

}  // namespace
}  // namespace pergola::device::cuda
