// The analysis' relations held against the truth: no block of a program of bench/blocks may depend on a block of one of
// the four launches before it, by what they really access, that the relation does not name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "bench/blocks/relations/program_relations.h"
#include "src/analysis/affine/affine_relation.h"
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

// By affine sets: of some pairs of successive launches of each kernel with each.
TEST(Relations, ByAffineSetsHaveEveryTrueDependence) {
  if (!analysis::has_affine_sets()) GTEST_SKIP() << "this build has no libisl";
  auto device = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(device.ok()) << device.message();
  std::uint64_t closed_form = 0, asked = 0;
  for (const auto& factory : all()) {
    const Program program = factory.make(Size::small());
    const auto launches = record(**device, program);
    const auto relations = ProgramRelations::of(program);
    ASSERT_TRUE(launches.ok() && relations.ok());
    std::map<std::string, int> seen;
    Edges sum;
    for (std::size_t i = 0; i + 1 < launches->size(); ++i) {
      if (++seen[program.launches[i].kernel + program.launches[i + 1].kernel] > 2) continue;
      const auto before = relations->call(i), after = relations->call(i + 1);
      ASSERT_TRUE(before.ok() && after.ok());
      const auto found =
          analysis::affine_dependencies({before->kernel.get(), &before->values}, {after->kernel.get(), &after->values},
                                        {}, {.operations = 2'000'000, .pairs = 1u << 12});
      ASSERT_TRUE(found.ok()) << found.message();
      const Edges edges = compare(found->relation, dependencies((*launches)[i], (*launches)[i + 1], Hazards::kAll));
      EXPECT_EQ(edges.missing, 0u) << program.name << ", launches " << i << " and " << i + 1;
      ++asked;
      closed_form += !found->reason.empty();
      sum.truth += edges.truth, sum.predicted += edges.predicted;
    }
    fmt::print("{}: {} dependences, {} in the relations\n", factory.name, sum.truth, sum.predicted);
  }
  fmt::print("{} of {} pairs are the closed form's\n", closed_form, asked);
  EXPECT_LT(2 * closed_form, asked);
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
