#include "tools/pergola/argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>

#include "src/base/file.h"
#include "tools/pergola/half.h"

namespace pergola::tool {
namespace {

using session::ElementType;
using session::Number;
using ::testing::HasSubstr;

std::uint64_t bits(std::string_view text) {
  const auto spec = parse_argument(text);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.message();
  const auto* number = spec.ok() ? std::get_if<Number>(&*spec) : nullptr;
  EXPECT_NE(number, nullptr) << text;
  return number == nullptr ? 0xdead : number->bits;
}

TEST(Argument, Numbers_HaveTheirBits) {
  EXPECT_EQ(bits("i32:5"), 5u);
  EXPECT_EQ(bits("i32:-1"), 0xffffffffu);
  EXPECT_EQ(bits("i32:0xffffffff"), 0xffffffffu);
  EXPECT_EQ(bits("i8:-128"), 0x80u);
  EXPECT_EQ(bits("u64:18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(bits("i64:-9223372036854775808"), std::uint64_t{1} << 63);
  EXPECT_EQ(bits("f32:1.5"), 0x3fc00000u);
  EXPECT_EQ(bits("f32:0f3FC00000"), 0x3fc00000u);
  EXPECT_EQ(bits("f64:-2"), 0xc000000000000000u);
  EXPECT_EQ(bits("f64:0d3FF0000000000000"), 0x3ff0000000000000u);
  EXPECT_EQ(bits("f16:1"), 0x3c00u);
  EXPECT_EQ(bits("bf16:1"), 0x3f80u);
  EXPECT_EQ(bits("bool:true"), 1u);
}

TEST(Argument, WhatIsWrong_IsSaid) {
  for (const char* text : {"",
                           "5",
                           "i32:",
                           "i32:5.5",
                           "i32:2147483648",
                           "u8:-1",
                           "u8:256",
                           "f32:x",
                           "f32:0f12",
                           "i33:1",
                           "bool:2",
                           "hex:0",
                           "hex:zz",
                           "same:x",
                           "zeros:f32",
                           "zeros:f32:1x",
                           "zeros:f32:1:2",
                           "fill:f32:4",
                           "iota:c64:4",
                           "iota:i8:129",
                           "iota:u8:257",
                           "iota:f16:2050",
                           "iota:f32:16777218",
                           "iota:bool:3",
                           "i32:5>x",
                           "zeros:f32:4>",
                           "zeros:f32:99999999999999x9999999999",
                           "null>x",
                           "c64:1"}) {
    const auto spec = parse_argument(text);
    EXPECT_EQ(spec.code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_argument("@/nowhere.npy").code(), Code::kNotFound);
}

TEST(Argument, WhatIsWrong_IsNamedAsItWasTyped) {
  for (const char* text :
       {"f32:x", "i32:5.5", "u8:256", "bool:2", "f32:0f12", "fill:f32:4:x", "zeros:f32:1x", "zeros:f32:q"})
    EXPECT_THAT(parse_argument(text).message(), HasSubstr(fmt::format("The argument '{}' ", text)));
}

TEST(Argument, FloatsThatAreTooLarge_AreNotInfinity) {
  for (const char* text : {"f32:1e99", "f32:-1e39", "f32:340282356779733661637539395458142568448", "f16:65520",
                           "f16:-70000", "f16:65519.9999999", "bf16:3.4e38", "f64:1e999", "fill:f32:4:1e99"}) {
    const auto spec = parse_argument(text);
    EXPECT_EQ(spec.code(), Code::kInvalidArgument) << text;
    if (!spec.ok()) {
      EXPECT_THAT(spec.message(), HasSubstr(fmt::format("'{}' does not fit", text)));
    }
  }
  EXPECT_EQ(bits("f32:3.4028235e38"), 0x7f7fffffu);
  EXPECT_EQ(bits("f16:65519"), 0x7bffu);
  EXPECT_EQ(bits("f32:1e-99"), 0u);
  EXPECT_EQ(bits("f32:inf"), 0x7f800000u);
  EXPECT_EQ(bits("f32:-Infinity"), 0xff800000u);
  EXPECT_EQ(bits("f16:inf"), 0x7c00u);
  EXPECT_EQ(bits("bf16:-inf"), 0xff80u);
  EXPECT_EQ(bits("f64:inf"), 0x7ff0000000000000u);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits("f32:nan")))));
  EXPECT_EQ(bits("f32:0f7F800000"), 0x7f800000u);
}

TEST(Argument, ArraysMadeHere_HaveShapeAndContents) {
  const auto iota = parse_argument("iota:u16:2x3>out.npy");
  ASSERT_TRUE(iota.ok()) << iota.message();
  const auto& array = std::get<ArraySpec>(*iota);
  EXPECT_EQ(array.contents.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(array.contents.data, std::string("\0\0\1\0\2\0\3\0\4\0\5\0", 12));
  EXPECT_EQ(array.output, "out.npy");
  for (const char* most : {"iota:i8:128", "iota:u8:256", "iota:f16:2049", "iota:bool:2", "iota:i32:0"})
    EXPECT_TRUE(parse_argument(most).ok()) << most;
  EXPECT_EQ(std::get<ArraySpec>(*parse_argument("fill:f32:2:1")).contents.data,
            std::string("\0\0\x80\x3f\0\0\x80\x3f", 8));
  EXPECT_EQ(std::get<ArraySpec>(*parse_argument("zeros:c128:3")).contents.data, std::string(48, '\0'));
}

TEST(Argument, Files_AreRead) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "pergola_argument_test";
  ASSERT_TRUE(write_file_atomically(folder / "raw.bin", "abcdefgh").ok());
  ASSERT_TRUE(write_file_atomically(folder / "a.npy", print_npy({ElementType::kI32, 4, {2}, "abcdefgh"})).ok());
  EXPECT_EQ(std::get<ArraySpec>(*parse_argument("@" + (folder / "a.npy").string())).contents.data, "abcdefgh");
  EXPECT_EQ(std::get<ArraySpec>(*parse_argument("raw:i64:" + (folder / "raw.bin").string())).contents.count(), 1u);
  EXPECT_EQ(parse_argument("raw:c128:" + (folder / "raw.bin").string()).code(), Code::kInvalidArgument);
  EXPECT_EQ(std::get<StructSpec>(*parse_argument("bytes:" + (folder / "raw.bin").string())).bytes, "abcdefgh");
  const auto buffer = parse_buffer((folder / "raw.bin").string() + ":out.bin");
  ASSERT_TRUE(buffer.ok()) << buffer.message();
  EXPECT_EQ(std::get<ArraySpec>(*buffer).output, "out.bin");
  EXPECT_EQ(std::get<ArraySpec>(*parse_buffer("zero:16")).contents.count(), 16u);
  std::filesystem::remove_all(folder);
}

TEST(Argument, Extents_AreOneToThree) {
  EXPECT_EQ(*parse_extents("7", "grid"), (device::Dim3{7, 1, 1}));
  EXPECT_EQ(*parse_extents("7,2,3", "grid"), (device::Dim3{7, 2, 3}));
  for (const char* text : {"", "0", "1,0", "1,2,3,4", "a", "1,,2", "1,"})
    EXPECT_EQ(parse_extents(text, "grid").code(), Code::kInvalidArgument) << text;
}

// All halves there and back; every float rounds to a nearest half.
TEST(Half, EveryValue_RoundTrips) {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float value = half_to_float(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << i;
    else
      EXPECT_EQ(float_to_half(value), half) << i;
    const float wide = bfloat16_to_float(half);
    if (!std::isnan(wide)) {
      EXPECT_EQ(float_to_bfloat16(wide), half) << i;
    }
  }
  EXPECT_EQ(float_to_half(65519.f), 0x7bffu);
  EXPECT_EQ(float_to_half(65520.f), 0x7c00u);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00u) << "a tie goes to even";
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02u);
  EXPECT_EQ(float_to_half(0x1p-25f), 0u);
  EXPECT_EQ(float_to_half(0x1.8p-25f), 1u);
  EXPECT_EQ(float_to_half(0x1.ff8p-15f), 0x3ffu) << "the largest subnormal";
  EXPECT_EQ(float_to_half(0x1.ffcp-15f), 0x400u) << "a tie between it and the smallest normal";
}

}  // namespace
}  // namespace pergola::tool
