// Single blocks in the order asked for, and what they take by the weights, worked out by hand.
#include "src/device/cpu/blocks/block_runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/execution_hook.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu::blocks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Runner : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = create_cpu_device({.sms = 1}, create_interpreter());
    ASSERT_TRUE(opened.ok()) << opened.message();
    device_ = std::move(opened).value();
    auto memory = device_->allocate(4096, MemoryKind::kDevice);
    ASSERT_TRUE(memory.ok());
    memory_ = std::move(memory).value();
    std::memset(memory_->host_pointer(), 0, 4096);
  }

  // A kernel with the pointer `p` in %rd1, of these instructions.
  Result<BlockLaunch> prepare(const std::string& body, Dim3 grid, Dim3 block) {
    const std::string text = fmt::format(
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n"
        "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<8>;\n  .reg .f32 %f<4>;\n"
        "  .shared .align 4 .b8 tile[4096];\n  ld.param.u64 %rd1, [p];\n{}  ret;\n}}\n",
        body);
    PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(text, "test.ptx"));
    PERGOLA_ASSIGN(ModulePtr module, device_->load({&parsed, text, "test.ptx"}));
    PERGOLA_ASSIGN(const Kernel* kernel, module->kernel("k"));
    PERGOLA_ASSIGN(const BlockRunner runner, BlockRunner::on(device_));
    const std::uint64_t address = memory_->address();
    LaunchConfig config;
    config.grid = grid, config.block = block;
    return runner.prepare(module, *kernel, config, std::as_bytes(std::span(&address, 1)));
  }

  BlockWork work_of(const std::string& body, std::uint32_t threads) {
    auto prepared = prepare(body, {1, 1, 1}, {threads, 1, 1});
    EXPECT_TRUE(prepared.ok()) << prepared.message();
    if (!prepared.ok()) return {};
    BlockMeter meter;
    auto work = prepared->measure(0, meter);
    EXPECT_TRUE(work.ok()) << work.message();
    return work.ok() ? work.value() : BlockWork{};
  }

  static std::uint64_t text(const BlockWork& work) { return work.chain_cycles[0]; }
  static std::uint64_t assembled(const BlockWork& work) { return work.chain_cycles[1]; }

  DevicePtr device_;
  BufferPtr memory_;
};

TEST_F(Runner, RunsBlocksInTheOrderAskedFor) {
  auto prepared = prepare(
      "  mov.u32 %r1, %ctaid.y;\n  atom.global.add.u32 %r2, [%rd1], 1;\n  mad.wide.u32 %rd2, %r2, 4, %rd1;\n"
      "  st.global.u32 [%rd2+4], %r1;\n",
      {1, 3, 1}, {1, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_EQ(prepared->blocks(), 3u);
  for (const std::uint32_t block : {2u, 0u, 1u}) {
    const Status status = prepared->run(block);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::uint32_t seen[4];
  std::memcpy(seen, memory_->host_pointer(), sizeof seen);
  EXPECT_THAT(seen, ElementsAre(3, 2, 0, 1));
}

// Each takes a number, and waits until the other has one, an instruction at a time.
TEST_F(Runner, BlocksThatGoOnByTurns_MayWaitForEachOther) {
  auto prepared = prepare(
      "  atom.global.add.u32 %r1, [%rd1], 1;\nWAIT:\n  ld.volatile.global.u32 %r2, [%rd1];\n"
      "  setp.ne.u32 %p1, %r2, 2;\n  @%p1 bra WAIT;\n",
      {2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_THAT(prepared->run(0).message(), HasSubstr("waits for another block"));
  std::memset(memory_->host_pointer(), 0, 4096);
  int seen = 0;
  ExecutionHook hook;
  hook.issued = [&seen](std::uint32_t, const interp::FunctionCode&, std::uint32_t, std::uint32_t) { ++seen; };
  hook.accessed = [](std::uintptr_t, std::uint32_t, MemorySpace) {};
  auto first = prepared->start(0, &hook), second = prepared->start(1, nullptr);
  ASSERT_TRUE(first.ok() && second.ok());
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(first->step(1).value());
  EXPECT_EQ(seen, 20) << "one at a time";
  while (!second->step(1).value()) {
  }
  while (!first->step(1).value()) {
  }
  EXPECT_EQ(prepared->start(2, nullptr).code(), Code::kInvalidArgument);
}

// A chain of four: the parameter at 6, the load at 222, the sum at 228, and the store has arrived at 444.
TEST_F(Runner, ChainOfALoadAndAStore) {
  const BlockWork work =
      work_of("  ld.global.u32 %r1, [%rd1];\n  add.s32 %r1, %r1, 1;\n  st.global.u32 [%rd1], %r1;\n", 32);
  EXPECT_EQ(work.instructions, 5u);
  EXPECT_THAT(work.chain_cycles, ElementsAre(6u + 216 + 6 + 216, 6u + 216 + 6 + 216));
  EXPECT_THAT(work.issue_cycles, ElementsAre(5, 0, 0, 0));
  EXPECT_EQ(work.requests, 2u);
  EXPECT_EQ(work.port_cycles, 2u);
  const BlockCost cost = cost_of(work);
  EXPECT_DOUBLE_EQ(cost.alone_ns, 444 / 1.417);
  EXPECT_DOUBLE_EQ(cost.sm_share, 2 / 444.);
}

// Two loads that do not need each other are under way together: the second a cycle behind the first.
TEST_F(Runner, IndependentLoadsOverlap) {
  const BlockWork work = work_of(
      "  ld.global.u32 %r1, [%rd1];\n  ld.global.u32 %r2, [%rd1+4];\n  add.s32 %r1, %r1, %r2;\n"
      "  add.s32 %r1, %r1, 1;\n",
      1);
  EXPECT_THAT(work.chain_cycles, ElementsAre(6u + 1 + 216 + 6 + 6, 6u + 1 + 216 + 6 + 6));
}

// 32 lanes 128 bytes apart are 32 requests and sectors, side by side one request of four sectors.
TEST_F(Runner, CountsRequestsAndSectors) {
  const std::string apart =
      "  mov.u32 %r1, %tid.x;\n  mad.wide.u32 %rd2, %r1, 128, %rd1;\n  ld.global.u32 %r2, [%rd2];\n";
  const std::string beside =
      "  mov.u32 %r1, %tid.x;\n  mad.wide.u32 %rd2, %r1, 4, %rd1;\n  ld.global.u32 %r2, [%rd2];\n";
  EXPECT_EQ(work_of(apart, 32).requests, 32u);
  EXPECT_EQ(work_of(apart, 32).port_cycles, 16u);
  EXPECT_EQ(work_of(beside, 32).requests, 1u);
  EXPECT_EQ(work_of(beside, 32).port_cycles, 2u);
  EXPECT_EQ(text(work_of(apart, 32)), text(work_of(beside, 32)) + 14);
}

// Words of one bank take turns.
TEST_F(Runner, CountsConflictsOfSharedMemory) {
  const auto store = [](int stride) {
    return fmt::format(
        "  mov.u32 %r1, %tid.x;\n  mul.lo.s32 %r1, %r1, {};\n  mov.u32 %r2, tile;\n"
        "  add.s32 %r2, %r2, %r1;\n  st.shared.u32 [%r2], %r1;\n",
        stride);
  };
  EXPECT_EQ(text(work_of(store(4), 32)) + 31, text(work_of(store(128), 32)));
  EXPECT_EQ(work_of(store(4), 32).issue_cycles[0] + 31, work_of(store(128), 32).issue_cycles[0]);
  EXPECT_EQ(work_of(store(4), 32).requests, 0u);
}

// The second warp has nothing to do before the barrier, and waits there for the first's load.
TEST_F(Runner, BarrierWaitsForTheSlowest) {
  const std::string before =
      "  mov.u32 %r1, %tid.x;\n  setp.ge.u32 %p1, %r1, 32;\n  @%p1 bra THERE;\n  ld.global.u32 %r2, [%rd1];\n"
      "  add.s32 %r2, %r2, 1;\n  mov.u32 %r3, %r2;\nTHERE:\n";
  const std::string behind = "  @!%p1 bra DONE;\n  ld.global.u32 %r2, [%rd1+4];\nDONE:\n";
  const BlockWork without = work_of(before + behind, 64), with = work_of(before + "  bar.sync 0;\n" + behind, 64);
  for (const std::size_t order : {0u, 1u}) {
    EXPECT_LT(without.chain_cycles[order], 300u);
    EXPECT_GT(with.chain_cycles[order], 2u * 216);
    EXPECT_LT(with.chain_cycles[order], 2u * 216 + 60);
  }
}

// Two words from global to shared memory. In the order of the text the second load waits for the first store, at 222;
// an assembler puts it behind the first load, and the stores at 222 and 223.
TEST_F(Runner, AssembledOrder_HasLoadsFirst) {
  const BlockWork work = work_of(
      "  ld.global.u32 %r1, [%rd1];\n  st.shared.u32 [tile], %r1;\n  ld.global.u32 %r2, [%rd1+4];\n"
      "  st.shared.u32 [tile+4], %r2;\n",
      32);
  EXPECT_EQ(text(work), 6u + 216 + 1 + 216 + 23);
  EXPECT_EQ(assembled(work), 6u + 216 + 1 + 23);
  EXPECT_EQ(cost_of(work, IssueOrder::kAssembled).alone_ns, 246 / 1.417);
}

// A load passes no store to its space, unless nothing that is written can change what it reads.
TEST_F(Runner, AssembledOrder_KeepsLoadsBehindStores) {
  const auto chain = [&](const char* load, std::size_t order, const char* from = "%rd1") {
    return work_of(fmt::format("  ld.global.u32 %r1, [%rd1];\n  st.global.u32 [%rd1+8], %r1;\n"
                               "  {} %r2, [{}+4];\n  add.s32 %r2, %r2, 1;\n",
                               load, from),
                   32)
        .chain_cycles[order];
  };
  EXPECT_EQ(chain("ld.global.u32", 0), 6u + 216 + 1 + 216 + 6);
  EXPECT_EQ(chain("ld.global.u32", 1), 6u + 216 + 1 + 216 + 6);
  EXPECT_EQ(chain("ld.global.nc.u32", 1), 6u + 216 + 216);  // the store's
  EXPECT_EQ(chain("ld.shared.u32", 1, "tile"), 6u + 216 + 216);
}

// Nothing is moved past a place where control can arrive, a volatile access or an atomic.
TEST_F(Runner, AssembledOrder_EndsWithARun) {
  const auto chain = [&](const std::string& between, const std::string& behind = "") {
    return assembled(
        work_of("  setp.ne.u32 %p1, %r1, %r1;\n  @%p1 bra THERE;\n  ld.global.u32 %r1, [%rd1];\n"
                "  add.s32 %r1, %r1, 1;\n" +
                    between + "  ld.global.u32 %r2, [%rd1+4];\n" + behind,
                1));
  };
  const std::uint64_t one_run = chain("", "THERE:\n");
  EXPECT_LT(one_run, 300u);
  EXPECT_GT(chain("THERE:\n"), one_run + 200);
  EXPECT_GT(chain("  membar.gl;\n", "THERE:\n"), one_run + 200);
  EXPECT_GT(chain("  ld.volatile.global.u32 %r3, [%rd1];\n", "THERE:\n"), one_run + 200);
}

TEST_F(Runner, Room_IsOfWholeWarps) {
  auto prepared = prepare("", {1, 1, 1}, {33, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_EQ(prepared->room().threads, 64u);
  EXPECT_EQ(prepared->room().shared_bytes, 4096u);
}

TEST_F(Runner, WeightsTellKindsApart) {
  const auto chain = [&](const std::string& body) { return text(work_of(body, 1)); };
  EXPECT_EQ(chain("  add.s32 %r1, %r2, %r3;\n  add.s32 %r1, %r1, 1;\n") - chain("  add.s32 %r1, %r2, %r3;\n"), 6u);
  EXPECT_EQ(chain("  div.s32 %r1, %r2, 3;\n  div.s32 %r1, %r1, 3;\n") - chain("  div.s32 %r1, %r2, 3;\n"), 120u);
  EXPECT_EQ(
      chain("  div.rn.f32 %f1, %f2, %f3;\n  div.rn.f32 %f1, %f1, %f3;\n") - chain("  div.rn.f32 %f1, %f2, %f3;\n"),
      60u);
}

TEST_F(Runner, Refusals) {
  EXPECT_THAT(BlockRunner::on(nullptr).message(), HasSubstr("interpreter tier"));
  auto prepared = prepare("", {2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_THAT(prepared->run(2).message(), HasSubstr("has no block 2: its grid has 2"));
  EXPECT_FALSE(prepare("", {1, 1, 1}, {2048, 1, 1}).ok());
}

TEST_F(Runner, BlockThatWaitsForAnother_IsRefused) {
  auto prepared =
      prepare("AGAIN:\n  ld.volatile.global.u32 %r1, [%rd1];\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 bra AGAIN;\n",
              {2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  const Status status = prepared->run(1);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("waits for another block"));
}

TEST_F(Runner, FaultIsTheLaunchs) {
  auto prepared = prepare("  mov.u32 %r1, %ctaid.x;\n  setp.eq.u32 %p1, %r1, 1;\n  @%p1 trap;\n", {2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_TRUE(prepared->run(0).ok());
  EXPECT_THAT(prepared->run(1).message(), HasSubstr("block (1,0,0)"));
  EXPECT_FALSE(prepared->run(0).ok());
}

}  // namespace
}  // namespace pergola::device::cpu::blocks
