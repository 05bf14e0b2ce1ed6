// What every suite stands on: a device, its queue, kernels by name, arrays to and from it.
//
// Helpers that cannot go on throw Failure; GoogleTest reports it as the test's failure. A test runs on one thread
// unless it says otherwise.
#pragma once

#include <gtest/gtest.h>
#include <gtest/gtest-spi.h>

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/device/device.h"
#include "tests/conformance/registry.h"

namespace pergola::conformance {

using device::BufferPtr;
using device::Dim3;
using device::EventPtr;
using device::LaunchConfig;
using device::MemoryKind;
using device::ModulePtr;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The value, or Failure with the error's message.
template <typename T>
T need(Result<T> result) {
  if (!result.ok()) throw Failure(std::string(code_name(result.code())) + ": " + result.message());
  return std::move(result).value();
}
inline void need(const Status& status) {
  if (!status.ok()) throw Failure(std::string(code_name(status.code())) + ": " + status.message());
}

// Values of a kernel's parameters in order; pack() lays them out by the signature.
class Arguments {
 public:
  template <typename... T>
  explicit Arguments(const T&... values) {
    (add(values), ...);
  }
  std::vector<std::byte> pack(const ptx::KernelSignature& signature) const;
  // The buffers whose addresses were given: whoever launches must hold them till the kernel has ended.
  const std::vector<BufferPtr>& buffers() const { return buffers_; }

 private:
  void add(const BufferPtr& buffer) {
    buffers_.push_back(buffer);
    add(buffer->address());
  }
  template <typename T>
  void add(const T& value) {
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    values_.push_back(std::move(bytes));
  }
  std::vector<std::vector<std::byte>> values_;
  std::vector<BufferPtr> buffers_;
};

// A fixture per suite: `using Launches = Conformance; CONFORMANCE_SUITE(Launches);` makes the instantiation.
class Conformance : public ::testing::TestWithParam<const DeviceCase*> {
 protected:
  void SetUp() override;
  void TearDown() override;

  device::Device& device() const { return *GetParam()->device; }
  device::Queue& queue();
  std::unique_ptr<device::Queue> new_queue() const { return need(device().create_queue()); }

  // A module of kernels/FILE.ptx, loaded anew.
  ModulePtr load(const std::string& file) const { return need(try_load(file)); }
  Result<ModulePtr> try_load(const std::string& file) const;
  Result<ModulePtr> try_load_text(const std::string& text, const std::string& name) const;

  BufferPtr allocate(std::size_t bytes, MemoryKind kind = MemoryKind::kDevice) const {
    return need(device().allocate(bytes, kind));
  }
  template <typename T>
  BufferPtr upload(const std::vector<T>& values) {
    BufferPtr buffer = allocate(values.size() * sizeof(T));
    need(queue().copy_to_device(buffer, 0, std::as_bytes(std::span(values))));
    return buffer;
  }
  template <typename T>
  BufferPtr zeros(std::size_t count) {
    return upload(std::vector<T>(count));
  }
  template <typename T>
  std::vector<T> download(const BufferPtr& buffer) {
    std::vector<T> values(buffer->size_bytes() / sizeof(T));
    need(queue().copy_to_host(std::as_writable_bytes(std::span(values)), buffer, 0));
    need(queue().synchronize());
    return values;
  }

  // Queues a launch on `on`.
  Status launch_on(device::Queue& on, const ModulePtr& module, const std::string& kernel, const LaunchConfig& config,
                   const Arguments& arguments) const;
  // Queues a launch on queue(), which must be accepted; holds the arguments' buffers till the end of the test.
  void run(const ModulePtr& module, const std::string& kernel, const LaunchConfig& config,
           const Arguments& arguments) {
    kept_.insert(kept_.end(), arguments.buffers().begin(), arguments.buffers().end());
    need(launch_on(queue(), module, kernel, config, arguments));
  }

  // For tests after which the device is lost to the process: runs this test again in a process of its own where the
  // device needs that, and returns true when that has been done. In that process, and on other devices, false.
  bool ran_in_own_process();
  bool loses_on_fault() const { return GetParam()->loses_on_fault; }

 private:
  std::unique_ptr<device::Queue> queue_;
  std::vector<BufferPtr> kept_;
  const Exception* exception_ = nullptr;
  ::testing::TestPartResultArray intercepted_;
  std::unique_ptr<::testing::ScopedFakeTestPartResultReporter> interceptor_;
};

std::vector<const DeviceCase*> device_cases();
std::string device_case_name(const ::testing::TestParamInfo<const DeviceCase*>& info);

#define CONFORMANCE_SUITE(suite)                                                                              \
  class suite : public ::pergola::conformance::Conformance {};                                                \
  INSTANTIATE_TEST_SUITE_P(devices, suite, ::testing::ValuesIn(::pergola::conformance::device_cases()),       \
                           ::pergola::conformance::device_case_name)

// EXPECT that a Status or Result has a code and, where it is an error, that its message holds `part`.
#define EXPECT_CODE(wanted, part, ...)                                                    \
  do {                                                                                    \
    const auto& outcome_ = (__VA_ARGS__);                                                 \
    EXPECT_EQ(outcome_.code(), ::pergola::Code::wanted) << ::pergola::conformance::message_of(outcome_); \
    EXPECT_NE(::pergola::conformance::message_of(outcome_).find(part), std::string::npos) \
        << ::pergola::conformance::message_of(outcome_);                                  \
  } while (false)

inline std::string message_of(const Status& status) { return status.ok() ? "success" : status.message(); }
template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "success" : result.message();
}

}  // namespace pergola::conformance
