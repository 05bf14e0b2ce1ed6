// The analysis' relations held against the truth: no block of a program of bench/blocks may depend on a block of one of
// the four launches before it, by what they really access, that the relation does not name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/blocks/relations/program_relations.h"
#include "tests/blocks/recorded_program.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::blocks_test {
namespace {

using analysis::BlockPattern;
using analysis::BlockRelation;
using bench::blocks::all;
using bench::blocks::Program;
using bench::blocks::ProgramRelations;
using bench::blocks::Size;

constexpr std::size_t kWindow = 4;

// Edges of the relation: of all that are true, how many it lacks; and how many it has.
struct Edges {
  std::uint64_t missing = 0, truth = 0, predicted = 0;
};

Edges compare(const BlockRelation& relation, const Relation& truth) {
  Edges edges;
  const bool is_full = relation.pattern == BlockPattern::kFull;
  for (std::uint32_t child = 0; child < truth.size(); ++child) {
    const auto parents = relation.parents_of(child);
    edges.truth += truth[child].size();
    edges.predicted += is_full ? relation.parents : parents.size();
    if (is_full) continue;
    for (const std::uint32_t p : truth[child]) edges.missing += !parents.contains(p);
  }
  return edges;
}

// Of all pairs of launches within the window.
Edges held_against_the_truth(device::Device& device, const Program& program) {
  Edges sum;
  const auto launches = record(device, program);
  const auto relations = ProgramRelations::of(program);
  EXPECT_TRUE(launches.ok()) << launches.message();
  EXPECT_TRUE(relations.ok()) << relations.message();
  if (!launches.ok() || !relations.ok()) return sum;
  std::vector<analysis::LaunchFootprint> footprints;
  for (std::size_t child = 0; child < launches->size(); ++child) {
    auto footprint = relations->footprint(child);
    EXPECT_TRUE(footprint.ok()) << footprint.message();
    if (!footprint.ok()) return sum;
    footprints.push_back(std::move(footprint).value());
    for (std::size_t parent = child < kWindow ? 0 : child - kWindow; parent < child; ++parent) {
      const Edges edges = compare(analysis::block_dependencies(footprints[parent], footprints[child]),
                                  dependencies((*launches)[parent], (*launches)[child], Hazards::kAll));
      EXPECT_EQ(edges.missing, 0u) << program.name << ", launches " << parent << " and " << child;
      sum.missing += edges.missing, sum.truth += edges.truth, sum.predicted += edges.predicted;
    }
  }
  return sum;
}

TEST(Relations, HaveEveryTrueDependence) {
  auto device = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(device.ok()) << device.message();
  for (const auto& factory : all()) {
    const Edges edges = held_against_the_truth(**device, factory.make(Size::small()));
    fmt::print("{}: {} dependences, {} in the relations\n", factory.name, edges.truth, edges.predicted);
    EXPECT_TRUE(edges.truth > 0 || factory.paper_patterns == "7") << factory.name;
  }
}

TEST(Relations, OfVectorAddAreExact) {
  auto device = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(device.ok()) << device.message();
  for (const std::uint32_t degree : {1u, 3u, 8u}) {
    const Edges edges = held_against_the_truth(**device, bench::blocks::make_vector_add(8, degree));
    EXPECT_EQ(edges.truth, edges.predicted) << "degree " << degree;
  }
}

TEST(Relations, OneThatIsLeftOutIsMissed) {
  BlockRelation relation;
  relation.pattern = BlockPattern::kOverlapped;
  relation.parents = 2, relation.children = 2;
  relation.lists = analysis::ParentLists({{0}, {0, 1}});
  EXPECT_EQ(compare(relation, {{0}, {0, 1}}).missing, 0u);
  EXPECT_EQ(compare(relation, {{0, 1}, {1}}).missing, 1u);
  EXPECT_EQ(compare({}, {{0}}).missing, 1u);
}

}  // namespace
}  // namespace pergola::blocks_test
