#include "src/analysis/cfg.h"

#include <gtest/gtest.h>

#include "src/analysis/liveness.h"
#include "src/analysis/reaching.h"
#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

using Blocks = std::vector<std::uint32_t>;
constexpr std::uint32_t kNone = ~0u;

ptx::Module parse(const std::string& body, const std::string& registers = "") {
  auto module = ptx::parse(".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
                           ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" + registers + body + "\n}\n");
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? std::move(module).value() : ptx::Module{};
}

// Index of the n-th instruction in the body.
std::uint32_t nth(const ptx::Function& function, int n) {
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].instruction() != nullptr && n-- == 0) return i;
  }
  return kNone;
}

std::vector<std::string> names(const ptx::Function& function, const RegisterSet& set) {
  std::vector<std::string> result;
  for (const ptx::RegisterId id : set.elements()) result.push_back(function.registers[id].name);
  return result;
}

ptx::RegisterId reg(const ptx::Function& function, const std::string& name) {
  for (ptx::RegisterId id = 0; id < function.registers.size(); ++id) {
    if (function.registers[id].name == name) return id;
  }
  return ptx::kNoRegister;
}

TEST(Cfg, Diamond_EdgesAndDominators) {
  const ptx::Module module = parse(R"(
    @%p1 bra ELSE;      // 0
    mov.u32 %r1, 1;     // 1
    bra END;
  ELSE:
    mov.u32 %r1, 2;     // 2
  END:
    ret;                // 3
  )");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_TRUE(cfg.ok()) << cfg.message();
  ASSERT_EQ(cfg->blocks.size(), 4u);
  EXPECT_EQ(cfg->blocks[0].successors, (Blocks{1, 2}));
  EXPECT_EQ(cfg->blocks[1].successors, (Blocks{3}));
  EXPECT_EQ(cfg->blocks[3].predecessors, (Blocks{1, 2}));
  EXPECT_EQ(cfg->immediate_dominator, (Blocks{0, 0, 0, 0}));
  EXPECT_EQ(cfg->immediate_post_dominator, (Blocks{3, 3, 3, kNone}));
  EXPECT_EQ(cfg->block_of_label.at("ELSE"), 2u);
}

TEST(Cfg, LoopUnreachableAndEmptyLastBlock_AreNumbered) {
  const ptx::Module module = parse(R"(
  LOOP:
    add.u32 %r1, %r1, 1;  // 0
    @%p1 bra LOOP;
    bra END;              // 1
    mov.u32 %r2, 1;       // 2: nothing leads here
  END:
    @!%p2 ret;            // 3, then 4: the end of the body
  )");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_TRUE(cfg.ok()) << cfg.message();
  ASSERT_EQ(cfg->blocks.size(), 5u);
  EXPECT_EQ(cfg->blocks[0].successors, (Blocks{0, 1}));
  EXPECT_EQ(cfg->blocks[3].successors, (Blocks{4}));
  EXPECT_TRUE(cfg->blocks[4].statements.empty());
  EXPECT_EQ(cfg->reverse_post_order, (Blocks{0, 1, 3, 4}));
  EXPECT_EQ(cfg->immediate_dominator[2], kNone);
  EXPECT_EQ(cfg->immediate_dominator[3], 1u);
}

TEST(Cfg, BranchTable_GoesToEachLabelOnce) {
  const ptx::Module module = parse(R"(
    T: .branchtargets A, B, A;
    brx.idx %r1, T;
  A: mov.u32 %r2, 1;
  B: ret;
  )");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_TRUE(cfg.ok()) << cfg.message();
  EXPECT_EQ(cfg->blocks[cfg->reverse_post_order[0]].successors.size(), 2u);
}

TEST(Cfg, EndlessLoop_HasNoPostDominator) {
  const ptx::Module module = parse("L: bra L;");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_TRUE(cfg.ok()) << cfg.message();
  EXPECT_EQ(cfg->immediate_post_dominator[0], kNone);
}

TEST(Cfg, BranchToNowhere_IsRefusedWithItsPlace) {
  const ptx::Module module = parse("bra NOWHERE;");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_FALSE(cfg.ok());
  EXPECT_EQ(cfg.code(), Code::kParseError);
  EXPECT_NE(cfg.message().find("NOWHERE"), std::string::npos);
}

TEST(Cfg, EmptyBody_IsOneBlock) {
  const ptx::Module module = parse("");
  const auto cfg = build_cfg(*module.entries()[0]);
  ASSERT_TRUE(cfg.ok()) << cfg.message();
  EXPECT_EQ(cfg->blocks.size(), 1u);
}

TEST(Liveness, Loop_CarriesWhatTheNextRoundReads) {
  const ptx::Module module = parse(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, 7;
  LOOP:
    add.u32 %r1, %r1, %r2;
    mov.u32 %r3, 1;
    setp.lt.u32 %p1, %r1, 100;
    @%p1 bra LOOP;
    st.global.u32 [%rd1], %r1;
    ret;
  )");
  const ptx::Function& kernel = *module.entries()[0];
  const auto cfg = build_cfg(kernel);
  ASSERT_TRUE(cfg.ok());
  const Liveness live = compute_liveness(kernel, *cfg);
  EXPECT_EQ(names(kernel, live.live_in[0]), (std::vector<std::string>{"%rd1"}));
  EXPECT_EQ(names(kernel, live.live_in[1]), (std::vector<std::string>{"%r1", "%r2", "%rd1"}));
  EXPECT_EQ(names(kernel, live.live_in[2]), (std::vector<std::string>{"%r1", "%rd1"}));
  EXPECT_EQ(names(kernel, live_before(kernel, *cfg, live, nth(kernel, 5))),
            (std::vector<std::string>{"%p1", "%r1", "%r2", "%rd1"}));
}

TEST(Liveness, GuardedAndOpaqueWrites_DoNotEndALife) {
  const ptx::Module module = parse(R"(
    @%p1 mov.u32 %r1, 1;
    vadd.s32.s32.s32 %r2, %r3, %r4;
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1], %r2;
    ret;
  )");
  const ptx::Function& kernel = *module.entries()[0];
  const auto cfg = build_cfg(kernel);
  ASSERT_TRUE(cfg.ok());
  EXPECT_EQ(names(kernel, compute_liveness(kernel, *cfg).live_in[0]),
            (std::vector<std::string>{"%p1", "%r1", "%r2", "%r3", "%r4", "%rd1"}));
}

TEST(Reaching, SeveralDefinitions_OnlyThoseThatArrive) {
  const ptx::Module module = parse(R"(
    mov.u32 %r1, 1;
    mov.u32 %r1, 2;
    @%p1 mov.u32 %r1, 3;
    mov.u32 %r2, %r1;
    mov.u32 %r1, 4;
    ret;
  )");
  const ptx::Function& kernel = *module.entries()[0];
  const auto cfg = build_cfg(kernel);
  ASSERT_TRUE(cfg.ok());
  const ReachingDefinitions reaching(kernel, *cfg);
  std::vector<std::uint32_t> statements;
  for (const DefinitionId id : reaching.reaching(nth(kernel, 3), reg(kernel, "%r1"))) {
    statements.push_back(reaching.definitions()[id].statement);
  }
  EXPECT_EQ(statements, (std::vector<std::uint32_t>{nth(kernel, 1), nth(kernel, 2)}));
  EXPECT_EQ(reaching.all_of(reg(kernel, "%r1")).size(), 4u);
  EXPECT_TRUE(reaching.reaching(nth(kernel, 2), reg(kernel, "%p1")).empty());
}

TEST(Reaching, Loop_BringsTheLastRoundsDefinition) {
  const ptx::Module module = parse(R"(
    mov.u32 %r1, 0;
  LOOP:
    mov.u32 %r2, %r1;
    add.u32 %r1, %r2, 1;
    @%p1 bra LOOP;
    ret;
  )");
  const ptx::Function& kernel = *module.entries()[0];
  const auto cfg = build_cfg(kernel);
  ASSERT_TRUE(cfg.ok());
  const ReachingDefinitions reaching(kernel, *cfg);
  EXPECT_EQ(reaching.reaching(nth(kernel, 1), reg(kernel, "%r1")).size(), 2u);
  EXPECT_EQ(reaching.users(reaching.definition(nth(kernel, 2), reg(kernel, "%r1"))).size(), 1u);
}

TEST(Reaching, VeryManyDefinitions_AreOne) {
  std::string body = "mov.u32 %r2, %r1;\n";
  for (int i = 0; i < 200; ++i) body += "mov.u32 %r1, 1;\n";
  const ptx::Module module = parse(body + "mov.u32 %r3, %r1; ret;");
  const ptx::Function& kernel = *module.entries()[0];
  const auto cfg = build_cfg(kernel);
  ASSERT_TRUE(cfg.ok());
  const ReachingDefinitions reaching(kernel, *cfg);
  const ptx::RegisterId r1 = reg(kernel, "%r1");
  EXPECT_EQ(reaching.all_of(r1).size(), 1u);
  EXPECT_FALSE(reaching.is_single(r1));
  EXPECT_EQ(reaching.definition(nth(kernel, 5), r1), reaching.definition(nth(kernel, 150), r1));
  EXPECT_EQ(reaching.users(reaching.all_of(r1)[0]).size(), 2u);
  EXPECT_TRUE(reaching.is_single(reg(kernel, "%r3")));
}

}  // namespace
}  // namespace pergola::analysis
