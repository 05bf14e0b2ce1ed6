// Kernels that are hard to make tasks of, each as a task and as itself, with named barriers and without, with one group
// of warps in a block and with several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "src/ptx/parser.h"
#include "tests/support/tier_test.h"
#include "tests/tasks/task_run.h"

namespace pergola::tasks {
namespace {

using Words = std::vector<std::uint32_t>;

class TaskTest : public test_support::TierTest {};
INSTANTIATE_TEST_SUITE_P(devices, TaskTest, testing::ValuesIn(ptx_cases::test_device_names()), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), ':', '_');  // cuda:0
  return name;
});

constexpr char kHeader[] = ".version 7.8\n.target sm_80\n.address_size 64\n";

// %rd2: &out[i] of the thread numbered i = %r5 in a one-dimensional grid; %r4 its %tid.x, %r1 the argument n.
constexpr char kBegin[] = R"(
.visible .entry kernel(.param .u64 out, .param .u32 n)
{
  .reg .pred %p<10>; .reg .b32 %r<40>; .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  cvta.to.global.u64 %rd1, %rd1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd2, %rd1, %rd2;
)";
std::string kernel(const std::string& body, const std::string& before = "") {
  return kHeader + before + kBegin + body + "\n}\n";
}

Launch launch(const std::string& text, device::Dim3 grid, device::Dim3 block, std::uint32_t n,
              std::size_t words = 2048) {
  Launch made{text, "task_test", "kernel", {}, {std::vector<std::byte>(4 * words, std::byte{0xee})}, {}};
  made.config.grid = grid;
  made.config.block = block;
  Argument value;
  value.value.resize(4);
  std::memcpy(value.value.data(), &n, 4);
  made.arguments = {Argument{0, {}}, value};
  return made;
}

Words words_of(const Memory& memory) {
  Words words(memory.at(0).size() / 4);
  std::memcpy(words.data(), memory[0].data(), memory[0].size());
  return words;
}

// Runs it as a task in all ways and holds what it leaves against `expected`.
void expect_as_task(device::Device& device, const Launch& of, const Words& expected, transform::TaskBody* body) {
  for (const std::uint32_t groups : {1u, 3u}) {
    for (const bool named : {true, false}) {
      for (const ptx::Space space : {ptx::Space::kGlobal, ptx::Space::kShared}) {
        ProbeOptions options;
        options.groups = groups;
        options.gives_named_barriers = named;
        options.config.parameters = space;
        options.inlines = named == (groups == 3);                           // half of the ways
        if (space == ptx::Space::kShared) options.config.target = "sm_80";  // and without mbarrier.try_wait
        const Result<Memory> task = run_as_task(device, of, options, body);
        ASSERT_TRUE(task.ok()) << task.message();
        ASSERT_EQ(words_of(*task), expected) << groups << " groups, " << (named ? "named" : "mbarriers");
      }
    }
  }
}

transform::TaskBody expect_same(device::Device& device, const Launch& of) {
  transform::TaskBody body;
  const Result<Memory> plain = run_plain(device, of);
  EXPECT_TRUE(plain.ok()) << plain.message();
  if (plain.ok()) expect_as_task(device, of, words_of(*plain), &body);
  return body;
}

// Threads with i >= n return; the others go through shared memory twice.
constexpr char kEarlyReturn[] = R"(
  .shared .align 4 .b8 box[3968];
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 ret;
  mov.u32 %r10, box; shl.b32 %r11, %r4, 2; add.u32 %r11, %r10, %r11;
  st.shared.u32 [%r11], %r5;
  bar.sync 0;
  xor.b32 %r12, %r4, 1; shl.b32 %r13, %r12, 2; add.u32 %r13, %r10, %r13;
  mul.lo.u32 %r14, %r2, %r3; add.u32 %r15, %r14, %r12; setp.ge.u32 %p2, %r15, %r1; setp.ge.or.u32 %p2, %r12, %r3, %p2;
  mov.u32 %r16, 77;
  @!%p2 ld.shared.u32 %r16, [%r13];
  bar.sync 0;
  st.shared.u32 [box], %r16;
  bar.sync 1;
  add.u32 %r16, %r16, 5;
  st.global.u32 [%rd2], %r16;
  ret;
)";

TEST_P(TaskTest, EarlyReturn_ThenBarriers) {
  const auto device = open();
  for (const std::uint32_t n : {0u, 33u, 100u, 201u, 384u}) {
    SCOPED_TRACE(n);
    const auto body = expect_same(*device, launch(kernel(kEarlyReturn), {3, 1, 1}, {128, 1, 1}, n));
    EXPECT_EQ(body.named_barriers, 0u) << "some lanes may not arrive";
    EXPECT_FALSE(body.is_ragged);
    EXPECT_EQ(body.barriers, std::vector(2, transform::TaskBarrierKind::kMbarrier));
    EXPECT_TRUE(body.needs_block);
  }
}

TEST_P(TaskTest, BlocksOfAnySize_MeetAtBarriers) {
  const auto device = open();
  for (const std::uint32_t threads : {1u, 33u, 100u, 320u, 992u}) {
    SCOPED_TRACE(threads);
    expect_same(*device, launch(kernel(kEarlyReturn), {2, 1, 1}, {threads, 1, 1}, 2 * threads - threads / 3));
  }
}

// No thread leaves before the last barrier, and the loop is the same for all: named barriers will do.
constexpr char kRotate[] = R"(
  .shared .align 16 .b8 ring[3968];
  cvt.u64.u32 %rd3, %r4; shl.b64 %rd3, %rd3, 2; mov.u64 %rd4, ring; add.s64 %rd3, %rd4, %rd3;
  st.shared.u32 [%rd3], %r5;
  add.u32 %r10, %r4, 1; rem.u32 %r10, %r10, %r3; mul.wide.u32 %rd5, %r10, 4; add.s64 %rd5, %rd4, %rd5;
  mov.u32 %r11, 0;
$again:
  bar.sync 0;
  ld.shared.u32 %r12, [%rd5];
  bar.sync 3;
  add.u32 %r12, %r12, 1;
  st.shared.u32 [%rd3], %r12;
  add.u32 %r11, %r11, 1;
  setp.lt.u32 %p1, %r11, %r1;
  @%p1 bra $again;
  bar.sync 0;
  ld.shared.u32 %r12, [%rd3];
  setp.gt.u32 %p2, %r4, 40;
  @%p2 exit;
  st.global.u32 [%rd2], %r12;
)";

TEST_P(TaskTest, UniformLoop_MayHaveNamedBarriers) {
  const auto device = open();
  for (const std::uint32_t threads : {64u, 128u, 100u}) {
    const auto body = expect_same(*device, launch(kernel(kRotate), {4, 1, 1}, {threads, 1, 1}, 7));
    EXPECT_EQ(body.named_barriers, 2u);
    EXPECT_EQ(body.static_shared_bytes, 3968u);
    EXPECT_EQ(body.shared_align_bytes, 16u);
  }
}

TEST_P(TaskTest, Blocks_AreOneTwoAndThreeDimensional) {
  // Of the kernel itself a GPU tells places of the multiprocessor, which the ISA allows; a body tells those of its
  // block.
  const bool on_gpu = std::string_view(GetParam()).starts_with("cuda");
  const std::string warps =
      on_gpu ? "mov.u32 %r30, 0; mov.u32 %r31, 0;" : "mov.u32 %r30, %warpid; mov.u32 %r31, %nwarpid;";
  const std::string text = kernel(R"(
  mov.u32 %r10, %tid.x; mov.u32 %r11, %tid.y; mov.u32 %r12, %tid.z;
  mov.u32 %r13, %ntid.x; mov.u32 %r14, %ntid.y; mov.u32 %r15, %ntid.z;
  mov.u32 %r16, %ctaid.x; mov.u32 %r17, %ctaid.y; mov.u32 %r18, %ctaid.z;
  mov.u32 %r19, %nctaid.x; mov.u32 %r20, %nctaid.y; mov.u32 %r21, %nctaid.z;
  mad.lo.u32 %r22, %r12, %r14, %r11; mad.lo.u32 %r22, %r22, %r13, %r10;
  mad.lo.u32 %r23, %r18, %r20, %r17; mad.lo.u32 %r23, %r23, %r19, %r16;
  mul.lo.u32 %r24, %r13, %r14; mul.lo.u32 %r24, %r24, %r15; mad.lo.u32 %r25, %r23, %r24, %r22;
  mul.wide.u32 %rd3, %r25, 4; add.s64 %rd3, %rd1, %rd3;
  mov.u32 %r32, %laneid; mov.u32 %r33, %lanemask_gt; )" +
                                  warps + R"(
  mad.lo.u32 %r34, %r30, 1000, %r31; mad.lo.u32 %r34, %r34, 1000, %r32; add.u32 %r34, %r34, %r33;
  mad.lo.u32 %r34, %r10, 7, %r34; mad.lo.u32 %r34, %r11, 11, %r34; mad.lo.u32 %r34, %r12, 13, %r34;
  mad.lo.u32 %r34, %r21, 17, %r34; add.u32 %r34, %r34, %r1;
  st.global.u32 [%rd3], %r34;
)");
  const auto device = open();
  for (const device::Dim3 block : {device::Dim3{40, 1, 1}, {8, 9, 1}, {5, 7, 3}, {1, 1, 50}, {1, 33, 1}, {16, 1, 4}}) {
    for (const device::Dim3 grid : {device::Dim3{5, 1, 1}, {2, 3, 1}, {2, 1, 3}}) {
      const auto body = expect_same(*device, launch(text, grid, block, 3));
      EXPECT_FALSE(body.needs_block) << "no warp of it needs another";
      EXPECT_TRUE(body.barriers.empty());
    }
  }
}

TEST_P(TaskTest, FullMasks_AfterDivergenceAndReturn) {
  const std::string text = kernel(R"(
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 ret;
  and.b32 %r10, %r4, 3; setp.eq.u32 %p2, %r10, 0;
  @%p2 bra $quarter;
  mul.lo.u32 %r11, %r5, 3;
  bra $met;
$quarter:
  add.u32 %r11, %r5, 100;
$met:
  shfl.sync.bfly.b32 %r12|%p3, %r11, 1, 31, -1;
  shfl.sync.down.b32 %r13, %r11, 1, 31, -1;
  add.u32 %r22, %r5, 1; add.u32 %r23, %r4, 1; setp.ge.u32 %p8, %r22, %r1; setp.ge.or.u32 %p8, %r23, %r3, %p8;
  @%p8 mov.u32 %r13, 0;  // the next lane may not be there
  vote.sync.ballot.b32 %r14, %p2, -1;
  setp.lt.u32 %p4, %r4, 10000; vote.sync.all.pred %p5, %p4, -1; selp.u32 %r15, 1000, 1, %p5;
  match.any.sync.b32 %r16, %r10, -1;
  redux.sync.add.u32 %r17, %r4, -1;
  and.b32 %r18, %r4, 31;
  setp.lt.u32 %p6, %r18, 8;
  @!%p6 bra $rest;
  activemask.b32 %r19;
  shfl.sync.idx.b32 %r20, %r11, 0, 31, 255;
  bar.warp.sync 255;
  add.u32 %r13, %r13, %r20;
$rest:
  add.u32 %r21, %r13, %r14; add.u32 %r21, %r21, %r15; xor.b32 %r21, %r21, %r16; add.u32 %r21, %r21, %r17;
  setp.lt.u32 %p7, %r18, 31; selp.u32 %r12, %r12, 0, %p7;
  st.global.u32 [%rd2], %r21;
)");
  const auto device = open();
  for (const std::uint32_t n : {20u, 64u, 140u, 200u}) {
    const auto body = expect_same(*device, launch(text, {2, 1, 1}, {100, 1, 1}, n));
    EXPECT_FALSE(body.is_ragged);
    EXPECT_FALSE(body.needs_block);
  }
}

// Lanes 0 to 7 of each warp go their own way, and some of them return on it while the others wait at full masks and
// barriers.
TEST_P(TaskTest, ReturnInsideOfABranch_IsRagged) {
  const std::string text = kernel(R"(
  and.b32 %r10, %r4, 31; setp.ge.u32 %p1, %r10, 8; mov.u32 %r11, %r5;
  @%p1 bra $met;
  mov.u32 %r12, 0;
$spin:
  mad.lo.u32 %r11, %r11, 5, 3; add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, %r10; @%p2 bra $spin;
  and.b32 %r13, %r5, %r1; setp.eq.u32 %p3, %r13, 1;
  @%p3 bra $gone;
$met:
  shfl.sync.bfly.b32 %r14, %r11, 2, 31, -1;
  vote.sync.ballot.b32 %r15, %p1, -1;
  bar.sync 0;
  bar.red.popc.u32 %r16, 0, %p1;
  setp.eq.u32 %p4, %r10, 9;
  @!%p4 bra $more;
  setp.eq.u32 %p5, %r4, 41;
  @%p5 exit;
$more:
  bar.sync 0;
  vote.sync.ballot.b32 %r17, %p1, -1;
  xor.b32 %r18, %r10, 2; shl.b32 %r19, 1, %r18; and.b32 %r19, %r19, %r15; setp.eq.u32 %p6, %r19, 0; @%p6 mov.u32 %r14, 0;
  add.u32 %r20, %r14, %r15; add.u32 %r20, %r20, %r16; add.u32 %r20, %r20, %r17;
  st.global.u32 [%rd2], %r20;
  ret;
$gone:
  st.global.u32 [%rd2], 4242;
)");
  const auto device = open();
  for (const std::uint32_t threads : {32u, 64u, 100u, 128u}) {
    SCOPED_TRACE(threads);
    const auto body = expect_same(*device, launch(text, {3, 1, 1}, {threads, 1, 1}, 5));
    EXPECT_TRUE(body.is_ragged);
    EXPECT_EQ(body.named_barriers, 0u);
  }
}

// Each round some lanes leave for good; the rest meets again.
TEST_P(TaskTest, LanesThatLeaveALoop_AreCountedOut) {
  const std::string text = kernel(R"(
  mov.u32 %r10, 0; mov.u32 %r11, 0;
$round:
  setp.ge.u32 %p1, %r10, %r4;
  @%p1 bra $out;
  bar.sync 2;
  vote.sync.ballot.b32 %r12, %p1, -1;
  shfl.sync.up.b32 %r13, %r11, 1, 0, -1;
  add.u32 %r11, %r11, 1;
  bar.red.popc.u32 %r14, 2, 1;
  add.u32 %r11, %r11, %r14;
  add.u32 %r10, %r10, %r1;
  bra $round;
$out:
  st.global.u32 [%rd2], %r11;
)");
  // bar.red wants a predicate register.
  std::string made = text;
  made.replace(made.find("2, 1;"), 5, "2, %p9;");
  made.replace(made.find("mov.u32 %r10, 0;"), 16, "setp.eq.u32 %p9, %r1, %r1; mov.u32 %r10, 0;");
  const auto device = open();
  const auto body = expect_same(*device, launch(made, {3, 1, 1}, {90, 1, 1}, 9));
  EXPECT_FALSE(body.is_ragged);
  EXPECT_EQ(body.barriers, std::vector{transform::TaskBarrierKind::kWord});
}

TEST_P(TaskTest, Reductions_OfAnyForm) {
  const std::string text = kernel(R"(
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 exit;
  mov.u32 %r10, 0; mov.u32 %r11, 0;
$round:
  shr.u32 %r12, %r4, %r10; and.b32 %r12, %r12, 1; setp.eq.u32 %p2, %r12, 1; setp.lt.u32 %p3, %r4, 60; setp.lt.u32 %p7, %r4, 2000;
  bar.red.popc.u32 %r13, 5, %p2;
  bar.red.and.pred %p4, 5, %p3;
  bar.red.or.pred %p5, 6, !%p3;
  barrier.red.and.pred %p6, 6, %p7;
  selp.u32 %r14, 1, 0, %p4; selp.u32 %r15, 2, 0, %p5; selp.u32 %r16, 4, 0, %p6;
  add.u32 %r11, %r11, %r13; mul.lo.u32 %r11, %r11, 3; add.u32 %r11, %r11, %r14; add.u32 %r11, %r11, %r15; add.u32 %r11, %r11, %r16;
  add.u32 %r10, %r10, 1; setp.lt.u32 %p8, %r10, 6; @%p8 bra $round;
  st.global.u32 [%rd2], %r11;
)");
  const auto device = open();
  for (const std::uint32_t threads : {32u, 50u, 100u, 128u})
    for (const std::uint32_t n : {25u, 50u, 105u, 1000u}) {
      SCOPED_TRACE(fmt::format("{} threads, n {}", threads, n));
      expect_same(*device, launch(text, {2, 1, 1}, {threads, 1, 1}, n));
    }
}

// Warp 0 produces, the others consume, over two barriers with counts; n picks ids in registers.
constexpr char kProducer[] = R"(
  .shared .align 8 .b8 mail[128];
  shr.u32 %r10, %r4, 5; and.b32 %r11, %r4, 31; shl.b32 %r12, %r11, 2; mov.u32 %r13, mail; add.u32 %r13, %r13, %r12;
  mov.u32 %r14, 0; mov.u32 %r15, 0; setp.ne.u32 %p1, %r10, 0;
$round:
  @%p1 bra $consume;
  IDS
  BAR.sync EMPTY, 96;
  mad.lo.u32 %r16, %r14, 100, %r5; st.shared.u32 [%r13], %r16;
  BAR.arrive FULL, 96;
  mov.u32 %r15, %r16;
  bra $next;
$consume:
  IDS
  BAR.arrive EMPTY, 96;
  BAR.sync FULL, 96;
  ld.shared.u32 %r16, [%r13]; mad.lo.u32 %r15, %r15, 3, %r16;
$next:
  add.u32 %r14, %r14, 1; setp.lt.u32 %p2, %r14, 5; @%p2 bra $round;
  st.global.u32 [%rd2], %r15;
)";
std::string producer(const std::string& bar, const std::string& ids, const std::string& empty,
                     const std::string& full) {
  std::string text = kProducer;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"IDS", ids}, {"BAR", bar}, {"EMPTY", empty}, {"FULL", full}})
    for (std::size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
  return kernel(text);
}

TEST_P(TaskTest, CountedBarriers_LetWarpsGoOn) {
  const auto device = open();
  const auto body = expect_same(*device, launch(producer("bar", "", "1", "2"), {4, 1, 1}, {96, 1, 1}, 1));
  EXPECT_EQ(body.barriers, std::vector(2, transform::TaskBarrierKind::kWord));
  expect_same(*device, launch(producer("barrier", "", "1", "2"), {4, 1, 1}, {90, 1, 1}, 1));  // a warp counts as 32
}

TEST_P(TaskTest, BarrierIds_InRegisters) {
  const auto device = open();
  const std::string ids = "add.u32 %r20, %r1, 1; add.u32 %r21, %r1, 2;";
  const auto body = expect_same(*device, launch(producer("bar", ids, "%r20", "%r21"), {4, 1, 1}, {96, 1, 1}, 7));
  EXPECT_EQ(body.barriers.size(), 16u);
  EXPECT_EQ(body.named_barriers, 0u);
}

// The hardware has 16 barriers in a block, and so has the CPU device; a task has as many as it names.
TEST_P(TaskTest, MoreThan16Barriers) {
  std::string text =
      ".shared .align 4 .b8 box[512];\n mov.u32 %r10, box; shl.b32 %r11, %r4, 2; add.u32 %r11, %r10, %r11;\n"
      "xor.b32 %r12, %r4, 64; shl.b32 %r12, %r12, 2; add.u32 %r12, %r10, %r12; mov.u32 %r13, %r5;\n";
  for (int id = 0; id < 40; ++id)
    text += fmt::format(
        "st.shared.u32 [%r11], %r13; bar.sync {}; ld.shared.u32 %r14, [%r12]; add.u32 %r13, %r14, 1; bar.sync {};\n",
        id, id + 1);
  const auto device = open();
  Words expected(2048, 0xeeeeeeeeu);
  for (std::uint32_t i = 0; i < 4 * 128; ++i) expected[i] = i + 40;  // 40 swaps of i and i ^ 64
  transform::TaskBody body;
  expect_as_task(*device, launch(kernel(text + "st.global.u32 [%rd2], %r13;"), {4, 1, 1}, {128, 1, 1}, 0), expected,
                 &body);
  EXPECT_EQ(body.barriers.size(), 41u);
  EXPECT_EQ(body.named_barriers, 0u) << "there are not so many";
}

TEST_P(TaskTest, SharedMemory_StaticAndDynamic) {
  const std::string text = kernel(R"(
  .shared .align 2 .b8 odd[6];
  .shared .align 64 .b8 wide[256];
  and.b32 %r10, %r4, 63; shl.b32 %r11, %r10, 2;
  mov.u32 %r12, wide; add.u32 %r13, %r12, %r11; st.shared.u32 [%r13], %r5;
  mov.u32 %r14, grown; add.u32 %r15, %r14, %r11; mul.lo.u32 %r16, %r5, 7; st.shared.u32 [%r15], %r16;
  setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u16 [odd+4], 11; @%p1 st.shared.u32 [first+8], 5;
  bar.sync 0;
  xor.b32 %r17, %r11, 4; add.u32 %r18, %r14, %r17; ld.shared.u32 %r19, [%r18]; add.u32 %r18, %r12, %r17; ld.shared.u32 %r20, [%r18];
  ld.shared.u16 %rs1, [odd+4]; cvt.u32.u16 %r21, %rs1; ld.shared.u32 %r22, [first+8];
  mov.u64 %rd3, first; cvta.shared.u64 %rd4, %rd3; ld.u32 %r23, [%rd4+8];
  isspacep.shared %p2, %rd4; selp.u32 %r24, 100, 0, %p2;
  atom.shared.add.u32 %r25, [first], 1; bar.sync 0; ld.shared.u32 %r26, [first];
  and.b32 %r27, %r12, 63; and.b32 %r28, %r14, 15;
  mov.u32 %r29, %dynamic_smem_size;
  add.u32 %r30, %r19, %r20; add.u32 %r30, %r30, %r21; add.u32 %r30, %r30, %r22; add.u32 %r30, %r30, %r23; add.u32 %r30, %r30, %r24;
  mad.lo.u32 %r30, %r27, 1000, %r30; mad.lo.u32 %r30, %r28, 1000, %r30; add.u32 %r30, %r30, %r29;
  st.global.u32 [%rd2], %r30;
)",
                                  ".shared .align 8 .b8 first[16];\n.extern .shared .align 16 .b8 grown[];\n");
  std::string made = text;
  made.replace(made.find(".reg .pred"), 10, ".reg .b16 %rs<2>; .reg .pred");
  const auto device = open();
  Launch of = launch(made, {3, 1, 1}, {64, 1, 1}, 0);
  of.config.dynamic_shared_bytes = 256;
  const auto body = expect_same(*device, of);
  EXPECT_TRUE(body.uses_dynamic_shared);
  EXPECT_EQ(body.static_shared_bytes, 320u);  // 16, then 6 from 16 on, then 256 from 64 on
  EXPECT_EQ(body.dynamic_shared_offset, 320u);
  EXPECT_EQ(body.shared_align_bytes, 64u);
}

constexpr char kFunctions[] = R"(
.shared .align 4 .b8 board[512];
.shared .align 4 .b8 own[512];
.func (.param .b32 result) place(.param .b32 given)
{
  .reg .b32 %a<8>;
  ld.param.b32 %a1, [given]; mov.u32 %a2, %tid.x; mov.u32 %a3, %ctaid.x; mov.u32 %a4, %ntid.x;
  mad.lo.u32 %a5, %a3, %a4, %a2; add.u32 %a5, %a5, %a1;
  st.param.b32 [result], %a5;
  ret;
}
.func (.param .b32 result) swapped(.param .b32 given)
{
  .reg .b32 %a<10>; .reg .pred %q;
  ld.param.b32 %a1, [given]; mov.u32 %a2, %tid.x; shl.b32 %a3, %a2, 2; mov.u32 %a4, own; add.u32 %a5, %a4, %a3;
  st.shared.u32 [%a5], %a1;
  bar.sync 0;
  xor.b32 %a6, %a3, 4; add.u32 %a6, %a4, %a6; ld.shared.u32 %a7, [%a6];
  shfl.sync.bfly.b32 %a8, %a7, 2, 31, -1; setp.eq.u32 %q, %a2, 0; @%q st.shared.u32 [board], %a8;
  bar.sync 1;
  st.param.b32 [result], %a8;
  ret;
}
)";

// Device functions see the task's place, its shared memory, its barriers and its live lanes.
TEST_P(TaskTest, DeviceFunctions_SeeTheTask) {
  const auto with = [](const std::string& more) {
    return kernel(R"(
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 ret;
  { .param .b32 g; .param .b32 v; st.param.b32 [g], 3; call.uni (v), place, (g); ld.param.b32 %r10, [v]; }
  { .param .b32 g; .param .b32 v; st.param.b32 [g], %r10; call.uni (v), swapped, (g); ld.param.b32 %r11, [v]; }
)" + more + R"(
  ld.shared.u32 %r14, [board]; add.u32 %r13, %r13, %r14;
  st.global.u32 [%rd2], %r13;
)",
                  kFunctions);
  };
  const std::string by_name = "mov.u32 %r13, %r11;", by_address = R"(
  and.b32 %r12, %r1, 1; setp.eq.u32 %p2, %r12, 0; mov.u64 %rd3, place; mov.u64 %rd4, swapped; selp.b64 %rd5, %rd4, %rd3, %p2;
  $proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  { .param .b32 g; .param .b32 v; st.param.b32 [g], %r11; call (v), %rd5, (g), $proto; ld.param.b32 %r13, [v]; }
)";
  const auto device = open();
  for (const std::uint32_t n : {64u, 40u, 44u, 96u}) {
    SCOPED_TRACE(n);
    const auto body = expect_same(*device, launch(with(by_name), {3, 1, 1}, {96, 1, 1}, n));
    // The JIT refuses shared variables in functions that are called by address.
    if (GetParam() != "jit" && GetParam() != "vector")
      expect_same(*device, launch(with(by_address), {3, 1, 1}, {96, 1, 1}, n));
    EXPECT_EQ(body.static_shared_bytes, 1024u);
    EXPECT_EQ(body.named_barriers, 0u);
  }
}

TEST_P(TaskTest, ParametersByAddress) {
  const std::string text = std::string(kHeader) + R"(
.visible .entry kernel(.param .u64 out, .param .align 8 .b8 pair[16])
{
  .reg .b32 %r<10>; .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  mov.b64 %rd3, pair; and.b32 %r2, %r1, 3; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd3, %rd4; ld.param.u32 %r3, [%rd5];
  ld.param.v2.u32 {%r4, %r5}, [pair+8]; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;
  st.global.u32 [%rd1], %r3;
}
)";
  Launch of = launch(text, {1, 1, 1}, {40, 1, 1}, 0);
  const Words values = {1, 20, 300, 4000};
  of.arguments[1].value.resize(16);
  std::memcpy(of.arguments[1].value.data(), values.data(), 16);
  const auto device = open();
  Words expected(2048, 0xeeeeeeeeu);
  for (std::uint32_t i = 0; i < 40; ++i) expected[i] = values[i % 4] + 4300;
  transform::TaskBody body;
  expect_as_task(*device, of, expected, &body);
  EXPECT_EQ(body.parameter_bytes, 24u);
}

// Whether its warps can be placed one by one is read off its PTX.
TEST(TaskBody, NeedsItsBlock_WhereWarpsMayWaitForOneAnother) {
  const auto needs = [](const std::string& body) {
    const auto module = ptx::parse(kernel(body), "x.ptx");
    EXPECT_TRUE(module.ok()) << module.message();
    const auto made = transform::entry_to_task(*module, "kernel");
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() && made->needs_block;
  };
  EXPECT_FALSE(needs("st.global.u32 [%rd2], 1;"));
  EXPECT_FALSE(needs("$l: add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 9; @%p1 bra $l;"));
  EXPECT_FALSE(needs("red.global.add.u32 [%rd2], 1;"));
  EXPECT_TRUE(needs("$l: ld.volatile.global.u32 %r10, [%rd2]; setp.eq.u32 %p1, %r10, 0; @%p1 bra $l;"));
  EXPECT_TRUE(needs("bar.sync 0;"));
  EXPECT_TRUE(needs(".shared .b32 x; st.shared.u32 [x], 1;"));
}

}  // namespace
}  // namespace pergola::tasks
