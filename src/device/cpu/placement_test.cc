// Where variables lie: shared_layout() and GlobalStorage, on PTX text.
#include <gtest/gtest.h>

#include <cstring>

#include "src/device/cpu/block.h"
#include "src/device/cpu/engine_choice.h"
#include "src/device/cpu/global_placement.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu {
namespace {

constexpr const char* kHeader = ".version 8.3\n.target sm_90\n.address_size 64\n";

ptx::Module parse(const std::string& text) {
  Result<ptx::Module> module = ptx::parse(kHeader + text, "test.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? std::move(module).value() : ptx::Module{};
}

// "a@0 b@16 ... static 20 dynamic 32"
std::string layout(const std::string& text, const std::string& entry = "k") {
  const ptx::Module module = parse(text);
  const ptx::Function* function = module.find_function(entry);
  if (function == nullptr) return "no entry";
  const Result<SharedLayout> made = shared_layout(module, *function);
  if (!made.ok()) return made.message();
  std::string out;
  for (const SharedLayout::Slot& slot : made->slots) out += fmt::format("{}@{} ", slot.name, slot.offset_bytes);
  return out + fmt::format("static {} dynamic {}", made->static_bytes, made->dynamic_offset);
}

TEST(SharedLayout, UsedVariables_AreAlignedInTextualOrder) {
  EXPECT_EQ(layout(".shared .align 1 .b8 a[3];\n.shared .align 16 .b8 unused[64];\n.shared .f64 b;\n"
                   ".entry k() { .reg .b32 %r<3>; .reg .f64 %d; mov.u32 %r1, a; ld.shared.f64 %d, [b]; ret; }"),
            "a@0 b@8 static 16 dynamic 16");
}

TEST(SharedLayout, FunctionScope_IsNamedByItsFunction) {
  EXPECT_EQ(layout(".entry k() { .shared .align 4 .b8 tile[20]; .reg .b32 %r; mov.u32 %r, tile; ret; }"),
            "k/tile@0 static 20 dynamic 32");
}

TEST(SharedLayout, DynamicOnes_ShareTheEnd) {
  EXPECT_EQ(layout(".extern .shared .align 4 .b8 d1[];\n.extern .shared .align 64 .b8 d2[];\n.shared .b32 s;\n"
                   ".entry k() { .reg .b32 %r; mov.u32 %r, d1; mov.u32 %r, s; mov.u32 %r, d2; ret; }"),
            "s@0 d1@64 d2@64 static 4 dynamic 64");
}

TEST(SharedLayout, CalledFunctions_BringTheirs) {
  const std::string text =
      ".shared .b32 far_one;\n.shared .b32 never;\n"
      ".func deep() { .reg .b32 %r; mov.u32 %r, far_one; ret; }\n"
      ".func near() { .shared .b32 mine; .reg .b32 %r; mov.u32 %r, mine; call deep; ret; }\n"
      ".func other() { .reg .b32 %r; mov.u32 %r, never; ret; }\n"
      ".entry k() { call near; ret; }\n.entry alone() { ret; }";
  EXPECT_EQ(layout(text), "far_one@0 near/mine@4 static 8 dynamic 16");
  EXPECT_EQ(layout(text, "alone"), "static 0 dynamic 0");
}

TEST(SharedLayout, IndirectCall_ReachesEveryFunctionWhoseAddressIsTaken) {
  const std::string functions =
      ".shared .b32 a;\n.shared .b32 b;\n.shared .b32 c;\n"
      ".func fa() { .reg .b32 %r; mov.u32 %r, a; ret; }\n"
      ".func fb() { .reg .b32 %r; mov.u32 %r, b; ret; }\n"
      ".func fc() { .reg .b32 %r; mov.u32 %r, c; ret; }\n"
      ".global .u64 table[1] = { fa };\n"
      ".entry other() { .reg .b64 %rd; mov.u64 %rd, fb; ret; }\n";
  EXPECT_EQ(layout(functions + ".entry k() { .reg .b64 %rd; ld.global.u64 %rd, [table]; "
                               "p: .callprototype _ (); call %rd, (), p; ret; }"),
            "a@0 b@4 static 8 dynamic 16");
  EXPECT_EQ(layout(functions + ".entry k() { .reg .b64 %rd; ld.global.u64 %rd, [table]; "
                               "t: .calltargets fc; call %rd, (), t; ret; }"),
            "c@0 static 4 dynamic 16");
}

TEST(SharedLayout, Recursion_Ends) {
  EXPECT_EQ(layout(".func f() { call f; ret; }\n.entry k() { call f; ret; }"), "static 0 dynamic 0");
}

TEST(SharedLayout, OpaqueInstruction_CountsForWhatItNames) {
  EXPECT_EQ(layout(".shared .b32 s;\n.entry k() { .reg .b32 %r; frobnicate.x %r, [s+4]; ret; }"),
            "s@0 static 4 dynamic 16");
}

TEST(SharedLayout, WhatCannotBePlaced_IsNamed) {
  EXPECT_NE(layout(".extern .shared .b8 sized[8];\n.entry k() { .reg .b32 %r; mov.u32 %r, sized; ret; }")
                .find("test.ptx:4:"), std::string::npos);
  EXPECT_NE(layout(".entry k() { { .shared .b32 x; } { .shared .b32 x; } ret; }").find("two .shared variables named 'x'"),
            std::string::npos);
  EXPECT_NE(layout(".shared .b8 big[4294967296];\n.entry k() { .reg .b32 %r; mov.u32 %r, big; ret; }").find("2 GiB"),
            std::string::npos);
}

class Globals : public ::testing::Test {
 protected:
  // Places and initialises; functions are at 0x1000, 0x1001, ... by the length of their names.
  Result<GlobalStorage> make(const std::string& text) {
    const ptx::Module module = parse(text);
    PERGOLA_ASSIGN(GlobalStorage storage, GlobalStorage::place(module, memory));
    PERGOLA_TRY(storage.initialize(module, [](std::string_view name) -> Result<std::uint64_t> {
      if (name == "refused") return PERGOLA_ERROR(kUnsupported, "No address for 'refused'.");
      return 0x1000 + name.size();
    }));
    return storage;
  }
  template <typename T>
  static T at(const GlobalStorage& storage, std::string_view name, std::size_t index = 0) {
    T value{};
    std::memcpy(&value, storage.find(name)->address + index * sizeof(T), sizeof(T));
    return value;
  }
  static std::uint64_t address(const GlobalStorage& storage, std::string_view name) {
    return reinterpret_cast<std::uintptr_t>(storage.find(name)->address);
  }
  DeviceMemory memory{1 << 20};
};

TEST_F(Globals, Numbers_AreStored_TheRestIsZero) {
  const auto made = make(".global .align 4 .u32 one = 7;\n.const .f32 f[3] = { 0f3F800000, 0f40000000 };\n"
                         ".global .b8 text[] = { 104, 105, 0 };\n.global .s16 matrix[][2] = { 1, 2, 3 };\n"
                         ".global .align 128 .b8 zero[16];");
  ASSERT_TRUE(made.ok()) << made.message();
  EXPECT_EQ(at<std::uint32_t>(*made, "one"), 7u);
  EXPECT_EQ(at<float>(*made, "f", 1), 2.0f);
  EXPECT_EQ(at<float>(*made, "f", 2), 0.0f);
  EXPECT_EQ(made->find("text")->size_bytes, 3u);
  EXPECT_EQ(made->find("matrix")->size_bytes, 8u);
  EXPECT_EQ(at<std::int16_t>(*made, "matrix", 2), 3);
  EXPECT_EQ(address(*made, "zero") % 128, 0u);
  EXPECT_EQ(made->find("nothing"), nullptr);
}

TEST_F(Globals, Addresses_OffsetsAndMasks) {
  const auto made = make(".global .u32 a[4];\n.func f() { ret; }\n"
                         ".global .u64 p[3] = { a, generic(a)+8, f };\n"
                         ".global .b8 bytes[2] = { 0xFF(a), 0xFF00(a) };");
  ASSERT_TRUE(made.ok()) << made.message();
  const std::uint64_t a = address(*made, "a");
  EXPECT_EQ(at<std::uint64_t>(*made, "p", 0), a);
  EXPECT_EQ(at<std::uint64_t>(*made, "p", 1), a + 8);
  EXPECT_EQ(at<std::uint64_t>(*made, "p", 2), 0x1001u);
  EXPECT_EQ(at<std::uint8_t>(*made, "bytes", 0), a & 0xff);
  EXPECT_EQ(at<std::uint8_t>(*made, "bytes", 1), (a >> 8) & 0xff);
}

TEST_F(Globals, Ranges_AreThereWhileTheStorageIs) {
  std::uint64_t variable = 0, constant = 0;
  {
    const auto made = make(".global .u32 v;\n.const .u32 c = 1;");
    ASSERT_TRUE(made.ok());
    variable = address(*made, "v");
    constant = address(*made, "c");
    EXPECT_TRUE(memory.map.find(variable, 4)->writable);
    EXPECT_FALSE(memory.map.find(constant, 4)->writable);
    EXPECT_FALSE(memory.map.find(variable, 5));
    EXPECT_EQ(memory.map.describe_nearest(variable + 6), "2 bytes past the end of variable 'v' (4 bytes)");
  }
  EXPECT_FALSE(memory.map.find(variable, 1));
  EXPECT_FALSE(memory.map.find(constant, 1));
}

TEST_F(Globals, WhatCannotBePlaced_IsNamed) {
  const auto missing = make(".extern .global .u32 elsewhere;");
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("elsewhere"), std::string::npos);
  EXPECT_TRUE(make(".extern .global .u32 here;\n.visible .global .u32 here;").ok());
  EXPECT_EQ(make(".global .texref t;").code(), Code::kUnsupported);
  EXPECT_EQ(make(".global .b8 big[2000000];").code(), Code::kResourceExhausted);
  EXPECT_EQ(make(".global .b8 big[4611686018427387904][16];").code(), Code::kResourceExhausted);
  EXPECT_EQ(make(".func refused() { ret; }\n.global .u64 p = refused;").code(), Code::kUnsupported);
  EXPECT_EQ(make(".shared .u32 s;\n.global .u64 p = s;").code(), Code::kUnsupported);
}

TEST(TakesFunctionAddresses, CallsDoNot_MovesAndInitialisersDo) {
  const std::string f = ".func f() { ret; }\n";
  EXPECT_FALSE(takes_function_addresses(parse(f + ".entry k() { call f; ret; }")));
  EXPECT_TRUE(takes_function_addresses(parse(f + ".entry k() { .reg .b64 %rd; mov.u64 %rd, f; ret; }")));
  EXPECT_TRUE(takes_function_addresses(parse(f + ".global .u64 p = f;")));
}

}  // namespace
}  // namespace pergola::device::cpu
