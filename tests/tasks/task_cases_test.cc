// Every tests/ptx/*.ptx and every kernel of the corpus with a run line as a task, on every tier of the CPU device or
// the GPU that PERGOLA_DEVICE names: memory afterwards is what the kernel itself leaves. One test a case and device.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/base/file.h"
#include "tests/corpus/corpus_files.h"
#include "tests/ptx_cases/run_case.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"
#include "tests/tasks/task_run.h"

namespace pergola::tasks {
namespace {
namespace fs = std::filesystem;

// Why kernels of the cases and the corpus are refused; any other refusal fails.
bool is_known(const std::string& refusal) {
  for (const char* words : {"cannot be a task: it uses shared memory that the driver reserves",
                            "cannot be a task: it writes module variable", "cannot be a task: it reads module variable",
                            "cannot be a task: it uses griddepcontrol"})
    if (refusal.find(words) != std::string::npos) return true;
  return false;
}

void expect_same(device::Device& device, const Launch& launch, const std::vector<std::string>& types,
                 double tolerance) {
  const Result<Memory> plain = run_plain(device, launch);
  // A GPU's linker has not the functions that clang's PTX leaves to the CPU device.
  const bool gpu = device.info().kind == device::DeviceKind::kCuda;
  if (!plain.ok() && (gpu || plain.code() == Code::kUnsupported))
    GTEST_SKIP() << "the kernel itself: " << plain.message();
  ASSERT_TRUE(plain.ok()) << plain.message();
  ProbeOptions options;
  options.inlines = launch.label.starts_with("clang");
  const Result<Memory> task = run_as_task(device, launch, options);
  if (!task.ok() && is_known(task.message())) GTEST_SKIP() << task.message();
  ASSERT_TRUE(task.ok()) << task.message();
  for (std::size_t a = 0; a < plain->size(); ++a) {
    if (tolerance > 0) {
      EXPECT_EQ(corpus::difference(types[a], (*plain)[a], (*task)[a], tolerance), "") << "array " << a;
      continue;
    }
    std::size_t at = 0;
    while (at < (*plain)[a].size() && (*plain)[a][at] == (*task)[a][at]) ++at;
    EXPECT_EQ(at, (*plain)[a].size()) << "array " << a << " differs from this byte on";
  }
}

class CaseTest : public testing::Test {
 public:
  CaseTest(device::DevicePtr device, std::string path) : device_(std::move(device)), path_(std::move(path)) {}
  void TestBody() override {
    auto test = ptx_cases::read_case(path_);
    ASSERT_TRUE(test.ok()) << test.message();
    if (!test->fault.empty()) GTEST_SKIP() << "a fault is the kernel's own";
    expect_same(*device_, launch_of(*test), {}, 0);
  }

 private:
  device::DevicePtr device_;
  std::string path_;
};

class CorpusTest : public testing::Test {
 public:
  CorpusTest(device::DevicePtr device, const corpus::CorpusFile* file, corpus::RunLine line)
      : device_(std::move(device)), file_(file), line_(std::move(line)) {}
  void TestBody() override {
    if (line_.config.cooperative) GTEST_SKIP() << "a cooperative launch";
    std::vector<std::string> types;
    for (const corpus::RunArgument& argument : line_.arguments)
      if (argument.is_array) types.push_back(argument.type);
    expect_same(*device_, launch_of(file_->text, file_->label(), line_), types, line_.tolerance);
  }

 private:
  device::DevicePtr device_;
  const corpus::CorpusFile* file_;
  corpus::RunLine line_;
};

std::vector<corpus::RunLine> run_lines(const std::string& source) {
  const fs::path path = pergola::test_support::source_path("tests/corpus/cuda") / (source + ".cu");
  const auto text = read_file(path);
  if (!text) return {};
  auto lines = corpus::parse_run_lines(*text, path.filename().string());
  return lines ? std::move(*lines) : std::vector<corpus::RunLine>{};
}

template <typename Make>
void add(const std::string& suite, const std::string& name, Make make) {
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__, make);
}

void register_all() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(pergola::test_support::source_path("tests/ptx")))
    if (entry.path().extension() == ".ptx") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& device_name : ptx_cases::test_device_names()) {
    auto device = ptx_cases::open_test_device(device_name);
    if (!device.ok()) {
      fmt::print(stderr, "{}\n", device.message());
      std::exit(1);
    }
    for (const std::string& path : paths)
      add("Cases/" + device_name, fs::path(path).stem().string(),
          [=]() -> testing::Test* { return new CaseTest(*device, path); });
    for (const char* variant : {"nvrtc-75", "clang-75"})
      for (const corpus::CorpusFile* file : corpus::corpus_files(variant))
        for (const corpus::RunLine& line : run_lines(file->source))
          add("Corpus/" + device_name, file->label() + "_" + line.kernel,
              [=]() -> testing::Test* { return new CorpusTest(*device, file, line); });
  }
}

}  // namespace
}  // namespace pergola::tasks

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pergola::tasks::register_all();
  return RUN_ALL_TESTS();
}
