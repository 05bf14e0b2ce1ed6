// Which numbers of which launches become constants, and sessions whose graphs have them. The programs of bench/blocks
// with constants are tests/blocks/lowered_programs_test.cc's.
#include "src/runtime/constant_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "src/scheduler/graph_report.h"

namespace pergola::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// accumulate: y[e] += the sum of step * k for k < count, e < n. last: products of floating point that have no rounding
// of their own.
constexpr std::string_view kConstantPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry accumulate(.param .u64 y, .param .u32 n, .param .u32 count, .param .u32 step) {
  .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p ret;
  mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r5, [%rd1];
  ld.param.u32 %r6, [count]; ld.param.u32 %r7, [step]; mov.u32 %r8, 0;
$next:
  setp.ge.u32 %p, %r8, %r6; @%p bra $end;
  mad.lo.u32 %r5, %r7, %r8, %r5; add.u32 %r8, %r8, 1; bra $next;
$end:
  st.global.u32 [%rd1], %r5;
  ret;
}
.visible .entry last(.param .u64 y, .param .u32 n) {
  .reg .b32 %r<3>; .reg .f32 %f<4>; .reg .b64 %rd; .reg .pred %p;
  ld.param.u64 %rd, [y]; ld.global.f32 %f1, [%rd]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
$next:
  add.f32 %f3, %f3, %f2; mul.f32 %f2, %f1, %f1; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra $next;
  st.global.f32 [%rd], %f3;
  ret;
}
)";
constexpr std::uint32_t kConstantElements = 100;

class ConstantNodesTest : public testing::Test {
 protected:
  void SetUp() override {
    device_ = open_device("cpu").value();
    text_ = std::make_shared<const std::string>(kConstantPtx);
    for (const char* name : {"accumulate", "last"})
      kernels_[name] = std::make_shared<BlockKernel>(device_, text_, "constant.ptx", name, "");
  }
  void add(const char* name, std::vector<std::uint32_t> numbers) {
    device::KernelNode work;
    const std::uint64_t address = 0x7f00'0000'0000;
    work.config = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    work.parameters.resize(8 + 4 * numbers.size());
    std::memcpy(work.parameters.data(), &address, 8);
    std::memcpy(work.parameters.data() + 8, numbers.data(), 4 * numbers.size());
    spec_.nodes.push_back({std::move(work), {}, {}});
    of_.push_back(kernels_.at(name));
  }
  const void* module_of(const ConstantNodes& made, std::size_t node) const {
    return std::get<device::KernelNode>(made.spec.nodes[node].work).module.get();
  }

  device::DevicePtr device_;
  std::shared_ptr<const std::string> text_;
  std::map<std::string, std::shared_ptr<BlockKernel>> kernels_;
  device::GraphSpec spec_;
  std::vector<std::shared_ptr<BlockKernel>> of_;
};

TEST_F(ConstantNodesTest, FewSetsOfNumbers_HaveAFormEach) {
  for (const std::uint32_t count : {10, 20, 10}) add("accumulate", {kConstantElements, count, 3});
  const ConstantNodes made = make_constant(spec_, of_);
  EXPECT_EQ(made.launches, 3u);
  EXPECT_THAT(made.reasons, ElementsAre("", "", ""));
  EXPECT_EQ(module_of(made, 0), module_of(made, 2));
  EXPECT_NE(module_of(made, 0), module_of(made, 1));
  EXPECT_EQ(std::get<device::KernelNode>(made.spec.nodes[0].work).kernel->signature().name, "accumulate_constants");
}

TEST_F(ConstantNodesTest, OfManySets_WhatAllLaunchesHaveIsConstant) {
  for (std::uint32_t count = 0; count < 10; ++count) add("accumulate", {kConstantElements, count, 3});
  const ConstantNodes made = make_constant(spec_, of_);
  EXPECT_EQ(made.launches, 10u);
  for (std::size_t i = 1; i < 10; ++i) EXPECT_EQ(module_of(made, i), module_of(made, 0));
  for (std::uint32_t n = 0; n < 10; ++n) add("accumulate", {n, n, n});
  const ConstantNodes none = make_constant(spec_, of_);
  EXPECT_EQ(none.launches, 0u);
  EXPECT_THAT(none.reasons, testing::Each(HasSubstr("has no whole number that all of its launches have")));
}

TEST_F(ConstantNodesTest, WhatCannotHaveThem_StaysAsItIs_AndSaysWhy) {
  add("last", {5});
  add("accumulate", {kConstantElements, 10, 3});
  of_.back() = nullptr;
  spec_.nodes.push_back({device::FillNode{}, {}, {}});
  of_.push_back(nullptr);
  const ConstantNodes made = make_constant(spec_, of_);
  EXPECT_EQ(made.launches, 0u);
  EXPECT_THAT(made.reasons,
              ElementsAre(HasSubstr("whole numbers of kernel 'last' cannot be constants: `mul.f32"),
                          "its kernel's PTX is not known, or its parameters change", "it is no kernel launch"));
}

TEST(ConstantGraphs, OfASession_LeaveWhatLaunchesDo) {
  const auto run = [](std::string_view policy, std::string* explained) {
    auto session = create_session("cpu", policy);
    EXPECT_TRUE(session.ok()) << session.message();
    auto module = (*session)->load_text(std::string(kConstantPtx), {.name = "constant.ptx"}).value();
    const auto array = (*session)->allocate(session::ElementType::kU32, 0, kConstantElements).value();
    std::vector<std::uint32_t> values(kConstantElements, 1);
    EXPECT_TRUE(array->write(0, std::as_bytes(std::span(values))).ok());
    auto& scheduler = dynamic_cast<LocalSession&>(**session).scheduler();
    scheduler.set_graph_patience(std::chrono::seconds(10));
    const auto kernel = module->kernel("accumulate").value();
    const auto number = [](std::uint32_t value) { return session::Number{session::ElementType::kU32, value}; };
    for (int turn = 0; turn < 40; ++turn) {
      for (std::uint32_t i = 1; i < 7; ++i) {
        const std::vector<session::Argument> arguments{session::ArrayArgument{array, 0}, number(kConstantElements - i),
                                                       number(i % 3), number(7)};
        const Status status = kernel->launch({.grid = {4, 1, 1}, .block = {32, 1, 1}}, arguments, nullptr, nullptr);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      if (turn % 5 == 0) scheduler.settle_graphs();
    }
    EXPECT_TRUE(array->read(0, std::as_writable_bytes(std::span(values))).ok());
    if (explained != nullptr) *explained = scheduler::explain(scheduler.graphs());
    return values;
  };
  std::string explained;
  EXPECT_EQ(run("graphs=always,blocks=constants", &explained), run("graphs=off", nullptr));
  EXPECT_THAT(explained, HasSubstr("    constants, the only way: whole numbers of "));
  EXPECT_THAT(explained, HasSubstr(" launches are constants of their code"));
}

}  // namespace
}  // namespace pergola::runtime
