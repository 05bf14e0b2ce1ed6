#include "src/device/validate.h"

#include <gtest/gtest.h>

#include "src/device/failure.h"

namespace pergola::device {
namespace {

class FakeKernel final : public Kernel {
 public:
  ptx::KernelSignature made;
  KernelResources own;
  const ptx::KernelSignature& signature() const override { return made; }
  KernelResources resources() const override { return own; }
  Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t, std::uint32_t) const override { return 2u; }
};

class FakeBuffer final : public Buffer {
 public:
  explicit FakeBuffer(std::size_t size) : size_(size) {}
  DeviceAddress address() const override { return 256; }
  std::size_t size_bytes() const override { return size_; }
  MemoryKind kind() const override { return MemoryKind::kDevice; }
  std::byte* host_pointer() const override { return nullptr; }

 private:
  std::size_t size_;
};

class ValidateLaunch : public ::testing::Test {
 protected:
  ValidateLaunch() {
    info.id = "fake";
    info.sm_count = 3;
    info.max_shared_bytes_per_block = 1000;
    kernel.made.name = "k";
    kernel.made.parameter_bytes = 8;
    kernel.made.static_shared_bytes = 100;
  }
  void expect(Code code, const std::string& part, const LaunchConfig& config, std::size_t bytes = 8) const {
    const Status status = validate_launch(info, kernel, config, bytes);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  DeviceInfo info;
  FakeKernel kernel;
};

TEST_F(ValidateLaunch, GoodConfig_IsAccepted) {
  expect(Code::kOk, "", {.grid = {65536, 65535, 2}, .block = {32, 32, 1}, .dynamic_shared_bytes = 900});
}
TEST_F(ValidateLaunch, ParameterSize_IsNamed) { expect(Code::kInvalidArgument, "8 bytes", {}, 4); }
TEST_F(ValidateLaunch, ZeroGrid_IsNamed) { expect(Code::kInvalidArgument, "grid.y is 0", {.grid = {1, 0, 1}}); }
TEST_F(ValidateLaunch, TallGrid_IsNamed) {
  expect(Code::kInvalidArgument, "grid.z is 65536", {.grid = {1, 1, 65536}});
}
TEST_F(ValidateLaunch, DeepBlock_IsNamed) { expect(Code::kInvalidArgument, "block.z is 65", {.block = {1, 1, 65}}); }
TEST_F(ValidateLaunch, TooManyThreads_IsNamed) {
  expect(Code::kInvalidArgument, "2048 threads", {.block = {1024, 2, 1}});
}
TEST_F(ValidateLaunch, SharedMemory_IsResourceExhausted) {
  expect(Code::kResourceExhausted, "901", {.dynamic_shared_bytes = 901});
  expect(Code::kResourceExhausted, "4294967295", {.dynamic_shared_bytes = 0xffffffff});
}
TEST_F(ValidateLaunch, RequiredThreads_MustBeExact) {
  kernel.made.required_threads = {{64, 2, 1}};
  expect(Code::kOk, "", {.block = {64, 2, 1}});
  expect(Code::kInvalidArgument, ".reqntid", {.block = {128, 1, 1}});
}
TEST_F(ValidateLaunch, MaxThreads_CountsTheProduct) {
  kernel.made.max_threads = {{64, 1, 1}};
  expect(Code::kOk, "", {.block = {8, 8, 1}});
  expect(Code::kInvalidArgument, ".maxntid", {.block = {65, 1, 1}});
}
TEST_F(ValidateLaunch, RegisterBound_IsResourceExhausted) {
  kernel.own = {.registers_per_thread = 255, .max_threads_per_block = 256};
  expect(Code::kResourceExhausted, "255 registers", {.block = {257, 1, 1}});
}
TEST_F(ValidateLaunch, Cooperative_MustFit) {
  expect(Code::kOk, "", {.grid = {6, 1, 1}, .cooperative = true});
  expect(Code::kResourceExhausted, "2 on each of 3 SMs", {.grid = {7, 1, 1}, .cooperative = true});
}
TEST_F(ValidateLaunch, Cluster_WithoutHardware_IsUnsupported) {
  expect(Code::kUnsupported, "clusters", {.grid = {4, 1, 1}, .cluster = {2, 1, 1}});
}
TEST_F(ValidateLaunch, Cluster_MustDivideTheGrid) {
  info.max_cluster_blocks = 8;
  expect(Code::kOk, "", {.grid = {4, 1, 1}, .cluster = {2, 1, 1}});
  expect(Code::kInvalidArgument, "multiple", {.grid = {5, 1, 1}, .cluster = {2, 1, 1}});
  expect(Code::kInvalidArgument, "9 blocks", {.grid = {9, 1, 1}, .cluster = {9, 1, 1}});
  expect(Code::kInvalidArgument, "0 blocks", {.grid = {9, 1, 1}, .cluster = {1, 0, 1}});
}

TEST(ValidateRange, SumsThatWrap_AreRefused) {
  const FakeBuffer buffer(100);
  EXPECT_TRUE(validate_range("source", &buffer, 100, 0).ok());
  EXPECT_EQ(validate_range("source", &buffer, 101, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate_range("source", &buffer, 8, ~std::size_t{0}).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate_range("source", nullptr, 0, 0).code(), Code::kInvalidArgument);
}

TEST(ValidateCopy, Overlap_IsRefusedInOneBufferOnly) {
  const FakeBuffer one(100), other(100);
  EXPECT_TRUE(validate_copy(&one, 0, &one, 50, 50).ok());
  EXPECT_EQ(validate_copy(&one, 0, &one, 49, 50).code(), Code::kInvalidArgument);
  EXPECT_TRUE(validate_copy(&one, 0, &other, 0, 100).ok());
}

TEST(ValidateFill, PatternRules) {
  const FakeBuffer buffer(100);
  EXPECT_TRUE(validate_fill(&buffer, 2, 6, 0xffff, 2).ok());
  EXPECT_EQ(validate_fill(&buffer, 1, 6, 1, 2).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate_fill(&buffer, 0, 6, 1, 3).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate_fill(&buffer, 0, 4, 256, 1).code(), Code::kInvalidArgument);
}

TEST(ValidateGraph, LaterNode_IsNamed) {
  GraphSpec spec;
  spec.nodes.push_back({.work = FillNode{std::make_shared<FakeBuffer>(4), 0, 4}, .after = {0}});
  const Status status = validate_graph({}, spec);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("node 0 comes after node 0"), std::string::npos) << status.message();
}

TEST(ValidateGraph, BadNode_IsNamedWithItsNumber) {
  GraphSpec spec;
  spec.nodes.push_back({.work = FillNode{std::make_shared<FakeBuffer>(4), 0, 4}});
  spec.nodes.push_back({.work = CopyNode{}, .after = {0}});
  const Status status = validate_graph({}, spec);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("node 1"), std::string::npos) << status.message();
  EXPECT_EQ(validate_update(spec, 1, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate_update(spec, 2, 0).code(), Code::kInvalidArgument);
}

TEST(ExpandFill, Patterns_AreLittleEndian) {
  std::byte bytes[8];
  expand_fill(bytes, 0x04030201, 4);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bytes[i], std::byte(i % 4 + 1));
  expand_fill({bytes, 4}, 0xbbaa, 2);
  EXPECT_EQ(bytes[3], std::byte{0xbb});
}

TEST(FailureState, FirstOutcomeIsTheCause_LaterOnesAreSkipped_TakeClears) {
  FailureState state;
  EXPECT_TRUE(state.outcome().ok());
  state.fail(PERGOLA_ERROR(kDeviceFault, "It trapped."));
  state.fail(PERGOLA_ERROR(kInternal, "Second."));
  EXPECT_EQ(state.outcome().code(), Code::kDeviceFault);
  const Status later = state.outcome();
  EXPECT_EQ(later.code(), Code::kSkipped);
  EXPECT_NE(later.message().find("It trapped."), std::string::npos);
  EXPECT_EQ(skipped_because(later).message, later.message());
  EXPECT_EQ(state.take().code(), Code::kDeviceFault);
  EXPECT_TRUE(state.outcome().ok());
}

}  // namespace
}  // namespace pergola::device
