// For tests of passes over a kernel's parameters: the kernel, and what every pass has to leave.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/base/function_ref.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::transform::testing {

// Kernel k with a 64-bit x at 0, a 16-bit s at 8, a struct t of 16 bytes at 16, and a float f at 32; its body begins in
// line 7 where `before` and `directives` have no lines.
inline std::string kernel_with(const std::string& body, const std::string& before = "",
                               const std::string& directives = "") {
  return ".version 7.7\n.target sm_70\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 x, .param .u16 s, .param .align 16 .b8 t[16], .param .f32 f)" + directives +
         "\n{\n.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .v4 .b32 "
         "%v;\n" +
         body + "\nret;\n}\n";
}

// The module of that text after the pass, which the verifier passes and whose text is read and printed as the same.
inline Result<ptx::Module> passed(const std::string& text, FunctionRef<Status(ptx::Module&)> pass) {
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(text, "k.ptx"));
  PERGOLA_TRY(ptx::verify(module));
  PERGOLA_TRY(pass(module));
  const Status verified = ptx::verify(module);
  EXPECT_TRUE(verified.ok()) << verified.message();
  const Result<ptx::Module> again = ptx::parse(ptx::print(module), "k.ptx");
  EXPECT_TRUE(again.ok() && ptx::print(*again) == ptx::print(module)) << ptx::print(module);
  return module;
}

}  // namespace pergola::transform::testing
