// Random chains of launches of all shapes, fused into a kernel of one block, or in columns, on the CPU device: bits are
// those of the launches one after the other. PERGOLA_SEED takes a seed; it is printed.
#include "src/runtime/fused_lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/runtime/devices.h"
#include "src/runtime/local_session.h"
#include "src/runtime/runtime.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using testing::HasSubstr;

// All take x, y and a number, and have 64 elements a block at most.
// place: y[e] = x[e] + where the thread is, in three dimensions.
// turn: y of a block is x of it turned round, by way of dynamic shared memory. Its threads are a power of two or less.
// votes: threads whose x is odd, counted by bar.red, are added to y; those with tid >= n return first.
// pairs: threads add up x by shuffles, where they are whole warps.
// waits: a barrier where only some threads are left.
constexpr std::string_view kPartsPtx = R"(.version 7.8
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 tile[];
.const .align 4 .u32 factors[4] = {1, 10, 100, 1000};
.func (.reg .b32 %at) element()
{
  .reg .b32 %r<8>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
  mad.lo.u32 %r3, %r3, %r5, %r2; mad.lo.u32 %r3, %r3, %r4, %r1;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r6, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
  mad.lo.u32 %r6, %r6, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
  mad.lo.u32 %at, %r3, 64, %r6;
  ret;
}
.visible .entry place(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<9>; .reg .b64 %rd<5>;
  call (%r1), element, ();
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.nc.u32 %r2, [%rd1];
  mov.u32 %r3, %tid.x; mov.u32 %r4, %tid.y; ld.const.u32 %r5, [factors+4]; mad.lo.u32 %r3, %r4, %r5, %r3;
  mov.u32 %r4, %ctaid.z; ld.const.u32 %r5, [factors+12]; mad.lo.u32 %r3, %r4, %r5, %r3;
  ld.param.u32 %r6, [n]; add.u32 %r3, %r3, %r6; add.u32 %r2, %r2, %r3;
  st.global.u32 [%rd2], %r2;
  ret;
}
.visible .entry turn(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<9>; .reg .b64 %rd<5>;
  call (%r1), element, ();
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd1];
  and.b32 %r1, %r1, 63; mov.u32 %r5, tile; shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r5; st.shared.u32 [%r6], %r2;
  bar.sync 2;
  mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mul.lo.u32 %r7, %r7, %r8; mov.u32 %r8, %ntid.z; mul.lo.u32 %r7, %r7, %r8;
  sub.u32 %r7, %r7, %r1; sub.u32 %r7, %r7, 1; shl.b32 %r7, %r7, 2; add.u32 %r7, %r7, %r5; ld.shared.u32 %r2, [%r7];
  st.global.u32 [%rd2], %r2;
  ret;
}
.visible .entry votes(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<4>;
  call (%r1), element, ();
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd1]; and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 1;
  bar.red.popc.u32 %r4, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, %p1;
  @%p2 add.u32 %r4, %r4, 1000;
  @%p3 add.u32 %r4, %r4, 2000;
  ld.global.u32 %r5, [%rd2]; add.u32 %r5, %r5, %r4; st.global.u32 [%rd2], %r5;
  exit;
}
.visible .entry waits(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<4>;
  call (%r1), element, ();
  ld.param.u32 %r3, [n]; and.b32 %r4, %r1, 63; setp.ge.u32 %p1, %r4, %r3;
  @%p1 ret;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd1];
  bar.sync 0;
  mad.lo.u32 %r2, %r2, 3, 1; st.global.u32 [%rd2], %r2;
  ret;
}
)";

// The same with the function's text in place of each call, which footprints do not follow where it returns in a
// register.
std::string without_calls() {
  std::string text(kPartsPtx);
  const std::size_t function = text.find(".func"), body = text.find('{', function), end = text.find("ret;", body);
  std::string inside = text.substr(body, end - body) + "mov.u32 %r1, %r6; }";
  text.erase(function, text.find('}', end) + 1 - function);
  const std::string_view result = "%at, %r3, 64", call = "call (%r1), element, ();";
  inside.replace(inside.find(result), 3, "%r6");
  for (std::size_t r = 0; (r = inside.find("%r", r)) != std::string::npos; r += 2) inside.replace(r, 2, "%e");
  inside.replace(inside.find("mov.u32 %e1, %e6; }"), 12, "mov.u32 %r1,");
  for (std::size_t at = 0; (at = text.find(call, at)) != std::string::npos; at += inside.size())
    text.replace(at, call.size(), inside);
  return text;
}

constexpr std::uint32_t kMostBlocks = 24, kOfBlock = 64, kElements = kMostBlocks * kOfBlock;

class FusedLowering : public testing::Test {
 protected:
  void SetUp() override {
    // Each chain is a module of its own: compiling them all takes minutes.
    setenv("PERGOLA_CPU_ENGINE", "interpreter", 1);
    device_ = open_device("cpu").value();
    unsetenv("PERGOLA_CPU_ENGINE");
    load(std::string(kPartsPtx));
    queue_ = device_->create_queue().value();
    for (int i = 0; i < 3; ++i) {
      arrays_.push_back(device_->allocate(kElements * 4, device::MemoryKind::kDevice).value());
      allocations_.push_back({arrays_.back()->address(), arrays_.back()->size_bytes()});
    }
  }
  void load(std::string text) {
    text_ = std::make_shared<const std::string>(std::move(text));
    auto module = ptx::parse(*text_, "parts.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    const Status right = ptx::verify(*module);
    ASSERT_TRUE(right.ok()) << right.message();
    module_ = device_->load({&*module, *text_, "parts.ptx"}).value();
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void add(const char* name, device::Dim3 grid, device::Dim3 block, std::size_t x, std::size_t y, std::uint32_t n) {
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(name).value();
    work.config.grid = grid;
    work.config.block = block;
    if (name == std::string_view("turn")) work.config.dynamic_shared_bytes = kOfBlock * 4;
    work.parameters.resize(work.kernel->signature().parameter_bytes);
    const device::DeviceAddress from = arrays_[x]->address(), to = arrays_[y]->address();
    std::memcpy(work.parameters.data(), &from, sizeof from);
    std::memcpy(work.parameters.data() + 8, &to, sizeof to);
    std::memcpy(work.parameters.data() + 16, &n, sizeof n);
    device::GraphNode node;
    node.work = std::move(work);
    if (!plain_.nodes.empty()) node.after = {static_cast<device::NodeId>(plain_.nodes.size() - 1)};
    plain_.nodes.push_back(std::move(node));
    kernels_.push_back(std::make_shared<BlockKernel>(device_, text_, "parts.ptx", name, ""));
  }
  void add_random() {
    const char* const names[] = {"place", "turn", "votes", "waits"};
    const device::Dim3 grids[] = {{1, 1, 1}, {5, 1, 1}, {3, 2, 1}, {2, 3, 4}, {1, 4, 1}, {24, 1, 1}};
    const device::Dim3 blocks[] = {{32, 1, 1}, {7, 1, 1}, {64, 1, 1}, {4, 4, 2}, {8, 4, 2}, {3, 3, 3}, {20, 2, 1}};
    const std::size_t x = below(3);
    add(names[below(4)], grids[below(6)], blocks[below(7)], x, (x + 1 + below(2)) % 3, 1 + below(70));
  }
  void begin() {
    plain_ = {};
    plain_.buffers = arrays_;
    kernels_.clear();
  }
  std::vector<std::uint32_t> run(const device::GraphSpec& spec) {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      std::vector<std::uint32_t> values(kElements);
      for (std::uint32_t k = 0; k < kElements; ++k) values[k] = static_cast<std::uint32_t>(7 * i + 13 * k);
      EXPECT_TRUE(queue_->copy_to_device(arrays_[i], 0, std::as_bytes(std::span(values))).ok());
    }
    auto graph = device_->instantiate(spec);
    EXPECT_TRUE(graph.ok()) << graph.message();
    EXPECT_TRUE((*graph)->launch(*queue_).ok());
    std::vector<std::uint32_t> all(arrays_.size() * kElements);
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      EXPECT_TRUE(
          queue_->copy_to_host(std::as_writable_bytes(std::span(all).subspan(i * kElements, kElements)), arrays_[i], 0)
              .ok());
    const Status status = queue_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return all;
  }
  Result<LoweredFused> fused(const FusedOptions& options) {
    return lower_fused(*device_, plain_, kernels_, allocations_, options);
  }

  device::DevicePtr device_;
  std::shared_ptr<const std::string> text_;
  device::ModulePtr module_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::BufferPtr> arrays_;
  std::vector<BlockAllocation> allocations_;
  std::vector<std::shared_ptr<BlockKernel>> kernels_;
  device::GraphSpec plain_;
  std::mt19937 random_;
  static constexpr std::size_t kChains = test_support::rounds(150);
};

TEST_F(FusedLowering, RandomChains_HaveTheBitsOfTheStream) {
  const char* const given = std::getenv("PERGOLA_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed %u\n", seed);
  random_.seed(seed);
  std::size_t parts = 0, barriers = 0;
  for (std::size_t chain = 0; chain < kChains; ++chain) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", chain " + std::to_string(chain));
    begin();
    const std::uint32_t length = 2 + below(12);
    for (std::uint32_t k = 0; k < length; ++k) add_random();
    const std::vector<std::uint32_t> right = run(plain_);
    FusedOptions options;
    options.blocks = 1;
    options.most_warps = 1 + below(32);
    options.most_waves = 1 + below(40);
    options.shortest = 1 + below(3);
    const auto lowered = fused(options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    for (const FusedSegment& segment : lowered->segments) parts += segment.count, barriers += segment.barriers;
    ASSERT_EQ(run(lowered->spec), right);
  }
  EXPECT_GT(parts, kChains);
  EXPECT_GT(barriers, kChains / 2);
  EXPECT_GT(parts, barriers + kChains) << "where launches touch nothing in common there is none";
}

// What is fused keeps its place among what is not.
TEST_F(FusedLowering, ALaunchThatIsTooLarge_StaysBetweenTwoRuns) {
  begin();
  for (int i = 0; i < 4; ++i) add("place", {1, 1, 1}, {32, 1, 1}, 0, 1, 5);
  add("turn", {24, 1, 1}, {64, 1, 1}, 1, 2, 0);
  for (int i = 0; i < 5; ++i) add("votes", {2, 1, 1}, {64, 1, 1}, 2, 0, 0);
  const auto lowered = fused({.blocks = 1, .most_warps = 8, .most_waves = 1});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  ASSERT_EQ(lowered->spec.nodes.size(), 3u);
  EXPECT_THAT(lowered->spec.nodes[0].after, testing::IsEmpty());
  EXPECT_THAT(lowered->spec.nodes[1].after, testing::ElementsAre(0));
  EXPECT_THAT(lowered->spec.nodes[2].after, testing::ElementsAre(1));
  EXPECT_EQ(lowered->plain_reasons[4], "its 48 warps are too many for 1 block of 8");
  ASSERT_EQ(lowered->segments.size(), 2u);
  EXPECT_EQ(lowered->segments[0].shape, (transform::FusedShape{1, 1}));
  EXPECT_EQ(lowered->segments[1].shape, (transform::FusedShape{1, 4}));
  EXPECT_EQ(run(lowered->spec), run(plain_));
}

TEST_F(FusedLowering, WhatCannotBe_SaysWhy) {
  begin();
  add("waits", {2, 1, 1}, {64, 1, 1}, 0, 1, 40);  // threads leave before the barrier
  add("turn", {2, 1, 1}, {40, 1, 1}, 1, 2, 0);    // a block ends within a warp
  add("place", {2, 1, 1}, {64, 1, 1}, 0, 1, 5);
  kernels_.back() = nullptr;
  add("place", {2, 1, 1}, {64, 1, 1}, 0, 1, 5);  // it could, but is alone
  const auto lowered = fused({.blocks = 1});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  EXPECT_TRUE(lowered->segments.empty());
  EXPECT_EQ(lowered->spec.nodes.size(), 4u);
  EXPECT_THAT(lowered->plain_reasons[0], HasSubstr("Kernel 'waits' cannot be part of a fused kernel"));
  EXPECT_THAT(lowered->plain_reasons[1], HasSubstr("blocks of 40 threads meet at barriers, and end within a warp"));
  EXPECT_THAT(lowered->plain_reasons[2], HasSubstr("PTX is not known"));
  EXPECT_THAT(lowered->plain_reasons[3], HasSubstr("too few launches in a row"));
  EXPECT_EQ(run(lowered->spec), run(plain_));
}

TEST_F(FusedLowering, ATableThatIsTooLong_IsTwo) {
  begin();
  for (int i = 0; i < 900; ++i) add("place", {1, 1, 1}, {8, 1, 1}, i % 3, (i + 1) % 3, 1);
  const auto lowered = fused({.blocks = 1});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  EXPECT_EQ(lowered->segments.size(), 2u);
  EXPECT_EQ(run(lowered->spec), run(plain_));
}

TEST_F(FusedLowering, ADeviceWithoutClusters_RefusesThem) {
  begin();
  add("place", {1, 1, 1}, {8, 1, 1}, 0, 1, 1);
  EXPECT_EQ(fused({.blocks = 8}).code(), Code::kUnsupported);
}

// In columns: blocks of all shapes that hand their elements on, and now and then a launch whose blocks lie otherwise.
TEST_F(FusedLowering, RandomColumns_HaveTheBitsOfTheStream) {
  load(without_calls());
  const char* const given = std::getenv("PERGOLA_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed %u\n", seed);
  random_.seed(seed);
  std::size_t parts = 0, kept = 0, cut = 0, conflicting = 0;
  for (std::size_t chain = 0; chain < kChains; ++chain) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", chain " + std::to_string(chain));
    begin();
    const std::uint32_t length = 2 + below(12);
    const device::Dim3 grids[] = {{24, 1, 1}, {4, 3, 2}, {12, 1, 1}, {2, 3, 4}, {3, 2, 1}};
    const device::Dim3 blocks[] = {{32, 1, 1}, {7, 1, 1}, {64, 1, 1}, {4, 4, 2}, {8, 4, 2}, {3, 3, 3}, {20, 2, 1}};
    const char* const names[] = {"place", "turn", "votes", "waits"};
    device::Dim3 grid = grids[below(5)];
    for (std::uint32_t k = 0; k < length; ++k) {
      if (below(5) == 0) grid = grids[below(5)];
      const std::size_t x = below(3);
      add(names[below(8) == 0 ? 3 : below(3)], grid, blocks[below(7)], x, (x + 1 + below(2)) % 3, 1 + below(70));
    }
    const std::vector<std::uint32_t> right = run(plain_);
    FusedOptions options;
    options.columns = true;
    options.most_warps = 2 + below(31);
    options.shortest = 2;
    const auto lowered = fused(options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    for (const FusedSegment& segment : lowered->segments) {
      parts += segment.count, cut += segment.columns < 24;
      conflicting += segment.count > 2;  // a third launch joins only those that it needs
      ASSERT_GE(segment.columns, 2u);
      ASSERT_EQ(segment.shape.blocks, 1u);
    }
    for (const std::string& reason : lowered->plain_reasons) kept += !reason.empty();
    ASSERT_EQ(run(lowered->spec), right);
  }
  EXPECT_GT(parts, kChains * 4 / 3);
  EXPECT_GT(kept, kChains / 3);
  EXPECT_GT(conflicting, kChains / 3);
  EXPECT_GT(cut, kChains * 2 / 15);
}

TEST_F(FusedLowering, Columns_AreBlocksOfOneLaunch) {
  load(without_calls());
  begin();
  add("place", {24, 1, 1}, {64, 1, 1}, 0, 1, 5);
  add("turn", {24, 1, 1}, {64, 1, 1}, 1, 2, 0);
  add("votes", {4, 3, 2}, {32, 1, 1}, 2, 0, 0);
  const auto lowered = fused({.most_warps = 32, .shortest = 2, .columns = true});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  ASSERT_EQ(lowered->segments.size(), 1u) << testing::PrintToString(lowered->plain_reasons);
  EXPECT_EQ(lowered->segments[0].columns, 24u);
  EXPECT_EQ(lowered->segments[0].shape, (transform::FusedShape{1, 2, transform::FusedColumns::kAdjacent}));
  EXPECT_EQ(lowered->segments[0].barriers, 2u);
  ASSERT_EQ(lowered->spec.nodes.size(), 1u);
  const auto& work = std::get<device::KernelNode>(lowered->spec.nodes[0].work);
  EXPECT_EQ(work.config.grid, (device::Dim3{24, 1, 1}));
  EXPECT_EQ(work.config.block, (device::Dim3{64, 1, 1}));
  EXPECT_EQ(run(lowered->spec), run(plain_));
}

// A launch with as many blocks, of which each overwrites what another one needs, ends the run.
TEST_F(FusedLowering, ALaunchThatCrossesColumns_EndsThem) {
  load(without_calls());
  begin();
  add("place", {24, 1, 1}, {64, 1, 1}, 0, 1, 5);
  add("turn", {24, 1, 1}, {64, 1, 1}, 1, 2, 0);
  add("place", {24, 1, 1}, {64, 1, 1}, 0, 1, 5);
  plain_.nodes[2].after = {1};
  // It reads one element further on.
  auto& crossing = std::get<device::KernelNode>(plain_.nodes[2].work).parameters;
  device::DeviceAddress from = arrays_[2]->address() + std::uint64_t{4} * kOfBlock;
  std::memcpy(crossing.data(), &from, sizeof from);
  auto& shorter = std::get<device::KernelNode>(plain_.nodes[2].work).config;
  shorter.grid = {23, 1, 1};
  const auto lowered = fused({.most_warps = 32, .shortest = 2, .columns = true});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  ASSERT_EQ(lowered->segments.size(), 1u) << testing::PrintToString(lowered->plain_reasons);
  EXPECT_EQ(lowered->segments[0].count, 2u);
  EXPECT_EQ(lowered->plain_reasons[2], "it has no columns with the launches before and after it");
  EXPECT_EQ(run(lowered->spec), run(plain_));
}

// A session whose graphs are fused, or in columns, gives what it gives without.
class FusedSession : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, FusedSession, testing::Values("fused", "columns"),
                         [](const auto& way) { return std::string(way.param); });
TEST_P(FusedSession, HasTheBitsOfLaunches) {
  std::vector<std::uint32_t> got[2];
  for (const bool fuses : {false, true}) {
    auto session =
        create_session("cpu", fuses ? std::string("graphs=always,blocks=") + GetParam() : std::string("graphs=off"));
    ASSERT_TRUE(session.ok()) << session.message();
    auto module = (*session)->load_text(without_calls(), {.name = "parts.ptx"});
    ASSERT_TRUE(module.ok()) << module.message();
    session::ArrayPtr arrays[2];
    for (session::ArrayPtr& array : arrays) {
      array = (*session)->allocate(session::ElementType::kU32, 0, kElements).value();
      std::vector<std::uint32_t> values(kElements, 1);
      ASSERT_TRUE(array->write(0, std::as_bytes(std::span(values))).ok());
    }
    auto& scheduler = dynamic_cast<LocalSession&>(**session).scheduler();
    scheduler.set_graph_patience(std::chrono::seconds(10));
    for (int turn = 0; turn < 40; ++turn) {
      for (std::uint32_t i = 0; i < 70; ++i) {
        const auto kernel = (*module)->kernel(i % 3 == 0 ? "place" : i % 3 == 1 ? "turn" : "votes").value();
        const std::vector<session::Argument> arguments{session::ArrayArgument{arrays[i % 2], 0},
                                                       session::ArrayArgument{arrays[(i + 1) % 2], 0},
                                                       session::Number{session::ElementType::kU32, i}};
        const Status status =
            kernel->launch({.grid = {1 + i / 7 % 5, 1, 1}, .block = {64, 1, 1}, .dynamic_shared_bytes = 256}, arguments,
                           nullptr, nullptr);
        ASSERT_TRUE(status.ok()) << status.message();
      }
      if (turn % 5 == 0) scheduler.settle_graphs();
    }
    got[fuses].resize(2 * kElements);
    for (int a = 0; a < 2; ++a)
      ASSERT_TRUE(
          arrays[a]->read(0, std::as_writable_bytes(std::span(got[fuses]).subspan(a * kElements, kElements))).ok());
    if (fuses) {
      EXPECT_GT(scheduler.graph_counters().replaced, 0u);
    }
  }
  EXPECT_EQ(got[0], got[1]);
}

}  // namespace
}  // namespace pergola::runtime
