// What the interpreter does beyond instructions (those are tested by tests/ptx): refusals, faults, printing, heap,
// and the recorder of accesses.
#include "src/device/cpu/interpreter/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/access_recorder.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu {
namespace {

using testing::HasSubstr;

constexpr const char* kHead = ".version 7.0\n.target sm_70\n.address_size 64\n";
constexpr const char* kRegisters =
    "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<8>;\n  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, %tid.x;\n";

class InterpreterTest : public testing::Test {
 protected:
  InterpreterTest() {
    CpuOptions options;
    options.sms = 1;
    options.print_sink = [this](std::string_view text) { printed_ += text; };
    auto device = create_cpu_device(options, create_interpreter());
    EXPECT_TRUE(device.ok()) << device.message();
    device_ = *device;
    auto buffer = device_->allocate(256, MemoryKind::kHostVisible);
    EXPECT_TRUE(buffer.ok());
    buffer_ = *buffer;
    std::memset(buffer_->host_pointer(), 0, 256);
  }

  // Runs the entry k(out) with this body; `before` stands at module scope.
  Status run(const std::string& body, const std::string& before = "", Dim3 block = {32, 1, 1}) {
    const std::string text = kHead + before + ".visible .entry k(.param .u64 out)\n{\n" + kRegisters + body + "}\n";
    auto parsed = ptx::parse(text, "test.ptx");
    if (!parsed.ok()) return parsed.status();
    PERGOLA_ASSIGN(ModulePtr module, device_->load({&*parsed, text, "test.ptx"}));
    PERGOLA_ASSIGN(const Kernel* kernel, module->kernel("k"));
    PERGOLA_ASSIGN(auto queue, device_->create_queue());
    const std::uint64_t address = buffer_->address();
    std::vector<std::byte> parameters(8);
    std::memcpy(parameters.data(), &address, 8);
    LaunchConfig config;
    config.block = block;
    PERGOLA_TRY(queue->launch(module, *kernel, config, parameters));
    return queue->synchronize();
  }
  std::uint32_t word(std::size_t index) const {
    std::uint32_t value = 0;
    std::memcpy(&value, buffer_->host_pointer() + 4 * index, 4);
    return value;
  }

  std::string printed_;
  DevicePtr device_;
  BufferPtr buffer_;
};

TEST_F(InterpreterTest, UnsupportedInstruction_IsRefusedByNameAndPlace) {
  const Status status = run("  tex.cube.v4.f32.f32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1, %r1, %r1, %r1}];\n  ret;\n");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("test.ptx:11:"));
  EXPECT_THAT(status.message(), HasSubstr("`tex.cube.v4.f32.f32` is not supported by the CPU device"));
}

TEST_F(InterpreterTest, TextureThatIsNone_IsAFault) {
  const Status status = run("  tex.2d.v4.f32.f32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1, %r1}];\n  ret;\n");
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_THAT(status.message(), HasSubstr("which is none of this device"));
}

TEST_F(InterpreterTest, UnknownFunction_IsRefusedByName) {
  const Status status = run("  call missing;\n  ret;\n", ".extern .func missing();\n");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("'missing'"));
}

TEST_F(InterpreterTest, BarrierThatNobodyCompletes_EndsAsAFault) {
  const Status status = run("  bar.sync 1, 64;\n  ret;\n");
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_THAT(status.message(), HasSubstr("waits at barrier 1, where 32 of 64 threads have arrived: block (0,0,0) warp 0 lanes 0xffffffff"));
}

TEST_F(InterpreterTest, FaultWithLoc_NamesTheSourceLine) {
  const Status status = run("  .loc 1 77 3\n  ld.global.u32 %r2, [%rd1+4096];\n  st.global.u32 [%rd1], %r2;\n  ret;\n",
                            ".file 1 \"blur.cu\"\n");
  EXPECT_EQ(status.code(), Code::kDeviceFault);
  EXPECT_THAT(status.message(), HasSubstr("Kernel 'k' at blur.cu:77 (ld.global.u32): thread (0,0,0) of block (0,0,0) "
                                          "reads 4 bytes at 0x"));
}

TEST_F(InterpreterTest, Vprintf_WritesThroughTheSink) {
  const Status status = run(
      "  .local .align 8 .b8 arguments[8];\n"
      "  setp.ne.u32 %p1, %r1, 0;\n  @%p1 ret;\n"
      "  st.local.u32 [arguments], 42;\n  mov.u64 %rd2, arguments;\n  cvta.local.u64 %rd2, %rd2;\n"
      "  mov.u64 %rd3, text;\n  cvta.global.u64 %rd3, %rd3;\n"
      "  {\n  .param .b64 p0;\n  .param .b64 p1;\n  .param .b32 r0;\n  st.param.b64 [p0], %rd3;\n"
      "  st.param.b64 [p1], %rd2;\n  call (r0), vprintf, (p0, p1);\n  ld.param.b32 %r2, [r0];\n  }\n"
      "  st.global.u32 [%rd1], %r2;\n  ret;\n",
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
      ".global .align 1 .b8 text[12] = {97, 110, 115, 119, 101, 114, 32, 37, 100, 10, 0, 0};\n");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(printed_, "answer 42\n");
  EXPECT_EQ(word(0), 1u);
}

TEST_F(InterpreterTest, MallocAndFree_GiveMemoryThatIsCheckedAfterFree) {
  const char* const kAllocate =
      "  setp.ne.u32 %p1, %r1, 0;\n  @%p1 ret;\n"
      "  {\n  .param .b64 p0;\n  .param .b64 r0;\n  st.param.b64 [p0], 64;\n  call (r0), malloc, (p0);\n"
      "  ld.param.b64 %rd2, [r0];\n  }\n  st.u32 [%rd2+60], 5;\n  ld.u32 %r2, [%rd2+60];\n  st.global.u32 [%rd1], %r2;\n"
      "  {\n  .param .b64 p0;\n  st.param.b64 [p0], %rd2;\n  call free, (p0);\n  }\n";
  const char* const kDeclare =
      ".extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n";
  const Status fine = run(std::string(kAllocate) + "  ret;\n", kDeclare);
  ASSERT_TRUE(fine.ok()) << fine.message();
  EXPECT_EQ(word(0), 5u);
  const Status after = run(std::string(kAllocate) + "  ld.u32 %r2, [%rd2];\n  ret;\n", kDeclare);
  EXPECT_EQ(after.code(), Code::kDeviceFault);
}

TEST_F(InterpreterTest, Recorder_SeesEveryAccessWithItsThread) {
  std::mutex mutex;
  std::vector<MemoryAccess> seen;
  AccessRecorder recorder = [&](const MemoryAccess& access) {
    const std::scoped_lock lock(mutex);
    if (access.address >= buffer_->address() && access.address < buffer_->address() + 256) seen.push_back(access);
  };
  set_access_recorder(&recorder);
  const Status status = run("  mad.wide.u32 %rd2, %r1, 4, %rd1;\n  st.global.u32 [%rd2], %r1;\n  ret;\n");
  set_access_recorder(nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(seen.size(), 32u);
  for (const MemoryAccess& access : seen) {
    EXPECT_TRUE(access.write);
    EXPECT_EQ(access.size_bytes, 4u);
    EXPECT_EQ(access.address, buffer_->address() + 4 * access.thread.x);
  }
}

}  // namespace
}  // namespace pergola::device::cpu
