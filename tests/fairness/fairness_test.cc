// Progress: every resident block, every warp and every diverged path keeps running, so whoever spins on what another
// of them will do gets on. Each test on every tier of the CPU device.
//
// A kernel here hangs where a tier is unfair; the limit of a launch then fails the test.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/tier_test.h"

namespace pergola {
namespace {

using ptx_cases::PtxProgram;

class Fairness : public test_support::TierTest {
 protected:
  static std::uint32_t word(const device::BufferPtr& buffer, std::size_t index) {
    std::uint32_t value = 0;
    std::memcpy(&value, buffer->host_pointer() + 4 * index, 4);
    return value;
  }
};

PERGOLA_ON_EVERY_TIER(Fairness);

// Each thread waits until the word of the one after it (`step` further round the ring) is set, then sets its own; the
// last of `count` starts. With one thread a block, a warp, or all in one warp.
std::string ring(const std::string& load, const std::string& index) {
  return R"(
.visible .entry ring(.param .u64 flags, .param .u32 count, .param .u32 up) {
  .reg .b64 %flags, %own, %next; .reg .b32 %i, %j, %last, %first, %count, %up, %v, %w; .reg .pred %p, %q;
  ld.param.u64 %flags, [flags]; ld.param.u32 %count, [count]; ld.param.u32 %up, [up];
)" + index + R"(
  sub.u32 %last, %count, 1;
  setp.ne.u32 %q, %up, 0;
  add.u32 %j, %i, 1;
  @%q sub.u32 %j, %i, 1;
  selp.u32 %first, 0, %last, %q;
  mad.wide.u32 %own, %i, 4, %flags;
  mad.wide.u32 %next, %j, 4, %flags;
  setp.eq.u32 %p, %i, %first;
  @%p bra SET;
SPIN:
)" + load + R"(
  setp.eq.u32 %p, %v, 0;
  @%p bra SPIN;
SET:
  st.release.gpu.global.u32 [%own], 1;
  ret;
})";
}

constexpr const char* kByBlock = "  mov.u32 %i, %ctaid.x;";
constexpr const char* kByThread = "  mov.u32 %i, %tid.x;";
// One thread a warp; the others leave.
constexpr const char* kByWarp = "  mov.u32 %i, %tid.x; and.b32 %v, %i, 31; setp.ne.u32 %p, %v, 0; @%p exit; shr.u32 %i, %i, 5;";

// Sanitizers make everything some twenty times slower; the turns that are taken are the same.
#if defined(PERGOLA_TSAN) || defined(PERGOLA_ASAN)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif
constexpr std::uint32_t kBlocksPerSm = kSlow ? 4 : 32;

// Every way to look at another thread's word.
constexpr const char* kLoads[] = {
    "  ld.volatile.global.u32 %v, [%next];",
    "  ld.relaxed.gpu.global.u32 %v, [%next];",
    "  ld.acquire.gpu.global.u32 %v, [%next];",
    "  atom.or.relaxed.gpu.global.b32 %v, [%next], 0;",
    "  atom.global.cas.b32 %v, [%next], 7, 7;",
    "  nanosleep.u32 100; ld.volatile.global.u32 %v, [%next];",
    "  membar.gl; ld.global.u32 %v, [%next];",
    "  fence.acq_rel.gpu; ld.weak.global.u32 %v, [%next];",
    "  mov.u32 %w, %clock; ld.volatile.global.u32 %v, [%next];",
    "  ld.global.u32 %v, [%next];",
};

TEST_P(Fairness, Lanes_WaitForEachOther) {
  for (const char* load : kLoads) {
    PtxProgram program(open(), ring(load, kByThread));
    for (std::uint32_t up : {0u, 1u}) {
      const auto flags = program.zeros(4 * 32);
      const Status status = program.run("ring", {.grid = {1, 1, 1}, .block = {32, 1, 1}}, flags->address(), 32u, up);
      ASSERT_TRUE(status.ok()) << load << up << status.message();
    }
  }
}

TEST_P(Fairness, Warps_WaitForEachOther) {
  for (const char* load : kLoads) {
    PtxProgram program(open(), ring(load, kByWarp));
    for (std::uint32_t up : {0u, 1u}) {
      const auto flags = program.zeros(4 * 32);
      const Status status = program.run("ring", {.grid = {1, 1, 1}, .block = {1024, 1, 1}}, flags->address(), 32u, up);
      ASSERT_TRUE(status.ok()) << load << up << status.message();
    }
  }
}

TEST_P(Fairness, Blocks_WaitForEachOther_UpToResidency) {
  for (const char* load : kLoads) {
    PtxProgram program(open({.blocks_per_sm = kBlocksPerSm}), ring(load, kByBlock));
    for (std::uint32_t up : {0u, 1u}) {
      constexpr std::uint32_t kBlocks = 2 * kBlocksPerSm;  // 2 SMs
      const auto flags = program.zeros(4 * kBlocks);
      const Status status = program.run("ring", {.grid = {kBlocks, 1, 1}, .block = {1, 1, 1}}, flags->address(), kBlocks, up);
      ASSERT_TRUE(status.ok()) << load << up << status.message();
    }
  }
}

TEST_P(Fairness, ManyMoreBlocksThanAreResident_WaitForEarlierOnes) {
  PtxProgram program(open(), ring(kLoads[0], kByBlock));
  const auto flags = program.zeros(4 * 4096);
  const Status status = program.run("ring", {.grid = {4096, 1, 1}, .block = {1, 1, 1}}, flags->address(), 4096u, 1u);
  ASSERT_TRUE(status.ok()) << status.message();
}

// More threads that wait than a process has mappings for guarded stacks: each block waits at a barrier for its first
// thread, which waits for all blocks.
TEST_P(Fairness, ThirtyThousandThreads_WaitAtOnce) {
  constexpr std::uint32_t kBlocks = kSlow ? 4 : 32;
  PtxProgram program(open({.sms = kBlocks / 2}), R"(
.visible .entry meet(.param .u64 p, .param .u32 n) {
  .reg .b64 %p; .reg .b32 %t, %n, %v; .reg .pred %c<3>;
  ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;
  setp.ne.u32 %c0, %t, 0; @%c0 bra MEET;
  red.global.add.u32 [%p], 1;
WAIT:
  ld.volatile.global.u32 %v, [%p]; setp.lt.u32 %c1, %v, %n; @%c1 bra WAIT;
MEET:
  bar.sync 0;
  setp.eq.u32 %c2, %t, 33; @%c2 red.global.add.u32 [%p+4], 1;
  ret;
})");
  const auto counters = program.zeros(8);
  const Status status = program.run("meet", {.grid = {kBlocks, 1, 1}, .block = {1024, 1, 1}}, counters->address(), kBlocks);
  ASSERT_TRUE(status.ok()) << status.message();
  std::uint32_t met = 0;
  std::memcpy(&met, counters->host_pointer() + 4, sizeof met);
  EXPECT_EQ(met, kBlocks);
}

// The spin stands in a function, and in one that is called through a register.
TEST_P(Fairness, SpinsInsideFunctions) {
  PtxProgram program(open(), R"(
.func spin(.param .u64 at) {
  .reg .b64 %at; .reg .b32 %v; .reg .pred %p;
  ld.param.u64 %at, [at];
SPIN:
  ld.volatile.global.u32 %v, [%at];
  setp.eq.u32 %p, %v, 0;
  @%p bra SPIN;
  ret;
}
.visible .entry calls(.param .u64 flags, .param .u32 through) {
  .reg .b64 %flags, %own, %next, %f; .reg .b32 %i, %through; .reg .pred %p, %q;
  ld.param.u64 %flags, [flags]; ld.param.u32 %through, [through];
  mov.u32 %i, %tid.x;
  mad.wide.u32 %own, %i, 4, %flags;
  add.u64 %next, %own, 4;
  setp.eq.u32 %p, %i, 31;
  @%p bra SET;
  setp.ne.u32 %q, %through, 0;
  mov.u64 %f, spin;
  @%q bra THROUGH;
  { .param .u64 a; st.param.u64 [a], %next; call.uni spin, (a); }
  bra SET;
THROUGH:
  { .param .u64 a; st.param.u64 [a], %next; PROTO: .callprototype _ (.param .u64 _); call %f, (a), PROTO; }
SET:
  st.volatile.global.u32 [%own], 1;
  ret;
})");
  for (std::uint32_t through : {0u, 1u}) {
    const auto flags = program.zeros(4 * 33);
    const Status status = program.run("calls", {.grid = {1, 1, 1}, .block = {32, 1, 1}}, flags->address(), through);
    ASSERT_TRUE(status.ok()) << through << status.message();
  }
}

// A lock that all lanes of all blocks fight for: naive (`while (cas) ;` around one critical section) as on Volta.
TEST_P(Fairness, SpinLock_AmongAllThreads) {
  PtxProgram program(open(), R"(
.visible .entry lock(.param .u64 words) {
  .reg .b64 %w; .reg .b32 %v, %n; .reg .pred %p;
  ld.param.u64 %w, [words];
SPIN:
  atom.acquire.gpu.global.cas.b32 %v, [%w], 0, 1;
  setp.ne.u32 %p, %v, 0;
  @%p bra SPIN;
  ld.global.u32 %n, [%w+4];
  add.u32 %n, %n, 1;
  st.global.u32 [%w+4], %n;
  atom.release.gpu.global.exch.b32 %v, [%w], 0;
  ret;
})");
  const auto words = program.zeros(8);
  constexpr std::uint32_t kThreads = kSlow ? 33 : 96;
  const Status status = program.run("lock", {.grid = {kSlow ? 2u : 4u, 1, 1}, .block = {kThreads, 1, 1}}, words->address());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(word(words, 1), (kSlow ? 2u : 4u) * kThreads);
}

// Everybody works until the one who started last has seen every other at work: none may be passed over, however busy
// the rest is. Plain arithmetic and stores only: no tier can take it for a spin of one's own.
TEST_P(Fairness, BusyThreads_DoNotStarveOthers) {
  PtxProgram program(open(), R"(
.visible .entry busy(.param .u64 words, .param .u32 others) {
  .reg .b64 %w, %own; .reg .b32 %i, %n, %v, %k, %x, %others; .reg .pred %p;
  ld.param.u64 %w, [words]; ld.param.u32 %others, [others];
  mov.u32 %i, %ctaid.x; mov.u32 %v, %ntid.x; mov.u32 %x, %tid.x; mad.lo.u32 %i, %i, %v, %x;
  mad.wide.u32 %own, %i, 4, %w;
  mov.u32 %n, 0;
  setp.eq.u32 %p, %i, %others;
  @%p bra WATCH;
WORK:
  mov.u32 %k, 0;
INNER:
  mad.lo.u32 %x, %x, 1664525, 1013904223;
  add.u32 %k, %k, 1;
  setp.lt.u32 %p, %k, 100;
  @%p bra INNER;
  add.u32 %n, %n, 1;
  or.b32 %v, %n, 1;
  st.volatile.global.u32 [%own+4], %v;
  ld.volatile.global.u32 %v, [%w];
  setp.eq.u32 %p, %v, 0;
  @%p bra WORK;
  setp.eq.u32 %p, %x, 1;
  @%p st.global.u32 [%own+4], %x;
  ret;
WATCH:
  mov.u32 %n, 0;
NEXT:
  mad.wide.u32 %own, %n, 4, %w;
SEEN:
  ld.volatile.global.u32 %v, [%own+4];
  setp.eq.u32 %p, %v, 0;
  @%p bra SEEN;
  add.u32 %n, %n, 1;
  setp.lt.u32 %p, %n, %others;
  @%p bra NEXT;
  st.volatile.global.u32 [%w], 1;
  ret;
})");
  const device::LaunchConfig shapes[] = {{.grid = {1, 1, 1}, .block = {32, 1, 1}},
                                         {.grid = {1, 1, 1}, .block = {256, 1, 1}},
                                         {.grid = {16, 1, 1}, .block = {32, 1, 1}}};
  for (const device::LaunchConfig& shape : shapes) {
    const auto threads = static_cast<std::uint32_t>(shape.grid.count() * shape.block.count());
    const auto words = program.zeros(4 * (threads + 1));
    const Status status = program.run("busy", shape, words->address(), threads - 1);
    ASSERT_TRUE(status.ok()) << threads << status.message();
  }
}

// One lane spins while the rest of its warp stands at a barrier, a shuffle or a warp barrier that it will come to.
TEST_P(Fairness, OneLaneSpins_WhileOthersWaitForIt) {
  for (const std::string wait : {"bar.sync 0;", "shfl.sync.idx.b32 %v, %v, 0, 31, 0xffffffff;", "bar.warp.sync 0xffffffff;"}) {
    PtxProgram program(open(), R"(
.visible .entry waits(.param .u64 words) {
  .reg .b64 %w; .reg .b32 %i, %v; .reg .pred %p;
  ld.param.u64 %w, [words];
  mov.u32 %i, %tid.x;
  setp.eq.u32 %p, %i, 40;
  @%p bra HELPER;
  setp.ne.u32 %p, %i, 0;
  @%p bra MEET;
SPIN:
  ld.volatile.global.u32 %v, [%w];
  setp.eq.u32 %p, %v, 0;
  @%p bra SPIN;
  bra MEET;
HELPER:
  st.volatile.global.u32 [%w], 1;
MEET:
  )" + wait + R"(
  ret;
})");
    const auto words = program.zeros(4);
    const Status status = program.run("waits", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, words->address());
    ASSERT_TRUE(status.ok()) << wait << status.message();
  }
}

// The host and a kernel of many blocks answer each other.
TEST_P(Fairness, HostAndKernel_PlayPingPong) {
  PtxProgram program(open(), R"(
.visible .entry pong(.param .u64 words, .param .u32 rounds) {
  .reg .b64 %w; .reg .b32 %i, %v, %n, %rounds; .reg .pred %p;
  ld.param.u64 %w, [words]; ld.param.u32 %rounds, [rounds];
  mov.u32 %i, %ctaid.x;
  mad.wide.u32 %w, %i, 8, %w;
  mov.u32 %n, 1;
ROUND:
SPIN:
  ld.acquire.sys.global.u32 %v, [%w];
  setp.ne.u32 %p, %v, %n;
  @%p bra SPIN;
  st.release.sys.global.u32 [%w+4], %n;
  add.u32 %n, %n, 1;
  setp.le.u32 %p, %n, %rounds;
  @%p bra ROUND;
  ret;
})");
  constexpr std::uint32_t kBlocks = 8, kRounds = 50;
  const auto words = program.zeros(8 * kBlocks);
  ASSERT_TRUE(program.enqueue(program.queue(), "pong", {.grid = {kBlocks, 1, 1}, .block = {1, 1, 1}}, words->address(), kRounds).ok());
  const auto done = program.queue().record().value();
  const auto deadline = std::chrono::steady_clock::now() + program.limit;
  const auto at = [&](std::uint32_t index) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(words->host_pointer() + 4 * index));
  };
  for (std::uint32_t n = 1; n <= kRounds; ++n) {
    for (std::uint32_t b = 0; b < kBlocks; ++b) at(2 * b).store(n, std::memory_order_release);
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      while (at(2 * b + 1).load(std::memory_order_acquire) != n) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "round " << n << ", block " << b;
        std::this_thread::yield();
      }
    }
  }
  EXPECT_TRUE(done->wait(program.limit).ok());
}

// A grid that fills the device and spins on what a launch in another queue will do.
TEST_P(Fairness, LaunchesOfTwoQueues_WaitForEachOther) {
  PtxProgram program(open(), R"(
.visible .entry spin(.param .u64 words) {
  .reg .b64 %w; .reg .b32 %v; .reg .pred %p;
  ld.param.u64 %w, [words];
SPIN:
  ld.volatile.global.u32 %v, [%w];
  setp.eq.u32 %p, %v, 0;
  @%p bra SPIN;
  ret;
}
.visible .entry set(.param .u64 words) {
  .reg .b64 %w;
  ld.param.u64 %w, [words];
  st.volatile.global.u32 [%w], 1;
  ret;
})");
  const auto words = program.zeros(4);
  ASSERT_TRUE(program.enqueue(program.queue(), "spin", {.grid = {500, 1, 1}, .block = {256, 1, 1}}, words->address()).ok());
  const auto spun = program.queue().record().value();
  EXPECT_EQ(spun->wait(std::chrono::milliseconds(50)).code(), Code::kTimeout);
  const auto other = program.new_queue();
  ASSERT_TRUE(program.enqueue(*other, "set", {.grid = {3, 1, 1}, .block = {32, 1, 1}}, words->address()).ok());
  EXPECT_TRUE(other->record().value()->wait(program.limit).ok());
  EXPECT_TRUE(spun->wait(program.limit).ok());
}

// A barrier over the whole grid, made of an atomic counter, by every thread.
constexpr const char* kGridBarrier = R"(
.visible .entry grid_barrier(.param .u64 words, .param .u32 blocks, .param .u32 turns) {
  .reg .b64 %w; .reg .b32 %i, %v, %n, %target, %blocks, %turns; .reg .pred %p;
  ld.param.u64 %w, [words]; ld.param.u32 %blocks, [blocks]; ld.param.u32 %turns, [turns];
  mov.u32 %i, %tid.x; mov.u32 %n, 0; mov.u32 %target, 0;
TURN:
  add.u32 %target, %target, %blocks;
  bar.sync 0;
  setp.ne.u32 %p, %i, 0;
  @%p bra PASSED;
  atom.add.acq_rel.gpu.global.u32 %v, [%w], 1;
SPIN:
  ld.acquire.gpu.global.u32 %v, [%w];
  setp.lt.u32 %p, %v, %target;
  @%p bra SPIN;
PASSED:
  bar.sync 0;
  add.u32 %n, %n, 1;
  setp.lt.u32 %p, %n, %turns;
  @%p bra TURN;
  ret;
})";

TEST_P(Fairness, GridBarrier_OverAllResidentBlocks) {
  PtxProgram program(open(), kGridBarrier);
  const auto words = program.zeros(4);
  const Status status = program.run("grid_barrier", {.grid = {64, 1, 1}, .block = {64, 1, 1}}, words->address(), 64u, 5u);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(word(words, 0), 320u);
}

}  // namespace
}  // namespace pergola
