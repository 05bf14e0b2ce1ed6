// Launches on parts of arrays: which wait for which, by the session's picture of its work, and that results are those
// of the order in which they were launched.
#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <random>
#include <set>

#include "src/runtime/devices.h"
#include "src/runtime/launch_values.h"
#include "src/runtime/part_accesses.h"
#include "src/runtime/runtime.h"
#include "src/runtime/test_arrays.h"

namespace pergola::runtime {
namespace {

using analysis::AccessFootprint;
using analysis::LaunchFootprint;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kPartSource[] = R"(
extern "C" __global__ void triple(unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 3 * x[i] + 1;
}
extern "C" __global__ void mix(unsigned* out, const unsigned* in, unsigned n, int step) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 5 * out[i] + in[i * step];
}
extern "C" __global__ void neighbours(const unsigned* in, unsigned* out, unsigned n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i - 1] + in[i + 1];
}
extern "C" __global__ void gather(unsigned* out, const unsigned* in, const unsigned* at, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[at[i]];
}
extern "C" __global__ void rows(unsigned* x, unsigned width) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i / width * 2] = i;
}
)";
constexpr std::uint32_t kPartBlock = 32;

class PartAccessesOfLaunches : public testing::Test, public TestArrays {
 protected:
  void SetUp() override {
    session_ = create_session("cpu", "").value();
    module_ = session_->load_text(kPartSource, {}).value();
  }
  session::ArrayPtr words(std::size_t count) {
    return session_->allocate(session::ElementType::kU32, 0, count).value();
  }
  // x[first : first + count], or where `count` is 0 x + first.
  static session::Argument part(const session::ArrayPtr& array, std::uint64_t first, std::uint64_t count = 0) {
    return session::ArrayArgument{array, 4 * first, 4 * count};
  }
  // Its number in the picture.
  int launch(const char* kernel, std::vector<session::Argument> arguments, std::uint32_t threads,
             std::optional<std::string_view> signature = {}) {
    session::LaunchShape shape;
    shape.grid = {(threads + kPartBlock - 1) / kPartBlock, 1, 1}, shape.block = {kPartBlock, 1, 1};
    const Status status =
        module_->kernel(kernel, signature).value()->launch(shape, arguments, nullptr, nullptr, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    return ++launches_;
  }
  // Which pieces of work that one depends on. Arrays of these tests are not filled, so launches are all there is.
  std::set<int> parents(int child) {
    const std::string text = session_->dag("mermaid").value();
    std::set<int> found;
    int from = 0, to = 0, at = 0;
    for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
      const std::string one = text.substr(line, text.find('\n', line) - line);
      const std::size_t arrow = one.find("| c");
      if (std::sscanf(one.c_str(), "  c%d -->%n", &from, &at) == 1 && arrow != std::string::npos &&
          std::sscanf(one.c_str() + arrow, "| c%d", &to) == 1 && to == child)
        found.insert(from);
      if (text.find('\n', line) == std::string::npos) break;
    }
    return found;
  }

  session::SessionPtr session_;
  session::ModulePtr module_;
  int launches_ = 0;
};

TEST_F(PartAccessesOfLaunches, HalvesDoNotWaitForEachOther) {
  const auto x = words(1024);
  const int first = launch("triple", {part(x, 0, 512), number(512)}, 512);
  const int second = launch("triple", {part(x, 512, 512), number(512)}, 512);
  const int all = launch("triple", {part(x, 0), number(1024)}, 1024);
  EXPECT_THAT(parents(second), IsEmpty());
  EXPECT_THAT(parents(all), ElementsAre(first, second));
  const int again = launch("triple", {part(x, 512), number(512)}, 512);  // the size is a hint: what is touched counts
  EXPECT_THAT(parents(again), ElementsAre(all));
}

TEST_F(PartAccessesOfLaunches, WhatIsTouchedCounts_NotWhatIsMeant) {
  const auto x = words(1024);
  const int first = launch("triple", {part(x, 0, 512), number(600)}, 600);
  const int second = launch("triple", {part(x, 512, 512), number(512)}, 512);
  EXPECT_THAT(parents(second), ElementsAre(first));
}

TEST_F(PartAccessesOfLaunches, AStencilWaitsForItsNeighbours) {
  const auto x = words(1024), y = words(256);
  const int left = launch("triple", {part(x, 0, 256), number(256)}, 256);
  const int middle = launch("triple", {part(x, 256, 256), number(256)}, 256);
  launch("triple", {part(x, 512, 256), number(256)}, 256);
  const int stencil = launch("neighbours", {part(x, 256, 255), part(y, 0), number(255)}, 255);
  EXPECT_THAT(parents(stencil), ElementsAre(left, middle));  // x[255] .. x[511]
}

TEST_F(PartAccessesOfLaunches, TwoPartsOfOneArrayLeaveWhatIsBetween) {
  const auto x = words(1024);
  const int between = launch("triple", {part(x, 256, 256), number(256)}, 256);
  const int outside = launch("mix", {part(x, 0, 256), part(x, 768, 256), number(256), number(1)}, 256);
  const int read = launch("mix", {part(x, 256, 256), part(x, 768, 256), number(256), number(1)}, 256);
  EXPECT_THAT(parents(outside), IsEmpty());
  EXPECT_THAT(parents(read), ElementsAre(between));  // both only read the last quarter
}

TEST_F(PartAccessesOfLaunches, BackwardsIsToldToo) {
  const auto x = words(1024), y = words(512);
  const int first = launch("triple", {part(x, 0, 512), number(512)}, 512);
  const int last = launch("mix", {part(y, 0), part(x, 1023), number(512), number(~0u)}, 512);  // x[1023] .. x[512]
  EXPECT_THAT(parents(last), IsEmpty());
  const int one_more = launch("mix", {part(y, 0), part(x, 1022), number(512), number(~0u)}, 512);
  EXPECT_THAT(parents(one_more), ElementsAre(first, last));
}

TEST_F(PartAccessesOfLaunches, WhatNobodyCanTellIsTheWholeArray) {
  const auto x = words(1024), y = words(256), at = words(256);
  set(at, 0);
  const int first = launch("triple", {part(x, 0, 512), number(512)}, 512);
  const int other = launch("gather", {part(y, 0), part(x, 512, 512), part(at, 0), number(256)}, 256);
  EXPECT_THAT(parents(other), ElementsAre(first));
}

TEST_F(PartAccessesOfLaunches, ASignatureMaySayMore) {
  const auto x = words(1024), y = words(512);
  const int reader = launch("mix", {part(y, 0), part(x, 0, 512), number(512), number(1)}, 512);
  const int writer = launch("mix", {part(y, 0), part(x, 512, 512), number(512), number(1)}, 512,
                            "mix(out: inout pointer uint32, in: inout pointer uint32, n: uint32, step: sint32)");
  EXPECT_THAT(parents(writer), ElementsAre(reader));
  const int after = launch("triple", {part(x, 0, 256), number(256)}, 256);
  EXPECT_THAT(parents(after), testing::Contains(writer));
}

// Any parts of three arrays, overlapping as they come.
TEST_F(PartAccessesOfLaunches, ResultsAreThoseOfTheOrder) {
  constexpr std::size_t kPartArrays = 3, kPartWords = 300;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::vector<session::ArrayPtr> arrays;
  std::vector<Words> expected(kPartArrays, Words(kPartWords));
  for (std::size_t i = 0; i < kPartArrays; ++i) {
    arrays.push_back(words(kPartWords));
    set(arrays[i], static_cast<std::uint32_t>(i));
    std::fill(expected[i].begin(), expected[i].end(), static_cast<std::uint32_t>(i));
  }
  for (int round = 0; round < 1000; ++round) {
    const std::uint32_t n = 1 + below(100), a = below(kPartArrays), b = below(kPartArrays);
    const std::uint32_t from = below(kPartWords - n + 1), to = below(kPartWords - n + 1);
    if (below(3) == 0) {
      launch("triple", {part(arrays[a], from, below(2) * n), number(n)}, n);
      for (std::uint32_t i = 0; i < n; ++i) expected[a][from + i] = 3 * expected[a][from + i] + 1;
      continue;
    }
    if (a == b && from < to + n && to < from + n) continue;  // threads would race
    const bool backwards = below(2) == 0;
    launch("mix",
           {part(arrays[a], to, n), part(arrays[b], backwards ? from + n - 1 : from), number(n),
            number(backwards ? ~0u : 1u)},
           n);
    for (std::uint32_t i = 0; i < n; ++i)
      expected[a][to + i] = 5 * expected[a][to + i] + expected[b][backwards ? from + n - 1 - i : from + i];
  }
  for (std::size_t i = 0; i < kPartArrays; ++i) EXPECT_EQ(read(arrays[i]), expected[i]) << "array " << i;
}

// What is moved from one place to another is what would be worked out there, also at the ends of arrays.
TEST_F(PartAccessesOfLaunches, MovedIsWhatIsWorkedOutThere) {
  const auto device = open_device("cpu").value();
  const auto ptx = std::make_shared<const std::string>(module_->ptx());
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  struct Of {
    const char* name;
    std::uint32_t pointers;
    std::vector<std::uint32_t> numbers;  // behind them; n is the first
  };
  std::size_t told = 0, parts = 0;
  for (const Of& of : {Of{"triple", 1, {90}}, Of{"mix", 2, {90, ~0u}}, Of{"mix", 2, {90, 3}}, Of{"neighbours", 2, {90}},
                       Of{"gather", 3, {90}}, Of{"rows", 1, {24}}}) {
    BlockKernel kernel(device, ptx, of.name, of.name, "");
    PartAccesses accesses(std::chrono::hours(1));  // however slow the machine is
    const auto analysed = kernel.analysed();
    ASSERT_TRUE(analysed.ok());
    device::LaunchConfig config;
    config.grid = {3, 1, 1}, config.block = {32, 1, 1};
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> parameters(8 * of.pointers + 4 * of.numbers.size());
      for (std::byte& byte : std::span(parameters).first(8 * of.pointers)) byte = static_cast<std::byte>(below(256));
      std::memcpy(parameters.data() + 8 * of.pointers, of.numbers.data(), 4 * of.numbers.size());
      std::vector<GivenArray> given;
      const std::uint32_t arrays = 1 + below(of.pointers);
      const std::uint64_t sizes[] = {4 * (1 + below(400)), 4 * (1 + below(400)), 4 * (1 + below(400))};
      for (std::uint32_t i = 0; i < of.pointers; ++i) {
        const std::uint32_t array = std::min(i, arrays - 1);
        given.push_back({8 * i, array, 4 * below(static_cast<std::uint32_t>(sizes[array]) / 4), sizes[array]});
      }
      analysis::LaunchValues values = launch_values(config, parameters);
      for (const GivenArray& one : given)
        values.pointers.push_back(
            {one.parameter_offset_bytes, one.array, static_cast<std::int64_t>(one.position_bytes), one.size_bytes});
      const auto footprint = (*analysed)->footprints->at(values);
      ASSERT_TRUE(footprint.ok()) << footprint.message();
      const auto expected = parts_of(*footprint, given), found = accesses.of(kernel, config, parameters, given);
      ASSERT_EQ(found.has_value(), expected.has_value()) << of.name;
      if (!expected) continue;
      EXPECT_EQ(*found, *expected) << of.name << ", round " << round;
      ++told;
      parts += found->size();
    }
  }
  EXPECT_GT(told, 800u);
  EXPECT_GT(parts, told);
}

// What bends in a block's index takes a box for each block: of large grids that is not looked for.
TEST_F(PartAccessesOfLaunches, LargeGridsAreToldWhereThatIsCheap) {
  const auto device = open_device("cpu").value();
  const auto ptx = std::make_shared<const std::string>(module_->ptx());
  BlockKernel rows(device, ptx, "rows", "rows", ""), triple(device, ptx, "triple", "triple", "");
  PartAccesses of_rows(std::chrono::hours(1)), of_triple(std::chrono::hours(1));
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 34;
  const GivenArray given[] = {{0, 0, 0, kBytes}};
  const auto look = [&](PartAccesses& parts, BlockKernel& kernel, std::uint32_t blocks, std::uint32_t n) {
    std::vector<std::byte> parameters(12);
    std::memcpy(parameters.data() + 8, &n, 4);
    device::LaunchConfig config;
    config.grid = {blocks, 1, 1}, config.block = {32, 1, 1};
    return parts.of(kernel, config, parameters, given);
  };
  EXPECT_TRUE(look(of_rows, rows, 4096, 24));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(look(of_rows, rows, 1 << 22, 24));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));  // 1.2 s by boxes
  const auto told = look(of_triple, triple, 1 << 22, 1 << 26);
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ(told->front().range.end, std::uint64_t{4} << 26);
}

// ── Of footprints as they come ──────────────────────────────────────────────────────────────────────────────────────

AccessFootprint access(std::uint32_t allocation, bool reads, bool writes, const std::vector<std::int64_t>& firsts,
                       std::uint64_t width) {
  AccessFootprint access;
  access.allocation = allocation, access.reads = reads, access.writes = writes;
  access.shapes.push_back({{}, width});
  std::vector<AccessFootprint::Place> places;
  for (const std::int64_t first : firsts) places.push_back({first, 0});
  access.places = std::move(places);
  return access;
}
// "0:r 0..8" and so on.
std::vector<std::string> text(const std::optional<ArrayParts>& parts) {
  std::vector<std::string> lines;
  if (!parts) return {"anything"};
  for (const ArrayPart& part : *parts)
    lines.push_back(fmt::format("{}:{}{} {}..{}", part.array, reads(part.mode) ? "r" : "", writes(part.mode) ? "w" : "",
                                part.range.begin, part.range.end));
  return lines;
}
const GivenArray kGiven[] = {{0, 0, 0, 1000}, {8, 1, 40, 100}, {16, 0, 500, 1000}};

TEST(PartsOfFootprints, StretchesAreReadWrittenOrBoth) {
  LaunchFootprint footprint;
  footprint.grid[0] = 2;
  footprint.accesses = {access(0, true, false, {0, 8}, 8), access(0, false, true, {12, 20}, 8),
                        access(1, true, true, {90, 96}, 8), access(2, true, true, {0, 0}, 4)};  // 2 is a variable's
  EXPECT_THAT(text(parts_of(footprint, kGiven)), ElementsAre("0:r 0..12", "0:rw 12..16", "0:w 16..28", "1:rw 90..100"));
}

TEST(PartsOfFootprints, OfManyStretchesTheNearestAreOne) {
  LaunchFootprint footprint;
  footprint.grid[0] = 1;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kMostParts); ++i)
    footprint.accesses.push_back(access(0, true, false, {20 * i}, 4));
  EXPECT_EQ(text(parts_of(footprint, kGiven)).size(), kMostParts);
  footprint.accesses.push_back(access(0, true, false, {30}, 4));
  const auto lines = text(parts_of(footprint, kGiven));
  EXPECT_LE(lines.size(), kMostParts);
  EXPECT_THAT(lines, testing::AllOf(testing::Contains("0:r 20..44"), testing::Contains("0:r 140..144")));
}

// A tile of a matrix: rows of 16 bytes, 100 apart, of which a block has two; and what two loops leave between them.
TEST(PartsOfFootprints, LoopsThatLeaveGapsTellStretchesApart) {
  LaunchFootprint footprint;
  footprint.grid[0] = 2;
  footprint.accesses = {access(0, false, true, {108, 308}, 16)};
  footprint.accesses[0].shapes[0].dimensions.push_back({100, 2});
  EXPECT_THAT(text(parts_of(footprint, kGiven)),
              ElementsAre("0:w 108..124", "0:w 208..224", "0:w 308..324", "0:w 408..424"));
  footprint.accesses = {access(0, false, true, {508, 308}, 4)};  // backwards
  EXPECT_THAT(text(parts_of(footprint, kGiven)), ElementsAre("0:w 308..312", "0:w 508..512"));
  footprint.accesses = {access(0, true, false, {0}, 4)};
  footprint.accesses[0].shapes[0].dimensions.push_back({500, 2});
  footprint.accesses[0].shapes[0].dimensions.push_back({5, 90});  // more than are told apart
  EXPECT_THAT(text(parts_of(footprint, kGiven)), ElementsAre("0:r 0..449", "0:r 500..949"));
}

TEST(PartsOfFootprints, EveryByteIsInAPart) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    LaunchFootprint footprint;
    footprint.grid[0] = 1 + below(6), footprint.grid[1] = 1 + below(3);
    std::set<std::uint64_t> touched;
    for (std::uint32_t n = 1 + below(3); n != 0; --n) {
      AccessFootprint one;
      one.reads = true;
      analysis::ByteShape shape{{}, 1 + below(12)};
      for (std::uint32_t k = below(3); k != 0; --k) shape.dimensions.push_back({1 + below(120), 2 + below(5)});
      one.shapes.push_back(normalized(std::move(shape)));
      analysis::BlockPlaces::Region region;
      region.box.end[0] = footprint.grid[0], region.box.end[1] = footprint.grid[1];
      region.box.begin[0] = below(footprint.grid[0]), region.box.begin[1] = below(footprint.grid[1]);
      region.first = 3000;
      for (int axis = 0; axis < 2; ++axis)
        if (region.box.extent(axis) > 1) region.step[axis] = static_cast<std::int64_t>(below(400)) - 200;
      for (std::uint32_t y = region.box.begin[1]; y < region.box.end[1]; ++y)
        for (std::uint32_t x = region.box.begin[0]; x < region.box.end[0]; ++x) {
          const analysis::ByteSet set{region.first_of({x, y, 0}), one.shapes[0]};
          for (std::int64_t byte = set.begin(); byte < set.end(); ++byte)
            if (set.contains(byte)) touched.insert(static_cast<std::uint64_t>(byte));
        }
      one.places = analysis::BlockPlaces(footprint.grid, {region});
      footprint.accesses.push_back(std::move(one));
    }
    const GivenArray all[] = {{0, 0, 0, 10'000}};
    const auto parts = parts_of(footprint, all);
    ASSERT_LE(parts->size(), kMostParts);
    for (const std::uint64_t byte : touched)
      ASSERT_TRUE(std::ranges::any_of(
          *parts, [&](const ArrayPart& part) { return part.range.begin <= byte && byte < part.range.end; }))
          << "byte " << byte << ", round " << round;
    ASSERT_TRUE(touched.contains(parts->front().range.begin) && touched.contains(parts->back().range.end - 1));
  }
}

TEST(PartsOfFootprints, WhatIsNotToldIsAll) {
  LaunchFootprint footprint;
  footprint.grid[0] = 1;
  footprint.accesses = {access(0, true, false, {0}, 4), access(1, false, true, {0}, 4)};
  footprint.accesses[1].whole_reason = "indirect";
  EXPECT_THAT(text(parts_of(footprint, kGiven)), ElementsAre("0:r 0..4", "1:w 0..100"));
  footprint.writes_anything = true;
  EXPECT_THAT(text(parts_of(footprint, kGiven)), ElementsAre("anything"));
}

}  // namespace
}  // namespace pergola::runtime
