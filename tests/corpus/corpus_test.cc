// What must hold of every PTX file of the corpus: it parses, verifies, prints to what parses to the same, ptxas takes
// the print, and each kernel has a signature and pointer modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>

#include "src/analysis/pointer_modes.h"
#include "src/base/file.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/source/child_process.h"
#include "src/source/source.h"
#include "src/source/toolkit.h"
#include "src/transform/merged_launches.h"
#include "src/transform/parameter_block.h"
#include "tests/corpus/corpus_files.h"

namespace pergola::corpus {
namespace {
namespace fs = std::filesystem;
using testing::IsEmpty;

// Gathers what failed, from several threads.
class Failures {
 public:
  void add(const CorpusFile& file, const std::string& why) {
    const std::lock_guard lock(mutex_);
    list_.push_back(file.label() + ": " + why);
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> list_;
};

TEST(Corpus, Kernels_AreManyAndOfEachDialect) {
  std::set<std::string> kernels, variants;
  for (const CorpusFile& file : corpus_files()) {
    const auto module = ptx::parse(file.text, file.label());
    ASSERT_TRUE(module) << module.message();
    for (const ptx::Function* entry : module->entries()) kernels.insert(file.source + "/" + entry->name);
    variants.insert(file.variant);
  }
  EXPECT_GE(kernels.size(), 300u);
  for (const char* dialect : {"nvrtc-75", "clang-75", "nvcc-90-G", "nvcc-90-lineinfo", "hand"})
    EXPECT_TRUE(variants.contains(dialect)) << dialect;
  RecordProperty("kernels", static_cast<int>(kernels.size()));
  RecordProperty("files", static_cast<int>(corpus_files().size()));
}

TEST(Corpus, EveryFile_ParsesVerifiesAndRoundTrips) {
  Failures failures;
  for_each_file(all_files(), [&](const CorpusFile& file) {
    const auto module = ptx::parse(file.text, file.label());
    if (!module) return failures.add(file, module.message());
    if (const Status verified = ptx::verify(*module); !verified) failures.add(file, verified.message());
    const std::string printed = ptx::print(*module);
    const auto again = ptx::parse(printed, file.label());
    if (!again) return failures.add(file, "the print: " + again.message());
    if (!(*again == *module)) failures.add(file, "the print parses to another module");
    if (ptx::print(*again) != printed) failures.add(file, "printing twice gives another text");
  });
  EXPECT_THAT(failures.list(), IsEmpty());
}

TEST(Corpus, EveryKernel_HasASignatureAndPointerModes) {
  Failures failures;
  for_each_file(all_files(), [&](const CorpusFile& file) {
    const auto module = ptx::parse(file.text, file.label());
    if (!module) return failures.add(file, module.message());
    for (const ptx::Function* entry : module->entries()) {
      const auto signature = ptx::signature(*module, *entry);
      if (!signature) {
        failures.add(file, signature.message());
        continue;
      }
      if (signature->parameters.size() != entry->parameters.size()) failures.add(file, entry->name + ": parameters");
      const auto modes = analysis::pointer_modes(*module, *entry);
      if (!modes) failures.add(file, modes.message());
    }
  });
  EXPECT_THAT(failures.list(), IsEmpty());
}

using Pass = std::function<Status(ptx::Module&, std::string_view kernel)>;

// Refused by name are those compiled for a debugger, and few others.
void nearly_every_kernel_can(const Pass& pass) {
  Failures failures;
  std::atomic<int> made = 0, refused = 0;
  for_each_file(all_files(), [&](const CorpusFile& file) {
    const auto parsed = ptx::parse(file.text, file.label());
    if (!parsed) return failures.add(file, parsed.message());
    const bool debug = std::count(parsed->targets.begin(), parsed->targets.end(), "debug") != 0;
    for (const ptx::Function* entry : parsed->entries()) {
      if (!entry->has_body) continue;
      ptx::Module module = *parsed;
      const Status status = pass(module, entry->name);
      if (!status) {
        if (status.code() != Code::kUnsupported) failures.add(file, status.message());
        if (!debug) fmt::print(stderr, "{}\n", status.message());
        refused += debug ? 0 : 1;
        continue;
      }
      ++made;
      if (const Status verified = ptx::verify(module); !verified) failures.add(file, verified.message());
      const auto again = ptx::parse(ptx::print(module), file.label());
      if (!again || ptx::print(*again) != ptx::print(module))
        failures.add(file, entry->name + ": the print parses to another module");
    }
  });
  EXPECT_THAT(failures.list(), IsEmpty());
  EXPECT_LT(50 * refused, made.load());
}

TEST(Corpus, NearlyEveryKernel_CanHaveItsParametersInMemory) {
  nearly_every_kernel_can(transform::to_parameter_block);
}

TEST(Corpus, LaunchesOfNearlyEveryKernel_CanBeMerged) {
  for (const bool differ : {false, true})
    nearly_every_kernel_can([differ](ptx::Module& module, std::string_view kernel) {
      return transform::merge_launches(module, kernel, {.launches = 4, .deep = differ, .bounded = differ});
    });
}

TEST(Corpus, EveryPrint_IsAcceptedByPtxas) {
  const char* usual = "/usr/local/cuda/bin/ptxas";
  std::string ptxas = source::find_program("PERGOLA_PTXAS", {"ptxas"});
  if (ptxas.empty() && ::access(usual, X_OK) == 0) ptxas = usual;
  if (ptxas.empty()) GTEST_SKIP() << "ptxas is not on this machine";
  std::string folder = (fs::temp_directory_path() / "pergola_corpus_XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Failures failures;
  for_each_file(all_files(), [&](const CorpusFile& file) {
    const auto module = ptx::parse(file.text, file.label());
    if (!module) return failures.add(file, module.message());
    const fs::path path = fs::path(folder) / (file.variant + "-" + file.source + ".ptx");
    std::ofstream(path) << ptx::print(*module);
    // Compiling debug code beyond -O0 is an error; -c leaves calls into Pergola's math functions to a linker.
    const auto child = source::run_child(
        {ptxas, "-O0", "-c", "-arch=" + module->targets.at(0), path.string(), "-o", path.string() + ".cubin"},
        {"PATH=/usr/bin:/bin"}, std::chrono::seconds(120));
    if (!child) return failures.add(file, child.message());
    if (child->exit_code != 0) failures.add(file, child->output.substr(0, 2000));
  });
  std::error_code ec;
  fs::remove_all(folder, ec);
  EXPECT_THAT(failures.list(), IsEmpty());
}

// A __restrict__ or const pointer that is only read must not be found to be written, nor the reverse: a few kernels
// whose answer is plain, in every dialect.
TEST(Corpus, PlainKernels_HaveTheirModesInEachDialect) {
  using analysis::AccessMode;
  struct Plain {
    const char *source, *kernel;
    std::vector<AccessMode> modes;  // of the pointer parameters in order
  };
  const AccessMode r = AccessMode::kRead, w = AccessMode::kWrite, rw = AccessMode::kReadWrite;
  const Plain plain[] = {{"arithmetic", "saxpy", {r, rw}},
                         {"arithmetic", "integer_i32", {r, r, w}},
                         {"bits", "bit_counts", {r, w}},
                         {"linear_algebra", "gemm_naive", {r, r, w}},
                         {"stencils_images", "heat_2d", {r, w}},
                         {"shared_memory", "transpose_tiled", {r, w}},
                         {"memory_spaces", "restrict_pointers", {r, r, w}}};
  int checked = 0;
  for (const CorpusFile& file : corpus_files()) {
    for (const Plain& kernel : plain) {
      if (file.source != kernel.source) continue;
      const auto module = ptx::parse(file.text, file.label());
      ASSERT_TRUE(module) << module.message();
      const ptx::Function* entry = module->find_function(kernel.kernel);
      ASSERT_NE(entry, nullptr) << file.label() << " " << kernel.kernel;
      const auto modes = analysis::pointer_modes(*module, *entry);
      ASSERT_TRUE(modes) << modes.message();
      EXPECT_EQ(modes->universal, AccessMode::kNeither)
          << file.label() << " " << kernel.kernel << ": " << modes->universal_reason;
      std::vector<AccessMode> found;
      for (const auto& parameter : modes->parameters) found.push_back(parameter.mode);
      EXPECT_EQ(found, kernel.modes) << file.label() << " " << kernel.kernel;
      ++checked;
    }
  }
  EXPECT_GE(checked, 7);
}

}  // namespace
}  // namespace pergola::corpus
