#include "src/transform/block_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/abi/block_links.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSignalled = R"(.version 7.0
.target sm_75
.address_size 64
.func helper() { HELPER ret; }
.entry other() { ret; }
.entry k(.param .u64 k_x, .param .u32 k_n)
{
  .reg .pred %p1; .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [k_x];
  ld.global.nc.u32 %r1, [%rd1];
  ld.global.nc.u32 %r2, [%rd1+4];
  @%p1 ret;
  { @!%p1 exit; }
  call helper, ();
  BODY
  ret;
}
)";

Result<ptx::Module> signalled(const BlockSignalOptions& options, std::string_view body = "",
                              std::string_view helper = "") {
  std::string text(kSignalled);
  text.replace(text.find("BODY"), 4, body);
  text.replace(text.find("HELPER"), 6, helper);
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(text, "b.ptx"));
  PERGOLA_TRY(ptx::verify(module));
  PERGOLA_TRY(add_block_signals(module, "k", options));
  PERGOLA_TRY(ptx::verify(module));
  return module;
}

int occurrences(std::string_view text, std::string_view word) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

TEST(BlockSignals, ALaunchThatWaitsForAll_HasTwoInstructionsMore) {
  const auto module = signalled({.waits_for_all = true, .starts_early = true});
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string kernel = ptx::print(*module->find_function("k"));
  const std::size_t first = kernel.find("griddepcontrol.launch_dependents;");
  ASSERT_NE(first, std::string::npos);
  EXPECT_LT(first, kernel.find("griddepcontrol.wait;"));
  EXPECT_LT(kernel.find("griddepcontrol.wait;"), kernel.find("ld.param"));
  EXPECT_EQ(occurrences(kernel, "griddepcontrol"), 2) << kernel;
  EXPECT_EQ(occurrences(kernel, "ret;") + occurrences(kernel, "exit;"), 3) << "its ends are as they were";
  EXPECT_EQ(module->find_function("k")->parameters.size(), 2u);
  EXPECT_EQ(module->find_function("other"), nullptr);
}

// Who starts early and does not wait for all must still not end before the launch ahead of it has.
TEST(BlockSignals, ALaunchThatStartsEarly_EndsAfterTheOneBefore) {
  const auto module = signalled({.starts_early = true});
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string kernel = ptx::print(*module->find_function("k"));
  EXPECT_EQ(occurrences(kernel, "griddepcontrol.wait;"), 1);
  EXPECT_GT(kernel.find("griddepcontrol.wait;"), kernel.find("call"));
  EXPECT_EQ(occurrences(kernel, "ret;") + occurrences(kernel, "exit;"), 1) << "all ends are one\n" << kernel;
  const auto first = signalled({});
  EXPECT_THAT(ptx::print(*first), Not(HasSubstr("griddepcontrol.wait"))) << "the first of a chain waits for nobody";
}

TEST(BlockSignals, ALargeGrid_LetsTheNextStartWhenItsBlocksHaveEnded) {
  const auto module = signalled({.triggers = false, .waits_for_all = true, .limits = true, .starts_early = true});
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_THAT(ptx::print(*module), Not(HasSubstr("launch_dependents")));
}

TEST(BlockSignals, ALaunchThatLimits_WaitsInOneThreadBeforeItsBlockLetsTheNextStart) {
  const auto module = signalled({.limits = true, .starts_early = true});
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string kernel = ptx::print(*module->find_function("k"));
  EXPECT_LT(kernel.find("griddepcontrol.wait;"), kernel.find("griddepcontrol.launch_dependents;"));
}

TEST(BlockSignals, Links_AreTheLastParameter) {
  const auto module = signalled({.has_parents = true, .signals = true, .starts_early = true});
  ASSERT_TRUE(module.ok()) << module.message();
  const auto signature = ptx::signature(*module, *module->find_function("k"));
  ASSERT_TRUE(signature.ok());
  ASSERT_EQ(signature->parameters.size(), 3u);
  EXPECT_EQ(signature->parameters[2].offset_bytes, 16u);
  EXPECT_EQ(signature->parameter_bytes, 16 + abi::kBlockLinksBytes);
  const std::string kernel = ptx::print(*module->find_function("k"));
  EXPECT_THAT(kernel, HasSubstr("ld.acquire.gpu.global.u32"));
  const std::size_t fence = kernel.find("fence.acq_rel.gpu;"), told = kernel.find("red.relaxed.gpu.global.add.u32");
  EXPECT_GT(fence, kernel.find("call"));
  EXPECT_LT(fence, told) << "what the block wrote is seen before its counter";
  EXPECT_LT(told, kernel.rfind("griddepcontrol.wait;")) << "blocks that wait for this one may be what is waited for";
  EXPECT_THAT(module->targets, ::testing::ElementsAre("sm_90"));
}

TEST(BlockSignals, LoadsAreCoherent_ButOfLinesThatNobodyWrites) {
  const auto all = signalled({.waits_for_all = true});
  EXPECT_THAT(ptx::print(*all), Not(HasSubstr(".nc")));
  const auto some = signalled({.waits_for_all = true, .constant_lines = {11}});
  EXPECT_EQ(occurrences(ptx::print(*some), "ld.global.nc.u32 %r2"), 1) << ptx::print(*some);
  EXPECT_EQ(occurrences(ptx::print(*some), ".nc"), 1);
}

TEST(BlockSignals, WhatWouldEndOrStartBehindItsBack_IsRefusedByLine) {
  const auto exits = signalled({.signals = true}, "", "exit;");
  EXPECT_EQ(exits.code(), Code::kUnsupported);
  EXPECT_THAT(exits.message(), HasSubstr("b.ptx:4: kernel 'k' cannot wait for blocks of other launches: `exit`"));
  std::string text(kSignalled);
  text.replace(text.find("BODY"), 4, "griddepcontrol.wait;");
  text.replace(text.find("HELPER"), 6, "");
  text.replace(text.find("7.0"), 3, "7.8");
  text.replace(text.find("sm_75"), 5, "sm_90");
  auto own = ptx::parse(text, "b.ptx");
  ASSERT_TRUE(own.ok()) << own.message();
  EXPECT_THAT(add_block_signals(*own, "k", {}).message(), HasSubstr("has griddepcontrol of its own"));
  const auto opaque = signalled({}, "vadd.u32.u32.u32 %r1, %r1, %r2;");
  EXPECT_EQ(opaque.code(), Code::kUnsupported);
  auto module = ptx::parse(text, "b.ptx");
  EXPECT_EQ(add_block_signals(*module, "none", {}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace pergola::transform
