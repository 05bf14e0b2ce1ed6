#include "tests/conformance/harness.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "tests/conformance/kernels.h"

namespace pergola::conformance {
namespace {

constexpr const char* kOwnProcess = "PERGOLA_CONFORMANCE_OWN_PROCESS";

std::string this_test() {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// "devices/Launches.Grid1d/null" -> "Launches.Grid1d"
std::string suite_and_case() {
  std::string name = this_test();
  name.erase(0, name.find('/') + 1);
  name.erase(name.rfind('/'));
  return name;
}

}  // namespace

std::vector<std::byte> Arguments::pack(const ptx::KernelSignature& signature) const {
  if (values_.size() != signature.parameters.size())
    throw Failure(fmt::format("'{}' has {} parameters, the test gives {}", signature.name, signature.parameters.size(),
                              values_.size()));
  std::vector<std::byte> packed(signature.parameter_bytes);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const ptx::Parameter& parameter = signature.parameters[i];
    if (parameter.size_bytes != values_[i].size())
      throw Failure(fmt::format("'{}' has {} bytes, the test gives {}", parameter.name, parameter.size_bytes,
                                values_[i].size()));
    std::memcpy(packed.data() + parameter.offset_bytes, values_[i].data(), values_[i].size());
  }
  return packed;
}

void Conformance::SetUp() {
  exception_ = find_exception(GetParam()->name, suite_and_case());
  if (exception_ == nullptr) return;
  if (exception_->kind == Exception::Kind::kUnsupported)
    GTEST_SKIP() << "unsupported: " << exception_->reason;
  using Reporter = ::testing::ScopedFakeTestPartResultReporter;
  interceptor_ = std::make_unique<Reporter>(Reporter::INTERCEPT_ALL_THREADS, &intercepted_);
}

void Conformance::TearDown() {
  queue_.reset();
  kept_.clear();
  if (interceptor_ == nullptr) return;
  interceptor_.reset();
  bool failed = false;
  for (int i = 0; i < intercepted_.size(); ++i) failed = failed || intercepted_.GetTestPartResult(i).failed();
  RecordProperty("expected_failure", exception_->reason);
  EXPECT_TRUE(failed) << "This passes now and was expected to fail (" << exception_->reason
                      << "): take it out of exceptions.cc.";
}

device::Queue& Conformance::queue() {
  if (queue_ == nullptr) queue_ = new_queue();
  return *queue_;
}

Result<ModulePtr> Conformance::try_load(const std::string& file) const {
  const auto found = embedded_kernels().find(file);
  if (found == embedded_kernels().end()) throw Failure("there is no kernels/" + file + ".ptx");
  return try_load_text(found->second, file + ".ptx");
}

Result<ModulePtr> Conformance::try_load_text(const std::string& text, const std::string& name) const {
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(text, name));
  PERGOLA_TRY(ptx::verify(module));
  return device().load({&module, text, name});
}

Status Conformance::launch_on(device::Queue& on, const ModulePtr& module, const std::string& kernel,
                              const LaunchConfig& config, const Arguments& arguments) const {
  const device::Kernel* found = need(module->kernel(kernel));
  return on.launch(module, *found, config, arguments.pack(found->signature()));
}

bool Conformance::ran_in_own_process() {
  if (!loses_on_fault() || std::getenv(kOwnProcess) != nullptr) return false;
  std::array<char, 4096> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0) throw Failure("/proc/self/exe is not there");
  const std::string command =
      fmt::format("{}=1 '{}' --gtest_filter='{}' 2>&1", kOwnProcess, program.data(), this_test());
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw Failure("no process could be started");
  std::string output;
  std::array<char, 4096> chunk{};
  while (std::size_t got = fread(chunk.data(), 1, chunk.size(), pipe)) output.append(chunk.data(), got);
  const int status = pclose(pipe);
  EXPECT_EQ(status, 0) << "In a process of its own the test fails:\n" << output;
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
  return true;
}

std::vector<const DeviceCase*> device_cases() {
  std::vector<const DeviceCase*> cases;
  for (const DeviceCase& each : devices()) cases.push_back(&each);
  return cases;
}

std::string device_case_name(const ::testing::TestParamInfo<const DeviceCase*>& info) { return info.param->name; }

}  // namespace pergola::conformance
