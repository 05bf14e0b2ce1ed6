// Every PTX file of the tests: it parses, verifies, prints, and parses back equal; where ptxas is on the machine it
// accepts the printed text of whatever it accepts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/base/file.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"
#include "tests/support/source_dir.h"

namespace pergola::ptx {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ptx_files(std::initializer_list<const char*> folders) {
  std::vector<fs::path> files;
  for (const char* folder : folders) {
    const fs::path root = pergola::test_support::source_path("tests") / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() == ".ptx") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(RoundTrip, EveryFile_ParsesBackEqualAndVerifies) {
  const auto files = ptx_files({"ptx_roundtrip", "ptx", "corpus"});
  ASSERT_GE(files.size(), 19u);
  for (const fs::path& file : files) {
    const auto text = read_file(file);
    ASSERT_TRUE(text.ok()) << text.message();
    const auto module = parse(*text, file.string());
    ASSERT_TRUE(module.ok()) << module.message();
    const Status verified = verify(*module);
    EXPECT_TRUE(verified.ok()) << verified.message();
    const std::string printed = print(*module);
    const auto again = parse(printed, "printed " + file.string());
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_EQ(*module, *again) << file;
    EXPECT_EQ(print(*again), printed) << file;
  }
}

std::string find_ptxas() {
  for (const char* candidate : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"}) {
    if (fs::exists(candidate)) return candidate;
  }
  return "";
}

// A folder of this process alone, removed with the guard.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "pergola_ptx_XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? fs::path() : fs::path(name);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool assembles(const std::string& ptxas, const std::string& target, const fs::path& file, const fs::path& scratch) {
  const std::string command = ptxas + " -O0 -c -arch=" + target + " '" + file.string() + "' -o '" +
                              (scratch / "out.cubin").string() + "' > '" + (scratch / "log").string() + "' 2>&1";
  return std::system(command.c_str()) == 0;
}

TEST(RoundTrip, PrintedText_IsAcceptedByPtxas) {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) GTEST_SKIP() << "No ptxas is on this machine; install the CUDA toolkit to run this check.";
  const ScratchFolder scratch;
  ASSERT_FALSE(scratch.path().empty());
  for (const fs::path& file : ptx_files({"ptx_roundtrip"})) {
    const auto text = read_file(file);
    ASSERT_TRUE(text.ok()) << text.message();
    const auto module = parse(*text, file.string());
    ASSERT_TRUE(module.ok()) << module.message();
    const fs::path printed = scratch.path() / "printed.ptx";
    std::ofstream(printed) << print(*module);
    if (!assembles(ptxas, module->targets[0], printed, scratch.path())) {
      const auto log = read_file(scratch.path() / "log");
      ADD_FAILURE() << file << "\n"
                    << (log.ok() ? *log : log.message()) << "of the file itself ptxas says "
                    << (assembles(ptxas, module->targets[0], file, scratch.path()) ? "yes" : "no");
    }
  }
}

}  // namespace
}  // namespace pergola::ptx
