#include "src/ptx/signature.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"

namespace pergola::ptx {
namespace {

constexpr const char* kKernels = R"(.version 8.5
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 used[100];
.shared .align 4 .b8 unused[4000];
.shared .align 8 .b8 by_callee[24];
.global .u64 taken = used;
.func callee() { .reg .b32 %r; ld.shared.u32 %r, [by_callee]; ret; }
.func deeper() { call callee, (); ret; }
.visible .entry plain(
  .param .f32 a, .param .u64 .ptr .global .align 4 x, .param .b8 c, .param .align 8 .b8 s[20], .param .u16 h
) .maxntid 256, 2, 1
{ ret; }
.visible .entry shared_user()
{
  .shared .align 8 .b8 own[5];
  .reg .b32 %r<2>;
  st.shared.u8 [own], 1;
  ld.shared.u32 %r1, [used+4];
  call deeper, ();
  ret;
}
.visible .entry dynamic_user() { .reg .b32 %r; ld.shared.u32 %r, [dynamic]; ret; }
.visible .entry opaque_user() { .reg .b32 %r; future.ld %r, [dynamic]; ret; }
.global .u64 functions[1] = {deeper};
.visible .entry table_user() { .reg .b64 %rd; mov.u64 %rd, functions; ret; }
.visible .entry too_much(.param .b8 a[40000]) { ret; }
)";

class SignatureTest : public testing::Test {
 protected:
  SignatureTest() : module_(parse(kKernels, "f")) {}
  Result<KernelSignature> of(const char* name) { return signature(*module_, *module_->find_function(name)); }
  Result<Module> module_;
};

TEST_F(SignatureTest, Parameters_AreLaidOutAtTheirAlignment) {
  ASSERT_TRUE(module_.ok()) << module_.message();
  const auto plain = of("plain");
  ASSERT_TRUE(plain.ok()) << plain.message();
  const std::vector<Parameter> expected = {
      {"a", 0, 4, 4, Type::kF32, false, false},  {"x", 8, 8, 8, Type::kU64, false, true},
      {"c", 16, 1, 1, Type::kB8, false, false},  {"s", 24, 20, 8, Type::kB8, true, false},
      {"h", 44, 2, 2, Type::kU16, false, false},
  };
  EXPECT_EQ(plain->parameters, expected);
  EXPECT_EQ(plain->parameter_bytes, 46u);
  EXPECT_EQ(plain->static_shared_bytes, 0u);
  EXPECT_EQ((*plain->max_threads)[1], 2u);
  EXPECT_FALSE(plain->required_threads);
}

TEST_F(SignatureTest, SharedMemory_CountsWhatIsReached) {
  ASSERT_TRUE(module_.ok()) << module_.message();
  // own: 5 at 0, used: 100 at 8, by_callee: 24 at 112
  EXPECT_EQ(of("shared_user")->static_shared_bytes, 136u);
  EXPECT_EQ(of("table_user")->static_shared_bytes, 24u);
  EXPECT_FALSE(of("shared_user")->uses_dynamic_shared);
  EXPECT_TRUE(of("dynamic_user")->uses_dynamic_shared);
  EXPECT_TRUE(of("opaque_user")->uses_dynamic_shared);
}

TEST_F(SignatureTest, WrongFunction_IsRefused) {
  ASSERT_TRUE(module_.ok()) << module_.message();
  EXPECT_EQ(of("callee").code(), Code::kInvalidArgument);
  EXPECT_EQ(of("too_much").code(), Code::kParseError);
  EXPECT_EQ(of("too_much").message(),
            "f:28:26: expected parameters of at most 32764 bytes in all, found 'a' of 40000 bytes at offset 0 of kernel "
            "'too_much'");
}

}  // namespace
}  // namespace pergola::ptx
