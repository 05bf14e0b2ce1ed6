// Kernels that fault: the event tells, later work is skipped, and what the device is good for afterwards.
#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

class Faults : public Conformance {
 protected:
  // Queues `launch`, which faults, and checks all that event.h and device.h promise of it.
  template <typename Launch>
  void expect_fault(Launch&& launch) {
    const BufferPtr witness = zeros<int>(4);
    need(queue().synchronize());
    need(launch());
    const EventPtr of_fault = need(queue().record());
    if (loses_on_fault())
      expect_lost(*of_fault, witness);
    else
      expect_fault_and_recovery(*of_fault, witness);
  }

 private:
  void expect_fault_and_recovery(device::Event& of_fault, const BufferPtr& witness) {
    need(queue().fill(witness, 0, 16, 0xff, 1));
    const EventPtr of_skipped = need(queue().record());
    const Status fault = of_fault.wait();
    EXPECT_CODE(kDeviceFault, "", fault);
    EXPECT_CODE(kSkipped, fault.message(), of_skipped->wait());
    EXPECT_CODE(kDeviceFault, fault.message(), queue().synchronize());
    EXPECT_EQ(download<int>(witness), std::vector<int>(4, 0)) << "skipped work has not run";
    EXPECT_TRUE(device().health().ok());
    run(load("launch"), "add_one", {.block = {4, 1, 1}}, Arguments(witness, 4));
    EXPECT_EQ(download<int>(witness), std::vector<int>(4, 1)) << "after synchronize() the queue works again";
  }

  void expect_lost(device::Event& of_fault, const BufferPtr& witness) {
    const Status lost = of_fault.wait();
    EXPECT_CODE(kDeviceLost, "new process", lost);
    EXPECT_CODE(kDeviceLost, lost.message(), device().health());
    EXPECT_CODE(kDeviceLost, "", queue().fill(witness, 0, 16, 0, 1));
    EXPECT_CODE(kDeviceLost, "", queue().synchronize());
    EXPECT_CODE(kDeviceLost, "", device().allocate(16, MemoryKind::kDevice));
    EXPECT_CODE(kDeviceLost, "", device().create_queue());
    EXPECT_CODE(kDeviceLost, "", try_load("launch"));
    // Every other device goes on.
    for (const DeviceCase* other : device_cases()) {
      if (other == GetParam()) continue;
      const BufferPtr buffer = need(other->device->allocate(16, MemoryKind::kHostVisible));
      const auto theirs = need(other->device->create_queue());
      need(theirs->fill(buffer, 0, 16, 7, 1));
      need(theirs->synchronize());
      EXPECT_EQ(buffer->host_pointer()[15], std::byte{7}) << other->name;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(devices, Faults, ::testing::ValuesIn(device_cases()), device_case_name);

TEST_P(Faults, StoreToNull) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  expect_fault([&] { return launch_on(queue(), module, "store_to", {}, Arguments(std::uint64_t{0})); });
}

TEST_P(Faults, StoreFarOutsideEveryBuffer) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  expect_fault([&] { return launch_on(queue(), module, "store_to", {}, Arguments(std::uint64_t{0x1234'5678'9abc})); });
}

TEST_P(Faults, LoadFromNull) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(1);
  expect_fault([&] { return launch_on(queue(), module, "load_from", {}, Arguments(std::uint64_t{0}, out)); });
}

TEST_P(Faults, MisalignedStore) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(4);
  expect_fault([&] { return launch_on(queue(), module, "store_to", {}, Arguments(out->address() + 2)); });
}

TEST_P(Faults, Trap) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(1);
  expect_fault(
      [&] { return launch_on(queue(), module, "traps", {.block = {32, 1, 1}}, Arguments(out, 1)); });
}

TEST_P(Faults, GridSyncOutsideACooperativeLaunch) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("grid");
  const BufferPtr data = zeros<unsigned>(16);
  expect_fault([&] { return launch_on(queue(), module, "grid_ring", {.block = {32, 1, 1}}, Arguments(data, data, 16, 1)); });
}

TEST_P(Faults, FailedAssertion) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(1);
  expect_fault([&] { return launch_on(queue(), module, "asserts", {}, Arguments(out, 1)); });
}

TEST_P(Faults, SharedStoreFarOutsideTheBlock) {
  if (ran_in_own_process()) return;
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(1);
  expect_fault([&] { return launch_on(queue(), module, "shared_far", {}, Arguments(out, 1 << 24)); });
}

TEST_P(Faults, KernelsThatCouldFaultAndDoNot_AreFine) {
  const ModulePtr module = load("faults");
  const BufferPtr out = zeros<int>(1);
  run(module, "traps", {}, Arguments(out, 0));
  run(module, "asserts", {}, Arguments(out, 0));
  EXPECT_EQ(download<int>(out), std::vector<int>{1});
}

// The null device shows the other way to fail: a launch that ends its event with an error.
class Skipping : public Conformance {};
INSTANTIATE_TEST_SUITE_P(devices, Skipping, ::testing::ValuesIn(device_cases()), device_case_name);

TEST_P(Skipping, NullDevicesLaunch_FailsItsEventAndSkipsLaterWork) {
  if (device().info().kind != device::DeviceKind::kNull) GTEST_SKIP() << "unsupported: of the null device alone";
  const ModulePtr module = load("launch");
  const BufferPtr buffer = allocate(16, MemoryKind::kHostVisible);
  std::memset(buffer->host_pointer(), 0, 16);
  run(module, "no_parameters", {}, Arguments());
  EXPECT_CODE(kUnsupported, "no kernels", need(queue().record())->wait());
  need(queue().fill(buffer, 0, 16, 1, 1));
  const EventPtr skipped = need(queue().record());
  EXPECT_CODE(kSkipped, "no kernels", skipped->wait());
  EXPECT_EQ(buffer->host_pointer()[0], std::byte{0});
  const auto other = new_queue();
  need(other->wait(skipped));
  EXPECT_CODE(kSkipped, "no kernels", need(other->record())->wait());
  EXPECT_CODE(kUnsupported, "no kernels", queue().synchronize());
  EXPECT_TRUE(queue().synchronize().ok());
  need(queue().fill(buffer, 0, 16, 1, 1));
  EXPECT_TRUE(need(queue().record())->wait().ok());
  EXPECT_EQ(buffer->host_pointer()[0], std::byte{1});
}

}  // namespace
}  // namespace pergola::conformance
