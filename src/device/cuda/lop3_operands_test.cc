#include "src/device/cuda/lop3_operands.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace pergola::device::cuda {
namespace {

bool lut(unsigned table, bool a, bool b, bool c) { return table >> (4 * a + 2 * b + c) & 1; }

unsigned table_of(const std::string& text) { return static_cast<unsigned>(std::stoul(text.substr(text.rfind(',') + 1))); }

TEST(Lop3Operands, RepeatedOperand_IsReplacedByZero_AndTheTableGivesTheSame) {
  for (unsigned table = 0; table < 256; ++table) {
    const std::string last = with_distinct_lop3_operands(fmt::format("lop3.b32 %d, %a, %b, %a, {};", table));
    ASSERT_TRUE(last.starts_with("lop3.b32 %d, %a, %b, 0, ")) << last;
    const std::string middle = with_distinct_lop3_operands(fmt::format("lop3.b32 %d, %a, %a, %b, 0x{:x};", table));
    ASSERT_TRUE(middle.starts_with("lop3.b32 %d, %a, 0, %b, ")) << middle;
    const std::string back = with_distinct_lop3_operands(fmt::format("lop3.b32 %d,%a,%b,%b,{};", table));
    ASSERT_TRUE(back.starts_with("lop3.b32 %d,%a,%b, 0, ")) << back;
    const std::string all = with_distinct_lop3_operands(
        with_distinct_lop3_operands(fmt::format("lop3.b32 %d, %a, %a, %a, {};", table)));
    ASSERT_TRUE(all.starts_with("lop3.b32 %d, %a, 0, 0, ")) << all;
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        EXPECT_EQ(lut(table_of(last), a, b, false), lut(table, a, b, a));
        EXPECT_EQ(lut(table_of(middle), a, false, b), lut(table, a, a, b));
        EXPECT_EQ(lut(table_of(back), a, b, false), lut(table, a, b, b));
      }
      EXPECT_EQ(lut(table_of(all), a, false, false), lut(table, a, a, a));
    }
  }
}

TEST(Lop3Operands, EverythingElse_StaysAsItIs) {
  for (const char* text : {"lop3.b32 d, a, b, c, 69;", "lop3.b32 d, d, b, c, 69;", "lop3.b32 d, 1, b, 1, 69;", "lop3.b32",
                           "lop3.b32;", "lop3.b32 d, a, b, a;", "lop3.b32 d, a, b, a, 256;", "lop3.b32 d, a, b, a, x;",
                           "lop3.or.b32 d|p, a, b, a, 69, q;", "xor.b32 d, a, a;", ""})
    EXPECT_EQ(with_distinct_lop3_operands(text), text);
}

}  // namespace
}  // namespace pergola::device::cuda
