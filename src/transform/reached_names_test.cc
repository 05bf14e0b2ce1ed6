// What a kernel leads to, and what is taken out of its module.
#include "src/transform/reached_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"

namespace pergola::transform {
namespace {

using ::testing::ElementsAre;

// The names of what is left of a module with a kernel k.
std::vector<std::string> left_of(const std::string& text) {
  auto module = ptx::parse(".version 7.7\n.target sm_70\n.address_size 64\n" + text, "k.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  if (!module.ok()) return {};
  leave_only_reached(*module, "k");
  std::vector<std::string> names;
  for (const ptx::Item& item : module->items) {
    if (const auto* const variable = std::get_if<ptx::Variable>(&item.node))
      names.push_back(variable->name);
    else if (const auto* const function = std::get_if<ptx::Function>(&item.node))
      names.push_back(function->name);
    else
      names.push_back(std::get<ptx::Verbatim>(item.node).text);
  }
  return names;
}

TEST(ReachedNames, CalledFunctionsAndTheirVariables_AreLeft) {
  EXPECT_THAT(left_of(".shared .b32 own, others;\n.global .u32 a, b;\n.extern .func printed();\n"
                      ".extern .func unused();\n.func f() { .reg .b32 %r; ld.shared.u32 %r, [own+0]; call printed; "
                      "ret; }\n.func g() { .reg .b32 %r; ld.shared.u32 %r, [others]; ret; }\n"
                      ".entry l() { call g; ret; }\n"
                      ".entry k() { .reg .v2 .b32 %v; .reg .b32 %r; call f; @!%r bra END; ld.global.u32 %r, [b+4]; "
                      "END: ret; }"),
              ElementsAre("own", "b", "printed", "f", "k"));
}

TEST(ReachedNames, OfATableOfFunctions_AllAreLeft) {
  EXPECT_THAT(left_of(".func f() { ret; }\n.func g() { ret; }\n.func h() { ret; }\n"
                      ".const .u64 table[2] = {f, generic(far)};\n.global .u64 far[1] = {g};\n"
                      ".entry k() { .reg .b64 %r; ld.const.u64 %r, [table]; ret; }"),
              ElementsAre("f", "g", "table", "far", "k"));
}

// The pointer may be of wherever the module takes an address: of a table that the kernel does not name, too.
TEST(ReachedNames, AnIndirectCall_LeadsToAllWhoseAddressIsTaken) {
  const std::string functions =
      ".func f() { ret; }\n.func g() { call f; ret; }\n.func h() { ret; }\n.func i() { ret; }\n"
      ".global .u64 table[1] = {g};\n.entry l() { .reg .b64 %r; mov.u64 %r, i; call h; ret; }\n";
  EXPECT_THAT(left_of(functions + ".entry k(.param .u64 p) { .reg .b64 %r; ld.param.u64 %r, [p]; "
                                  "proto: .callprototype _ (); call %r, proto; ret; }"),
              ElementsAre("f", "g", "i", "k"));
  EXPECT_THAT(left_of(functions + ".entry k(.param .u64 p) { .reg .b64 %r; ld.param.u64 %r, [p]; "
                                  "list: .calltargets h; call %r, list; ret; }"),
              ElementsAre("h", "k"));
}

TEST(ReachedNames, OfAFunctionWhoseAddressIsTaken_WhatItNamesIsLeft) {
  EXPECT_THAT(left_of(".shared .b32 box;\n.func g() { .reg .b32 %r; mov.u32 %r, box; ret; }\n.func f() { call g; "
                      "ret; }\n.entry k() { .reg .b64 %r; mov.u64 %r, f; st.global.u64 [%r], %r; ret; }"),
              ElementsAre("box", "g", "f", "k"));
}

TEST(ReachedNames, WhatIsNotUnderstood_NamesEveryWordOfIt) {
  EXPECT_THAT(left_of(".global .u32 a, b;\n.entry k() { frob.b32 a, 1; ret; }"), ElementsAre("a", "k"));
}

TEST(ReachedNames, AnAlias_LeadsToItsFunction) {
  EXPECT_THAT(left_of(".func f();\n.func g() { ret; }\n.func h();\n.func i() { ret; }\n"
                      ".entry k() { call f; ret; }\n.alias f, g;\n.alias h, i;"),
              ElementsAre("f", "g", "k", ".alias f, g;"));
}

}  // namespace
}  // namespace pergola::transform
