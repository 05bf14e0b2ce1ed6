// Hand-written kernels through the engine: each path of the tier once.
#include <gmock/gmock.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "src/device/cpu/jit/jit_test_util.h"

namespace pergola::device::cpu::jit {
namespace {

using testing::Program;
using ::testing::HasSubstr;

constexpr const char* kSaxpy = R"(
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {
  .reg .pred %p<2>; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;
  cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;
  ld.global.f32 %f2, [%rd5]; ld.global.f32 %f3, [%rd7];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f4;
DONE: ret;
})";

TEST(Jit, Saxpy_ComputesEveryElement) {
  Program program(kSaxpy);
  std::vector<float> x(1000), y(1000);
  for (int n = 0; n < 1000; ++n) x[n] = static_cast<float>(n), y[n] = 0.5f * static_cast<float>(n);
  const Status status = program.run("saxpy", {8, 1, 1}, {128, 1, 1}, 0, x.data(), y.data(), 2.0f, 1000u);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int n = 0; n < 1000; ++n) EXPECT_EQ(y[n], 2.5f * static_cast<float>(n));
}

TEST(Jit, Reduction_SharedMemoryAndBarriers) {
  Program program(R"(
.visible .entry reduce(.param .u64 in, .param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  .shared .align 4 .b8 tile[1024];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3;
  ld.global.u32 %r2, [%rd4];
  mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.s32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r2;
  mov.u32 %r6, 128;
LOOP:
  bar.sync 0;
  setp.ge.u32 %p1, %r1, %r6;
  @%p1 bra SKIP;
  shl.b32 %r7, %r6, 2; add.s32 %r8, %r5, %r7;
  ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r5]; add.u32 %r10, %r10, %r9; st.shared.u32 [%r5], %r10;
SKIP:
  shr.u32 %r6, %r6, 1;
  setp.ne.u32 %p2, %r6, 0;
  @%p2 bra LOOP;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  ld.shared.u32 %r11, [tile]; st.global.u32 [%rd2], %r11;
DONE: ret;
})");
  std::vector<std::uint32_t> in(256);
  std::iota(in.begin(), in.end(), 1u);
  std::uint32_t out = 0;
  const Status status = program.run("reduce", {1, 1, 1}, {256, 1, 1}, 0, in.data(), &out);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, 256u * 257 / 2);
}

TEST(Jit, Shuffle_SumsAWarpInAnyHalf) {
  Program program(R"(
.visible .entry warp_sum(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %r1;
  shfl.sync.down.b32 %r3|%p1, %r2, 16, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.down.b32 %r3|%p1, %r2, 8, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.down.b32 %r3|%p1, %r2, 4, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 2, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; add.u32 %r2, %r2, %r3;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
})");
  std::vector<std::uint32_t> out(64, 0);
  const Status status = program.run("warp_sum", {1, 1, 1}, {64, 1, 1}, 0, out.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out[0], 31u * 32 / 2);
  EXPECT_EQ(out[32], 31u * 32 / 2 + 32 * 32);
}

TEST(Jit, SpinOnAnotherBlock_Yields) {
  Program program(R"(
.visible .entry ping(.param .u64 flag, .param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra SET;
WAIT:
  ld.acquire.gpu.global.u32 %r2, [%rd1];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  st.global.u32 [%rd2], %r2;
  ret;
SET:
  st.release.gpu.global.u32 [%rd1], 7;
  ret;
})");
  std::uint32_t flag = 0, out = 0;
  const Status status = program.run("ping", {2, 1, 1}, {1, 1, 1}, 0, &flag, &out);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, 7u);
}

TEST(Jit, CallsAndLocalArrays_Work) {
  Program program(R"(
.func (.param .b32 result) square(.param .b32 a) {
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [a]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret;
}
.func (.param .b32 result) factorial(.param .b32 a) {
  .reg .pred %p<2>; .reg .b32 %r<6>;
  ld.param.b32 %r1, [a];
  setp.gt.s32 %p1, %r1, 1;
  @%p1 bra MORE;
  st.param.b32 [result], 1; ret;
MORE:
  sub.s32 %r2, %r1, 1;
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r2; call.uni (retval0), factorial, (param0); ld.param.b32 %r3, [retval0]; }
  mul.lo.s32 %r4, %r3, %r1; st.param.b32 [result], %r4; ret;
}
.visible .entry calls(.param .u64 out) {
  .local .align 4 .b8 array[16];
  .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r1; call.uni (retval0), square, (param0); ld.param.b32 %r2, [retval0]; }
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r1; call.uni (retval0), factorial, (param0); ld.param.b32 %r3, [retval0]; }
  mov.u64 %rd2, array; cvta.local.u64 %rd3, %rd2;
  st.local.u32 [%rd2], %r2; st.u32 [%rd3+4], %r3;
  and.b32 %r4, %r1, 1; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd2, %rd4; ld.local.u32 %r5, [%rd5];
  mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], %r5; ret;
})");
  std::vector<std::uint32_t> out(8, 0);
  const Status status = program.run("calls", {1, 1, 1}, {8, 1, 1}, 0, out.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(out, ::testing::ElementsAre(0u, 1u, 4u, 6u, 16u, 120u, 36u, 5040u));
}

TEST(Jit, IndirectCall_ThroughATableInGlobalMemory) {
  Program program(R"(
.func (.param .b32 result) one(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; add.s32 %r1, %r1, 1; st.param.b32 [result], %r1; ret; }
.func (.param .b32 result) two(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; mul.lo.s32 %r1, %r1, 2; st.param.b32 [result], %r1; ret; }
.global .align 8 .u64 table[2] = {one, two};
.visible .entry pick(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1;
  mul.wide.u32 %rd2, %r2, 8; mov.u64 %rd3, table; add.s64 %rd4, %rd3, %rd2; ld.global.u64 %rd5, [%rd4];
  { .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %r1;
    prototype_0: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (retval0), %rd5, (param0), prototype_0; ld.param.b32 %r3, [retval0]; }
  mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], %r3; ret;
})");
  std::vector<std::uint32_t> out(4, 0);
  const Status status = program.run("pick", {1, 1, 1}, {4, 1, 1}, 0, out.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(out, ::testing::ElementsAre(1u, 2u, 3u, 6u));
}

TEST(Jit, NanResults_AreCanonical) {
  Program program(R"(
.visible .entry nan(.param .u64 out, .param .f32 a) {
  .reg .f32 %f<6>; .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [a];
  sub.f32 %f2, %f1, %f1; add.f32 %f3, %f2, 0f3F800000; mul.f32 %f4, %f3, %f3;
  st.global.f32 [%rd1], %f4; mov.b32 %r1, %f2; st.global.u32 [%rd1+4], %r1;
  min.f32 %f5, %f2, 0f40000000; st.global.f32 [%rd1+8], %f5; ret;
})");
  std::vector<std::uint32_t> out(3, 0);
  const Status status = program.run("nan", {1, 1, 1}, {1, 1, 1}, 0, out.data(), INFINITY);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(out, ::testing::ElementsAre(0x7fffffffu, 0x7fffffffu, 0x40000000u));
}

TEST(Jit, WildAccess_IsAFaultNotACrash) {
  Program program(kSaxpy);
  std::vector<float> x(8, 1.0f);
  for (int round = 0; round < 3; ++round) {
    const Status status = program.run("saxpy", {1, 1, 1}, {8, 1, 1}, 0, x.data(), std::uint64_t{64}, 2.0f, 8u);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kDeviceFault);
    EXPECT_THAT(status.message(), HasSubstr("thread (0,0,0) of block (0,0,0) reads 4 bytes at 0x40, no buffer exists on the device"));
  }
}

TEST(Jit, SharedAccessOutside_IsAFault) {
  Program program(R"(
.extern .shared .align 4 .b8 pool[];
.visible .entry outside(.param .u32 at) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [at]; mov.u32 %r2, pool; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r1; ret;
})");
  EXPECT_TRUE(program.run("outside", {1, 1, 1}, {1, 1, 1}, 64, 60u).ok());
  const Status status = program.run("outside", {1, 1, 1}, {1, 1, 1}, 64, 64u);
  EXPECT_THAT(status.message(), HasSubstr("shared memory"));
}

TEST(Jit, TrapAndDeadlock_AreFaults) {
  Program program(R"(
.visible .entry trap_one(.param .u32 at) {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  ld.param.u32 %r1, [at]; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r1, %r2;
  bar.sync 0;
  @%p1 trap;
  ret;
}
.visible .entry stuck() {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0;
  @%p1 bar.sync 1, 64;
  @!%p1 bar.sync 2, 64;
  ret;
})");
  Status status = program.run("trap_one", {1, 1, 1}, {64, 1, 1}, 0, 33u);
  EXPECT_THAT(status.message(), HasSubstr("(trap): thread (33,0,0) of block (0,0,0) traps."));
  status = program.run("stuck", {1, 1, 1}, {32, 1, 1}, 0);
  EXPECT_THAT(status.message(), HasSubstr("waits for ever"));
}

TEST(Jit, EndlessLoop_StopsWhenTheLaunchIsTo) {
  Program program(R"(
.visible .entry forever(.param .u64 at) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
LOOP:
  ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2;
  bra LOOP;
}
.visible .entry nothing() {
LOOP: bra LOOP;
})");
  program.stop_after_turns = 20;
  std::uint32_t count = 0;
  Status status = program.run("forever", {2, 1, 1}, {4, 1, 1}, 0, &count);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(program.run("nothing", {1, 1, 1}, {1, 1, 1}, 0).code(), Code::kTimeout);
}

TEST(Jit, Mbarrier_CountsArrivalsOfAPhase) {
  Program program(R"(
.visible .entry meet(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
  .shared .align 8 .b64 gate; .shared .align 4 .b32 sum;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, gate;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared.b64 [%r2], 64; st.shared.u32 [sum], 0;
READY:
  bar.sync 0;
  red.shared.add.u32 [sum], %r1;
  mbarrier.arrive.shared.b64 %rd2, [%r2];
WAIT:
  mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2;
  @!%p2 bra WAIT;
  ld.shared.u32 %r3, [sum];
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r3; ret;
})");
  std::vector<std::uint32_t> out(64, 0);
  const Status status = program.run("meet", {1, 1, 1}, {64, 1, 1}, 0, out.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(out, ::testing::Each(63u * 64 / 2));
}

// The folder of the object cache is chosen when an engine is made; this one is the test's own.
class ObjectCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("pergola_objects_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    ::setenv("PERGOLA_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("PERGOLA_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  std::vector<std::filesystem::path> objects() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.file_size() > 64) files.push_back(entry.path());
    }
    return files;
  }
  // One launch in a new engine: adds 1 to the module's own counter, whose value it gives.
  static std::uint32_t count_once() {
    const auto tier = std::move(create_engine()).value();
    Program program(R"(
.global .u32 counter = 41;
.visible .entry count(.param .u64 out) {
  .reg .u32 %r<3>; .reg .u64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.global.u32 %r1, [counter]; add.u32 %r2, %r1, 1; st.global.u32 [counter], %r2; st.global.u32 [%rd1], %r2; ret;
})", *tier);
    std::uint32_t out = 0;
    const Status status = program.run("count", {1, 1, 1}, {1, 1, 1}, 0, &out);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(*program.global<std::uint32_t>("counter"), 42u);
    return out;
  }
  std::filesystem::path folder_;
};

TEST_F(ObjectCacheTest, SecondEngine_FindsTheObject_AndPlacesItsOwnVariables) {
  EXPECT_EQ(count_once(), 42u);
  const auto files = objects();
  ASSERT_EQ(files.size(), 1u);
  const auto written = std::filesystem::last_write_time(files[0]);
  EXPECT_EQ(count_once(), 42u);
  EXPECT_EQ(objects(), files);
  EXPECT_EQ(std::filesystem::last_write_time(files[0]), written) << "compiled again";
}

TEST_F(ObjectCacheTest, DamagedObject_IsMadeAnew) {
  EXPECT_EQ(count_once(), 42u);
  const auto files = objects();
  ASSERT_EQ(files.size(), 1u);
  const auto size = std::filesystem::file_size(files[0]);
  std::filesystem::resize_file(files[0], size / 2);
  EXPECT_EQ(count_once(), 42u);
  EXPECT_EQ(std::filesystem::file_size(files[0]), size);
}

TEST(Jit, Refusal_NamesFileLineAndInstruction) {
  Program program(R"(
.visible .entry bulk() {
  cp.async.bulk.commit_group;
  ret;
})");
  const Status status = program.run("bulk", {1, 1, 1}, {1, 1, 1}, 0);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("test.ptx:"));
  EXPECT_THAT(status.message(), HasSubstr("cp.async.bulk.commit_group"));
}

}  // namespace
}  // namespace pergola::device::cpu::jit
