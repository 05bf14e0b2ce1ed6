// --check: races and uninitialised reads of shared memory are found and told apart from what is ordered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu {
namespace {

using testing::HasSubstr;

class SharedCheckTest : public testing::Test {
 protected:
  // Runs a kernel of `threads` threads: %r1 is the thread, %r2 the address of its word of `tile`, %r3 its lane.
  Status run(const std::string& body, std::uint32_t threads = 64) {
    CpuOptions options;
    options.sms = 1;
    auto device = create_cpu_device(options, create_interpreter({.check = true}));
    if (!device.ok()) return device.status();
    const std::string text =
        ".version 7.8\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n.global .align 4 .b32 flag;\n.visible .entry k()\n{\n"
        "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n  .reg .b16 %h<2>;\n  .shared .align 16 .b8 tile[4096];\n"
        "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, tile;\n  mad.lo.u32 %r2, %r1, 4, %r2;\n  and.b32 %r3, %r1, 31;\n" +
        body + "  ret;\n}\n";
    auto parsed = ptx::parse(text, "k.ptx");
    if (!parsed.ok()) return parsed.status();
    PERGOLA_ASSIGN(ModulePtr module, (*device)->load({&*parsed, text, "k.ptx"}));
    PERGOLA_ASSIGN(const Kernel* kernel, module->kernel("k"));
    PERGOLA_ASSIGN(auto queue, (*device)->create_queue());
    LaunchConfig config;
    config.block = {threads, 1, 1};
    PERGOLA_TRY(queue->launch(module, *kernel, config, {}));
    return queue->synchronize();
  }
  void expect_fine(const std::string& body, std::uint32_t threads = 64) {
    const Status status = run(body, threads);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  void expect_race(const std::string& body, const std::string& message = "races with thread", std::uint32_t threads = 64) {
    const Status status = run(body, threads);
    EXPECT_EQ(status.code(), Code::kDeviceFault) << body;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
};

// Every thread stores its own word, reads the next one's, or one of the other warp.
constexpr const char* kInit = "  st.shared.u32 [%r2], 0;\n  bar.sync 0;\n";
constexpr const char* kStore = "  .loc 1 7 1\n  st.shared.u32 [%r2], %r1;\n";
constexpr const char* kReadNext = "  xor.b32 %r4, %r2, 4;\n  .loc 1 9 1\n  ld.shared.u32 %r5, [%r4];\n";
constexpr const char* kReadFar = "  xor.b32 %r4, %r2, 128;\n  .loc 1 9 1\n  ld.shared.u32 %r5, [%r4];\n";

TEST_F(SharedCheckTest, BarrierBetweenStoreAndRead_IsFine) {
  expect_fine(std::string(kStore) + "  bar.sync 0;\n" + kReadFar);
  expect_fine(std::string(kStore) + "  barrier.sync 3, 64;\n" + kReadFar);
}

// Its first contents are the driver's; its 288 bytes lie behind the kernel's own.
TEST_F(SharedCheckTest, ReservedSharedMemory_CountsAsWritten) {
  const std::string reserved = "  mov.u32 %r4, %reserved_smem_offset_1;\n";
  expect_fine(reserved + "  red.shared.and.b32 [%r4], 0;\n  bar.sync 0;\n  ld.shared.u32 %r5, [%r4+284];\n", 32);
  expect_race(reserved + "  ld.shared.u32 %r5, [%r4+-4];\n", "which no thread has written", 1);
  expect_race(reserved + "  st.shared.u32 [%r4+288], 0;\n", "which has 4384 bytes", 1);
}

TEST_F(SharedCheckTest, MissingBarrier_NamesBothThreadsAndLines) {
  const Status status = run(std::string(kStore) + kReadNext, 32);
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_EQ(status.message(),
            "Kernel 'k' at k.cu:9 (ld.shared.u32): thread (0,0,0) of block (0,0,0) races with thread (1,0,0): it reads "
            "offset 4 of the block's shared memory ('tile' + 4), which that thread has written at k.cu:7 (st.shared.u32), "
            "and nothing orders the two accesses (a barrier is missing).");
}

TEST_F(SharedCheckTest, WriteAfterRead_IsARaceToo) {
  const std::string read_then_write = std::string(kStore) + "  bar.sync 0;\n" + kReadFar;
  expect_race(read_then_write + "  add.u32 %r5, %r5, 1;\n  .loc 1 11 1\n  st.shared.u32 [%r2], %r5;\n", "which that thread has");
  expect_fine(read_then_write + "  bar.sync 0;\n  st.shared.u32 [%r2], %r5;\n");
}

TEST_F(SharedCheckTest, LoopThatForgetsTheSecondBarrier_IsFound) {
  const char* const kLoop =
      "  mov.u32 %r6, 0;\nL:\n  add.u32 %r5, %r1, %r6;\n  st.shared.u32 [%r2], %r5;\n  bar.sync 0;\n  xor.b32 %r4, %r2, 128;\n"
      "  ld.shared.u32 %r5, [%r4];\n  {}  add.u32 %r6, %r6, 1;\n  setp.lt.u32 %p1, %r6, 3;\n  @%p1 bra L;\n";
  expect_race(fmt::format(fmt::runtime(kLoop), ""));
  expect_fine(fmt::format(fmt::runtime(kLoop), "bar.sync 0;\n"));
}

TEST_F(SharedCheckTest, WarpBarrier_OrdersItsLanesAlone) {
  expect_fine(std::string(kStore) + "  bar.warp.sync 0xffffffff;\n" + kReadNext);
  expect_race(kInit + std::string(kStore) + "  bar.warp.sync 0xffffffff;\n" + kReadFar);
  // A shuffle orders nothing.
  expect_race(std::string(kStore) + "  shfl.sync.idx.b32 %r6, %r1, 0, 31, 0xffffffff;\n" + kReadNext);
}

TEST_F(SharedCheckTest, NamedBarriers_OrderWhoMeetsThere) {
  // Warp 0 produces and arrives, warp 1 waits and reads.
  const char* const kProduce =
      "  setp.ge.u32 %p1, %r1, 32;\n  @%p1 bra READ;\n  st.shared.u32 [%r2], %r1;\n  {}\n  ret;\nREAD:\n  {}\n"
      "  xor.b32 %r4, %r2, 128;\n  ld.shared.u32 %r5, [%r4];\n";
  expect_fine(fmt::format(fmt::runtime(kProduce), "bar.arrive 1, 64;", "bar.sync 1, 64;"));
  // The other way round the reader has only arrived: nothing holds it back.
  expect_race(fmt::format(fmt::runtime(kProduce), "bar.sync 1, 64;", "bar.arrive 1, 64;"));
}

TEST_F(SharedCheckTest, ReleaseAndAcquire_OrderThroughSharedAndGlobalFlags) {
  const char* const kPass =
      "  mov.u64 %rd1, flag;\n  setp.eq.u32 %p1, %r1, 32;\n  @%p1 bra READ;\n  setp.ne.u32 %p2, %r1, 0;\n  @%p2 ret;\n"
      "  st.shared.u32 [tile], 5;\n  {}\n  ret;\nREAD:\nSPIN:\n  {}\n  setp.eq.u32 %p3, %r5, 0;\n  @%p3 bra SPIN;\n  {}\n"
      "  ld.shared.u32 %r6, [tile];\n";
  const auto pass = [&](const char* send, const char* look, const char* then = "") {
    return fmt::format(fmt::runtime(kPass), send, look, then);
  };
  expect_fine(pass("st.release.cta.global.u32 [%rd1], 1;", "ld.acquire.cta.global.u32 %r5, [%rd1];"));
  expect_fine(pass("membar.cta;\n  st.volatile.global.u32 [%rd1], 1;", "ld.volatile.global.u32 %r5, [%rd1];", "membar.cta;"));
  expect_fine(pass("atom.release.cta.global.exch.b32 %r6, [%rd1], 1;", "atom.acquire.cta.global.or.b32 %r5, [%rd1], 0;"));
  expect_race(pass("st.volatile.global.u32 [%rd1], 1;", "ld.volatile.global.u32 %r5, [%rd1];"));
  expect_race(pass("membar.cta;\n  st.volatile.global.u32 [%rd1], 1;", "ld.volatile.global.u32 %r5, [%rd1];"));
  const std::string init = "  setp.eq.u32 %p1, %r1, 0;\n  @%p1 st.shared.u32 [tile+64], 0;\n  bar.sync 0;\n";
  expect_fine(init + pass("st.release.cta.shared.u32 [tile+64], 1;", "ld.acquire.cta.shared.u32 %r5, [tile+64];"));
}

TEST_F(SharedCheckTest, Atomics_DoNotRaceWithEachOther) {
  const std::string init = "  setp.eq.u32 %p1, %r1, 0;\n  @%p1 st.shared.u32 [tile], 0;\n  bar.sync 0;\n";
  expect_fine(init + "  red.shared.add.u32 [tile], 1;\n  bar.sync 0;\n  ld.shared.u32 %r5, [tile];\n");
  expect_race(init + "  red.shared.add.u32 [tile], 1;\n  ld.shared.u32 %r5, [tile];\n", "(red.shared.add.u32)");
  expect_fine(init + "  red.shared.add.u32 [tile], 1;\n  ld.volatile.shared.u32 %r5, [tile];\n");
}

TEST_F(SharedCheckTest, SameValueFromManyThreads_IsLetPass) {
  expect_fine("  st.shared.u32 [tile], 7;\n  bar.sync 0;\n  ld.shared.u32 %r5, [tile];\n");
  expect_race("  st.shared.u32 [tile], %r1;\n", "it writes offset 0");
}

TEST_F(SharedCheckTest, NeighbouringBytes_AreNotOneWord) {
  expect_fine("  mov.u32 %r4, tile;\n  add.u32 %r4, %r4, %r1;\n  cvt.u16.u32 %h0, %r1;\n  st.shared.u8 [%r4], %h0;\n  bar.sync 0;\n"
              "  ld.shared.u8 %h1, [%r4];\n");
  expect_race(kInit + std::string("  mov.u32 %r4, tile;\n  add.u32 %r4, %r4, %r1;\n  cvt.u16.u32 %h0, %r1;\n  st.shared.u8 [%r4], %h0;\n"
              "  bar.warp.sync 0xffffffff;\n  ld.shared.u8 %h1, [tile+35];\n"));
}

TEST_F(SharedCheckTest, UninitializedRead_NamesTheFirstByte) {
  const Status status = run("  setp.ne.u32 %p1, %r1, 5;\n  @%p1 st.shared.u32 [%r2], %r1;\n  bar.sync 0;\n  ld.shared.u32 %r5, [%r2];\n");
  EXPECT_EQ(status.message(), "Kernel 'k' at k.ptx:20 (ld.shared.u32): thread (5,0,0) of block (0,0,0) reads offset 20 of "
                              "the block's shared memory ('tile' + 20), which no thread has written.");
  expect_race("  atom.shared.add.u32 %r5, [tile+8], 1;\n", "which no thread has written");
}

TEST_F(SharedCheckTest, Mbarrier_OrdersArrivalsBeforeWaits) {
  const char* const kBody =
      "  .shared .align 8 .b64 bar;\n  st.shared.u32 [%r2], 0;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 mbarrier.init.shared.b64 [bar], 64;\n  bar.sync 0;\n"
      "  st.shared.u32 [%r2], %r1;\n  mbarrier.arrive.shared.b64 %rd1, [bar];\nW:\n"
      "  {}mbarrier.test_wait.shared.b64 %p2, [bar], %rd1;\n  {}@!%p2 bra W;\n  xor.b32 %r4, %r2, 128;\n  ld.shared.u32 %r5, [%r4];\n";
  expect_fine(fmt::format(fmt::runtime(kBody), "", ""));
  expect_race(fmt::format(fmt::runtime(kBody), "//", "//"));
}

// As cuda::pipeline ends: what orders it is a vote among those who look at the phase.
TEST_F(SharedCheckTest, Mbarrier_IsInvalidated_AfterAVoteOfThoseWhoLooked) {
  expect_fine(
      "  .shared .align 8 .b64 bar;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 mbarrier.init.shared.b64 [bar], 32;\n  bar.sync 0;\n"
      "  mbarrier.arrive.shared.b64 %rd1, [bar];\nW:\n  mbarrier.test_wait.shared.b64 %p2, [bar], %rd1;\n  @!%p2 bra W;\n"
      "  vote.sync.all.pred %p2, %p2, 0xffffffff;\n  @%p1 mbarrier.inval.shared.b64 [bar];\n", 32);
}

TEST_F(SharedCheckTest, BlocksOf1024Threads_StayAffordable) {
  expect_fine("  mov.u32 %r6, 0;\nL:\n  st.shared.u32 [%r2], %r6;\n  bar.sync 0;\n  xor.b32 %r4, %r2, 128;\n"
              "  ld.shared.u32 %r5, [%r4];\n  ld.shared.u32 %r5, [tile];\n  bar.sync 0;\n  add.u32 %r6, %r6, 1;\n"
              "  setp.lt.u32 %p1, %r6, 20;\n  @%p1 bra L;\n", 1024);
}

}  // namespace
}  // namespace pergola::device::cpu
