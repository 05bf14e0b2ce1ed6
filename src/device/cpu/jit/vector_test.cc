// What only groups of lanes can get wrong: block shapes, indices that wrap, diverged control flow, faults of one lane.
// That every instruction gives the interpreter's bits is held by tests/ptx, tests/corpus and tests/differential.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/device/cpu/jit/jit_test_util.h"

namespace pergola::device::cpu::jit {
namespace {

using testing::Program;

Engine& vector_engine(VectorUse use = VectorUse::kAlways) {
  static const std::unique_ptr<Engine> always = create_engine(VectorUse::kAlways).value();
  static const std::unique_ptr<Engine> where_it_can = create_engine(VectorUse::kWhereItCan).value();
  return use == VectorUse::kAlways ? *always : *where_it_can;
}

// out[linear] = x + 100 y + 10000 z + 1000000 lane, past a barrier, so that groups are fibers.
constexpr const char* kIndices = R"(
.global .u32 out[1024];
.visible .entry k() {
  .reg .u32 %r<20>; .reg .u64 %rd<4>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %laneid;
  mov.u32 %r5, %ntid.x; mov.u32 %r6, %ntid.y;
  mad.lo.u32 %r7, %r3, %r6, %r2; mad.lo.u32 %r7, %r7, %r5, %r1;
  bar.sync 0;
  mad.lo.u32 %r8, %r2, 100, %r1; mad.lo.u32 %r8, %r3, 10000, %r8; mad.lo.u32 %r8, %r4, 1000000, %r8;
  mul.wide.u32 %rd1, %r7, 4; mov.u64 %rd2, out; add.u64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r8;
  ret;
})";

TEST(Vector, EveryBlockShape_HasItsThreadsIndices) {
  Program program(kIndices, vector_engine());
  for (const Dim3 block : {Dim3{1, 1, 1}, Dim3{7, 1, 1}, Dim3{32, 1, 1}, Dim3{33, 1, 1}, Dim3{100, 1, 1}, Dim3{64, 3, 1},
                           Dim3{16, 16, 1}, Dim3{24, 2, 2}, Dim3{5, 7, 3}, Dim3{1, 1, 40}, Dim3{1024, 1, 1}}) {
    const Status status = program.run("k", {1, 1, 1}, block, 0);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto* out = program.global<std::uint32_t>("out");
    for (std::uint32_t n = 0; n < block.count(); ++n) {
      const std::uint32_t x = n % block.x, y = n / block.x % block.y, z = n / block.x / block.y;
      ASSERT_EQ(out[n], x + 100 * y + 10000 * z + 1000000 * (n % 32)) << block.x << "," << block.y << "," << block.z << " thread " << n;
    }
  }
}

// Lanes whose 32-bit index wraps to the front of the array, beside lanes whose index is out of bounds and unused.
TEST(Vector, IndexThatWrapsWithinAGroup_ReachesEachLanesOwnElement) {
  Program program(R"(
.global .u32 in[64]; .global .u32 out[32];
.visible .entry k(.param .u32 base) {
  .reg .u32 %r<8>; .reg .u64 %rd<8>; .reg .pred %p;
  ld.param.u32 %r1, [base]; mov.u32 %r2, %tid.x; add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd1, %r2, 4; mov.u64 %rd2, out; add.u64 %rd2, %rd2, %rd1; mov.u32 %r4, 77;
  setp.ge.u32 %p, %r3, 64;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r3, 4; mov.u64 %rd4, in; add.u64 %rd4, %rd4, %rd3;
  ld.global.u32 %r4, [%rd4];
DONE:
  st.global.u32 [%rd2], %r4;
  ret;
})", vector_engine());
  for (std::uint32_t n = 0; n < 64; ++n) program.global<std::uint32_t>("in")[n] = 1000 + n;
  for (const std::uint32_t base : {0u, 5u, 40u, 0xfffffff0u, 0xffffffffu}) {
    const Status status = program.run("k", {1, 1, 1}, {32, 1, 1}, 0, base);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::uint32_t n = 0; n < 32; ++n) {
      const std::uint32_t index = base + n;
      ASSERT_EQ(program.global<std::uint32_t>("out")[n], index < 64 ? 1000 + index : 77) << "base " << base << ", lane " << n;
    }
  }
}

// Each lane its own number of turns, in a loop within a loop that it leaves in the middle.
TEST(Vector, LanesThatLeaveLoopsInDifferentTurns_KeepTheirOwnValues) {
  Program program(R"(
.global .u32 out[64];
.visible .entry k() {
  .reg .u32 %r<12>; .reg .u64 %rd<4>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
OUTER:
  mov.u32 %r4, 0;
INNER:
  add.u32 %r3, %r3, %r4; xor.b32 %r5, %r3, %r1; and.b32 %r5, %r5, 15;
  setp.eq.u32 %p1, %r5, 7;
  @%p1 bra NEXT;
  add.u32 %r4, %r4, 1;
  setp.le.u32 %p2, %r4, %r1;
  @%p2 bra INNER;
NEXT:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 5;
  @%p1 bra OUTER;
  mul.wide.u32 %rd1, %r1, 4; mov.u64 %rd2, out; add.u64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r3;
  ret;
})", vector_engine());
  const Status status = program.run("k", {1, 1, 1}, {64, 1, 1}, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::uint32_t lane = 0; lane < 64; ++lane) {
    std::uint32_t sum = 0;
    for (int outer = 0; outer < 5; ++outer) {
      for (std::uint32_t turn = 0;;) {
        sum += turn;
        if (((sum ^ lane) & 15) == 7 || ++turn > lane) break;
      }
    }
    ASSERT_EQ(program.global<std::uint32_t>("out")[lane], sum) << "lane " << lane;
  }
}

// Loops whose lanes part and meet again in other ways than by leaving at one place: what each lane leaves in out[] is
// computed by the same loop in C++.
struct Shape {
  const char* name;
  const char* body;  // from %r1 = the lane to %r3 = what it found
  std::uint32_t (*expected)(std::uint32_t lane);
};

// A lane that begins its next turn passes the loop's only exit by.
constexpr Shape kContinue{"continue", R"(
TURN:
  add.u32 %r2, %r2, 1; mad.lo.u32 %r3, %r3, 3, %r2; xor.b32 %r4, %r3, %r1; and.b32 %r4, %r4, 3;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 bra TURN;
  add.u32 %r3, %r3, 100; and.b32 %r4, %r3, 4;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra DONE;
  bra TURN;
DONE:)", [](std::uint32_t lane) {
  std::uint32_t sum = 0;
  for (std::uint32_t turn = 1;; ++turn) {
    sum = sum * 3 + turn;
    if (((sum ^ lane) & 3) == 0) continue;
    sum += 100;
    if ((sum & 4) != 0) return sum;
  }
}};

// Some lanes leave by the end of a turn, those that stay later together by its beginning, with another value.
constexpr Shape kTwoExitsToOneBlock{"two exits to one block", R"(
  ld.global.u32 %r5, [seven]; ld.global.u32 %r6, [seven+4];
TURN:
  mov.u32 %r3, %r5;
  setp.ge.u32 %p1, %r2, 5;
  @%p1 bra DONE;
  add.u32 %r2, %r2, 1; mov.u32 %r3, %r6;
  setp.gt.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  bra TURN;
DONE:)", [](std::uint32_t lane) { return lane < 5 ? 8u : 7u; }};

// The same, to blocks of their own.
constexpr Shape kTwoExits{"two exits", R"(
TURN:
  setp.ge.u32 %p1, %r2, 5;
  @%p1 bra FULL;
  add.u32 %r2, %r2, 1;
  setp.gt.u32 %p1, %r2, %r1;
  @%p1 bra EARLY;
  bra TURN;
FULL:
  st.global.u32 [%rd3+4096], %r2; mad.lo.u32 %r3, %r2, 10, 3;
  bra DONE;
EARLY:
  st.global.u32 [%rd3+8192], %r2; mad.lo.u32 %r3, %r2, 1000, 7;
DONE:
  ld.global.u32 %r4, [%rd3+4096]; ld.global.u32 %r5, [%rd3+8192]; mad.lo.u32 %r3, %r4, 100000, %r3; mad.lo.u32 %r3, %r5, 10000000, %r3;)",
  [](std::uint32_t lane) {
    return lane < 5 ? (lane + 1) * 1000 + 7 + (lane + 1) * 10000000 : 53 + 5 * 100000;
  }};

// From the inner loop some lanes go on with the outer one, others leave both.
constexpr Shape kOutOfTwoLoops{"out of two loops", R"(
OUTER:
  mov.u32 %r4, 0; add.u32 %r3, %r3, 1;
INNER:
  setp.ge.u32 %p1, %r4, 6;
  @%p1 bra DONE;
  add.u32 %r4, %r4, 1; add.u32 %r3, %r3, %r4; add.u32 %r5, %r3, %r1; and.b32 %r5, %r5, 7;
  setp.ne.u32 %p1, %r5, 3;
  @%p1 bra INNER;
  add.u32 %r3, %r3, 1000;
  setp.lt.u32 %p1, %r3, 20000;
  @%p1 bra OUTER;
DONE:)", [](std::uint32_t lane) {
  for (std::uint32_t sum = 0;;) {
    ++sum;
    for (std::uint32_t turn = 0;;) {
      if (turn >= 6) return sum;
      sum += ++turn;
      if (((sum + lane) & 7) == 3) break;
    }
    sum += 1000;
    if (sum >= 20000) return sum;
  }
}};

// A lane that leaves at the end of a turn takes along what that turn began with, not what the next one begins with.
constexpr Shape kWhatTheTurnBeganWith{"what the turn began with", R"(
  and.b32 %r6, %r1, 7;
TURN:
  mov.u32 %r5, %r3; add.u32 %r2, %r2, 1; mad.lo.u32 %r3, %r3, 3, %r2; xor.b32 %r4, %r3, %r1; and.b32 %r4, %r4, 1;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 bra END;
  st.global.u32 [%rd3+4096], %r2;
END:
  setp.le.u32 %p1, %r2, %r6;
  @%p1 bra TURN;
  mov.u32 %r3, %r5;)", [](std::uint32_t lane) {
  std::uint32_t sum = 0;
  for (std::uint32_t turn = 1;; ++turn) {
    const std::uint32_t before = sum;
    sum = sum * 3 + turn;
    if (turn > (lane & 7)) return before;
  }
}};

class VectorFlowShapes : public ::testing::TestWithParam<Shape> {};

TEST_P(VectorFlowShapes, EveryLane_GoesItsOwnWay) {
  Program program(R"(
.global .u32 out[4096]; .global .u32 seven[2] = {7, 8};
.visible .entry k() {
  .reg .u32 %r<12>; .reg .u64 %rd<8>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
  mul.wide.u32 %rd1, %r1, 4; mov.u64 %rd2, out; add.u64 %rd3, %rd2, %rd1;)" + std::string(GetParam().body) + R"(
  st.global.u32 [%rd3], %r3;
  ret;
})", vector_engine());
  const Status status = program.run("k", {1, 1, 1}, {64, 1, 1}, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::uint32_t lane = 0; lane < 64; ++lane) {
    ASSERT_EQ(program.global<std::uint32_t>("out")[lane], GetParam().expected(lane)) << GetParam().name << ", lane " << lane;
  }
}

INSTANTIATE_TEST_SUITE_P(Vector, VectorFlowShapes,
                         ::testing::Values(kContinue, kTwoExitsToOneBlock, kTwoExits, kOutOfTwoLoops, kWhatTheTurnBeganWith));

// Threads that return early, by two ways of their own and before barriers that the others meet at: blocks of groups
// (kAlways), where the return's own code is not run by those that go on.
TEST(Vector, ThreadsThatReturnEarly_AreNotWaitedForAtBarriers) {
  Program program(R"(
.global .u32 out[128];
.visible .entry k() {
  .shared .align 4 .b8 tile[512];
  .reg .u32 %r<12>; .reg .u64 %rd<4>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
  mul.wide.u32 %rd1, %r1, 4; mov.u64 %rd2, out; add.u64 %rd3, %rd2, %rd1;
  setp.ge.u32 %p1, %r1, 100;
  @%p1 ret;
  and.b32 %r4, %r1, 7; st.shared.u32 [%r2], %r1;
  setp.eq.u32 %p1, %r4, 5;
  @%p1 bra FIVE;
  setp.eq.u32 %p1, %r1, 42;
  @%p1 bra ANSWER;
  bar.sync 0;
  xor.b32 %r5, %r1, 1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, 1000;
  bar.sync 0;
  st.shared.u32 [%r2], %r6;
  bar.sync 0;
  ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd3], %r7;
  ret;
FIVE:
  st.global.u32 [%rd3], %r4;
  ret;
ANSWER:
  mov.u32 %r4, 43; st.global.u32 [%rd3], %r4;
  ret;
})", vector_engine());
  const Status status = program.run("k", {1, 1, 1}, {128, 1, 1}, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::uint32_t n = 0; n < 128; ++n) {
    const auto leaves = [](std::uint32_t thread) { return thread % 8 == 5 || thread == 42; };
    const std::uint32_t own = n % 8 == 5 ? 5 : 43, kept = leaves(n ^ 1) ? n ^ 1 : 1000 + n;
    ASSERT_EQ(program.global<std::uint32_t>("out")[n], n >= 100 ? 0 : leaves(n) ? own : kept) << "thread " << n;
  }
}

// A lock taken by lanes of one warp, each waiting for the other: no order of whole paths would end.
constexpr const char* kLock = R"(
.global .u32 lock; .global .u32 count;
.visible .entry k() {
  .reg .u32 %r<4>; .reg .pred %p;
TRY:
  atom.global.cas.b32 %r1, [lock], 0, 1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra TRY;
  ld.volatile.global.u32 %r2, [count]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [count], %r2;
  membar.gl;
  atom.global.exch.b32 %r1, [lock], 0;
  ret;
})";

TEST(Vector, LoopThatMaySpin_IsRefusedByName) {
  Program program(kLock, vector_engine());
  const Status status = program.run("k", {1, 1, 1}, {64, 1, 1}, 0);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("may spin"), std::string::npos) << status.message();
}

TEST(Vector, LoopThatMaySpin_RunsAThreadAtATimeAndEnds) {
  Program program(kLock, vector_engine(VectorUse::kWhereItCan));
  program.stop_after_turns = 1000000;
  const Status status = program.run("k", {2, 1, 1}, {64, 1, 1}, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(*program.global<std::uint32_t>("count"), 128u);
}

TEST(Vector, OneLaneOutsideSharedMemory_IsNamed) {
  Program program(R"(
.visible .entry k() {
  .shared .align 4 .b8 tile[128];
  .reg .u32 %r<4>;
  mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 4; st.shared.u32 [%r2+44], %r1;
  ret;
})", vector_engine());
  EXPECT_TRUE(program.run("k", {1, 1, 1}, {16, 1, 1}, 0).ok());
  const Status status = program.run("k", {1, 1, 1}, {32, 1, 1}, 0);
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_NE(status.message().find("thread (21,0,0)"), std::string::npos) << status.message();
}

// A kernel that never ends, and what each of its threads does first.
std::string endless_after(const char* prologue) {
  return fmt::format(R"(
.global .u32 flag;
.visible .entry k() {{
  .reg .u32 %r<4>; .reg .pred %p; .reg .u64 %rd;
  mov.u32 %r1, %tid.x;
  {}
LOOP:
  mad.lo.u32 %r1, %r1, 3, 1; setp.ne.u32 %p, %r1, 0;
  @%p bra LOOP;
  st.global.u32 [flag], %r1;
  bra LOOP;
}})",
                     prologue);
}

TEST(Vector, EndlessLoop_CanBeStopped) {
  Program program(endless_after(""), vector_engine(VectorUse::kWhereItCan));
  program.stop_after_turns = 20;
  EXPECT_EQ(program.run("k", {1, 1, 1}, {32, 1, 1}, 0).code(), Code::kTimeout);
}

TEST(Vector, EndlessLoopBehindABarrier_CanBeStopped) {
  Program program(endless_after("bar.sync 0;"), vector_engine(VectorUse::kWhereItCan));
  program.stop_after_turns = 20;
  EXPECT_EQ(program.run("k", {1, 1, 1}, {96, 1, 1}, 0).code(), Code::kTimeout);
}

// Groups that have returned, whole or in part, are waited for no longer; each turn every thread that is left sees what
// all of them brought.
TEST(Vector, ThreadsThatReturnBetweenBarriers_AreNotWaitedFor) {
  Program program(R"(
.global .u32 out[256];
.visible .entry k() {
  .reg .u32 %r<12>; .reg .u64 %rd<4>; .reg .pred %p<6>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
  mul.wide.u32 %rd1, %r1, 4; mov.u64 %rd2, out; add.u64 %rd2, %rd2, %rd1;
LOOP:
  add.u32 %r2, %r2, 1;
  mul.lo.u32 %r4, %r2, 40;
  setp.lt.u32 %p1, %r1, %r4;
  st.global.u32 [%rd2], %r3;
  @%p1 bra DONE;
  and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 1;
  bar.red.popc.u32 %r6, 0, %p2;
  add.u32 %r3, %r3, %r6;
  bar.sync 0;
  bar.red.and.pred %p3, 0, %p2; @%p3 add.u32 %r3, %r3, 1000;
  bar.red.or.pred %p4, 0, %p2; @%p4 add.u32 %r3, %r3, 10000;
  bra LOOP;
DONE:
  ret;
})", vector_engine());
  for (const std::uint32_t threads : {1u, 31u, 64u, 100u, 256u}) {
    const Status status = program.run("k", {1, 1, 1}, {threads, 1, 1}, 0);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      std::uint32_t sum = 0;
      for (std::uint32_t turn = 1; thread >= 40 * turn; ++turn) {
        const std::uint32_t left = threads - 40 * turn, odd = left / 2 + (left % 2 != 0 && threads % 2 == 0 ? 1 : 0);
        sum += odd + (odd == left ? 1000 : 0) + (odd > 0 ? 10000 : 0);
      }
      ASSERT_EQ(program.global<std::uint32_t>("out")[thread], sum) << threads << " threads, thread " << thread;
    }
  }
}

TEST(Vector, FaultBehindABarrier_NamesItsThread) {
  Program program(R"(
.visible .entry k() {
  .shared .align 4 .b8 tile[416];
  .reg .u32 %r<4>;
  mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 4;
  bar.sync 0;
  st.shared.u32 [%r2], %r1;
  ret;
})", vector_engine());
  const Status status = program.run("k", {1, 1, 1}, {128, 1, 1}, 0);
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_NE(status.message().find("thread (104,0,0)"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pergola::device::cpu::jit
