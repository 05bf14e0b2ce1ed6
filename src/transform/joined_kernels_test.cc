// Kernels joined in one: what becomes of their parameters, shared memory and names. That blocks find their part and
// launch is tests/blocks/merged_graphs_test.cc's.
#include "src/transform/joined_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/transform/merged_launches.h"

namespace pergola::transform {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

ptx::Module joinable(const std::string& text, const std::string& version = "7.7", const std::string& target = "sm_70") {
  auto module = ptx::parse(".version " + version + "\n.target " + target + "\n.address_size 64\n" + text, "parts.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  EXPECT_TRUE(ptx::verify(*module).ok());
  const Status merged = merge_launches(*module, "k", {.launches = 2, .flat = true});
  EXPECT_TRUE(merged.ok()) << merged.message();
  return std::move(module).value();
}

Result<ptx::Module> joined(const std::vector<ptx::Module>& modules) {
  std::vector<KernelPart> parts;
  for (const ptx::Module& module : modules) parts.push_back({&module, "k_merged"});
  PERGOLA_ASSIGN(ptx::Module module, join_kernels(parts, {64, 1, 1}));
  const Status verified = ptx::verify(module);
  EXPECT_TRUE(verified.ok()) << verified.message() << ptx::print(module);
  const Result<ptx::Module> again = ptx::parse(ptx::print(module), "joined.ptx");
  EXPECT_TRUE(again.ok() && ptx::print(*again) == ptx::print(module)) << again.message() << ptx::print(module);
  return module;
}

TEST(JoinedKernels, Parameters_LieBehindEachOther) {
  const auto module =
      joined({joinable(".entry k(.param .u64 x) { .reg .b64 %r; ld.param.u64 %r, [x]; ret; }"),
              joinable(".entry k(.param .align 16 .b8 s[32]) { .reg .b32 %r; ld.param.u32 %r, [s+4]; exit; }")});
  ASSERT_TRUE(module.ok()) << module.message();
  const auto signature = ptx::signature(*module, *module->find_function(kJoinedKernel));
  ASSERT_TRUE(signature.ok()) << signature.message();
  ASSERT_EQ(signature->parameters.size(), 2u);
  EXPECT_EQ(signature->parameters[0].size_bytes, 2 * 24u);
  EXPECT_EQ(signature->parameters[1].offset_bytes, 48u);
  EXPECT_EQ(signature->parameters[1].size_bytes, 2 * 48u);
  EXPECT_EQ(signature->required_threads, (std::array<std::uint32_t, 3>{64, 1, 1}));
  const std::string text = ptx::print(*module);
  EXPECT_THAT(text, HasSubstr("ld.param.u32 %first, [k_launches__1+12];"));
  EXPECT_THAT(text, HasSubstr("mov.b64 %element, k_launches__0;"));
  EXPECT_THAT(text, Not(HasSubstr("exit")));
}

TEST(JoinedKernels, StaticSharedMemory_IsThatOfThePartWithMost) {
  const auto module =
      joined({joinable(".shared .align 4 .b8 all[100];\n.func f() { .shared .align 8 .b8 own[40]; .reg .b32 %r; "
                       "mov.u32 %r, own; ret; }\n"
                       ".entry k() { .reg .b32 %r; call f, (); mov.u32 %r, all; ld.shared.u32 %r, [all+8]; ret; }"),
              joinable(".entry k() { .shared .align 32 .b8 tile[64]; .reg .b32 %r; mov.u32 %r, tile; st.shared.u32 "
                       "[tile+4], %r; ret; }")});
  ASSERT_TRUE(module.ok()) << module.message();
  const auto signature = ptx::signature(*module, *module->find_function(kJoinedKernel));
  ASSERT_TRUE(signature.ok()) << signature.message();
  EXPECT_EQ(signature->static_shared_bytes, 144u);
  const std::string text = ptx::print(*module);
  EXPECT_THAT(text, HasSubstr(".shared .align 32 .b8 pergola_shared_of_parts[144];"));
  EXPECT_THAT(text, HasSubstr("ld.shared.u32 %r, [pergola_shared_of_parts+8];"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r, pergola_shared_of_parts+104;"));
  EXPECT_THAT(text, HasSubstr("st.shared.u32 [pergola_shared_of_parts+4], %r;"));
}

// A file of kernels is one module: each part would have the shared memory of all of them.
TEST(JoinedKernels, WhatOtherKernelsOfTheModuleUse_IsLeftOut) {
  const std::string text =
      ".shared .align 4 .b8 others[4096];\n.shared .align 4 .b8 own[16];\n.global .u32 counter;\n"
      ".func g() { .shared .align 4 .b8 tile[8192]; .reg .b32 %r; mov.u32 %r, tile; mov.u32 %r, %dynamic_smem_size; "
      "ret; }\n"
      ".entry other() { .reg .b32 %r; call g, (); mov.u32 %r, others; st.global.u32 [counter], %r; ret; }\n"
      ".entry k() { .reg .b32 %r; mov.u32 %r, own; ret; }";
  const auto module = joined({joinable(text), joinable(text)});
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(ptx::signature(*module, *module->find_function(kJoinedKernel))->static_shared_bytes, 16u);
  EXPECT_THAT(ptx::print(*module), Not(AnyOf(HasSubstr("tile"), HasSubstr("counter"), HasSubstr("g__"))));
}

TEST(JoinedKernels, DynamicSharedMemory_IsDeclaredOnce) {
  const auto module = joined(
      {joinable(".extern .shared .align 4 .b8 memory[];\n.entry k() { .reg .b32 %r; mov.u32 %r, memory; ret; }"),
       joinable(".extern .shared .align 16 .b8 memory[];\n.entry k() { .reg .b32 %r; mov.u32 %r, memory; ret; }")});
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string text = ptx::print(*module);
  EXPECT_THAT(text, HasSubstr(".extern .shared .align 16 .b8 memory[];"));
  EXPECT_EQ(text.find(".extern"), text.rfind(".extern"));
}

TEST(JoinedKernels, WhatModulesDefine_HasNamesOfItsOwn) {
  const std::string text =
      ".global .align 4 .u32 table[2] = {1, 2};\n.func g() { ret; }\n"
      ".entry k() { .reg .b64 %r; .local .b8 own[4]; mov.u64 %r, table; call g, (); mov.u64 %r, own; ret; }";
  const auto module = joined({joinable(text), joinable(text, "8.0", "sm_90")});
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(module->version_major, 8u);
  EXPECT_EQ(module->targets[0], "sm_90");
  EXPECT_NE(module->find_variable("table__0"), nullptr);
  EXPECT_NE(module->find_function("g__1"), nullptr);
  EXPECT_EQ(module->entries().size(), 1u);
}

TEST(JoinedKernels, WhatAPartCouldTell_IsRefusedWithTheLine) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"mov.u32 %r, %dynamic_smem_size;", "asks how much shared memory it has"},
           {"frob.b32 %r, 1;", "is not understood"},
       }) {
    const auto module = joined({joinable(".entry k() { .reg .b32 %r; " + body + " ret; }")});
    ASSERT_EQ(module.code(), Code::kUnsupported) << body;
    EXPECT_THAT(module.message(), HasSubstr("parts.ptx:4: kernel 'k_merged' cannot be joined with others: `"));
    EXPECT_THAT(module.message(), HasSubstr(why));
  }
}

}  // namespace
}  // namespace pergola::transform
