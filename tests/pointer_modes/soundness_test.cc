// Pointer modes against the truth: kernels run on the interpreter with every access recorded, and no array may be
// touched in a way that its modes, or the universal one, do not allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/pointer_modes/random_kernel.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::pointer_modes_test {
namespace {

using analysis::AccessMode;

class Soundness : public testing::Test {
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

  // Runs random kernels of a style; the share of exact answers.
  double run(Style style, std::uint64_t rounds) {
    const std::uint64_t first = number("PERGOLA_SEED", 1), count = number("PERGOLA_ROUNDS", rounds);
    std::uint64_t exact = 0, universal = 0;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const Experiment experiment = random_kernel(seed, style);
      const auto outcome = run_experiment(*device_, experiment);
      EXPECT_TRUE(outcome.ok()) << "seed " << seed << ": " << outcome.message() << "\n" << experiment.text;
      if (!outcome.ok()) return 0;
      EXPECT_EQ(outcome->violations, "") << "seed " << seed << "\n" << experiment.text;
      if (!outcome->violations.empty()) return 0;
      exact += outcome->is_exact;
      universal += outcome->modes.universal != AccessMode::kNeither;
    }
    RecordProperty("exact", std::to_string(exact));
    fmt::print("{} kernels: {} exact, {} universal\n", count, exact, universal);
    return static_cast<double>(exact) / static_cast<double>(count);
  }

  device::DevicePtr device_;
};

TEST_F(Soundness, TameKernels_AreSoundAndMostlyExact) {
  EXPECT_GT(run(Style::kTame, 300), 0.4);
}

TEST_F(Soundness, WildKernels_AreSound) {
  run(Style::kWild, 400);
}

TEST_F(Soundness, CasesOfTheInstructionTests_AreSound) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(pergola::test_support::source_path("tests/ptx"))) {
    if (entry.path().extension() == ".ptx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  int exact = 0, run = 0;
  for (const std::string& path : paths) {
    const auto test = ptx_cases::read_case(path);
    ASSERT_TRUE(test.ok()) << test.message();
    if (!test->fault.empty()) continue;
    const auto outcome = run_experiment(*device_, experiment_of(*test));
    ASSERT_TRUE(outcome.ok()) << path << ": " << outcome.message();
    EXPECT_EQ(outcome->violations, "") << path;
    exact += outcome->is_exact;
    ++run;
  }
  fmt::print("{} cases: {} exact\n", run, exact);
  EXPECT_GT(exact, run / 2);
}

// The check itself: what an answer leaves out is found, and what universal covers is not.
TEST(SoundnessCheck, StoreThatIsLeftOut_IsAViolation) {
  Experiment experiment;
  experiment.bound = {{0, 0, 0}, {1, 8, 1}};
  Outcome outcome;
  outcome.modes.parameters = {{0, 0, AccessMode::kRead, true, "here"}, {1, 8, AccessMode::kWrite, true, "there"}};
  outcome.truth = {AccessMode::kRead, AccessMode::kWrite};
  judge(experiment, outcome);
  EXPECT_EQ(outcome.violations, "");
  EXPECT_TRUE(outcome.is_exact);

  outcome.truth[0] = AccessMode::kReadWrite;
  judge(experiment, outcome);
  EXPECT_NE(outcome.violations.find("buffer 0: read+write is not allowed by read"), std::string::npos);
  EXPECT_FALSE(outcome.is_exact);

  outcome.violations.clear();
  outcome.modes.universal = AccessMode::kWrite;
  judge(experiment, outcome);
  EXPECT_EQ(outcome.violations, "");
}

}  // namespace
}  // namespace pergola::pointer_modes_test
