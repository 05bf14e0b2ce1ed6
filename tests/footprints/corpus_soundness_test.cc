// Footprints against the truth over the corpus: every run line of every compiler's PTX, run on the interpreter with
// each access recorded by block; none may lie outside the footprint of its block.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/base/file.h"
#include "tests/corpus/corpus_files.h"
#include "tests/corpus/run_line.h"
#include "tests/footprints/recorded_blocks.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::footprints_test {
namespace {

pointer_modes_test::Experiment corpus_experiment(const corpus::CorpusFile& file, const corpus::RunLine& line) {
  pointer_modes_test::Experiment made;
  made.text = file.text;
  made.name = file.label();
  made.kernel = line.kernel;
  made.config = line.config;
  for (std::uint32_t i = 0; i < line.arguments.size(); ++i) {
    const corpus::RunArgument& argument = line.arguments[i];
    if (argument.is_array) {
      made.bound.push_back({i, 0, made.buffers.size(), 0});
      made.buffers.push_back(argument.bytes);
      made.parameters.emplace_back(8);
    } else {
      made.parameters.push_back(argument.bytes);
    }
  }
  return made;
}

class CorpusFootprints : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Variants, CorpusFootprints, testing::Values("nvrtc-75", "clang-75", "nvcc-90-lineinfo"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(CorpusFootprints, RunLines_AreSound) {
  const auto files = corpus::corpus_files(GetParam());
  if (files.empty()) GTEST_SKIP() << "no PTX of " << GetParam() << " is there: its compiler is not on this machine";
  auto device = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(device.ok()) << device.message();
  std::vector<std::string> wrong;
  int held = 0, refused = 0, anything = 0;
  std::uint64_t true_bytes = 0, footprint_bytes = 0, excess_asked = 0, excess_excluded = 0;
  for (const corpus::CorpusFile* file : files) {
    const auto path = pergola::test_support::source_path("tests/corpus/cuda") / (file->source + ".cu");
    const auto source = read_file(path);
    if (!source.ok()) continue;  // one without a source has no run lines
    const auto lines = corpus::parse_run_lines(*source, path.filename().string());
    ASSERT_TRUE(lines.ok()) << lines.message();
    for (const corpus::RunLine& line : *lines) {
      const auto outcome = run_blocks(**device, corpus_experiment(*file, line));
      const std::string label = fmt::format("{} {}", file->label(), line.kernel);
      if (!outcome.ok()) {
        refused += outcome.code() == Code::kUnsupported || outcome.code() == Code::kNotFound ? 1 : 0;
        if (outcome.code() != Code::kUnsupported && outcome.code() != Code::kNotFound)
          wrong.push_back(label + ": " + outcome.message());
        continue;
      }
      if (!outcome->violations.empty()) wrong.push_back(label + ":" + outcome->violations);
      ++held;
      if (outcome->footprint.reads_anything || outcome->footprint.writes_anything) {
        ++anything;
        continue;
      }
      true_bytes += outcome->true_bytes;
      footprint_bytes += outcome->footprint_bytes;
      excess_asked += outcome->excess_asked;
      excess_excluded += outcome->excess_excluded;
    }
  }
  fmt::print("{}: {} kernels held, {} are refused, {} may touch anything; footprints are {:.2f} times the truth\n",
             GetParam(), held, refused, anything,
             static_cast<double>(footprint_bytes) / static_cast<double>(true_bytes));
  fmt::print("of {} bytes that are in them and not accessed affine sets leave out {}\n", excess_asked, excess_excluded);
  EXPECT_THAT(wrong, testing::IsEmpty());
  EXPECT_GE(held, std::string_view(GetParam()) == "nvcc-90-lineinfo" ? 10 : 250);  // of one, some are committed
  EXPECT_LE(anything * 4, held);
}

}  // namespace
}  // namespace pergola::footprints_test
