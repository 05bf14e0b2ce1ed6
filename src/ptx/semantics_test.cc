#include "src/ptx/semantics.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"

namespace pergola::ptx {
namespace {

struct Parsed {
  Module module;
  const Instruction* instruction = nullptr;
  const Function* function = nullptr;
};

Parsed parse_last(const std::string& text) {
  auto module = parse(".version 8.8\n.target sm_100a\n.func f() { ret; }\n.entry k() { .reg .b16 %h<8>; .reg .b32 %r<9>; "
                      ".reg .b64 %rd<8>; .reg .b128 %rq<2>; .reg .pred %p<4>; .reg .f32 %f<9>; .reg .f64 %fd<4>; L:\n" +
                      text + "\n}\n");
  EXPECT_TRUE(module.ok()) << module.message();
  Parsed parsed;
  if (!module.ok()) return parsed;
  parsed.module = std::move(module).value();
  parsed.function = parsed.module.find_function("k");
  for (const Statement& statement : parsed.function->body) {
    if (statement.instruction() != nullptr) parsed.instruction = statement.instruction();
  }
  return parsed;
}

// "pred f32 f32"; "-" where an operand has no type.
std::string types_of(const std::string& text) {
  const Parsed parsed = parse_last(text);
  std::string result;
  if (parsed.instruction == nullptr) return result;
  for (std::size_t i = 0; i < parsed.instruction->operands.size(); ++i) {
    const Type type = operand_type(*parsed.instruction, i);
    result += result.empty() ? "" : " ";
    result += type == Type::kNone ? "-" : spelling(type);
  }
  return result;
}

// w write, r read, b both, a address, t target.
std::string roles_of(const std::string& text) {
  const Parsed parsed = parse_last(text);
  std::string result;
  if (parsed.instruction == nullptr) return result;
  for (std::size_t i = 0; i < parsed.instruction->operands.size(); ++i) {
    switch (role(*parsed.instruction, i)) {
      case Role::kRead: result += 'r'; break;
      case Role::kWrite: result += 'w'; break;
      case Role::kReadWrite: result += 'b'; break;
      case Role::kAddress: result += 'a'; break;
      case Role::kTarget: result += 't'; break;
    }
  }
  return result;
}

TEST(Semantics, OperandType_FollowsTheInstruction) {
  const struct {
    const char* text;
    const char* types;
  } kRows[] = {
      {"add.s32 %r1, %r2, 1;", "s32 s32 s32"},
      {"mul.wide.s32 %rd1, %r1, %r2;", "s64 s32 s32"},
      {"mad.wide.u16 %r1, %h1, %h2, %r2;", "u32 u16 u16 u32"},
      {"mad.lo.s32 %r1, %r2, %r3, %r4;", "s32 s32 s32 s32"},
      {"fma.rn.f32.f16 %f1, %h1, %h2, %f3;", "f32 f16 f16 f32"},
      {"add.rn.f32.bf16 %f1, %h1, %f3;", "f32 bf16 f32"},
      {"setp.lt.and.f32 %p1|%p2, %f1, %f2, !%p3;", "pred f32 f32 pred"},
      {"set.ge.u32.f32 %r1, %f1, %f2;", "u32 f32 f32"},
      {"selp.f64 %fd1, %fd2, %fd3, %p1;", "f64 f64 f64 pred"},
      {"slct.f32.s32 %f1, %f2, %f3, %r1;", "f32 f32 f32 s32"},
      {"shl.b64 %rd1, %rd2, 3;", "b64 b64 u32"},
      {"shf.l.wrap.b32 %r1, %r2, %r3, %r4;", "b32 b32 b32 u32"},
      {"bfe.s64 %rd1, %rd2, 3, 4;", "s64 s64 u32 u32"},
      {"bfi.b32 %r1, %r2, %r3, 3, 4;", "b32 b32 b32 u32 u32"},
      {"popc.b64 %r1, %rd1;", "u32 b64"},
      {"bfind.s64 %r1, %rd1;", "u32 s64"},
      {"lop3.or.b32 %r1|%p1, %r2, %r3, %r4, 0x96, %p2;", "b32 b32 b32 b32 u32 pred"},
      {"prmt.b32 %r1, %r2, %r3, 0x5410;", "b32 b32 b32 b32"},
      {"dp4a.u32.s32 %r1, %r2, %r3, %r4;", "s32 u32 s32 s32"},
      {"vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4;", "u32 u32 u32 u32"},
      {"dp2a.lo.u32.u32 %r1, %r2, %r3, %r4;", "u32 u32 u32 u32"},
      {"cvt.rn.f32.s32 %f1, %r1;", "f32 s32"},
      {"cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "bf16x2 f32 f32"},
      {"cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;", "f16x2 f32 f32 b32"},
      {"cvt.pack.sat.u8.s32.b32 %r1, %r2, %r3, %r4;", "b32 s32 s32 b32"},
      {"cvta.to.global.u64 %rd1, %rd2;", "u64 u64"},
      {"ld.global.nc.v2.f32 {%f1, %f2}, [%rd1];", "f32 -"},
      {"ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;", "u32 - b64"},
      {"st.global.u8 [%rd1], %r1;", "- u8"},
      {"atom.global.cas.b64 %rd1, [%rd2], %rd3, %rd4;", "b64 - b64 b64"},
      {"red.global.add.f32 [%rd1], %f1;", "- f32"},
      {"mapa.u64 %rd1, %rd2, 1;", "u64 u64 u32"},
      {"isspacep.global %p1, %rd1;", "pred -"},
      {"bar.sync 1, 64;", "u32 u32"},
      {"bar.warp.sync -1;", "b32"},
      {"bar.red.popc.u32 %r1, 0, %p1;", "u32 u32 pred"},
      {"bar.red.and.pred %p2, 0, 128, !%p1;", "pred u32 u32 pred"},
      {"vote.sync.ballot.b32 %r1, %p1, -1;", "b32 pred b32"},
      {"vote.sync.any.pred %p2, %p1, -1;", "pred pred b32"},
      {"match.all.sync.b64 %r1|%p1, %rd1, -1;", "b32 b64 b32"},
      {"redux.sync.add.s32 %r1, %r2, -1;", "s32 s32 b32"},
      {"shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1;", "b32 b32 u32 u32 u32"},
      {"mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1, 10;", "pred - b64 u32"},
      {"mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;", "pred - u32"},
      {"mbarrier.arrive.shared.b64 %rd1, [%r1], 2;", "b64 - u32"},
      {"mbarrier.pending_count.b64 %r1, %rd1;", "u32 b64"},
      {"cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;", "- - u32 -"},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];", "- - u32 -"},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "f32 b32 b32 f32"},
      {"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r1}, {%r1}, {%r2}, {%r1};", "s32 b32 b32 s32"},
      {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}, {%fd2}, {%fd3}, {%fd1};", "f64 f64 f64 f64"},
      {"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16 {%f1}, {%r1}, {%r2}, {%r3};", "f32 b32 b32 b32"},
      {"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1], 16;", "b32 - u32"},
      {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];", "b32 -"},
      {"bra L;", "-"},
      {"nanosleep.u32 5;", "u32"},
  };
  for (const auto& row : kRows) EXPECT_EQ(types_of(row.text), row.types) << row.text;
}

TEST(Semantics, Role_SaysWhatIsWritten) {
  const struct {
    const char* text;
    const char* roles;
  } kRows[] = {
      {"add.s32 %r1, %r2, 1;", "wrr"},
      {"ld.global.u32 %r1, [%rd1];", "wa"},
      {"st.global.u32 [%rd1], %r1;", "ar"},
      {"atom.global.add.u32 %r1, [%rd1], 1;", "war"},
      {"bar.sync 0, 32;", "rr"},
      {"bar.red.or.pred %p1, 0, %p2;", "wrr"},
      {"bra L;", "t"},
      {"call (%r1), f, (%r2);", "wtr"},
      {"call f, (%r2);", "tr"},
      {"mov.b64 {%r1, %r2}, %rd1;", "wr"},
      {"cp.async.wait_group 1;", "r"},
      {"mbarrier.arrive.shared.b64 %rd1, [%r1];", "wa"},
      {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;",
       "brrrrrrr"},
      {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;", "rr"},
      {"tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];", "wa"},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];", "ara"},
  };
  for (const auto& row : kRows) EXPECT_EQ(roles_of(row.text), row.roles) << row.text;
}

std::string registers_of(const std::string& text) {
  const Parsed parsed = parse_last(text);
  std::string result;
  for_each_register(*parsed.instruction, [&](RegisterId id, bool is_written) {
    result += (is_written ? "+" : " ") + parsed.function->registers[id].name;
  });
  return result;
}

TEST(Semantics, ForEachRegister_FindsGuardsAddressesAndParts) {
  EXPECT_EQ(registers_of("@%p1 ld.global.v2.u32 {%r1, _}, [%rd1+4];"), " %p1+%r1 %rd1");
  EXPECT_EQ(registers_of("setp.lt.s32 %p1|%p2, %r1, %r2;"), "+%p1+%p2 %r1 %r2");
  EXPECT_EQ(registers_of("call (%r1), %rd1, (%r2), P;"), "+%r1 %rd1 %r2");
  EXPECT_EQ(registers_of("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];"),
            "+%f1+%f2+%f3+%f4 %rd1 %f5 %f6");
  EXPECT_EQ(registers_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;"),
            " %f1+%f1 %rd1 %rd2");
  EXPECT_EQ(registers_of("@!%p1 vadd.s32.s32.s32 %r1, %r2.b0, %r1;"), " %p1 %r1+%r1 %r2+%r2");
}

TEST(Semantics, MemoryEffect_TellsReadsWritesAndAtomics) {
  const struct {
    const char* text;
    bool reads, writes, is_atomic, is_strong;
  } kRows[] = {
      {"ld.global.u32 %r1, [%rd1];", true, false, false, false},
      {"ld.acquire.gpu.u32 %r1, [%rd1];", true, false, false, true},
      {"st.volatile.u32 [%rd1], %r1;", false, true, false, true},
      {"atom.add.u32 %r1, [%rd1], 1;", true, true, true, true},
      {"red.add.u32 [%rd1], 1;", true, true, true, true},
      {"cp.async.ca.shared.global [%r1], [%rd1], 4;", true, true, false, false},
      {"cp.async.wait_all;", false, false, false, false},
      {"fence.acq_rel.gpu;", false, false, false, false},
      {"bar.sync 0;", false, false, false, false},
      {"prefetch.global.L2 [%rd1];", false, false, false, false},
      {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];", true, false, false, false},
      {"add.s32 %r1, %r2, 1;", false, false, false, false},
      {"unknown.op %r1;", true, true, false, true},
  };
  for (const auto& row : kRows) {
    const Parsed parsed = parse_last(row.text);
    const MemoryEffect effect = memory_effect(*parsed.instruction);
    EXPECT_EQ(effect.reads, row.reads) << row.text;
    EXPECT_EQ(effect.writes, row.writes) << row.text;
    EXPECT_EQ(effect.is_atomic, row.is_atomic) << row.text;
    EXPECT_EQ(effect.is_strong, row.is_strong) << row.text;
  }
}

TEST(Semantics, RegistersOfTheCluster_TellOfIt) {
  const auto tells = [](const std::string& name) {
    const std::string move = name == "%is_explicit_cluster" ? "mov.pred %p1, " : "mov.u32 %r1, ";
    const Parsed parsed = parse_last(move + name + ";");
    return tells_of_cluster(parsed.instruction->operands[1].special);
  };
  for (const char* name : {"%is_explicit_cluster", "%clusterid.x", "%nclusterid.y", "%cluster_ctaid.x",
                           "%cluster_nctaid.z", "%cluster_ctarank", "%cluster_nctarank"})
    EXPECT_TRUE(tells(name)) << name;
  for (const char* name : {"%ctaid.x", "%nctaid.x", "%envreg2", "%tid.x", "%smid"}) EXPECT_FALSE(tells(name)) << name;
}

TEST(Semantics, Terminator_EndsBlocksAndThreads) {
  EXPECT_TRUE(is_terminator(*parse_last("bra L;").instruction));
  EXPECT_TRUE(is_terminator(*parse_last("ret;").instruction));
  EXPECT_FALSE(ends_thread(*parse_last("ret;").instruction));
  EXPECT_TRUE(ends_thread(*parse_last("exit;").instruction));
  EXPECT_TRUE(ends_thread(*parse_last("trap;").instruction));
  EXPECT_FALSE(is_terminator(*parse_last("call f, ();").instruction));
}

}  // namespace
}  // namespace pergola::ptx
