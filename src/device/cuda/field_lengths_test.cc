#include "src/device/cuda/field_lengths.h"

#include <gtest/gtest.h>

namespace pergola::device::cuda {
namespace {

TEST(FieldLengths, ImmediateLengthPastTheTop_IsCut) {
  EXPECT_EQ(with_field_lengths_in_range("bfi.b32 %d, %a, %b, 9, 32;"), "bfi.b32 %d, %a, %b, 9, 23;");
  EXPECT_EQ(with_field_lengths_in_range("@p bfi.b32 d,a,b,0x1f,255;ret;"), "@p bfi.b32 d,a,b,0x1f, 1;ret;");
  EXPECT_EQ(with_field_lengths_in_range("bfi.b32 d, 1, 2, 1, 33;\nbfi.b32 d, 1, 2, 2, 40;"),
            "bfi.b32 d, 1, 2, 1, 31;\nbfi.b32 d, 1, 2, 2, 30;");
  EXPECT_EQ(with_field_lengths_in_range("// bfi.b32\nbfi.b32 d, a, b, 9, 32;"), "// bfi.b32\nbfi.b32 d, a, b, 9, 23;");
}

TEST(FieldLengths, EverythingElse_StaysAsItIs) {
  for (const char* text : {"bfi.b32 d, a, b, 9, 23;", "bfi.b32 d, a, b, 0, 32;", "bfi.b32 d, a, b, %p, 32;",
                           "bfi.b32 d, a, b, 9, %l;", "bfi.b32 d, a, b, 32, 8;", "bfi.b64 d, a, b, 9, 64;", "bfi.b32", "bfi.b32;",
                           "bfi.b32 d, 5;", "bfi.b32 d, a, b, 4, 040;", ""})
    EXPECT_EQ(with_field_lengths_in_range(text), text);
}

}  // namespace
}  // namespace pergola::device::cuda
