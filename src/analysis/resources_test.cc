#include "src/analysis/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/call_graph.h"
#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

using testing::ElementsAre;

ptx::Module module_of(const std::string& text) {
  auto module = ptx::parse(".version 8.3\n.target sm_90\n.address_size 64\n" + text, "r.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? std::move(module).value() : ptx::Module{};
}

TEST(Resources, PlainKernel_DeclaresAndUsesNothingElse) {
  const ptx::Module module = module_of(R"(.visible .entry k() {
    .reg .pred %p<3>; .reg .b16 %h; .reg .b32 %r<4>; .reg .f64 %d<2>; .local .b8 l[40];
    ret; })");
  const auto found = resources(module, *module.entries()[0]);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_EQ(found->predicates, 3u);
  EXPECT_EQ(found->registers_16, 1u);
  EXPECT_EQ(found->registers_32, 4u);
  EXPECT_EQ(found->registers_64, 2u);
  EXPECT_EQ(found->local_bytes, 40u);
  EXPECT_TRUE(found->barriers.empty());
  EXPECT_FALSE(found->uses_atomics || found->uses_warp_operations || found->uses_grid_sync || found->uses_printf ||
               found->uses_textures || found->uses_async_copies || found->has_indirect_calls || found->is_recursive);
}

TEST(Resources, CalleesCount_LocalAlongTheWorstChain) {
  const ptx::Module module = module_of(R"(
    .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
    .func leaf() { .reg .b32 %r<2>; .local .b8 l[8]; bar.sync 3; shfl.sync.idx.b32 %r0, %r1, 0, 31, -1; ret; }
    .func big() { .local .b8 l[100]; ret; }
    .func middle() { .local .b8 l[16]; call leaf; vadd.s32.s32.s32 x, y, z; ret; }
    .visible .entry k() {
      .reg .b32 %r<4>; .reg .b64 %rd<2>; .local .b8 l[4]; .shared .b8 s[64];
      call middle; call big; bar.sync 0; bar.sync %r1; atom.shared.add.u32 %r2, [s], 1;
      { .param .b64 a; .param .b64 b; .param .b32 r; call (r), vprintf, (a, b); }
      ret; })");
  const auto found = resources(module, *module.entries()[0]);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_EQ(found->local_bytes, 104u);
  EXPECT_EQ(found->static_shared_bytes, 64u);
  EXPECT_THAT(found->barriers, ElementsAre(0u, 3u));
  EXPECT_TRUE(found->has_dynamic_barrier);
  EXPECT_TRUE(found->uses_warp_operations);
  EXPECT_TRUE(found->uses_atomics);
  EXPECT_TRUE(found->uses_printf);
  EXPECT_EQ(found->call_depth, 2u);
  EXPECT_THAT(found->externals, ElementsAre("vprintf"));
  EXPECT_THAT(found->opaque, ElementsAre("r.ptx:8:51: vadd.s32.s32.s32 x, y, z"));
}

TEST(Resources, UnreachedFunction_DoesNotCount) {
  const ptx::Module module = module_of(".func f() { .local .b8 l[100]; bar.sync 5; ret; }\n.visible .entry k() { ret; }");
  const auto found = resources(module, *module.entries()[0]);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_EQ(found->local_bytes, 0u);
  EXPECT_TRUE(found->barriers.empty());
}

TEST(CallGraphOf, Recursion_IsFoundAndEnds) {
  const ptx::Module module = module_of(R"(
    .func g();
    .func f() { .local .b8 l[8]; call g; ret; }
    .func g() { .local .b8 l[16]; call f; ret; }
    .visible .entry k() { call f; ret; })");
  const CallGraph graph = call_graph(module, *module.entries()[0]);
  EXPECT_TRUE(graph.is_recursive);
  EXPECT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.depth, 2u);
  const auto found = resources(module, *module.entries()[0]);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_EQ(found->local_bytes, 24u);
}

TEST(CallGraphOf, IndirectCall_MayReachEveryFunctionWhoseAddressIsTaken) {
  const ptx::Module module = module_of(R"(
    .func a() { ret; }
    .func b() { ret; }
    .func c() { ret; }
    .global .align 8 .u64 table[1] = {b};
    .visible .entry k() {
      .reg .b64 %rd<2>;
      mov.u64 %rd1, a;
      P: .callprototype _ ();
      call %rd1, (), P;
      ret; }
    .visible .entry t() {
      .reg .b64 %rd<2>;
      T: .calltargets c;
      call %rd1, (), T;
      ret; })");
  const CallGraph any = call_graph(module, *module.find_function("k"));
  EXPECT_EQ(any.nodes.size(), 3u);
  EXPECT_TRUE(any.nodes[0].calls_unknown);
  const CallGraph listed = call_graph(module, *module.find_function("t"));
  ASSERT_EQ(listed.nodes.size(), 2u);
  EXPECT_EQ(listed.nodes[1].function->name, "c");
  EXPECT_FALSE(listed.nodes[0].calls_unknown);
}

}  // namespace
}  // namespace pergola::analysis
