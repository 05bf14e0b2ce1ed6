#include "src/transform/inline_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;

Result<ptx::Module> inlined(const std::string& body, const std::string& parameters = "") {
  PERGOLA_ASSIGN(ptx::Module module,
                 ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n.func f(" + parameters + ") {\n" + body +
                                "\n}\n.entry k() { .reg .b32 %r1; mov.u32 %r1, 7; ret; }\n",
                            "i.ptx"));
  const ptx::Function function = *module.find_function("f");
  ptx::Function& entry = *module.find_function("k");
  for (const char* prefix : {"$case_0", "$case_1"}) {
    PERGOLA_ASSIGN(Statements added, inline_body(entry, function, prefix));
    entry.body.insert(entry.body.begin() + 1, added.begin(), added.end());
  }
  PERGOLA_TRY(ptx::verify(module));
  return module;
}

TEST(InlineBody, EachCopy_HasItsRegistersLabelsAndLocals) {
  const auto module = inlined(R"(
  .reg .b32 %r<3>; .reg .pred %p; .local .b32 spill;
  $table: .branchtargets $a, $b;
  brx.idx %r1, $table;
  $a: st.local.u32 [spill], %r2;
  @%p ret;
  $b: ret;)");
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string text = ptx::print(*module->find_function("k"));
  for (const std::string prefix : {"$case_0", "$case_1"}) {
    EXPECT_THAT(text, HasSubstr(prefix + "$table: .branchtargets " + prefix + "$a, " + prefix + "$b;"));
    EXPECT_THAT(text, HasSubstr("st.local.u32 [" + prefix + "spill], %r2;"));
    EXPECT_THAT(text, HasSubstr("@%p bra " + prefix + "$returned;"));
  }
  // Registers of one name are told apart by their scopes: read again, it is the same.
  const auto again = ptx::parse(ptx::print(*module), "i.ptx");
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(ptx::print(*again), ptx::print(*module));
}

TEST(InlineBody, WhatIsNoBody_IsRefused) {
  EXPECT_THAT(inlined("ret;", ".param .b32 x").message(), HasSubstr("'f' takes parameters"));
  EXPECT_THAT(inlined("exit;").message(), HasSubstr("`exit;` ends the thread"));
}

}  // namespace
}  // namespace pergola::transform
