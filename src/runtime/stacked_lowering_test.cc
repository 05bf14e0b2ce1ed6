// Which launches of a graph become one as their blocks follow each other, what stays, and which edges are left; and
// sessions whose graphs are stacked. Random graphs are tests/blocks/stacked_graphs_test.cc's.
#include "src/runtime/stacked_lowering.h"

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

// raise: y[e] += x[e], in blocks of 8. shift: y[e] += x[e + 1]. half: y[e] += x[e], but a block has every other thread
// return before its barrier. loose: y[0] = what a word of x points at.
constexpr std::string_view kStackedPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry raise(.param .u64 y, .param .u64 x) {
  .reg .b32 %r<5>; .reg .b64 %rd<5>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 8, %r1; mul.wide.u32 %rd2, %r1, 4;
  ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2; ld.param.u64 %rd3, [x]; add.s64 %rd3, %rd3, %rd2;
  ld.global.u32 %r3, [%rd3]; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry shift(.param .u64 y, .param .u64 x) {
  .reg .b32 %r<5>; .reg .b64 %rd<5>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 8, %r1; mul.wide.u32 %rd2, %r1, 4;
  ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2; ld.param.u64 %rd3, [x]; add.s64 %rd3, %rd3, %rd2;
  ld.global.u32 %r3, [%rd3+4]; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry loose(.param .u64 y, .param .u64 x) {
  .reg .b32 %r; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; ld.global.u64 %rd1, [%rd1]; ld.global.u32 %r, [%rd1];
  ld.param.u64 %rd2, [y]; st.global.u32 [%rd2], %r;
  ret;
}
.visible .entry half(.param .u64 y, .param .u64 x) {
  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<5>;
  mov.u32 %r1, %tid.x; and.b32 %r3, %r1, 1; setp.eq.u32 %p, %r3, 1;
  @%p ret;
  bar.sync 0;
  mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 8, %r1; mul.wide.u32 %rd2, %r1, 4;
  ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2; ld.param.u64 %rd3, [x]; add.s64 %rd3, %rd3, %rd2;
  ld.global.u32 %r3, [%rd3]; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4;
  ret;
}
)";

constexpr std::uint32_t kStackedElements = 8 * 64;

class StackedLowering : public testing::Test {
 protected:
  void SetUp() override {
    setenv("PERGOLA_CPU_ENGINE", "interpreter", 1);
    device_ = open_device("cpu").value();
    unsetenv("PERGOLA_CPU_ENGINE");
    auto module = ptx::parse(kStackedPtx, "stacked.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    const Status right = ptx::verify(*module);
    ASSERT_TRUE(right.ok()) << right.message();
    module_ = device_->load({&*module, kStackedPtx, "stacked.ptx"}).value();
    for (device::BufferPtr& array : arrays_) {
      array = device_->allocate(kStackedElements * 4, device::MemoryKind::kDevice).value();
      allocations_.push_back({array->address(), array->size_bytes()});
    }
  }

  // y of the launch, and what it adds to it.
  void add(const char* name, std::size_t y, std::size_t x, std::vector<device::NodeId> after = {},
           std::uint32_t blocks = 4) {
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(name).value();
    work.config.grid = {blocks, 1, 1};
    work.config.block = {8, 1, 1};
    const device::DeviceAddress addresses[] = {arrays_[y]->address(), arrays_[x]->address()};
    work.parameters.resize(sizeof addresses);
    std::memcpy(work.parameters.data(), addresses, sizeof addresses);
    kernels_.push_back(std::make_shared<BlockKernel>(device_, std::make_shared<const std::string>(kStackedPtx),
                                                     "stacked.ptx", name, ""));
    plain_.nodes.push_back({std::move(work), std::move(after), std::nullopt});
  }

  LoweredStacked lowered(const StackedOptions& options = {}) {
    auto made = lower_stacked(*device_, plain_, kernels_, allocations_, options);
    EXPECT_TRUE(made.ok()) << made.message();
    return std::move(made).value();
  }
  static std::vector<std::vector<device::NodeId>> after(const LoweredStacked& lowered) {
    std::vector<std::vector<device::NodeId>> all;
    for (const device::GraphNode& node : lowered.spec.nodes) all.push_back(node.after);
    return all;
  }

  device::DevicePtr device_;
  device::ModulePtr module_;
  std::array<device::BufferPtr, 8> arrays_;
  std::vector<BlockAllocation> allocations_;
  device::GraphSpec plain_;
  std::vector<std::shared_ptr<BlockKernel>> kernels_;
};

TEST_F(StackedLowering, LaunchesThatFollowBlockByBlock_AreOne) {
  add("raise", 1, 0);
  add("raise", 2, 1, {0});
  add("raise", 1, 2, {0, 1});  // and writes what the second reads
  const LoweredStacked made = lowered();
  EXPECT_EQ(made.stacks, 1u);
  EXPECT_THAT(made.members, ElementsAre(ElementsAre(0, 1, 2)));
  const auto& work = std::get<device::KernelNode>(made.spec.nodes[0].work);
  EXPECT_EQ(work.config.grid, (device::Dim3{4, 1, 1}));
  EXPECT_EQ(work.parameters.size(), 3 * 16u);
  EXPECT_THAT(made.plain_reasons, ElementsAre("", "", ""));
}

TEST_F(StackedLowering, ANeighboursBlock_OtherGrids_AndThreadsThatLeave_EndAStack) {
  add("raise", 1, 0);
  add("shift", 2, 1, {0});
  add("raise", 3, 2, {1}, 5);
  add("half", 4, 3, {2}, 5);
  add("raise", 5, 4, {3}, 5);
  const LoweredStacked made = lowered();
  EXPECT_THAT(made.members, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(after(made), ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(made.plain_reasons[1], "its blocks do not follow those of another launch one by one");
  EXPECT_THAT(made.plain_reasons[4], HasSubstr("its blocks do not follow"));
}

//  0 ─▶ 1 ─▶ 4       5 would wait for 3, and all of [0 1 4 5] with it
//  2 ─▶ 3 ─▶ 5 ◀─ 4
TEST_F(StackedLowering, WhatWaitsForOthers_IsStacked_WhereTheseHaveEndedBefore) {
  add("raise", 1, 0);
  add("raise", 2, 1, {0});
  add("shift", 4, 3);
  add("shift", 5, 4, {2});
  add("raise", 6, 2, {1});
  add("raise", 6, 5, {3, 4});
  const LoweredStacked alike = lowered();
  EXPECT_THAT(alike.members, ElementsAre(ElementsAre(0, 1, 4), ElementsAre(2), ElementsAre(3), ElementsAre(5)));
  EXPECT_EQ(alike.plain_reasons[5], "it waits for launches that may end after the one before it begins");
  EXPECT_THAT(after(alike), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1), ElementsAre(2, 0)));

  // On top of the other one, where that takes longer than all of these.
  const std::vector<double> expected_ns{1, 1, 1, 50, 1, 1};
  const LoweredStacked late = lowered({.expected_ns = expected_ns});
  EXPECT_THAT(late.members, ElementsAre(ElementsAre(0, 1, 4), ElementsAre(2), ElementsAre(3), ElementsAre(5)))
      << "a stack of [3 5] would begin before 4 has ended";

  // A launch of the first stack that takes so long that it is followed, and the others have ended before its stack.
  plain_.nodes[4].after = {1, 3};
  const LoweredStacked joined = lowered({.expected_ns = {9, 1, 1, 1, 1, 1}});
  EXPECT_THAT(joined.members, ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3), ElementsAre(4, 5)));
  EXPECT_THAT(after(joined), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1), ElementsAre(0, 2)));
}

//  0 ─▶ 1 ─▶ 3 ─▶ 5      3 waits for 0, too, which comes before [1 ...] anyway; 5 for 4, which may take however long
//       2 ─▶ 4 ─▶ 5
TEST_F(StackedLowering, WaitingForNothingElse_ItAsksTheEdgesAlone) {
  add("shift", 1, 0);
  add("shift", 2, 1, {0});
  add("shift", 4, 3);
  add("raise", 5, 2, {0, 1});
  add("shift", 7, 4, {2});
  add("raise", 6, 5, {3, 4});
  const std::vector<double> expected_ns{50, 1, 1, 1, 1, 1};
  EXPECT_THAT(lowered({.expected_ns = expected_ns}).members,
              ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(4), ElementsAre(1, 3, 5)));
  const LoweredStacked alone = lowered({.expected_ns = expected_ns, .waits_for_nothing_else = true});
  EXPECT_THAT(alone.members,
              ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2), ElementsAre(4), ElementsAre(5)));
  EXPECT_EQ(alone.plain_reasons[5], "it waits for launches that may end after the one before it begins");
}

// What comes behind the stack's first launch does not come before it, however far behind it is.
TEST_F(StackedLowering, WaitingForNothingElse_WhatComesBehindTheFirstLaunch_IsWaitedFor) {
  add("shift", 1, 0);
  add("shift", 2, 3);
  for (device::NodeId i = 0; i < 200; ++i)  // each block needs a neighbour's
    add("shift", i % 2 == 0 ? 4 : 5, i % 2 == 0 ? 5 : 4,
        i == 0 ? std::vector<device::NodeId>() : std::vector<device::NodeId>{1 + i});
  add("raise", 6, 1, {0, 201});
  add("raise", 7, 6, {202});
  const LoweredStacked made = lowered({.waits_for_nothing_else = true});
  EXPECT_EQ(made.stacks, 1u);
  EXPECT_THAT(made.members.back(), ElementsAre(202, 203));
  EXPECT_EQ(made.plain_reasons[0], "its blocks do not follow those of another launch one by one");
}

TEST_F(StackedLowering, GridsOfOneBlock_FollowWhateverTheyRead) {
  add("raise", 1, 0, {}, 1);
  add("shift", 2, 1, {0}, 1);
  add("loose", 3, 2, {1}, 1);  // but not where that may be anything
  EXPECT_THAT(lowered().members, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST_F(StackedLowering, MoreSharedMemoryThanABlockHas_LeavesLaunchesAsTheyAre) {
  add("raise", 1, 0);
  add("raise", 2, 1, {0});
  std::get<device::KernelNode>(plain_.nodes[0].work).config.dynamic_shared_bytes = 1u << 30;
  const LoweredStacked made = lowered();
  EXPECT_EQ(made.stacks, 0u);
  EXPECT_THAT(made.plain_reasons[1], HasSubstr("as one launch they need 1073741824 bytes of shared memory"));
}

TEST_F(StackedLowering, AStackOfTooMany_EndsThere) {
  for (device::NodeId i = 0; i < 6; ++i)
    add("raise", 1 + i, i, i == 0 ? std::vector<device::NodeId>() : std::vector<device::NodeId>{i - 1});
  EXPECT_THAT(lowered({.most_launches = 4}).members, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(lowered({.most_parameter_bytes = 3 * 23}).members,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)))
      << "16 bytes each, with the gap that may be before them";
}

TEST_F(StackedLowering, Session_HasTheBitsOfLaunches) {
  const auto run = [&](const std::string& policy, std::string* explained) {
    auto session = create_session("cpu", policy);
    EXPECT_TRUE(session.ok()) << session.message();
    auto module = (*session)->load_text(std::string(kStackedPtx), {.name = "stacked.ptx"}).value();
    std::vector<session::ArrayPtr> arrays;
    for (int a = 0; a < 4; ++a) {
      arrays.push_back((*session)->allocate(session::ElementType::kU32, 0, kStackedElements).value());
      std::vector<std::uint32_t> values(kStackedElements);
      for (std::uint32_t e = 0; e < kStackedElements; ++e) values[e] = 3 * e + static_cast<std::uint32_t>(a);
      EXPECT_TRUE(arrays[a]->write(0, std::as_bytes(std::span(values))).ok());
    }
    auto& scheduler = dynamic_cast<LocalSession&>(**session).scheduler();
    scheduler.set_graph_patience(std::chrono::seconds(10));
    const auto kernel = module->kernel("raise").value();
    for (int turn = 0; turn < 40; ++turn) {
      for (int i = 0; i < 6; ++i) {
        const std::vector<session::Argument> arguments{session::ArrayArgument{arrays[(i + 1) % 4], 0},
                                                       session::ArrayArgument{arrays[i % 4], 0}};
        const Status status = kernel->launch({.grid = {60, 1, 1}, .block = {8, 1, 1}}, arguments, nullptr, nullptr);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      if (turn % 5 == 0) scheduler.settle_graphs();
    }
    std::vector<std::uint32_t> all(4 * kStackedElements);
    for (std::size_t a = 0; a < arrays.size(); ++a)
      EXPECT_TRUE(arrays[a]
                      ->read(0, std::as_writable_bytes(std::span(all).subspan(a * kStackedElements, kStackedElements)))
                      .ok());
    if (explained != nullptr) *explained = scheduler::explain(scheduler.graphs());
    return all;
  };
  std::string explained;
  EXPECT_EQ(run("graphs=always,blocks=stacked", &explained), run("graphs=off", nullptr));
  EXPECT_THAT(explained, HasSubstr("    stacked, the only way: "));
  EXPECT_EQ(run("graphs=always,blocks=stacked-alone", &explained), run("graphs=off", nullptr));
  EXPECT_THAT(explained, HasSubstr("    stacked-alone, the only way: "));
  run("graphs=always,blocks=merged-stacked", &explained);
  EXPECT_THAT(explained, HasSubstr("    not merged-stacked: it would be the same as stacked; "));
}

}  // namespace
}  // namespace pergola::runtime
