// What each tier takes: the page says it, ptxas takes what the table holds, and what is refused is refused by name.
#include "tests/instruction_bits/coverage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/file.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::instruction_bits {
namespace {

const std::vector<Coverage>& coverage(const std::string& tier) {
  static std::map<std::string, std::vector<Coverage>> known;
  if (const auto found = known.find(tier); found != known.end()) return found->second;
  auto device = ptx_cases::open_test_device(tier);
  EXPECT_TRUE(device.ok()) << device.message();
  return known[tier] = coverage_of(**device);
}

bool jit_is_here() {
  const std::vector<std::string> names = ptx_cases::test_device_names();
  return std::find(names.begin(), names.end(), "jit") != names.end();
}

TEST(Coverage, Page_SaysWhatIsTrue) {
  if (!jit_is_here()) GTEST_SKIP() << "the JIT is not built";
  const auto page = read_file(test_support::source_path("docs/instructions.md"));
  ASSERT_TRUE(page.ok()) << page.message();
  EXPECT_EQ(*page, coverage_page(coverage("interpreter"), coverage("jit")))
      << "Write it anew: build/dev/bin/instruction_bits --coverage > docs/instructions.md";
}

TEST(Coverage, Refusals_NameFileLineAndInstruction) {
  for (const char* tier : {"interpreter", "jit"}) {
    if (std::string_view(tier) == "jit" && !jit_is_here()) continue;
    for (const Coverage& one : coverage(tier)) {
      for (std::size_t n = 0; n < one.spellings.size(); ++n) {
        if (one.verdicts[n].ok()) continue;
        const std::string root = one.spellings[n].substr(0, one.spellings[n].find_first_of(". "));
        EXPECT_EQ(one.verdicts[n].code(), Code::kUnsupported) << one.spellings[n] << ": " << one.verdicts[n].message();
        EXPECT_NE(one.verdicts[n].message().find("coverage.ptx:"), std::string::npos) << one.verdicts[n].message();
        EXPECT_NE(one.verdicts[n].message().find(root), std::string::npos) << one.verdicts[n].message();
      }
    }
  }
}

TEST(Coverage, MatrixUnitsAndTensorCopies_AreRefusedByBothTiers) {
  for (const char* tier : {"interpreter", "jit"}) {
    if (std::string_view(tier) == "jit" && !jit_is_here()) continue;
    for (const Coverage& one : coverage(tier)) {
      if (std::string_view(one.row->section).find("Matrix") == std::string_view::npos) continue;
      for (std::size_t n = 0; n < one.spellings.size(); ++n) EXPECT_FALSE(one.verdicts[n].ok()) << tier << ": " << one.spellings[n];
    }
  }
}

TEST(Coverage, Rows_AreTakenByPtxas) {
  const char* chosen = std::getenv("PERGOLA_PTXAS");
  const std::string ptxas = chosen != nullptr ? chosen : "/usr/local/cuda/bin/ptxas";
  if (::access(ptxas.c_str(), X_OK) != 0) GTEST_SKIP() << "ptxas is not on this machine";
  const std::string path = testing::TempDir() + "/pergola_coverage_" + std::to_string(::getpid()) + ".ptx";
  for (const CoverageRow& row : coverage_rows()) {
    ASSERT_TRUE(write_file_atomically(path, frame_text(spellings_of(row), row.target)).ok());
    const std::string command = fmt::format("'{}' -O0 -arch={} -o /dev/null '{}' > '{}.log' 2>&1", ptxas, row.target, path, path);
    if (std::system(command.c_str()) == 0) continue;
    const auto log = read_file(path + ".log");
    ADD_FAILURE() << row.pattern << ": " << (log.ok() ? log->substr(0, 600) : log.message());
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".log");
}

}  // namespace
}  // namespace pergola::instruction_bits
