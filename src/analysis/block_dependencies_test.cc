#include "src/analysis/block_dependencies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "src/analysis/block_equality.h"

namespace pergola::analysis {
namespace {

using Place = AccessFootprint::Place;
enum Use { kReads = 1, kWrites = 2 };

AccessFootprint access(AllocationId allocation, int use, ByteShape shape, const std::vector<std::int64_t>& firsts) {
  AccessFootprint result{.allocation = allocation,
                         .reads = (use & kReads) != 0,
                         .writes = (use & kWrites) != 0,
                         .shapes = {normalized(std::move(shape))}};
  std::vector<Place> places;
  for (const std::int64_t first : firsts) places.push_back(first < 0 ? Place{} : Place{first, 0});
  result.places = places;
  return result;
}
LaunchFootprint launch(std::uint32_t blocks, std::vector<AccessFootprint> accesses) {
  return {.grid = {blocks, 1, 1}, .accesses = std::move(accesses)};
}
std::vector<std::int64_t> steps(std::uint32_t count, std::int64_t step, std::int64_t first = 0) {
  std::vector<std::int64_t> result;
  for (std::uint32_t i = 0; i < count; ++i) result.push_back(first + step * i);
  return result;
}
std::vector<std::uint32_t> parents(const BlockRelation& relation, std::uint32_t child) {
  const auto span = relation.parents_of(child);
  return {span.begin(), span.end()};
}

// By every byte of every block.
std::vector<std::set<std::uint32_t>> brute_force(const LaunchFootprint& parent, const LaunchFootprint& child,
                                                 std::int64_t bytes) {
  const auto touched = [&](const LaunchFootprint& of, std::uint32_t block, AllocationId allocation, int use) {
    std::set<std::int64_t> result;
    for (const AccessFootprint& a : of.accesses) {
      const Place place = a.places[block];
      if (a.allocation != allocation || place.shape == AccessFootprint::kNoShape) continue;
      if (!((use & kReads) != 0 && a.reads) && !((use & kWrites) != 0 && a.writes)) continue;
      const ByteSet set{place.first, a.shapes[place.shape]};
      for (std::int64_t i = 0; i < bytes; ++i) {
        if (set.contains(i)) result.insert(i);
      }
    }
    return result;
  };
  std::vector<std::set<std::uint32_t>> result(child.blocks());
  for (AllocationId allocation = 0; allocation < 2; ++allocation) {
    for (std::uint32_t c = 0; c < child.blocks(); ++c) {
      const auto read = touched(child, c, allocation, kReads), written = touched(child, c, allocation, kWrites);
      for (std::uint32_t p = 0; p < parent.blocks(); ++p) {
        for (const std::int64_t byte : touched(parent, p, allocation, kReads)) {
          if (written.contains(byte)) result[c].insert(p);
        }
        for (const std::int64_t byte : touched(parent, p, allocation, kWrites)) {
          if (read.contains(byte) || written.contains(byte)) result[c].insert(p);
        }
      }
    }
  }
  return result;
}

// What a relation says, listed.
std::vector<std::set<std::uint32_t>> listed(const BlockRelation& relation) {
  std::vector<std::set<std::uint32_t>> result(relation.children);
  for (std::uint32_t c = 0; c < relation.children; ++c) {
    if (relation.pattern == BlockPattern::kFull) {
      for (std::uint32_t p = 0; p < relation.parents; ++p) result[c].insert(p);
    }
    for (const std::uint32_t p : relation.parents_of(c)) result[c].insert(p);
  }
  return result;
}

TEST(BlockDependencies, PatternsOfTableI_AreTold) {
  const auto writes = launch(8, {access(0, kWrites, {{}, 64}, steps(8, 64))});
  const auto pattern = [&](std::vector<AccessFootprint> accesses, std::uint32_t blocks) {
    return block_dependencies(writes, launch(blocks, std::move(accesses)));
  };
  const auto independent = pattern({access(1, kReads, {{}, 64}, steps(8, 64))}, 8);
  EXPECT_EQ(independent.pattern, BlockPattern::kIndependent);
  EXPECT_EQ(independent.encoded_bytes(), 4u);
  EXPECT_EQ(pattern({access(0, kReads, {{}, 64}, steps(8, 64, 512))}, 8).pattern, BlockPattern::kIndependent);

  const auto one_to_one = pattern({access(0, kReads, {{}, 64}, steps(8, 64))}, 8);
  EXPECT_EQ(one_to_one.pattern, BlockPattern::kOneToOne);
  EXPECT_EQ(parents(one_to_one, 5), std::vector<std::uint32_t>{5});
  EXPECT_TRUE(one_to_one.raw && !one_to_one.war && !one_to_one.waw);
  EXPECT_EQ(one_to_one.encoded_bytes(), 32u);
  EXPECT_EQ(one_to_one.plain_bytes(), 4u * (8 + 8 + 8));

  const auto one_to_n = pattern({access(0, kReads, {{}, 16}, steps(32, 16))}, 32);
  EXPECT_EQ(one_to_n.pattern, BlockPattern::kOneToN);
  EXPECT_EQ(parents(one_to_n, 7), std::vector<std::uint32_t>{1});

  const auto n_to_one = pattern({access(0, kReads, {{}, 256}, steps(2, 256))}, 2);
  EXPECT_EQ(n_to_one.pattern, BlockPattern::kNToOne);
  EXPECT_EQ(parents(n_to_one, 1), (std::vector<std::uint32_t>{4, 5, 6, 7}));

  const auto groups = pattern({access(0, kReads, {{}, 256}, {0, 0, 256, 256, 256})}, 5);
  EXPECT_EQ(groups.pattern, BlockPattern::kGroups);
  EXPECT_EQ(groups.encoded_bytes(), 4u * (8 + 5));

  const auto overlapped = pattern({access(0, kReads, {{}, 66}, steps(7, 64))}, 7);
  EXPECT_EQ(overlapped.pattern, BlockPattern::kOverlapped);
  EXPECT_EQ(parents(overlapped, 3), (std::vector<std::uint32_t>{3, 4}));
  EXPECT_EQ(overlapped.encoded_bytes(), 4u * (8 + 7 * 2));

  const auto full = pattern({access(0, kReads, {{}, 512}, steps(3, 0))}, 3);
  EXPECT_EQ(full.pattern, BlockPattern::kFull);
  EXPECT_EQ(full.edges, 24u);
  EXPECT_EQ(full.full_reason, "");  // it is so by its bytes
  // One child of all is n-to-one, and one parent of all one-to-n.
  EXPECT_EQ(pattern({access(0, kReads, {{}, 512}, {0})}, 1).pattern, BlockPattern::kNToOne);
  EXPECT_EQ(block_dependencies(launch(1, {access(0, kWrites, {{}, 64}, {0})}),
                               launch(3, {access(0, kReads, {{}, 4}, steps(3, 4))}))
                .pattern,
            BlockPattern::kOneToN);
}

TEST(BlockDependencies, Hazards_AreRawWarAndWaw) {
  const auto of = [](int parent, int child) {
    return block_dependencies(launch(4, {access(0, parent, {{}, 8}, steps(4, 8))}),
                              launch(4, {access(0, child, {{}, 8}, steps(4, 8))}));
  };
  EXPECT_EQ(of(kReads, kReads).pattern, BlockPattern::kIndependent);
  const auto raw = of(kWrites, kReads), war = of(kReads, kWrites), waw = of(kWrites, kWrites);
  EXPECT_TRUE(raw.raw && !raw.war && !raw.waw);
  EXPECT_TRUE(!war.raw && war.war && !war.waw);
  EXPECT_TRUE(!waw.raw && !waw.war && waw.waw);
  EXPECT_EQ(war.pattern, BlockPattern::kOneToOne);
}

TEST(BlockDependencies, TooManyParents_AreFullWithTheReason) {
  const auto parent = launch(100, {access(0, kWrites, {{}, 4}, steps(100, 4))});
  const auto child = launch(10, {access(0, kReads, {{}, 40}, steps(10, 36))});
  EXPECT_EQ(block_dependencies(parent, child).pattern, BlockPattern::kOverlapped);
  const auto limited = block_dependencies(parent, child, {.max_degree = 9});
  EXPECT_EQ(limited.pattern, BlockPattern::kFull);
  EXPECT_EQ(limited.full_reason, "a block waits for 10 others, and 9 are the limit");
  EXPECT_NE(block_dependencies(parent, child, {.max_edges = 50}).full_reason.find("pairs of blocks"),
            std::string::npos);
}

TEST(BlockDependencies, Anything_WaitsWhereSomethingIsWritten) {
  auto anything = launch(4, {});
  anything.reads_anything = true;
  anything.anything_reason = "an address is loaded";
  const auto reader = launch(4, {access(0, kReads, {{}, 8}, steps(4, 8))}),
             writer = launch(4, {access(0, kWrites, {{}, 8}, steps(4, 8))});
  EXPECT_EQ(block_dependencies(reader, anything).pattern, BlockPattern::kIndependent);
  const auto after = block_dependencies(writer, anything), before = block_dependencies(anything, writer);
  EXPECT_EQ(after.pattern, BlockPattern::kFull);
  EXPECT_EQ(after.full_reason, "an address is loaded");
  EXPECT_EQ(before.pattern, BlockPattern::kFull);
  anything.writes_anything = true;
  EXPECT_EQ(block_dependencies(reader, anything).pattern, BlockPattern::kFull);
  EXPECT_EQ(block_dependencies(anything, launch(4, {})).pattern, BlockPattern::kIndependent);
}

TEST(BlockDependencies, WholeAccess_GivesItsReasonWhereTheRelationIsFull) {
  auto whole = access(0, kReads, {{}, 512}, steps(8, 0));
  whole.whole_reason = "an index is unknown: loaded at k:7";
  const auto relation = block_dependencies(launch(8, {access(0, kWrites, {{}, 64}, steps(8, 64))}), launch(8, {whole}));
  EXPECT_EQ(relation.pattern, BlockPattern::kFull);
  EXPECT_EQ(relation.full_reason, whole.whole_reason);
}

TEST(BlockDependencies, WholeAccess_GivesNoReasonWhereOthersMakeItFull) {
  auto whole = access(0, kReads, {{}, 512}, steps(8, 0));
  whole.whole_reason = "an index is unknown";
  const auto parent = launch(8, {access(0, kWrites, {{}, 64}, steps(8, 64)), access(1, kWrites, {{}, 8}, steps(8, 8))});
  const auto relation = block_dependencies(parent, launch(8, {whole, access(1, kReads, {{}, 64}, steps(8, 0))}));
  EXPECT_EQ(relation.pattern, BlockPattern::kFull);
  EXPECT_EQ(relation.full_reason, "");
}

TEST(BlockDependencies, RawOnly_LeavesOutWhatTheChildOverwrites) {
  auto anything = launch(4, {});
  anything.reads_anything = true;
  anything.anything_reason = "an address is loaded";
  const auto reader = launch(4, {access(0, kReads, {{}, 8}, steps(4, 8))}),
             writer = launch(4, {access(0, kWrites, {{}, 8}, steps(4, 8))});
  const DependencyOptions raw_only{.raw_only = true};
  EXPECT_EQ(block_dependencies(writer, reader, raw_only).pattern, BlockPattern::kOneToOne);
  EXPECT_EQ(block_dependencies(reader, writer, raw_only).pattern, BlockPattern::kIndependent);
  EXPECT_EQ(block_dependencies(writer, writer, raw_only).pattern, BlockPattern::kIndependent);
  EXPECT_EQ(block_dependencies(anything, writer, raw_only).pattern, BlockPattern::kIndependent);
  const auto after = block_dependencies(writer, anything, raw_only);
  EXPECT_EQ(after.pattern, BlockPattern::kFull);
  EXPECT_TRUE(after.raw && !after.war && !after.waw);
}

TEST(BlockDependencies, SingleBlocks_AreOneToOne) {
  const auto one = launch(1, {access(0, kReads | kWrites, {{}, 64}, {0})});
  const auto relation = block_dependencies(one, one);
  EXPECT_EQ(relation.pattern, BlockPattern::kOneToOne);
  EXPECT_EQ(parents(relation, 0), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(relation.raw && relation.war && relation.waw);
}

TEST(BlockDependencies, SameAccessTwice_ChangesNothing) {
  const auto tile = access(0, kReads, {{}, 66}, steps(8, 64)), out = access(0, kWrites, {{}, 64}, steps(8, 64));
  const auto once = block_dependencies(launch(8, {out}), launch(8, {tile}));
  const auto twice = block_dependencies(launch(8, {out, out}), launch(8, {tile, tile, tile}));
  EXPECT_EQ(twice.pattern, BlockPattern::kOverlapped);
  EXPECT_EQ(listed(twice), listed(once));
}

class RandomLaunches : public ::testing::Test {
 protected:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  AccessFootprint random_access(std::uint32_t blocks) {
    AccessFootprint result{.allocation = below(2)};
    const std::uint32_t use = 1 + below(3);
    result.reads = (use & kReads) != 0;
    result.writes = (use & kWrites) != 0;
    for (std::uint32_t i = 0, count = 1 + below(2); i < count; ++i) {
      ByteShape shape{{}, 1 + below(5)};
      for (std::uint32_t d = 0, dimensions = below(3); d < dimensions; ++d)
        shape.dimensions.push_back({1 + below(20), 1 + below(4)});
      result.shapes.push_back(normalized(shape));
    }
    const std::uint32_t step = below(12), jump = below(3) == 0 ? below(30) : 0;
    std::vector<Place> places;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      if (below(8) == 0) {
        places.emplace_back();
      } else {
        places.push_back({step * b + (b % 2) * jump, below(static_cast<std::uint32_t>(result.shapes.size()))});
      }
    }
    result.places = places;
    return result;
  }
  LaunchFootprint random_launch() {
    LaunchFootprint result = launch(1 + below(12), {});
    for (std::uint32_t i = 0, count = 1 + below(3); i < count; ++i)
      result.accesses.push_back(random_access(result.blocks()));
    return result;
  }
  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(RandomLaunches, Relation_IsThatOfTheBytes) {
  std::set<BlockPattern> met;
  for (int i = 0; i < 1500; ++i) {
    const LaunchFootprint parent = random_launch(), child = random_launch();
    const BlockRelation relation = block_dependencies(parent, child);
    const auto truth = brute_force(parent, child, 400);
    ASSERT_EQ(listed(relation), truth) << "seed " << seed_ << " round " << i;
    ASSERT_TRUE(are_equal(relation, block_dependencies(parent, child, {.by_boxes = false})))
        << "seed " << seed_ << " round " << i;
    std::uint64_t edges = 0;
    for (const auto& of_child : truth) edges += of_child.size();
    ASSERT_EQ(relation.edges, edges) << "seed " << seed_ << " round " << i;
    met.insert(relation.pattern);
  }
  EXPECT_EQ(met.size(), 7u);  // every pattern of Table I
}

// The comparison above finds a footprint that lacks an access.
TEST_F(RandomLaunches, AccessThatIsLeftOut_IsSeenInTheRelation) {
  int seen = 0, tried = 0;
  for (int i = 0; i < 300; ++i) {
    const LaunchFootprint parent = random_launch(), child = random_launch();
    const auto truth = brute_force(parent, child, 400);
    LaunchFootprint broken = child;
    broken.accesses.pop_back();
    const auto without = brute_force(parent, broken, 400);
    if (without == truth) continue;  // what was left out adds nothing
    ++tried;
    seen += listed(block_dependencies(parent, broken)) != truth;
  }
  EXPECT_GT(tried, 50);
  EXPECT_EQ(seen, tried);
}

// The time of a pair; the bound is for machines of any speed, the figure for people.
void expect_fast(const char* name, const LaunchFootprint& parent, const LaunchFootprint& child, BlockPattern pattern,
                 [[maybe_unused]] double ms) {
  double best = 1e9;
  BlockRelation relation;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    relation = block_dependencies(parent, child);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  fmt::print("{}: {} x {} blocks, {}, {} edges: {:.3f} ms\n", name, relation.parents, relation.children,
             to_string(relation.pattern), relation.edges, best);
  EXPECT_EQ(relation.pattern, pattern) << name;
#ifdef __OPTIMIZE__  // of other builds, as with sanitizers, it says nothing
  EXPECT_LT(best, 20 * ms) << name;
#endif
}

TEST(BlockDependencies, LargeGrids_AreRelatedInTime) {
  const auto tiles = [](std::uint32_t side, int halo, int use) {  // 16 x 16 elements of a matrix, and a halo
    const std::int64_t pitch = side * 64;
    std::vector<std::int64_t> firsts;
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x)
        firsts.push_back(y * 16 * pitch + x * 64 + (halo != 0 ? 8 * pitch + 1024 : 9 * pitch + 1028));
    }
    return launch(side * side,
                  {access(0, use,
                          {{{static_cast<std::uint64_t>(pitch), static_cast<std::uint64_t>(16 + 2 * halo)}},
                           static_cast<std::uint64_t>(64 + 8 * halo)},
                          firsts)});
  };
  const auto bands = [](std::uint32_t side, bool is_row) {  // what a block of a matrix product reads
    const std::int64_t pitch = side * 64;
    std::vector<std::int64_t> firsts;
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x) firsts.push_back(is_row ? y * 16 * pitch : x * 64);
    }
    ByteShape shape = is_row ? ByteShape{{}, static_cast<std::uint64_t>(16 * pitch)}
                             : ByteShape{{{static_cast<std::uint64_t>(pitch), side * 16}}, 64};
    return launch(side * side, {access(0, kReads, shape, firsts)});
  };
  const auto plain = [](std::uint32_t side, int use) {
    const std::int64_t pitch = side * 64;
    std::vector<std::int64_t> firsts;
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x) firsts.push_back(y * 16 * pitch + x * 64);
    }
    return launch(side * side, {access(0, use, {{{static_cast<std::uint64_t>(pitch), 16}}, 64}, firsts)});
  };
  const auto triangle = [](std::uint32_t side) {  // of each row the tiles up to the block's own
    LaunchFootprint result = launch(side * side, {{.allocation = 0, .reads = true}});
    const std::uint64_t pitch = side * 64;
    for (std::uint32_t x = 0; x < side; ++x)
      result.accesses[0].shapes.push_back(normalized({{{pitch, 16}}, 64 * (x + 1)}));
    std::vector<Place> places;
    for (std::uint32_t y = 0; y < side; ++y) {
      for (std::uint32_t x = 0; x < side; ++x) places.push_back({static_cast<std::int64_t>(y * 16 * pitch), x});
    }
    result.accesses[0].places = places;
    return result;
  };
  const auto beginnings = [](std::uint32_t blocks) {  // of an array, each longer than the one before
    LaunchFootprint result = launch(blocks, {{.allocation = 0, .reads = true}});
    std::vector<Place> places;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      result.accesses[0].shapes.push_back({{}, 64 * (b + 1)});
      places.push_back({0, b});
    }
    result.accesses[0].places = places;
    return result;
  };
  for (const std::uint32_t side : {32u, 64u}) {
    const double ms = side == 32 ? 1 : 5;
    expect_fast("tile by tile", plain(side, kWrites), plain(side, kReads), BlockPattern::kOneToOne, ms);
    expect_fast("rows of tiles", plain(side, kWrites), bands(side, true), BlockPattern::kGroups, ms);
    expect_fast("columns of tiles", plain(side, kWrites), bands(side, false), BlockPattern::kGroups, ms);
    expect_fast("tiles with a halo", tiles(side, 0, kWrites), tiles(side, 1, kReads), BlockPattern::kOverlapped, ms);
    // Whole rows by blocks, whole columns by blocks: every one meets every one, and no two are as far apart.
    const std::uint32_t blocks = side * side;
    const auto rows = access(0, kWrites, {{}, blocks * 4}, steps(blocks, blocks * 4)),
               columns = access(0, kReads, {{{blocks * 4, blocks}}, 4}, steps(blocks, 4));
    expect_fast("rows, columns", launch(blocks, {rows}), launch(blocks, {columns}), BlockPattern::kFull, ms);
    auto gathered = access(0, kReads, {{}, blocks * blocks * 4}, steps(blocks, 0));
    gathered.whole_reason = "an index is loaded";
    const auto own = access(1, kReads, {{}, 64}, steps(blocks, 64)),
               out = access(1, kWrites, {{}, 64}, steps(blocks, 64));
    expect_fast("gathered and own", launch(blocks, {rows, out}), launch(blocks, {gathered, own}), BlockPattern::kFull,
                ms);
    expect_fast("butterflies", launch(blocks, {access(0, kWrites, {{{blocks * 16, 4}}, 16}, steps(blocks, 16))}),
                launch(blocks, {access(0, kReads, {{{blocks * 4, 8}}, 4}, steps(blocks, 4))}), BlockPattern::kGroups,
                ms);
    expect_fast("a triangle", plain(side, kWrites), triangle(side), BlockPattern::kOverlapped, ms);
    expect_fast("beginnings", launch(blocks, {access(0, kWrites, {{}, 64}, steps(blocks, 64))}), beginnings(blocks),
                BlockPattern::kFull, ms);
    expect_fast("a line", launch(side * side, {access(0, kWrites, {{}, 1024}, steps(side * side, 1024))}),
                launch(side * side, {access(0, kReads, {{}, 1032}, steps(side * side, 1024))}),
                BlockPattern::kOverlapped, ms);
  }
}

// A relation that cannot be stored takes neither the memory nor the time of its pairs.
TEST(BlockDependencies, TooManyRanges_AreFullBeforeTheyAreListed) {
  const std::uint32_t blocks = 65536;
  // Child c reads every second block's bytes from c on: no range is longer than one block.
  LaunchFootprint child = launch(blocks, {{.allocation = 0, .reads = true}});
  child.accesses[0].shapes.push_back(normalized({{{8, blocks / 4}}, 4}));
  std::vector<Place> places;
  for (std::uint32_t c = 0; c < blocks; ++c) places.push_back({4 * std::int64_t{c}, 0});
  child.accesses[0].places = places;
  const auto relation = block_dependencies(launch(blocks, {access(0, kWrites, {{}, 4}, steps(blocks, 4))}), child,
                                           {.max_edges = 100'000});
  EXPECT_EQ(relation.pattern, BlockPattern::kFull);
  EXPECT_EQ(relation.full_reason, "more than 100000 pairs of blocks, which is the limit");
  EXPECT_TRUE(relation.raw && !relation.war && !relation.waw);
  EXPECT_EQ(relation.edges, std::uint64_t{blocks} * blocks);
}

}  // namespace
}  // namespace pergola::analysis
