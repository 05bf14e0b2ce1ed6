// Runs every tests/ptx/*.ptx on every device that is here: all tiers of the CPU device, or the GPU that
// PERGOLA_DEVICE names. One test a file and device: Ptx/interpreter.atomics. PtxInABlock is the same kernel with its
// parameters in memory (transform/parameter_block.h), which leaves the same; PtxMerged and its two others are it
// as one of several launches that are one (transform/merged_launches.h), PtxPacked with several blocks in one of the
// device's (transform/packed_blocks.h), PtxConstants with its whole numbers as constants
// (transform/constant_parameters.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/ptx_cases/run_case.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::ptx_cases {
namespace {

class CaseTest : public testing::Test {
 public:
  CaseTest(device::DevicePtr device, std::string device_name, std::string path, Form form)
      : device_(std::move(device)), device_name_(std::move(device_name)), path_(std::move(path)), form_(form) {}

  void TestBody() override {
    auto test = read_case(path_);
    ASSERT_TRUE(test.ok()) << test.message();
    const device::DeviceInfo& info = device_->info();
    const bool gpu = info.kind == device::DeviceKind::kCuda;
    if (gpu && test->needs_sm > info.compute_major * 10 + info.compute_minor)
      GTEST_SKIP() << "the case needs sm_" << test->needs_sm;
    // A fault ends a GPU's context without words; the JIT checks less and says it in its own way (its own tests).
    if (device_name_ != "interpreter" && !test->fault.empty()) GTEST_SKIP() << "the fault is the interpreter's to find";
    if (is_merged(form_) && std::filesystem::path(path_).stem() == "module_variables")
      GTEST_SKIP() << "its launches write variables of their module, so that none is independent of another";
    if (form_ == Form::kPacked && !test->fault.empty()) GTEST_SKIP() << "the fault is told with the device's block";
    const Result<Memory> run = run_case(*device_, *test, form_);
    if (!run.ok() && is_told_by_name(run.error())) GTEST_SKIP() << run.message();
    if (!run.ok() && run.code() == Code::kUnsupported && device_name_ != "interpreter")
      GTEST_SKIP() << "refused by name: " << run.message();
    const Status status = check_case(*test, run, form_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

 private:
  // Kernels that ask for what is not a launch's own where it is merged.
  bool is_told_by_name(const Error& error) const {
    const char* const words = form_ == Form::kPacked      ? "cannot be packed: "
                              : form_ == Form::kConstants ? " cannot be constants: "
                                                          : "cannot be merged: ";
    return error.code == Code::kUnsupported && form_ != Form::kAsWritten && form_ != Form::kInABlock &&
           error.message.find(words) != std::string::npos;
  }

  device::DevicePtr device_;
  std::string device_name_, path_;
  Form form_;
};

void register_cases() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(pergola::test_support::source_path("tests/ptx")))
    if (entry.path().extension() == ".ptx") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& name : test_device_names()) {
    auto device = open_test_device(name);
    if (!device.ok()) {
      fmt::print(stderr, "{}\n", device.message());
      std::exit(1);
    }
    for (const auto& [suite, form] : {std::pair("Ptx", Form::kAsWritten),
                                      {"PtxInABlock", Form::kInABlock},
                                      {"PtxMerged", Form::kMerged},
                                      {"PtxMergedInALargerGrid", Form::kMergedInALargerGrid},
                                      {"PtxMergedInARow", Form::kMergedInARow},
                                      {"PtxPacked", Form::kPacked},
                                      {"PtxConstants", Form::kConstants}})
      for (const std::string& path : paths)
        testing::RegisterTest(fmt::format("{}/{}", suite, name).c_str(), std::filesystem::path(path).stem().c_str(),
                              nullptr, nullptr, __FILE__, __LINE__,
                              [=]() -> testing::Test* { return new CaseTest(*device, name, path, form); });
  }
}

}  // namespace
}  // namespace pergola::ptx_cases

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pergola::ptx_cases::register_cases();
  return RUN_ALL_TESTS();
}
