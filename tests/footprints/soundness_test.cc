// Footprints against the truth: kernels run on the interpreter with every access recorded by block, and no access may
// lie outside the footprint of its block.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/blocks/relations/program_relations.h"
#include "tests/differential/kernel_generator.h"
#include "tests/footprints/random_indices.h"
#include "tests/footprints/random_widths.h"
#include "tests/footprints/recorded_blocks.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::footprints_test {
namespace {

// A launch alone, on the contents before the first.
pointer_modes_test::Experiment experiment_of(const bench::blocks::Program& program, const bench::blocks::Launch& launch,
                                             const std::string& ptx) {
  using namespace bench::blocks;
  pointer_modes_test::Experiment made;
  made.text = ptx;
  made.name = program.source_file;
  made.kernel = launch.kernel;
  made.config.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
  made.config.block = {launch.block.x, launch.block.y, launch.block.z};
  made.config.dynamic_shared_bytes = launch.shared_bytes;
  for (const Buffer& buffer : program.buffers) {
    made.buffers.emplace_back(buffer.bytes());
    if (buffer.fill) buffer.fill(made.buffers.back());
  }
  for (std::uint32_t i = 0; i < launch.arguments.size(); ++i) {
    auto& bytes = made.parameters.emplace_back(8);
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, BufferArgument>) {
            made.bound.push_back({i, 0, value.buffer, value.offset_bytes});
          } else {
            std::memcpy(bytes.data(), &value, sizeof value);
          }
        },
        launch.arguments[i]);
  }
  return made;
}

class Footprints : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ptx_cases::open_test_device("interpreter");
    ASSERT_TRUE(opened.ok()) << opened.message();
    device_ = std::move(opened).value();
  }

  // PERGOLA_SEED starts elsewhere, PERGOLA_ROUNDS runs longer.
  static std::uint64_t number(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  }

  struct Totals {
    std::uint64_t kernels = 0, anything = 0, accesses = 0, whole = 0, small = 0, true_bytes = 0, footprint_bytes = 0;
    std::uint64_t excess_asked = 0, excess_excluded = 0;
    double excess() const { return static_cast<double>(footprint_bytes) / static_cast<double>(true_bytes); }
  };

  // False: it does not hold.
  bool check(const pointer_modes_test::Experiment& experiment, const std::string& what, bool with_affine_sets = true) {
    const auto outcome = run_blocks(*device_, experiment, with_affine_sets);
    EXPECT_TRUE(outcome.ok()) << what << ": " << outcome.message() << "\n" << experiment.text;
    if (!outcome.ok()) return false;
    EXPECT_EQ(outcome->violations, "") << what << "\n" << experiment.text;
    ++totals_.kernels;
    totals_.accesses += outcome->accesses;
    totals_.whole += outcome->whole_accesses;
    totals_.small += outcome->small_accesses;
    if (outcome->footprint.reads_anything || outcome->footprint.writes_anything) {
      ++totals_.anything;
    } else {
      totals_.true_bytes += outcome->true_bytes;
      totals_.footprint_bytes += outcome->footprint_bytes;
      totals_.excess_asked += outcome->excess_asked;
      totals_.excess_excluded += outcome->excess_excluded;
    }
    return outcome->violations.empty();
  }

  void random(bool is_tame, std::uint64_t rounds) {
    const std::uint64_t first = number("PERGOLA_SEED", 1), count = number("PERGOLA_ROUNDS", rounds);
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      if (!check(random_indices(seed, is_tame), fmt::format("PERGOLA_SEED={} PERGOLA_ROUNDS=1", seed))) return;
    }
    print();
  }

  void print() const {
    fmt::print("{} kernels, {} may touch anything; {} of {} accesses cover their array, {} no more than a quarter; ",
               totals_.kernels, totals_.anything, totals_.whole, totals_.accesses, totals_.small);
    fmt::print("footprints are {:.2f} times the truth\n", totals_.excess());
    fmt::print("of {} bytes that are in them and not accessed affine sets leave out {}\n", totals_.excess_asked,
               totals_.excess_excluded);
  }

  device::DevicePtr device_;
  Totals totals_;
};

TEST_F(Footprints, TameRandomIndices_AreSound) {
  random(true, 300);
  EXPECT_EQ(totals_.anything, 0u);
}

TEST_F(Footprints, WildRandomIndices_AreSound) {
  random(false, 500);
  EXPECT_EQ(totals_.anything, 0u);  // every base is a parameter
}

// Registers of all widths, where numbers are easily taken for others. Affine sets for some, as they take most of the
// time.
TEST_F(Footprints, RandomWidths_AreSound) {
  const std::uint64_t first = number("PERGOLA_SEED", 1), count = number("PERGOLA_ROUNDS", 1500);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    if (!check(random_widths(seed), fmt::format("PERGOLA_SEED={} PERGOLA_ROUNDS=1", seed), seed % 8 == 0)) return;
  }
  print();
  if (count < 1000) return;
  EXPECT_LT(3 * totals_.whole, totals_.accesses);  // else there is little that could be wrong
  EXPECT_GT(2 * totals_.small, totals_.accesses);
}

// The same kernel as a function that a kernel calls with its own arguments: what it touches is the same.
std::string called(const std::string& kernel) {
  const std::string header = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 k)";
  const std::size_t at = kernel.find(header);
  if (at == std::string::npos) return "";
  std::string text = kernel;
  text.replace(at, header.size(), ".func inner(.param .b64 a, .param .b64 b, .param .b32 n, .param .b32 k)");
  text += header +
          "\n{\n  .reg .b64 %rd<3>;\n  .reg .b32 %r<3>;\n  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];\n"
          "  ld.param.u32 %r1, [n]; ld.param.u32 %r2, [k];\n  {\n";
  const char* const arguments[] = {".b64 p0", ".b64 p1", ".b32 p2", ".b32 p3"};
  for (const char* argument : arguments) text += fmt::format("  .param {};\n", argument);
  return text +
         "  st.param.b64 [p0+0], %rd1; st.param.b64 [p1+0], %rd2; st.param.b32 [p2+0], %r1; st.param.b32 [p3+0], "
         "%r2;\n  call.uni inner, (p0, p1, p2, p3);\n  }\n  ret;\n}\n";
}

TEST_F(Footprints, RandomFunctionsThatAreCalled_HaveThoseOfKernels) {
  const std::uint64_t first = number("PERGOLA_SEED", 1), count = number("PERGOLA_ROUNDS", 150);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const pointer_modes_test::Experiment direct = random_indices(seed, seed % 3 != 0);
    pointer_modes_test::Experiment through = direct;
    through.text = called(direct.text);
    through.kernel = "k";
    const std::string what = fmt::format("PERGOLA_SEED={} PERGOLA_ROUNDS=1", seed);
    if (!check(through, what)) return;
    const auto one = run_blocks(*device_, direct), other = run_blocks(*device_, through);
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_EQ(one->footprint_bytes, other->footprint_bytes) << what;
    EXPECT_EQ(one->whole_accesses, other->whole_accesses) << what;
  }
  print();
}

TEST_F(Footprints, RandomKernelsOfTheTiers_AreSound) {
  const std::uint64_t first = number("PERGOLA_SEED", 1), count = number("PERGOLA_ROUNDS", 60);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::uint64_t kernel = seed % 2 == 0 ? seed : differential::kFirstWideSeed + seed;
    if (!check(pointer_modes_test::experiment_of(differential::generate_kernel(kernel)),
               fmt::format("seed {}", kernel)))
      return;
  }
  print();
}

TEST_F(Footprints, CasesOfTheInstructionTests_AreSound) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(pergola::test_support::source_path("tests/ptx"))) {
    if (entry.path().extension() == ".ptx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    const auto test = ptx_cases::read_case(path);
    ASSERT_TRUE(test.ok()) << test.message();
    if (test->fault.empty()) check(pointer_modes_test::experiment_of(*test), path);
  }
  print();
}

// The programs of bench/blocks as they are: each kernel's first launches and its last.
TEST_F(Footprints, ProgramsOfDependentKernels_AreSoundAndTight) {
  for (const bench::blocks::ProgramFactory& factory : bench::blocks::all()) {
    const bench::blocks::Program program = factory.make(bench::blocks::Size::small());
    const auto relations = bench::blocks::ProgramRelations::of(program);
    ASSERT_TRUE(relations.ok()) << relations.message();
    std::map<std::string, int> seen;
    const Totals before = totals_;
    for (std::size_t i = 0; i < program.launches.size(); ++i) {
      if (++seen[program.launches[i].kernel] > 2 && i + 3 < program.launches.size()) continue;
      check(experiment_of(program, program.launches[i], relations->ptx()),
            fmt::format("{}, launch {}", program.name, i));
    }
    const auto truth = static_cast<double>(totals_.true_bytes - before.true_bytes);
    fmt::print("{}: {:.3f} times the truth\n", program.name,
               static_cast<double>(totals_.footprint_bytes - before.footprint_bytes) / truth);
  }
  print();
  EXPECT_LT(totals_.excess(), 1.5);
}

// The check itself: what a footprint leaves out is found.
TEST(FootprintCheck, AccessThatIsLeftOut_IsAViolation) {
  analysis::LaunchFootprint footprint{.grid = {2, 1, 1}, .accesses = {}};
  footprint.accesses.push_back({.allocation = 0, .reads = true, .writes = false, .shapes = {{{}, 8}}});
  footprint.accesses[0].places = std::vector<analysis::AccessFootprint::Place>{{0, 0}, {8, 0}};
  const RecordedAccess inside{.block = 1, .buffer = 0, .offset = 12, .bytes = 4};
  EXPECT_EQ(violations(footprint, {inside}), "");
  RecordedAccess outside = inside;
  outside.block = 0;
  EXPECT_NE(violations(footprint, {outside}).find("block 0 reads 4 bytes at byte 12 of buffer 0"), std::string::npos);
  outside = inside;
  outside.is_write = true;
  EXPECT_NE(violations(footprint, {outside}), "");
  footprint.writes_anything = true;
  EXPECT_EQ(violations(footprint, {outside}), "");
}

}  // namespace
}  // namespace pergola::footprints_test
