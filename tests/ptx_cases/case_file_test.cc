#include "tests/ptx_cases/case_file.h"

#include <gtest/gtest.h>

#include <cstring>

namespace pergola::ptx_cases {
namespace {

TEST(CaseFile, Header_GivesLaunchBuffersAndExpectations) {
  auto parsed = parse_case(
      "// One feature.\n// kernel: k\n// grid: 2 1 1\n// block: 64 1 1\n// shared: 16\n"
      "// buffer a: u16[4] = 1, 0x10\n// buffer b: f32[2] = zero\n// arg: a\n// arg: f32 1.5\n"
      "// expect a: u16 1*2, -1\n// expect b @1: f32 0x7fffffff\n.version 8.0\n// expect a: nonsense\n",
      "x.ptx");
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  EXPECT_EQ(parsed->kernel, "k");
  EXPECT_EQ(parsed->config.grid.x, 2u);
  EXPECT_EQ(parsed->config.block.x, 64u);
  EXPECT_EQ(parsed->config.dynamic_shared_bytes, 16u);
  ASSERT_EQ(parsed->buffers.size(), 2u);
  const std::vector<std::byte> initial = parsed->buffers[0].initial;
  ASSERT_EQ(initial.size(), 8u);
  EXPECT_EQ(initial[0], std::byte{1});
  EXPECT_EQ(initial[2], std::byte{0x10});
  ASSERT_EQ(parsed->arguments.size(), 2u);
  EXPECT_EQ(parsed->arguments[0].buffer, "a");
  float value = 0;
  std::memcpy(&value, parsed->arguments[1].value.data(), 4);
  EXPECT_EQ(value, 1.5f);
  ASSERT_EQ(parsed->expectations.size(), 2u);
  EXPECT_EQ(parsed->expectations[0].values.size(), 6u);
  EXPECT_EQ(parsed->expectations[0].values[4], std::byte{0xff});
  EXPECT_EQ(parsed->expectations[1].first, 1u);
}

TEST(CaseFile, HeaderWithoutExpectation_IsRefused) {
  auto parsed = parse_case("// kernel: k\n.version 8.0\n", "x.ptx");
  EXPECT_EQ(parsed.code(), Code::kParseError);
}

TEST(CaseFile, TooManyValues_AreRefusedWithTheLine) {
  auto parsed = parse_case("// buffer a: u32[1] = zero\n// expect a: u32 1, 2\n", "x.ptx");
  ASSERT_EQ(parsed.code(), Code::kParseError);
  EXPECT_NE(parsed.message().find("x.ptx:2"), std::string::npos) << parsed.message();
}

}  // namespace
}  // namespace pergola::ptx_cases
