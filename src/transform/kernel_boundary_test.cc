#include "src/transform/kernel_boundary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModule[] = R"(.version 7.8
.target sm_80
.address_size 64
.func f() { .reg .b32 %r1; .reg .b64 %rd1; ld.global.nc.u32 %r1, [%rd1]; ret; }
.func g() { .reg .b32 %r1; .reg .b64 %rd1; ld.global.nc.u32 %r1, [%rd1]; ret; }
.entry k() {
  .reg .b32 %r<3>; .reg .b64 %rd1; .reg .pred %p1;
  ld.global.nc.L1::no_allocate.v2.u32 {%r1, %r2}, [%rd1];
  @%p1 ret;
  ldu.global.u32 %r1, [%rd1];
  call f, ();
  BODY
}
)";

Result<ptx::Module> bounded(const std::string& end, BoundaryScope scope) {
  std::string text = kModule;
  text.replace(text.find("BODY"), 4, end);
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(text, "b.ptx"));
  PERGOLA_TRY(kernel_boundary(module, "k", scope));
  PERGOLA_TRY(ptx::verify(module));
  return module;
}

int count(std::string_view text, std::string_view word) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

TEST(KernelBoundary, Loads_BecomeCoherent_WhereTheKernelReaches) {
  const auto module = bounded("ret;", BoundaryScope::kGpu);
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string kernel = ptx::print(*module->find_function("k"));
  EXPECT_THAT(kernel, HasSubstr("ld.global.L1::no_allocate.v2.u32"));
  EXPECT_THAT(kernel, Not(HasSubstr("ldu")));
  EXPECT_THAT(ptx::print(*module->find_function("f")), Not(HasSubstr(".nc")));
  EXPECT_THAT(ptx::print(*module->find_function("g")), HasSubstr(".nc")) << "nobody calls it";
}

TEST(KernelBoundary, EveryEnd_HasItsFence) {
  const auto module = bounded("ret;", BoundaryScope::kSystem);
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(count(ptx::print(*module), "fence.acq_rel.sys;"), 3)
      << ptx::print(*module);  // begin, guarded return, return
  const auto falls = bounded("", BoundaryScope::kGpu);
  ASSERT_TRUE(falls.ok()) << falls.message();
  EXPECT_EQ(count(ptx::print(*falls), "fence.acq_rel.gpu;"), 3) << ptx::print(*falls);
}

TEST(KernelBoundary, WhatItDoesNotKnow_IsRefused) {
  const auto opaque = bounded("vadd.u32.u32.u32 %r1, %r1, %r2;", BoundaryScope::kGpu);
  EXPECT_EQ(opaque.code(), Code::kUnsupported);
  EXPECT_THAT(opaque.message(), HasSubstr("b.ptx:12:3: `vadd.u32.u32.u32 %r1, %r1, %r2` is not understood"));
  auto module = ptx::parse(".version 7.8\n.target sm_80\n.address_size 64\n.func f() { ret; }", "b.ptx");
  EXPECT_THAT(kernel_boundary(*module, "f", BoundaryScope::kGpu).message(), HasSubstr("b.ptx defines no kernel 'f'"));
}

}  // namespace
}  // namespace pergola::transform
