// Which dependencies the programs of bench/blocks truly have, from every access that their blocks make: what
// bench/blocks/README.md says of them, and what analyses are measured by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/blocks/recorded_program.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::blocks_test {
namespace {

using bench::blocks::all;
using bench::blocks::make_vector_add;
using bench::blocks::Program;
using bench::blocks::ProgramFactory;
using bench::blocks::Size;
using testing::ElementsAre;

class Patterns : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ptx_cases::open_test_device("interpreter");
    ASSERT_TRUE(opened.ok()) << opened.message();
    device_ = std::move(opened).value();
  }

  std::vector<RecordedLaunch> recorded(const Program& program) const {
    auto launches = record(*device_, program);
    EXPECT_TRUE(launches.ok()) << program.name << ": " << launches.message();
    return launches.ok() ? std::move(launches).value() : std::vector<RecordedLaunch>();
  }

  // The patterns of all pairs of launches after each other, and the most parents of a block.
  struct Found {
    std::set<int> patterns;
    std::size_t most_parents = 0;
    std::size_t overwriting =
        0;  // pairs in which a block overwrites what one read that it does not depend on otherwise
  };
  Found found(const std::string& name, const Size& size) const {
    const auto factory = std::ranges::find(all(), name, &ProgramFactory::name);
    const auto launches = recorded(factory->make(size));
    Found result;
    for (std::size_t i = 1; i < launches.size(); ++i) {
      const Relation relation = dependencies(launches[i - 1], launches[i], Hazards::kReadAfterWrite);
      result.overwriting += relation != dependencies(launches[i - 1], launches[i], Hazards::kAll);
      result.patterns.insert(pattern_of(relation, launches[i - 1].blocks.size()));
      for (const auto& parents : relation) result.most_parents = std::max(result.most_parents, parents.size());
    }
    if (name != "PATH") {
      EXPECT_EQ(result.overwriting, 0u) << name;
    }
    return result;
  }

  device::DevicePtr device_;
};

// The paper's column: 2,7.
TEST_F(Patterns, Of3mm) {
  const Found it = found("3MM", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(2, 7));
  EXPECT_EQ(it.most_parents, 5u);  // blocks that are above each other
}

// 1,3,4. Here a map's blocks of the rectifier make one block of the response's each: 5, of all maps.
TEST_F(Patterns, OfAlexNet) {
  EXPECT_THAT(found("AlexNet", Size::by_waves(1, 16)).patterns, ElementsAre(1, 3, 4, 5));
}

TEST_F(Patterns, OfBicg) {
  EXPECT_THAT(found("BICG", Size::small()).patterns, ElementsAre(7));
}

// 5,7. Here a block of hz needs its own of ex and the next to the right, which another needs too.
TEST_F(Patterns, OfFdtd2d) {
  const Found it = found("FDTD-2D", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(6, 7));
  EXPECT_EQ(it.most_parents, 2u);
}

TEST_F(Patterns, OfFft) {
  EXPECT_THAT(found("FFT", Size::small()).patterns, ElementsAre(3, 5, 7));
}

TEST_F(Patterns, OfGaussian) {
  EXPECT_THAT(found("GAUSSIAN", Size::small()).patterns, ElementsAre(4, 5));
}

// 1,4,5. The last launch finds no column left: 7.
TEST_F(Patterns, OfGramschm) {
  const Found it = found("GRAMSCHM", Size::paper());
  EXPECT_THAT(it.patterns, ElementsAre(1, 4, 5, 7));
  EXPECT_EQ(it.most_parents, 2u);
}

TEST_F(Patterns, OfHotspot) {
  const Found it = found("HS", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(6));
  EXPECT_EQ(it.most_parents, 9u);
}

// 3,4,5. Here a block of the rest needs the block of the perimeter in its row and the one in its column: 6.
TEST_F(Patterns, OfLud) {
  const Found it = found("LUD", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(it.most_parents, 2u);
}

TEST_F(Patterns, OfMvt) {
  EXPECT_THAT(found("MVT", Size::small()).patterns, ElementsAre(7));
}

// 4,5, which are the first and the last pair; between them two blocks share a parent: 6, as the paper has its
// wavefronts.
TEST_F(Patterns, OfNw) {
  const Found it = found("NW", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(4, 5, 6));
  EXPECT_EQ(it.most_parents, 2u);
}

TEST_F(Patterns, OfPathfinder) {
  const Found it = found("PATH", Size::small());
  EXPECT_THAT(it.patterns, ElementsAre(6));
  EXPECT_EQ(it.most_parents, 3u);
  // The last launch takes fewer rows with wider blocks: one overwrites what a block read whose result it does not need.
  EXPECT_EQ(it.overwriting, 1u);
}

TEST_F(Patterns, OfWavefronts) {
  for (const char* name : {"HEAT", "IHIST", "IIMG", "SOR", "DTW", "SW"}) {
    const Found it = found(name, Size::small());
    EXPECT_THAT(it.patterns, ElementsAre(4, 5, 6)) << name;  // one block, two blocks ... two blocks, one block
    EXPECT_EQ(it.most_parents, 2u) << name;
  }
}

TEST_F(Patterns, OfVectorAdd_AreGroupsOfTheDegree) {
  for (const std::uint32_t degree : {1u, 3u, 8u}) {
    const auto launches = recorded(make_vector_add(8, degree));
    ASSERT_EQ(launches.size(), 2u);
    const Relation relation = dependencies(launches[0], launches[1], Hazards::kAll);
    for (std::uint32_t child = 0; child < 8; ++child) {
      std::vector<std::uint32_t> group;
      for (std::uint32_t p = child / degree * degree; p < std::min(child / degree * degree + degree, 8u); ++p)
        group.push_back(p);
      EXPECT_EQ(relation[child], group) << "degree " << degree << ", block " << child;
    }
    EXPECT_EQ(pattern_of(relation, 8), degree == 1 ? 3 : degree == 8 ? 1 : 2);
  }
}

// ── The recorder and the numbers themselves ─────────────────────────────────────────────────────────────────────────

TEST(PatternOf, IsTableOnes) {
  EXPECT_EQ(pattern_of({{}, {}}, 2), 7);
  EXPECT_EQ(pattern_of({{1}, {0}}, 2), 3);
  EXPECT_EQ(pattern_of({{0}, {0}, {1}}, 2), 4);
  EXPECT_EQ(pattern_of({{0}, {}}, 2), 4);
  EXPECT_EQ(pattern_of({{0}}, 2), 5);
  EXPECT_EQ(pattern_of({{0, 1}, {2}}, 3), 5);
  EXPECT_EQ(pattern_of({{0, 1}, {0, 1}}, 2), 1);
  EXPECT_EQ(pattern_of({{0, 1}, {0, 1}, {2}}, 3), 2);
  EXPECT_EQ(pattern_of({{0, 1}, {0, 1}, {}}, 2), 2);
  EXPECT_EQ(pattern_of({{0, 1}, {1}}, 2), 6);
  EXPECT_EQ(pattern_of({{0, 1}, {1, 2}, {0, 2}}, 3), 6);
}

TEST(Dependencies, AreOfOverlappingBytesAlone) {
  const RecordedLaunch parent{"p", {{{{0, 0, 4}}, {{1, 0, 16}}}, {{{0, 4, 8}}, {{1, 12, 20}}}}};
  const RecordedLaunch child{"c", {{{{1, 0, 12}}, {}}, {{{1, 15, 16}}, {}}, {{{1, 20, 24}}, {{0, 6, 7}}}}};
  EXPECT_EQ(dependencies(parent, child, Hazards::kReadAfterWrite), (Relation{{0}, {0, 1}, {}}));
  EXPECT_EQ(dependencies(parent, child, Hazards::kAll), (Relation{{0}, {0, 1}, {1}}));
}

TEST(Recording, HasEachBlocksBytes) {
  auto device = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(device.ok()) << device.message();
  const auto launches = record(**device, make_vector_add(2, 1));
  ASSERT_TRUE(launches.ok()) << launches.message();
  ASSERT_EQ(launches->size(), 2u);
  // a, b, d, c, e: 256 floats a block.
  const BlockAccesses& second = launches->front().blocks[1];
  EXPECT_THAT(second.reads, ElementsAre(ByteRange{0, 1024, 2048}, ByteRange{1, 1024, 2048}));
  EXPECT_THAT(second.writes, ElementsAre(ByteRange{3, 1024, 2048}));
}

}  // namespace
}  // namespace pergola::blocks_test
