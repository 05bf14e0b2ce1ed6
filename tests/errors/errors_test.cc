// A wrong kernel fails its launch with a message that names kernel, block, thread, address and what is there; the
// process goes on and the next launch works. Every error on every tier that can see it (docs/errors.md has the table).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/tier_test.h"

namespace pergola {
namespace {

using ptx_cases::PtxProgram;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;

class Errors : public test_support::TierTest {
 protected:
  static bool interprets() { return GetParam() == "interpreter"; }
  // The tier sees the exact access and its line.
  static std::string line(const std::string& text) { return text; }

  // Thread 5 of block 2, as the tier knows it: code for a group of lanes faults as a group.
  static void expect_named(const Status& status) {
    const std::string rest = "of block (2,0,0) ";
    const auto exact = HasSubstr("thread (5,0,0) " + rest);
    if (GetParam() == "vector")
      EXPECT_THAT(status.message(), AnyOf(exact, HasSubstr("one of the threads (0,0,0) to (31,0,0) " + rest)));
    else
      EXPECT_THAT(status.message(), exact);
  }

  // The launch has failed with a fault that holds `text`, and the same device runs a right kernel.
  static void expect_fault(PtxProgram& program, const Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), Code::kDeviceFault) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(text));
    const auto out = program.zeros(4);
    const Status next = program.run("fine", {.grid = {1, 1, 1}, .block = {1, 1, 1}}, out->address());
    EXPECT_TRUE(next.ok()) << next.message();
    EXPECT_EQ(static_cast<int>(out->host_pointer()[0]), 7);
  }
};

PERGOLA_ON_EVERY_TIER(Errors);

device::DevicePtr open_checked() {
  auto device = ptx_cases::open_test_device("checked");
  EXPECT_TRUE(device.ok()) << device.message();
  return *device;
}

// `body` is of k(p, q): %p and %q the parameters, %t the thread, %b the block. Its line 20 is the body's first.
std::string module(const std::string& body, const std::string& before = "") {
  return R"(.file 1 "blur.cu"
.visible .entry fine(.param .u64 p) { .reg .b64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p], 7; ret; }
)" + before + R"(
.visible .entry k(.param .u64 p, .param .u64 q) {
  .reg .b64 %p, %q, %a<4>; .reg .b32 %t, %b, %r<8>; .reg .pred %c<4>;
  ld.param.u64 %p, [p]; ld.param.u64 %q, [q];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
)" + body + "\n  ret;\n}\n";
}

// What loading the module and its kernel 'k' ends with.
Status load_status(const device::DevicePtr& device, const std::string& body) {
  const std::string text = ".version 7.8\n.target sm_70\n.address_size 64\n" + body;
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(text, "test.ptx"));
  PERGOLA_ASSIGN(const device::ModulePtr module, device->load({&parsed, text, "test.ptx"}));
  return module->kernel("k").status();
}

// Thread 5 of block 2 alone goes on.
constexpr const char* kOne =
    "  setp.ne.u32 %c0, %t, 5; @%c0 ret; setp.ne.u32 %c0, %b, 2; @%c0 ret;\n  .loc 1 77 3\n";
constexpr device::LaunchConfig kShape{.grid = {3, 1, 1}, .block = {64, 1, 1}};

// What cooperative_groups::this_grid().sync() begins with.
TEST_P(Errors, GridSyncOutsideACooperativeLaunch_NamesTheLaunch) {
  PtxProgram program(open(), module("  mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1; or.b32 %r3, %r1, %r2;\n"
                                    "  setp.eq.u32 %c1, %r3, 0;\n  .loc 1 77 3\n  @%c1 trap;"));
  const auto buffer = program.zeros(4);
  expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}),
               "traps; the kernel has a grid-wide barrier");
  device::LaunchConfig cooperative = kShape;
  cooperative.cooperative = true;
  const Status valid = program.run("k", cooperative, buffer->address(), std::uint64_t{0});
  EXPECT_TRUE(valid.ok()) << valid.message();
}

TEST_P(Errors, StorePastTheEnd_NamesTheBuffer) {
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [%p+4096], %t;"));
  const auto buffer = program.zeros(4096);
  const Status status = program.run("k", kShape, buffer->address(), std::uint64_t{0});
  expect_fault(program, status, "Kernel 'k'" + line(" at blur.cu:77 (st.global.u32)") + ": ");
  expect_named(status);
  EXPECT_THAT(status.message(), HasSubstr(fmt::format("at {:#x}, 0 bytes past the end of buffer 1 (4096 bytes)", buffer->address() + 4096)));
}

// Written out, so that a compiler sees that it is 0.
TEST_P(Errors, AccessesAtZero_AreFaultsLikeOthers) {
  for (const auto& [access, does] : {std::pair{"st.global.u32 [%a0], %t;", "writes 4 bytes at 0x0"},
                                     {"st.volatile.u32 [%a0], %t;", "writes 4 bytes at 0x0"},
                                     {"st.global.u32 [%a0+16], %t;", "writes 4 bytes at 0x10"},
                                     {"ld.volatile.u32 %r1, [%a0]; st.global.u32 [%p], %r1;", "reads 4 bytes at 0x0"},
                                     {"atom.global.add.u32 %r1, [%a0], 1;", "at 0x0"}}) {
    SCOPED_TRACE(access);
    PtxProgram program(open(), module(std::string(kOne) + "  mov.u64 %a0, 0; " + access));
    const auto buffer = program.zeros(4096);
    expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}), does);
  }
}

TEST_P(Errors, LoadBeforeTheStart_NamesTheBuffer) {
  PtxProgram program(open(), module(std::string(kOne) + "  ld.global.u32 %r1, [%p+-4]; st.global.u32 [%p], %r1;"));
  const auto buffer = program.zeros(4096);
  expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}), "4 bytes before buffer 1 (4096 bytes)");
}

TEST_P(Errors, SmallBuffer_FaultsWithinItsAlignment) {
  // Guard pages see the end of a buffer to 256 bytes, the interpreter to the byte.
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [%p+256], %t;"));
  const auto buffer = program.zeros(100);
  expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}), "156 bytes past the end of buffer 1 (100 bytes)");
}

// What no guard page covers of a buffer of 100 bytes: compiled code's launch fails at its end.
TEST_P(Errors, StoreBehindTheEnd_WithinTheAlignment) {
  for (const int offset : {100, 104, 252}) {
    PtxProgram program(open(), module(std::string(kOne) + fmt::format("  st.global.u32 [%p+{}], %t;", offset)));
    const auto buffer = program.zeros(100);
    const Status status = program.run("k", kShape, buffer->address(), std::uint64_t{0});
    if (interprets()) {
      expect_fault(program, status, fmt::format("{} bytes past the end of buffer 1 (100 bytes)", offset - 100));
    } else {
      expect_fault(program, status, fmt::format("Kernel 'k' wrote outside buffer 1 (100 bytes), {} to {} bytes past its end; this shows only "
                                                "now that it has ended. PERGOLA_CPU_CHECK=1", offset - 100, offset - 97));
    }
  }
}

TEST_P(Errors, StoreBeforeTheStart_WhereThePageBeginsEarlier) {
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [%p+-4], %t;"));
  const auto buffer = program.zeros(100);
  expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}),
               interprets() ? "4 bytes before buffer 1 (100 bytes)" : "wrote outside buffer 1 (100 bytes), 4 to 1 bytes before its start");
}

// The buffer's address comes from memory, not from the parameters.
TEST_P(Errors, StoreBehindTheEnd_OfABufferThatNoParameterNames) {
  PtxProgram program(open(), module(std::string(kOne) + "  ld.global.u64 %a1, [%p]; st.global.u32 [%a1+100], %t;"));
  const auto list = program.zeros(8), buffer = program.zeros(100);
  const std::uint64_t address = buffer->address();
  std::memcpy(list->host_pointer(), &address, sizeof address);
  expect_fault(program, program.run("k", kShape, list->address(), std::uint64_t{0}),
               interprets() ? "0 bytes past the end of buffer 2 (100 bytes)" : "wrote outside buffer 2 (100 bytes), 0 to 3 bytes past its end");
}

TEST_P(Errors, StoreBehindAVariable) {
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [counter+4], %t;", ".global .u32 counter; .global .u32 other;"));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}),
               interprets() ? "0 bytes past the end of variable 'counter' (4 bytes)" : "wrote outside variable 'counter' (4 bytes), 0 to 3 bytes past");
}

// Compiled code reads NaN there; buffers at lower multiples leave less unguarded; the interpreter sees every byte.
TEST_P(Errors, LoadBehindTheEnd_WithinTheAlignment) {
  const std::string text = module(std::string(kOne) + "  ld.global.u32 %r1, [%p+112]; st.global.u32 [%q], %r1;");
  for (const std::uint32_t align : {256u, 16u}) {
    PtxProgram program(open({.buffer_align_bytes = align}), text);
    const auto buffer = program.zeros(100), out = program.zeros(4);
    EXPECT_EQ(buffer->address() % align, 0u);
    const Status status = program.run("k", kShape, buffer->address(), out->address());
    if (interprets() || align == 16) {
      expect_fault(program, status, "reads 4 bytes at ");
      EXPECT_THAT(status.message(), HasSubstr("12 bytes past the end of buffer 1 (100 bytes)"));
      continue;
    }
    EXPECT_TRUE(status.ok()) << status.message();
    float value = 0;
    std::memcpy(&value, out->host_pointer(), sizeof value);
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(Errors, UseAfterFree_SaysThatItIsFreed) {
  PtxProgram program(open(), module(std::string(kOne) + "  ld.global.u32 %r1, [%p+16]; st.global.u32 [%q], %r1;"));
  auto freed = program.zeros(4096);
  const auto kept = program.zeros(4096);
  const std::uint64_t address = freed->address();
  freed.reset();
  expect_fault(program, program.run("k", kShape, address, kept->address()),
               fmt::format("at {:#x}, at byte 16 of buffer 1 (4096 bytes), which has been freed", address + 16));
}

// Malloc's block is %a1.
constexpr const char* kHeapFunctions = ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 b);\n";
constexpr const char* kMalloc64 =
    "  { .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call (r), malloc, (n); ld.param.b64 %a1, [r]; }\n";
constexpr const char* kFree = "  { .param .b64 b; st.param.b64 [b], %a1; call free, (b); }\n";

TEST_P(Errors, HeapBlock_WrittenOutside_IsFoundWhenItIsFreedOrTheLaunchEnds) {
  struct Case {
    int offset;
    const char *checked, *margin;
  };
  for (const Case& c : {Case{64, "0 bytes past the end of heap block 2 (64 bytes)", "heap block 2 (64 bytes), 0 to 3 bytes past its end"},
                        Case{88, "24 bytes past the end of heap block 2 (64 bytes)", "heap block 2 (64 bytes), 24 to 27 bytes past its end"},
                        Case{-4, "4 bytes before heap block 2 (64 bytes)", "heap block 2 (64 bytes), 4 to 1 bytes before its start"}}) {
    for (const bool frees : {false, true}) {
      const std::string store = fmt::format("  st.u32 [%a1+{}], %t;\n", c.offset);
      PtxProgram program(open(), module(std::string(kOne) + kMalloc64 + kMalloc64 + store + (frees ? kFree : ""), kHeapFunctions));
      const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
      if (interprets()) {
        expect_fault(program, status, c.checked);
        continue;
      }
      expect_fault(program, status, frees ? "frees a block outside which a kernel wrote: " : "Kernel 'k' wrote outside ");
      EXPECT_THAT(status.message(), HasSubstr(c.margin));
    }
  }
}

TEST_P(Errors, HeapBlock_WrittenAfterItsFree_IsFound) {
  PtxProgram program(open(),
                     module(std::string(kOne) + kMalloc64 + kFree + "  st.u32 [%a1+16], %t;\n", kHeapFunctions));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}),
               interprets() ? "at byte 16 of heap block 1 (64 bytes), which has been freed"
                            : "wrote to heap block 1 (64 bytes) after it was freed, bytes 16 to 19");
}

TEST_P(Errors, IndexFarOutsideTheHeap_NamesTheBlock) {
  PtxProgram program(open(), module(std::string(kOne) + kMalloc64 + "  st.u32 [%a1+4000000], %t;", kHeapFunctions));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}), "3999936 bytes past the end of heap block 1 (64 bytes)");
}

// What the process keeps itself is out of reach, and the message names the nearest buffer however far it is.
TEST_P(Errors, IndexFarOutside_NamesTheNearestBuffer) {
  for (const int offset : {1000000, 4000000, -1000000, -4000000}) {
    PtxProgram program(open(), module(std::string(kOne) + fmt::format("  st.global.u32 [%p+{}], %t;", offset)));
    const auto buffer = program.zeros(256);
    expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}),
                 offset > 0 ? fmt::format("{} bytes past the end of buffer 1 (256 bytes)", offset - 256)
                            : fmt::format("{} bytes before buffer 1 (256 bytes)", -offset));
  }
}

TEST_P(Errors, IndexFarOutsideAVariable_NamesIt) {
  PtxProgram program(open(), module(std::string(kOne) + "  mov.u64 %a1, lut; st.global.u32 [%a1+900000], %t;", ".global .b8 lut[256];\n"));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}), "899744 bytes past the end of variable 'lut' (256 bytes)");
}

TEST_P(Errors, WrongFree_SaysWhatIsThere) {
  PtxProgram program(open(), module(std::string(kOne) + kMalloc64 + kFree + kFree, kHeapFunctions));
  const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "which malloc() did not give out or which is freed: at byte 0 of heap block 1 (64 bytes), which has been freed.");
  EXPECT_THAT(status.message(), testing::Not(HasSubstr("..")));
  EXPECT_THAT(status.message(), HasSubstr("Kernel 'k' at blur.cu:77 (call): "));
}

TEST_P(Errors, NullPointer) {
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [%p], %t;"));
  const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "writes ");
  expect_named(status);
}

TEST_P(Errors, ThreadIsNamed_InALoopOverThreadsAndAsAFiber) {
  const std::string access = "  st.global.u32 [%p], %t;";
  const device::LaunchConfig shape{.grid = {3, 1, 1}, .block = {4, 4, 4}};
  const std::string one = "  mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; setp.ne.u32 %c0, %r1, 2; @%c0 bra E; setp.ne.u32 %c0, %r2, 3;\n"
                          "  @%c0 bra E; setp.ne.u32 %c0, %t, 1; @%c0 bra E;\n";
  for (const std::string barrier : {"", "  bar.sync 0;\n"}) {
    PtxProgram program(open(), module(barrier + one + access + "\nE:"));
    const Status status = program.run("k", shape, std::uint64_t{64}, std::uint64_t{0});
    expect_fault(program, status, "");
    EXPECT_THAT(status.message(), AnyOf(HasSubstr("thread (1,2,3) of block ("),
                                        HasSubstr(GetParam() == "vector" ? "one of the threads (" : "thread (1,2,3)")));
  }
}

TEST_P(Errors, SharedMemory_PastItsEnd) {
  PtxProgram program(open(), module(std::string(kOne) + "  mov.u32 %r1, tile; st.shared.u32 [%r1+1024], %t;", ".shared .align 16 .b8 tile[1024];"));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}),
               interprets() ? "writes 4 bytes at offset 1024 of the block's shared memory ('tile' + 1024), which has 1024 bytes"
                            : "writes 4 bytes at offset 1024 of the block's shared memory, which has 1024 bytes");
}

TEST_P(Errors, SharedMemory_PastItsEnd_ThroughAGenericAddress) {
  PtxProgram program(open(), module(std::string(kOne) + "  mov.u64 %a1, tile; cvta.shared.u64 %a1, %a1; st.u32 [%a1+1024], %t;",
                                    ".shared .align 16 .b8 tile[1024];"));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}),
               "0 bytes past the end of the block's shared memory (1024 bytes)");
}

TEST_P(Errors, MisalignedAccess_NamesTheAddress) {
  PtxProgram program(open(), module(std::string(kOne) + "  st.global.u32 [%p+2], %t;"));
  const auto buffer = program.zeros(64);
  expect_fault(program, program.run("k", kShape, buffer->address(), std::uint64_t{0}),
               fmt::format("blur.cu:77 (st.global.u32): thread (5,0,0) of block (2,0,0) writes 4 bytes at {:#x}, which "
                           "is not aligned to "
                           "4 bytes, at byte 2 of buffer 1 (64 bytes).",
                           buffer->address() + 2));
}

// One thread of many, whose address no compiler knows: vectors, shared memory, atomics.
TEST_P(Errors, MisalignedAccess_OfOneThread_OfEveryKind) {
  const std::string odd = "  ld.global.u32 %r1, [%q]; setp.ne.u32 %c1, %t, 37; selp.b32 %r1, 0, %r1, %c1; cvt.u64.u32 %a1, %r1; add.u64 %a1, %a1, %p;\n"
                          "  mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;\n";
  const struct {
    const char *access, *message;
  } cases[] = {{"ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%a1]; st.global.u32 [%p], %r6;", "(ld.global.v4.u32): thread (37,0,0) of block (0,0,0) reads 16 bytes at "},
               {"st.global.u64 [%a1+8], %p;", "(st.global.u64): thread (37,0,0) of block (0,0,0) writes 8 bytes at "},
               {"atom.global.add.u32 %r3, [%a1], 1;", "(atom.global.add.u32): thread (37,0,0) of block (0,0,0) writes 4 bytes at "},
               {"st.shared.u32 [%r2], %t;", "(st.shared.u32): thread (37,0,0) of block (0,0,0) writes 4 bytes at "}};
  for (const auto& one : cases) {
    PtxProgram program(open(), module(odd + "  .loc 1 78 1\n  " + one.access, ".shared .align 16 .b8 tile[1024];"));
    const auto buffer = program.zeros(256), offset = program.zeros(256);
    const auto run = [&] { return program.run("k", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, buffer->address(), offset->address()); };
    EXPECT_TRUE(run().ok()) << run().message();
    offset->host_pointer()[0] = std::byte{2};
    const Status status = run();
    expect_fault(program, status, std::string("Kernel 'k' at blur.cu:78 ") + one.message);
    EXPECT_THAT(status.message(), HasSubstr(std::string(one.access).find("shared") == std::string::npos
                                                ? " bytes, at byte "
                                                : " bytes, at offset 2 of the block's shared memory (1024 bytes)."));
  }
}

// A constant's address as a generic one: stores, atomics, and what the run time does for kernels.
TEST_P(Errors, ConstantMemory_IsNotWritten) {
  const std::string table = ".const .align 4 .u32 table[4] = {1, 2, 3, 4};", address = "  mov.u64 %a1, table; cvta.const.u64 %a1, %a1; ";
  for (const std::string access : {"st.u32 [%a1+4], %t;", "atom.add.u32 %r1, [%a1+4], 1;", "atom.add.f32 %r1, [%a1+4], 0f3F800000;"}) {
    PtxProgram program(open(), module(kOne + address + access, table));
    const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
    expect_fault(program, status, "which is read-only: at byte 4 of variable 'table' (16 bytes)");
    expect_named(status);
  }
  const std::string reads = "  mov.u32 %r1, 0; ld.const.u32 %r1, [table+4]; st.global.u32 [%p], %r1;";
  PtxProgram program(open(), module(reads, table));
  const auto out = program.zeros(4);
  EXPECT_TRUE(program.run("k", kShape, out->address(), std::uint64_t{0}).ok());
  EXPECT_EQ(static_cast<int>(out->host_pointer()[0]), 2);
}

TEST_P(Errors, ConstantMemory_WrittenByName_IsRefusedWhenItIsLoaded) {
  for (const std::string access : {"st.const.u32 [table], %t;", "atom.const.add.u32 %r1, [table], 1;", "red.const.add.u32 [table], 1;"}) {
    const Status status = load_status(open(), module("  " + access, ".const .align 4 .u32 table[4];"));
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("test.ptx:"), HasSubstr(access.substr(0, access.find(' ')))));
  }
}

TEST_P(Errors, Trap) {
  PtxProgram program(open(), module(std::string(kOne) + "  trap;"));
  expect_fault(program, program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0}),
               "Kernel 'k' at blur.cu:77 (trap): thread (5,0,0) of block (2,0,0) traps.");
}

// Compiled code is found again on disk for the same instructions, but not where they stand on other lines.
TEST_P(Errors, Trap_NamesItsOwnLine) {
  for (const std::string blank : {"", "\n\n\n"}) {
    const std::string text = blank + module("  trap;");
    const auto lines = 4 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("  trap;")), '\n');
    PtxProgram program(open(), text);
    expect_fault(program, program.run("k", {.grid = {1, 1, 1}, .block = {1, 1, 1}}, std::uint64_t{0}, std::uint64_t{0}),
                 fmt::format("Kernel 'k' at test.ptx:{} (trap): thread (0,0,0)", lines));
  }
}

TEST_P(Errors, FailedAssertion_NamesItsText) {
  PtxProgram program(open(), module(std::string(kOne) + R"(  {
  .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
  mov.u64 %a1, text; cvta.global.u64 %a1, %a1; mov.u64 %a2, file; cvta.global.u64 %a2, %a2;
  st.param.b64 [m], %a1; st.param.b64 [f], %a2; st.param.b32 [l], 12; st.param.b64 [n], %a2; st.param.b64 [s], 1;
  call __assertfail, (m, f, l, n, s);
  })", R"(.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[6] = {105, 32, 60, 32, 110, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};)"));
  const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "thread (5,0,0) of block (2,0,0) ");
  EXPECT_THAT(status.message(), AllOf(HasSubstr("a.cu:12"), HasSubstr("i < n")));
}

TEST_P(Errors, EndlessRecursion_OverflowsTheStack) {
  PtxProgram program(open(), module(std::string(kOne) + "  { .param .b32 n; st.param.b32 [n], 0; call down, (n); }",
                                    R"(.func down(.param .b32 n) {
  .reg .b32 %n; .reg .b64 %a; .local .align 16 .b8 room[20000];
  .loc 1 88 1
  ld.param.u32 %n, [n]; add.u32 %n, %n, 1;
  mov.u64 %a, room; st.local.u32 [%a], %n;
  { .param .b32 m; st.param.b32 [m], %n; call down, (m); }
  ld.local.u32 %n, [%a];
  ret;
})"));
  const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "have 262144 bytes (PERGOLA_CPU_STACK_BYTES)");
  EXPECT_THAT(status.message(), HasSubstr("Kernel 'k' at blur.cu:88 ("));
}

// The ISA leaves the result of an integer division by zero open, and no GPU traps; here it has all bits set.
TEST_P(Errors, DivisionByZero_IsNoFault) {
  PtxProgram program(open(), module("  mov.u32 %r1, 0; div.u32 %r2, %t, %r1; st.global.u32 [%p], %r2; rem.s32 %r3, %t, %r1; mov.u32 %r4, "
                                    "0x80000000; mov.u32 %r5, -1; div.s32 %r6, %r4, %r5; st.global.u32 [%p+4], %r6;"));
  const auto out = program.zeros(8);
  const Status status = program.run("k", {.grid = {1, 1, 1}, .block = {1, 1, 1}}, out->address(), std::uint64_t{0});
  ASSERT_TRUE(status.ok()) << status.message();
  std::uint32_t words[2];
  std::memcpy(words, out->host_pointer(), 8);
  EXPECT_EQ(words[0], 0xffffffffu);
  EXPECT_EQ(words[1], 0x80000000u);
}

// t[index] of a local array, a little and far beyond it; what lies in it is let pass.
TEST_P(Errors, LocalArray_IndexOutside) {
  const std::string room = "  .local .align 8 .b8 room[64];\n  mov.u64 %a0, room; cvta.local.u64 %a1, %a0;\n";
  for (const char* access : {"add.u64 %a2, %a0, %a3; st.local.u32 [%a2+4], %t;", "add.u64 %a2, %a3, %a1; st.u32 [%a2+4], %t;"}) {
    PtxProgram program(open(), module(std::string(kOne) + room + "  add.u64 %a3, %q, 0;\n  .loc 1 73 1\n  " + access +
                                      "\n  ld.local.u32 %r1, [%a0+60];\n  st.global.u32 [%p], %r1;"));
    const auto out = program.zeros(4);
    for (const std::uint64_t inside : {std::uint64_t{56}, ~std::uint64_t{3}}) {
      const Status status = program.run("k", kShape, out->address(), inside);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    const std::uint64_t size = 60;
    for (const std::uint64_t outside : {size, std::uint64_t{40000}, ~std::uint64_t{7}, std::uint64_t{1} << 30}) {
      if (interprets() && outside != std::uint64_t{1} << 30) continue;  // stacks, docs/errors.md
      const Status status = program.run("k", kShape, out->address(), outside);
      expect_fault(program, status, "Kernel 'k' at blur.cu:73 (st.");
      if (interprets()) continue;
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("thread (5,0,0) of block (2,0,0) writes 4 bytes at offset {} of its local memory, "
                                                          "which has 64 bytes.", static_cast<std::int64_t>(outside) + 4)));
    }
  }
}

TEST_P(Errors, AsynchronousCopy_NamesItsLine) {
  PtxProgram program(open(), module("  .loc 1 70 1\n  mul.wide.u32 %a0, %t, 40000; add.u64 %a0, %p, %a0;\n"
                                    "  mul.lo.u32 %r1, %t, 4;\n  cp.async.ca.shared.global [%r1], [%a0], 4;\n"
                                    "  cp.async.wait_all;"));
  const auto from = program.zeros(100);
  const Status status = program.run("k", {.grid = {1, 1, 1}, .block = {32, 1, 1}, .dynamic_shared_bytes = 128}, from->address(), std::uint64_t{0});
  expect_fault(program, status, "Kernel 'k' at blur.cu:70 (cp.async.ca.shared.global): ");
  EXPECT_THAT(status.message(), AllOf(HasSubstr(" of block (0,0,0) reads 4 bytes at 0x"), HasSubstr(" past the end of buffer 1 (100 bytes)")));
}

TEST_P(Errors, DivergentBarriers_SayWhereEachWarpStands) {
  PtxProgram program(open(), module("  setp.lt.u32 %c1, %t, 48; @%c1 bra A;\n  .loc 1 80 1\n  bar.sync 1;\n  bra E;\nA:\n  .loc 1 90 1\n"
                                    "  bar.sync 0;\nE:"));
  expect_fault(program, program.run("k", {.grid = {1, 1, 1}, .block = {96, 1, 1}}, std::uint64_t{0}, std::uint64_t{0}),
               "Kernel 'k': block (0,0,0) waits for ever, as no thread of it can go on:"
               "\n  blur.cu:90 (bar.sync) waits at barrier 0, where 48 of 96 threads have arrived: "
               "block (0,0,0) warp 0 lanes 0xffffffff, block (0,0,0) warp 1 lanes 0xffff"
               "\n  blur.cu:80 (bar.sync) waits at barrier 1, where 48 of 96 threads have arrived: "
               "block (0,0,0) warp 1 lanes 0xffff0000, block (0,0,0) warp 2 lanes 0xffffffff");
}

// Lanes of one warp at two barriers of the same number: the ISA has a warp come to one instruction.
TEST_P(Errors, DivergentBarrier_TwoInstructionsOfOneWarp) {
  PtxProgram program(open(),
                     module("  and.b32 %r1, %t, 1; setp.eq.u32 %c1, %r1, 0; @%c1 bra A;\n  .loc 1 80 1\n  bar.sync 0;\n"
                            "  bra E;\nA:\n  .loc 1 90 1\n  bar.sync 0;\nE:"));
  const Status status = program.run("k", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "is at a barrier for its whole warp, and thread (");
  EXPECT_THAT(status.message(), AnyOf(HasSubstr("Kernel 'k' at blur.cu:80 (bar.sync): thread (1,0,0) of block ("),
                                      HasSubstr("Kernel 'k' at blur.cu:90 (bar.sync): thread (")));
  EXPECT_THAT(status.message(), AnyOf(HasSubstr("of the warp is at another, at blur.cu:90 (bar.sync)"),
                                      HasSubstr("of the warp is at another, at blur.cu:80 (bar.sync)")));
}

// if (t & 1) __syncthreads(); q[t] = t: the even lanes go past the barrier of their warp and end.
TEST(CheckedErrors, DivergentBarrier_SomeLanesGoPastIt) {
  const std::string store = "  .loc 1 85 1\n  mul.wide.u32 %a0, %t, 4; add.u64 %a1, %p, %a0; st.global.u32 [%a1], %t;";
  const std::string test = "  and.b32 %r1, %t, 1; setp.eq.u32 %c1, %r1, 0;\n";
  const std::string guarded = test + "  .loc 1 80 1\n  @!%c1 bar.sync 0;\n" + store;
  const std::string jumped = test + "  @%c1 bra E;\n  .loc 1 80 1\n  bar.sync 0;\nE:\n" + store;
  const std::string looped =
      "  mov.u32 %r2, 0;\nL:\n" + jumped + "\n  add.u32 %r2, %r2, 1; setp.lt.u32 %c2, %r2, 3; @%c2 bra L;";
  for (const std::string& body : {guarded, jumped, looped}) {
    PtxProgram program(open_checked(), module(body));
    const auto out = program.zeros(256);
    const Status status = program.run("k", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, out->address(), std::uint64_t{0});
    EXPECT_EQ(status.code(), Code::kDeviceFault);
    EXPECT_THAT(
        status.message(),
        HasSubstr(
        "Kernel 'k' at blur.cu:80 (bar.sync): thread (1,0,0) of block (0,0,0) waits at a barrier for its whole "
        "warp, and thread (0,0,0) of the warp has gone past it, at blur.cu:85 (st.global.u32), and ended; "
        "lanes 0xaaaaaaaa wait"));
  }
}

// What is right, and looks alike: lanes that return early with what they have to say, also by the way out that others
// take behind the barrier; a barrier in a loop that late lanes come to much later, or leave; and the form for part of a
// warp.
TEST_P(Errors, DivergentBarrier_RightProgramsAreLetPass) {
  const std::string store = "  mul.wide.u32 %a0, %t, 4; add.u64 %a1, %p, %a0; st.global.u32 [%a1], %t;\n";
  const std::string odd = "  and.b32 %r1, %t, 1; setp.eq.u32 %c1, %r1, 0;\n";
  const std::string early = "  setp.ge.u32 %c1, %t, 40; @%c1 bra E;\n  bar.sync 0;\n" + store + "  ret;\nE:\n" + store;
  const std::string late = "  mov.u32 %r2, 0;\nL:\n" + odd +
                           "  mov.u32 %r3, 0; mul.lo.u32 %r4, %r1, 9000;\nW:\n  add.u32 %r3, %r3, 1;\n"
                           "  setp.lt.u32 %c2, %r3, %r4; @%c2 bra W;\n" +
                           store + "  bar.sync 0;\n" + store +
                           "  add.u32 %r2, %r2, 1; setp.lt.u32 %c3, %r2, 3; @%c3 bra L;";
  const std::string loose = odd + "  @%c1 bra A;\n  barrier.sync 0;\n  bra E;\nA:\n  barrier.sync 0;\nE:\n" + store;
  const std::string uniform =
      "  setp.ne.u32 %c1, %b, 0; @%c1 bra A;\n  bar.sync 0;\n  bra E;\nA:\n  bar.sync 0;\nE:\n" + store;
  const std::string same_way_out = "  setp.ge.u32 %c1, %t, 40; @%c1 bra G;\n  bar.sync 0;\n  setp.ge.u32 %c1, %t, 7; @%c1 bra G;\n" +
                                   store + "  ret;\nG:\n" + store;
  const std::string leaves_late = "  mov.u32 %r2, 0;\n" + odd + "L:\n  bar.sync 0;\n  @%c1 bra A;\n" + store + "M:\n" + store +
                                  "  add.u32 %r2, %r2, 1; setp.ge.u32 %c2, %r2, 3; @%c2 bra E;\n  bra L;\nA:\n" + store +
                                  "  setp.ge.u32 %c2, %r2, 1; @%c2 bra M;\n  setp.ge.u32 %c2, %t, 20; @%c2 bra E;\n  bra M;\nE:";
  // A compiler's copies of one barrier in a loop that lanes leave in different turns.
  const std::string copies = odd + "  @%c1 bra A;\n  .loc 1 80 1\n  bar.sync 0;\n  .loc 1 81 1\n  bra E;\nA:\n  .loc 1 80 1\n"
                             "  bar.sync 0;\nE:\n" + store;
  std::vector<device::DevicePtr> devices{open()};
  if (interprets()) devices.push_back(open_checked());
  for (const device::DevicePtr& device : devices) {
    for (const std::string& body : {early, late, loose, uniform, same_way_out, leaves_late, copies}) {
      PtxProgram program(device, module(body));
      const auto out = program.zeros(256);
      const Status status = program.run("k", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, out->address(), std::uint64_t{0});
      EXPECT_TRUE(status.ok()) << status.message() << "\n" << body;
    }
  }
}

TEST_P(Errors, ShuffleThatNotAllReach_IsADeadlock) {
  PtxProgram program(open(), module("  setp.lt.u32 %c1, %t, 3; @%c1 bra A;\n  .loc 1 80 1\n  shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffffffff;\n"
                                    "  bra E;\nA:\n  .loc 1 90 1\n  bar.sync 0;\nE:"));
  const Status status = program.run("k", {.grid = {1, 1, 1}, .block = {32, 1, 1}}, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "blur.cu:80 (shfl.sync.idx.b32) waits for lanes 0xffffffff of its warp: block (0,0,0) warp 0 lanes 0xfffffff8");
  EXPECT_THAT(status.message(), HasSubstr("blur.cu:90 (bar.sync) waits at barrier 0, where 3 of 32 threads have arrived"));
}

// --- the watchdog -------------------------------------------------------------------------------------------------------

constexpr const char* kSpin = "S:\n  .loc 1 33 1\n  ld.volatile.global.u32 %r1, [%p];\n  setp.eq.u32 %c1, %r1, 0;\n  @%c1 bra S;";

// A weak load that decides about its loop is done each turn, as on a GPU; nobody ever writes here.
TEST_P(Errors, Watchdog_EndsASpinThroughAWeakLoad) {
  PtxProgram program(open({.watchdog = std::chrono::milliseconds(200)}),
                     module("S:\n  .loc 1 33 1\n  ld.global.u32 %r1, [%p];\n  setp.eq.u32 %c1, %r1, 0;\n  @%c1 bra S;"));
  const auto flag = program.zeros(256);
  const Status status = program.run("k", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, flag->address(), std::uint64_t{0});
  expect_fault(program, status, "Kernel 'k' is ended by the watchdog");
  EXPECT_THAT(status.message(), HasSubstr(fmt::format("blur.cu:33 (ld.volatile.global.u32) spins on {:#x}", flag->address())));
}

TEST_P(Errors, WarpOperation_WithoutItsOwnLane) {
  PtxProgram program(open(), module(std::string(kOne) + "  shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffffff0f;"));
  const Status status = program.run("k", kShape, std::uint64_t{0}, std::uint64_t{0});
  expect_fault(program, status, "executes a warp operation whose member mask 0xffffff0f does not name its lane 5");
  EXPECT_THAT(status.message(), HasSubstr("Kernel 'k' at blur.cu:77 (shfl.sync.idx.b32): thread (5,0,0)"));
}

TEST_P(Errors, BarrierThatDoesNotExist_OrHasAWrongCount) {
  for (const auto& [barrier, count] : {std::pair{16u, 64u}, {1u, 33u}}) {
    PtxProgram program(open(), module("  cvt.u32.u64 %r1, %p; cvt.u32.u64 %r2, %q;\n  .loc 1 77 3\n  bar.sync %r1, %r2;"));
    const Status status = program.run("k", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, std::uint64_t{barrier}, std::uint64_t{count});
    expect_fault(program, status, "Kernel 'k' at blur.cu:77 (bar.sync): ");
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("uses barrier {} with {} threads; there are barriers 0 to 15, and counts are "
                                                        "multiples of 32", barrier, count)));
  }
}

TEST_P(Errors, CallOfWhatIsNoFunction_NamesTheCall) {
  PtxProgram program(open(), module(std::string(kOne) + "  TYPE: .callprototype _ ();\n  call %p, TYPE;"));
  const Status status = program.run("k", kShape, std::uint64_t{4}, std::uint64_t{0});
  expect_fault(program, status, "Kernel 'k' at blur.cu:77 (call): thread (5,0,0) of block (2,0,0) calls 0x4, which is not the address of a function");
}

TEST_P(Errors, Watchdog_SaysWhereTheWarpsSpin) {
  for (const std::uint32_t blocks : {1u, 6u}) {
    PtxProgram program(open({.watchdog = std::chrono::milliseconds(200)}),
                       module("  setp.gt.u32 %c1, %t, 39; @%c1 bra B;\n" + std::string(kSpin) + "\nB:\n  .loc 1 44 1\n  bar.sync 0;"));
    const auto flag = program.zeros(256);
    const Status status = program.run("k", {.grid = {blocks, 1, 1}, .block = {64, 1, 1}}, flag->address(), std::uint64_t{0});
    expect_fault(program, status, fmt::format("Kernel 'k' is ended by the watchdog (PERGOLA_CPU_WATCHDOG): for 0.2 s its {} resident "
                                              "blocks have only waited:", blocks));
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("blur.cu:33 (ld.volatile.global.u32) spins on {:#x}, at byte 0 of buffer 1 "
                                                        "(256 bytes): block (", flag->address())));
    EXPECT_THAT(status.message(), HasSubstr("blur.cu:44 (bar.sync) waits at barrier 0, where 24 of 64 threads have arrived: block ("));
    EXPECT_THAT(status.message(), HasSubstr("warp 1 lanes 0xffffff00"));
  }
}

TEST_P(Errors, Watchdog_LeavesAKernelThatGetsOn) {
  // Longer than the watchdog's time in all, never that long without progress.
  PtxProgram program(open({.watchdog = std::chrono::milliseconds(300)}), module(kSpin));
  const auto flag = program.zeros(4);
  for (const bool many : {false, true}) {
    std::memset(flag->host_pointer(), 0, 4);
    ASSERT_TRUE(program.enqueue(program.queue(), "k", {.grid = {many ? 4u : 1u, 1, 1}, .block = {32, 1, 1}}, flag->address(), std::uint64_t{0}).ok());
    const auto event = program.queue().record().value();
    EXPECT_EQ(event->wait(std::chrono::milliseconds(100)).code(), Code::kTimeout);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag->host_pointer())).store(1);
    EXPECT_TRUE(event->wait(program.limit).ok());
  }
}

// Kernels that only compute: without an end, or in counted loops that take years.
TEST_P(Errors, TimeLimit_EndsAKernelThatComputes) {
  const std::string turn =
      "  .loc 1 66 1\n  mad.lo.u32 %r1, %r1, %r1, %t; shr.u32 %r2, %r1, 7; xor.b32 %r1, %r1, %r2;\n";
  const std::string store = "  st.global.u32 [%p], %r1;";
  const std::string begin = "  mov.u32 %r1, %t;\n";
  const std::string endless = begin + "S:\n" + turn + "  bra S;";
  const std::string wide = begin + "  mov.u64 %a0, 0; shl.b64 %a1, %q, 40;\nS:\n" + turn +
                           "  add.u64 %a0, %a0, 1; setp.lt.u64 %c1, %a0, %a1; @%c1 bra S;\n" + store;
  const std::string nested =
      begin + "  cvt.u32.u64 %r5, %q; shl.b32 %r5, %r5, 30; mov.u32 %r3, 0;\nO:\n  mov.u32 %r4, 0;\nS:\n" + turn +
      "  add.u32 %r4, %r4, 1; setp.lt.u32 %c1, %r4, 60000; @%c1 bra S;\n"
      "  add.u32 %r3, %r3, 1; setp.lt.u32 %c2, %r3, %r5; @%c2 bra O;\n" +
      store;
  const std::string behind = "  bar.sync 0;\n" + endless;
  for (const std::string& body : {endless, wide, nested, behind}) {
    for (const std::uint32_t blocks : {1u, 6u}) {
      PtxProgram program(open({.time_limit = std::chrono::milliseconds(200)}), module(body));
      const auto out = program.zeros(4);
      const Status status =
          program.run("k", {.grid = {blocks, 1, 1}, .block = {64, 1, 1}}, out->address(), std::uint64_t{1});
      expect_fault(program, status, "Kernel 'k' is ended after 0.2 s, its time limit (PERGOLA_CPU_TIME_LIMIT)");
      EXPECT_THAT(status.message(), HasSubstr("\n  blur.cu:66 ("));
      EXPECT_THAT(status.message(), HasSubstr(blocks == 1 ? " runs: block (0,0,0) warp 0 lanes 0x" : " runs: block ("));
    }
  }
}

TEST_P(Errors, TimeLimit_LeavesAShortKernel) {
  PtxProgram program(open({.time_limit = std::chrono::minutes(10)}), module("  bar.sync 0;"));
  for (const std::uint32_t blocks : {1u, 6u}) {
    const Status status =
        program.run("k", {.grid = {blocks, 1, 1}, .block = {64, 1, 1}}, std::uint64_t{0}, std::uint64_t{0});
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

// A grid barrier over one block more than fit at once hangs a GPU; with the GPU's residency it does here, and is told.
TEST_P(Errors, OccupancyBound_GridBarrier) {
  const std::string barrier = "  atom.add.global.u32 %r2, [%p+4], 1;\n  mov.u32 %r3, %nctaid.x;\nW:\n  .loc 1 55 1\n"
                              "  ld.acquire.gpu.global.u32 %r1, [%p+4];\n  setp.lt.u32 %c1, %r1, %r3;\n  @%c1 bra W;";
  for (const auto occupancy : {device::cpu::Occupancy::kShared, device::cpu::Occupancy::kPerLaunch}) {
    PtxProgram program(open({.sms = 2, .blocks_per_sm = 3, .occupancy = occupancy, .watchdog = std::chrono::milliseconds(300)}), module(barrier));
    const auto words = program.zeros(8);
    const Status fits = program.run("k", {.grid = {6, 1, 1}, .block = {1, 1, 1}}, words->address(), std::uint64_t{0});
    EXPECT_TRUE(fits.ok()) << fits.message();
    std::memset(words->host_pointer(), 0, 8);
    const Status hangs = program.run("k", {.grid = {7, 1, 1}, .block = {1, 1, 1}}, words->address(), std::uint64_t{0});
    expect_fault(program, hangs, "its 6 resident blocks have only waited, and 1 of its blocks waits for room to start:\n  blur.cu:55 "
                                 "(ld.acquire.gpu.global.u32) spins on ");
  }
}

}  // namespace
}  // namespace pergola
