// Which launches of a graph become one, what stays, and which edges are left; and sessions whose graphs are merged.
// Random graphs are tests/blocks/merged_graphs_test.cc's.
#include "src/runtime/merged_lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "src/scheduler/graph_report.h"

namespace pergola::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// raise, lower: x[e] += or -= n, in blocks of 8. counts: adds to a variable of its module. twice: y[e] = 2 * x[e].
constexpr std::string_view kMergedPtx = R"(.version 7.8
.target sm_75
.address_size 64
.global .align 4 .u32 counter;
.visible .entry raise(.param .u64 x, .param .u32 n) {
  .reg .b32 %r<5>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 8, %r1;
  ld.param.u64 %rd1, [x]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  ld.param.u32 %r3, [n]; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry lower(.param .u64 x, .param .u32 n) {
  .reg .b32 %r<5>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 8, %r1;
  ld.param.u64 %rd1, [x]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  ld.param.u32 %r3, [n]; ld.global.u32 %r4, [%rd1]; sub.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry asks(.param .u64 x, .param .u32 n) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; mov.u64 %rd2, %gridid; st.global.u64 [%rd1], %rd2;
  ret;
}
)";

constexpr std::uint32_t kMergedElements = 8 * 64;

class MergedLowering : public testing::Test {
 protected:
  void SetUp() override {
    setenv("PERGOLA_CPU_ENGINE", "interpreter", 1);
    device_ = open_device("cpu").value();
    unsetenv("PERGOLA_CPU_ENGINE");
    auto module = ptx::parse(kMergedPtx, "merged.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    const Status right = ptx::verify(*module);
    ASSERT_TRUE(right.ok()) << right.message();
    module_ = device_->load({&*module, kMergedPtx, "merged.ptx"}).value();
    for (device::BufferPtr& array : arrays_)
      array = device_->allocate(kMergedElements * 4, device::MemoryKind::kDevice).value();
    plain_.buffers.assign(arrays_.begin(), arrays_.end());
  }

  std::shared_ptr<BlockKernel> kernel(const std::string& name, const std::string& written = "") {
    auto& known = kernels_by_name_[name + "/" + written];
    if (known == nullptr)
      known = std::make_shared<BlockKernel>(device_, std::make_shared<const std::string>(kMergedPtx), "merged.ptx",
                                            name, written);
    return known;
  }

  device::KernelNode launch(const char* name, std::size_t array, std::uint32_t blocks = 4) {
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(name).value();
    work.config.grid = {blocks, 1, 1};
    work.config.block = {8, 1, 1};
    work.parameters.resize(work.kernel->signature().parameter_bytes);
    const device::DeviceAddress address = arrays_[array]->address();
    std::memcpy(work.parameters.data(), &address, sizeof address);
    const auto n = static_cast<std::uint32_t>(plain_.nodes.size() + 1);
    std::memcpy(work.parameters.data() + 8, &n, sizeof n);
    return work;
  }

  void add(device::KernelNode work, std::vector<device::NodeId> after = {}) {
    kernels_.push_back(kernel(work.kernel->signature().name));
    plain_.nodes.push_back({std::move(work), std::move(after), std::nullopt});
  }
  void add_copy(std::size_t to, std::size_t from, std::vector<device::NodeId> after = {}) {
    kernels_.push_back(nullptr);
    plain_.nodes.push_back({device::CopyNode{arrays_[to], 0, arrays_[from], 0, 64}, std::move(after), std::nullopt});
  }

  LoweredMerged lowered(const MergedOptions& options = {}) {
    auto made = lower_merged(*device_, plain_, kernels_, options);
    EXPECT_TRUE(made.ok()) << made.message();
    return std::move(made).value();
  }

  static std::vector<device::NodeId> after(const LoweredMerged& lowered, device::NodeId node) {
    return lowered.spec.nodes.at(node).after;
  }
  static const device::KernelNode& work_of(const LoweredMerged& lowered, device::NodeId node) {
    return std::get<device::KernelNode>(lowered.spec.nodes.at(node).work);
  }

  device::DevicePtr device_;
  device::ModulePtr module_;
  std::array<device::BufferPtr, 8> arrays_;
  std::map<std::string, std::shared_ptr<BlockKernel>> kernels_by_name_;
  device::GraphSpec plain_;
  std::vector<std::shared_ptr<BlockKernel>> kernels_;
};

TEST_F(MergedLowering, IndependentLaunchesOfAKernel_AreOne) {
  for (std::size_t i = 0; i < 5; ++i) add(launch("raise", i));
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.spec.nodes.size(), 1u);
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(work_of(made, 0).config.grid, (device::Dim3{4, 1, 5}));
  EXPECT_EQ(work_of(made, 0).parameters.size(), 8u * 16) << "room for a power of two";
  EXPECT_EQ(made.spec.buffers.size(), plain_.buffers.size());
}

//   raise 0 ─▶ lower 2 ─▶ raise 4          raise 0 1 ─▶ lower 2 3 ─▶ raise 4
//   raise 1 ─▶ lower 3
TEST_F(MergedLowering, LaunchesOfOneDepth_AreMerged_AndEdgesOnceEach) {
  add(launch("raise", 0));
  add(launch("raise", 1));
  add(launch("lower", 0), {0});
  add(launch("lower", 1), {1});
  add(launch("raise", 0), {0, 2});
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.spec.nodes.size(), 3u);
  EXPECT_THAT(after(made, 0), IsEmpty());
  EXPECT_THAT(after(made, 1), ElementsAre(0));
  EXPECT_THAT(after(made, 2), ElementsAre(1)) << "that 0 is before it is implied";
  EXPECT_THAT(made.plain_reasons[4], HasSubstr("no other launch of its kernel in blocks like its own is as deep"));
  EXPECT_EQ(made.plain_reasons[0], "");
}

TEST_F(MergedLowering, OfSeveralKernels_EachIsOne) {
  for (std::size_t i = 0; i < 6; ++i) add(launch(i % 2 == 0 ? "raise" : "lower", i));
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.groups.size(), 2u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 2, 4));
  EXPECT_THAT(made.groups[1].launches, ElementsAre(1, 3, 5));
}

TEST_F(MergedLowering, BlocksAndSharedMemoryThatDiffer_KeepLaunchesApart) {
  add(launch("raise", 0));
  device::KernelNode other = launch("raise", 1);
  other.config.block = {4, 2, 1};
  add(other);
  other = launch("raise", 2);
  other.config.dynamic_shared_bytes = 16;
  add(other);
  other = launch("raise", 3);
  other.config.programmatic = true;
  add(other);
  const LoweredMerged made = lowered();
  EXPECT_THAT(made.groups, IsEmpty());
  EXPECT_EQ(made.spec.nodes.size(), 4u);
  EXPECT_THAT(made.plain_reasons[1], HasSubstr("no other launch of its kernel in blocks like its own"));
  EXPECT_THAT(made.plain_reasons[3], HasSubstr("cooperative grid, in clusters or early"));
}

//   copy 0 ─▶ raise 2          copies have a depth and stay; what is behind them is merged with its like
//   copy 1 ─▶ raise 3
//             raise 4
TEST_F(MergedLowering, Copies_StayAsTheyAre) {
  add_copy(0, 1);
  add_copy(2, 3);
  add(launch("raise", 0), {0});
  add(launch("raise", 2), {1});
  add(launch("raise", 4));
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(2, 3));
  ASSERT_EQ(made.spec.nodes.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<device::CopyNode>(made.spec.nodes[0].work));
  EXPECT_THAT(after(made, made.groups[0].node), ElementsAre(0, 1));
  EXPECT_EQ(made.plain_reasons[0], "it is no kernel launch");
}

TEST_F(MergedLowering, WhatIsNotKnownOrVaries_StaysAsItIs) {
  for (std::size_t i = 0; i < 3; ++i) add(launch("raise", i));
  kernels_[1] = nullptr;
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 2));
  EXPECT_THAT(made.plain_reasons[1], HasSubstr("PTX is not known, or its parameters change"));
  EXPECT_EQ(made.spec.nodes.size(), 2u);
}

// A later node of one depth may come before an earlier one of the plain graph: the order is still one of dependencies.
TEST_F(MergedLowering, NodesComeAfterWhatTheyDependOn) {
  add(launch("raise", 0));
  add(launch("lower", 0), {0});
  add(launch("raise", 1));
  add(launch("lower", 1), {2});
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.spec.nodes.size(), 2u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 2));
  EXPECT_EQ(made.groups[0].node, 0u);
  EXPECT_THAT(after(made, 1), ElementsAre(0));
}

TEST_F(MergedLowering, GridsOfAboutOneSize_AreMerged) {
  for (const std::uint32_t blocks : {10u, 1u, 8u, 2u, 9u}) add(launch("raise", plain_.nodes.size(), blocks));
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 2, 4));
  EXPECT_EQ(work_of(made, made.groups[0].node).config.grid, (device::Dim3{10, 1, 3}));
  EXPECT_THAT(made.plain_reasons[1], HasSubstr("differ so much that one of all has more than 1.25 times the blocks"));
  EXPECT_THAT(made.plain_reasons[3], HasSubstr("more than 1.25 times"));
}

TEST_F(MergedLowering, Layers_LieOneBehindTheOther) {
  for (const std::uint32_t layers : {4u, 3u}) {
    device::KernelNode work = launch("raise", 0);
    work.config.grid = {2, 2, layers};
    add(work);
  }
  const LoweredMerged made = lowered();
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_EQ(work_of(made, 0).config.grid, (device::Dim3{2, 2, 8}));
  const transform::MergedHeader* header = nullptr;
  ASSERT_EQ(work_of(made, 0).parameters.size(), 2 * 32u);
  header = reinterpret_cast<const transform::MergedHeader*>(work_of(made, 0).parameters.data() + 32);
  EXPECT_EQ(header->grid_z, 3u);
  EXPECT_EQ(header->place, 4u);
}

TEST_F(MergedLowering, DifferentKernels_AreOneInARow) {
  add(launch("raise", 0, 60));
  add(launch("lower", 1, 3));
  add(launch("raise", 2, 2));
  device::KernelNode other = launch("raise", 3);
  other.config.block = {4, 2, 1};
  add(other);
  add(launch("asks", 4));
  const LoweredMerged made = lowered({.different_kernels = true});
  ASSERT_EQ(made.groups.size(), 1u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 1, 2));
  EXPECT_TRUE(made.groups[0].in_a_row);
  const device::KernelNode& work = work_of(made, made.groups[0].node);
  EXPECT_EQ(work.config.grid, (device::Dim3{65, 1, 1}));
  EXPECT_EQ(work.kernel->signature().name, "pergola_joined");
  ASSERT_EQ(work.kernel->signature().parameters.size(), 2u);
  const auto place = [&](std::size_t offset) {
    transform::MergedHeader header;
    std::memcpy(&header, work.parameters.data() + offset, sizeof header);
    return header.place;
  };
  EXPECT_EQ(place(0), 0u);
  EXPECT_EQ(place(32), 60u);
  EXPECT_EQ(place(64), 62u);
  EXPECT_THAT(made.plain_reasons[3], HasSubstr("no other launch of its kernel in blocks like its own is as deep"));
  EXPECT_THAT(made.plain_reasons[4], HasSubstr("launches of kernel 'asks' cannot be merged"));
}

TEST_F(MergedLowering, OneKernelOfGridsThatDiffer_IsOneInARow_AndOfEqualOnesInLayers) {
  add(launch("raise", 0, 60));
  add(launch("raise", 1, 1));
  add(launch("lower", 0), {0});
  add(launch("lower", 1), {1});
  const LoweredMerged made = lowered({.different_kernels = true});
  ASSERT_EQ(made.groups.size(), 2u);
  EXPECT_EQ(work_of(made, 0).config.grid, (device::Dim3{61, 1, 1}));
  EXPECT_EQ(work_of(made, 1).config.grid, (device::Dim3{4, 1, 2}));
  EXPECT_FALSE(made.groups[1].in_a_row);
}

TEST_F(MergedLowering, RowsOfTooManyKernels_AreSeveral) {
  for (std::size_t i = 0; i < 4; ++i) add(launch(i < 2 ? "raise" : "lower", i, i % 2 == 0 ? 5 : 50));
  const LoweredMerged made = lowered({.different_kernels = true, .most_kernels = 1});
  ASSERT_EQ(made.groups.size(), 2u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 1));
  EXPECT_EQ(lowered({.most_parameter_bytes = 96, .different_kernels = true}).groups.size(), 2u);
}

TEST_F(MergedLowering, ParametersOfALaunch_HaveALimit) {
  for (std::size_t i = 0; i < 10; ++i) add(launch("raise", i % 8));
  const LoweredMerged made = lowered({.most_parameter_bytes = 6 * 16 + 4});
  ASSERT_EQ(made.groups.size(), 2u);
  EXPECT_THAT(made.groups[0].launches, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(work_of(made, 0).parameters.size(), 6u * 16) << "eight would be too many";
  EXPECT_THAT(made.groups[1].launches, ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(lowered({.most_parameter_bytes = 31}).plain_reasons[0], HasSubstr("more than 31 bytes"));
}

TEST_F(MergedLowering, KernelsThatCannot_StayAsTheyAre) {
  for (std::size_t i = 0; i < 2; ++i) add(launch("asks", i));
  for (std::size_t i = 2; i < 4; ++i) {
    add(launch("raise", i));
    kernels_[i] = kernel("raise", "counter");
  }
  const LoweredMerged made = lowered();
  EXPECT_THAT(made.groups, IsEmpty());
  EXPECT_THAT(made.plain_reasons[1], HasSubstr("merged.ptx:21: launches of kernel 'asks' cannot be merged"));
  EXPECT_THAT(made.plain_reasons[2], HasSubstr("uses variable 'counter', which kernels of its module write"));
}

// A session: rounds of launches over eight arrays, whose graphs are merged, leave what launches leave.
class MergedSession : public testing::Test {
 protected:
  std::vector<std::uint32_t> run(const char* policy, const char* kernel = nullptr) {
    auto session = create_session("cpu", policy);
    EXPECT_TRUE(session.ok()) << session.message();
    auto module = (*session)->load_text(std::string(kMergedPtx), {.name = "merged.ptx"});
    EXPECT_TRUE(module.ok()) << module.message();
    std::array<session::ArrayPtr, 8> arrays;
    for (session::ArrayPtr& array : arrays) {
      array = (*session)->allocate(session::ElementType::kU32, 0, kMergedElements).value();
      const std::vector<std::uint32_t> values(kMergedElements, 1);
      EXPECT_TRUE(array->write(0, std::as_bytes(std::span(values))).ok());
    }
    auto& scheduler = dynamic_cast<LocalSession&>(**session).scheduler();
    scheduler.set_graph_patience(std::chrono::seconds(10));
    for (int turn = 0; turn < 40; ++turn) {
      for (std::uint32_t i = 0; i < 24; ++i) {
        const char* const name = kernel != nullptr ? kernel : i / 8 % 2 == 0 ? "raise" : "lower";
        const auto loaded = (*module)->kernel(name).value();
        const std::vector<session::Argument> arguments{session::ArrayArgument{arrays[i % 8], 0},
                                                       session::Number{session::ElementType::kU32, i}};
        const Status status =
            loaded->launch({.grid = {i % 8 == 7 ? 60u : 64u, 1, 1}, .block = {8, 1, 1}}, arguments, nullptr, nullptr);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      if (turn % 5 == 0) scheduler.settle_graphs();
    }
    std::vector<std::uint32_t> all(8 * kMergedElements);
    for (std::size_t a = 0; a < arrays.size(); ++a)
      EXPECT_TRUE(arrays[a]
                      ->read(0, std::as_writable_bytes(std::span(all).subspan(a * kMergedElements, kMergedElements)))
                      .ok());
    replaced_ = scheduler.graph_counters().replaced;
    explained_ = scheduler::explain(scheduler.graphs());
    return all;
  }

  std::uint64_t replaced_ = 0;
  std::string explained_;
};

TEST_F(MergedSession, HasTheBitsOfLaunches) {
  const std::vector<std::uint32_t> right = run("graphs=off");
  EXPECT_EQ(run("graphs=always,blocks=merged"), right);
  EXPECT_GT(replaced_, 0u);
  EXPECT_THAT(explained_, HasSubstr("    merged, the only way: 24 launches became 3\n"));
  EXPECT_EQ(run("graphs=always,blocks=merged-kernels"), right);
  EXPECT_THAT(explained_, HasSubstr("    merged-kernels, the only way: 24 launches became 3\n"));
  EXPECT_EQ(run("graphs=always,blocks=merged-early"), right);
  EXPECT_THAT(explained_,
              HasSubstr("    merged-early, the only way: 24 launches became 3; of 3 launches then 2 start early\n"));
}

TEST_F(MergedSession, WhereNothingCanBeMerged_TheReasonIsTold) {
  run("graphs=always,blocks=merged", "asks");
  EXPECT_THAT(explained_, HasSubstr("    not merged: it would be the plain one; "));
  EXPECT_THAT(explained_, HasSubstr(" times: merged.ptx:21: launches of kernel 'asks' cannot be merged: `mov.u64 "));
}

}  // namespace
}  // namespace pergola::runtime
