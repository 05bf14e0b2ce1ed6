#include "src/ptx/parser.h"

#include <gtest/gtest.h>

#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::ptx {
namespace {

std::string in_kernel(std::string_view body) {
  return ".version 8.3\n.target sm_90\n.address_size 64\n.global .align 4 .u32 array[8];\n"
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<3>; .reg .f32 "
         "%f<4>;\n" +
         std::string(body) + "\nret;\n}\n";
}

Instruction parse_one(std::string_view text) {
  const auto module = parse(in_kernel(text));
  EXPECT_TRUE(module.ok()) << module.message();
  if (!module.ok()) return {};
  for (const Statement& statement : module->find_function("k")->body) {
    if (const Instruction* instruction = statement.instruction()) return *instruction;
  }
  return {};
}

std::string error_of(std::string_view text) {
  const auto module = parse(text, "f.ptx");
  return module.ok() ? "no error" : module.message();
}

TEST(Parser, IntegerConstant_IsFolded) {
  const struct {
    const char* text;
    std::int64_t value;
  } kRows[] = {
      {"0x1F", 31},    {"017", 15},
      {"0b101", 5},    {"4294967295U", 4294967295},
      {"-1", -1},      {"~0", -1},
      {"!5", 0},       {"2+3*4", 14},
      {"(2+3)*4", 20}, {"7-2-1", 4},
      {"1<<4|1", 17},  {"-7/2", -3},
      {"-7 % 3", -1},  {"5>3?10:20", 10},
      {"1==2", 0},     {"WARP_SZ-1", 31},
      {"-8>>1", -4},   {"0xF0^0xFF", 0x0F},
      {"3&&0||1", 1},  {"0xFFFFFFFFFFFFFFFF", -1},
      {"(.u64)1", 1},  {"(.s64)0x8000000000000000/-1", INT64_MIN},
      {"1<<64", 0},
  };
  for (const auto& row : kRows) {
    const Instruction mov = parse_one(std::string("mov.b64 %rd1, ") + row.text + ";");
    ASSERT_EQ(mov.operands.size(), 2u) << row.text;
    EXPECT_EQ(mov.operands[1].kind, Operand::Kind::kInteger) << row.text;
    EXPECT_EQ(static_cast<std::int64_t>(mov.operands[1].bits), row.value) << row.text;
  }
}

TEST(Parser, FloatConstant_KeepsItsBits) {
  EXPECT_EQ(parse_one("mov.f32 %f1, 0f3F800000;").operands[1].bits, 0x3F800000u);
  EXPECT_EQ(parse_one("mov.f32 %f1, -0f3F800000;").operands[1].bits, 0xBF800000u);
  EXPECT_EQ(parse_one("mov.f32 %f1, 1.5;").operands[1].bits, 0x3FF8000000000000u);
  EXPECT_EQ(parse_one("mov.f32 %f1, .5;").operands[1].bits, 0x3FE0000000000000u);
  EXPECT_EQ(parse_one("mov.f32 %f1, 1e1;").operands[1].bits, 0x4024000000000000u);
  EXPECT_EQ(parse_one("mov.f32 %f1, 0d3FF0000000000000;").operands[1].kind, Operand::Kind::kF64);
}

TEST(Parser, Address_HasBaseAndOffset) {
  const Operand reg = parse_one("ld.global.u32 %r1, [%rd1+-8];").operands[1];
  EXPECT_EQ(reg.kind, Operand::Kind::kAddress);
  EXPECT_EQ(reg.offset, -8);
  EXPECT_EQ(reg.elements[0].kind, Operand::Kind::kRegister);
  EXPECT_EQ(parse_one("ld.global.u32 %r1, [%rd1-8];").operands[1], reg);
  const Operand symbol = parse_one("ld.global.u32 %r1, [array+4*2];").operands[1];
  EXPECT_EQ(symbol.offset, 8);
  EXPECT_EQ(symbol.elements[0].name, "array");
  EXPECT_EQ(symbol.elements[0].offset, 0);
  EXPECT_EQ(parse_one("ld.global.u32 %r1, array[2];").operands[1], symbol);
  EXPECT_EQ(parse_one("mov.u64 %rd1, array[2];").operands[1], Operand::make_symbol("array", 8));
  EXPECT_NE(error_of(in_kernel("ld.global.u32 %r1, ! array[2];")).find("a predicate after '!'"), std::string::npos);
  const Operand texture = parse_one("tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd1, {%r1, %r2}];").operands[1];
  ASSERT_EQ(texture.elements.size(), 2u);
  EXPECT_EQ(texture.elements[1].elements.size(), 2u);
}

TEST(Parser, Modifiers_KeepOrderTypesAndSpace) {
  const Instruction load = parse_one("@!%p1 ld.relaxed.gpu.global.L1::no_allocate.v2.u32 {%r1, _}, [%rd1];");
  EXPECT_TRUE(load.guard.negated);
  EXPECT_EQ(load.op, Op::kLd);
  EXPECT_EQ(load.space(), Space::kGlobal);
  EXPECT_EQ(load.vector_width(), 2);
  EXPECT_EQ(load.type(), Type::kU32);
  EXPECT_TRUE(load.has(Mod::kL1NoAllocate));
  const Instruction convert = parse_one("cvt.rn.f32.s32 %f1, %r1;");
  EXPECT_EQ(convert.type(0), Type::kF32);
  EXPECT_EQ(convert.type(1), Type::kS32);
  EXPECT_EQ(parse_one("add .s32 %r1, %r1, 1;").mods.size(), 1u);
}

TEST(Parser, UnknownInstruction_IsOpaqueWithItsRegisters) {
  const Instruction video = parse_one("@%p1 vadd.s32.u32.s32.sat %r1, %r2.b0, %r3.h1, %r2;");
  EXPECT_EQ(video.op, Op::kOpaque);
  EXPECT_EQ(video.text, "vadd.s32.u32.s32.sat %r1, %r2.b0, %r3.h1, %r2");
  EXPECT_EQ(video.text_registers, (std::vector<RegisterId>{1, 2, 3}));
  EXPECT_TRUE(video.guard.present());
  EXPECT_EQ(parse_one("vadd2.u32.u32.u32 %r1.h0, %r2, %r3, %r2;").op, Op::kOpaque);  // its selectors are not understood
  EXPECT_EQ(parse_one("vadd2.u32.u32.u32 %r1, %r2, %r3, %r2;").op, Op::kVadd2);
  const Instruction modifier = parse_one("ld.global.from_the_future.u32 %r1, [%rd1];");
  EXPECT_EQ(modifier.op, Op::kOpaque);
  EXPECT_TRUE(modifier.mods.empty());
  EXPECT_EQ(modifier.text_registers, (std::vector<RegisterId>{1, 9}));
}

TEST(Parser, Scope_ShadowsRegisters) {
  const auto module =
      parse(in_kernel("{ .reg .b32 %r<2>; mov.u32 %r1, 1; { .reg .f32 %r1; mov.f32 %r1, 0f00000000; } "
                      "mov.u32 %r1, 2; } mov.u32 %r1, 3;"));
  ASSERT_TRUE(module.ok()) << module.message();
  const Function* kernel = module->find_function("k");
  std::vector<RegisterId> written;
  for (const Statement& statement : kernel->body) {
    const Instruction* instruction = statement.instruction();
    if (instruction != nullptr && instruction->op == Op::kMov) written.push_back(instruction->operands[0].reg);
  }
  ASSERT_EQ(written.size(), 4u);
  EXPECT_EQ(written[0], written[2]);
  EXPECT_EQ(written[3], 1u);
  EXPECT_EQ(kernel->registers[written[1]].type, Type::kF32);
  EXPECT_NE(written[0], written[3]);
}

TEST(Parser, SpecialRegister_HasComponent) {
  const Operand tid = parse_one("mov.u32 %r1, %tid.y;").operands[1];
  EXPECT_EQ(tid.special, Special::kTid);
  EXPECT_EQ(tid.component, 1);
  const Operand envreg = parse_one("mov.b32 %r1, %envreg31;").operands[1];
  EXPECT_EQ(envreg.special, Special::kEnvreg);
  EXPECT_EQ(envreg.component, 31);
  const Operand other = parse_one("mov.u32 %r1, %reserved_smem_offset_1;").operands[1];
  EXPECT_EQ(other.special, Special::kOther);
  EXPECT_EQ(other.name, "%reserved_smem_offset_1");
}

TEST(Parser, Initializer_IsInTheElementsFormat) {
  const auto module = parse(R"(.version 8.3
.target sm_90
.address_size 64
.global .f32 f = 1.5;
.global .u8 bytes[] = {0x1FF, -1};
.global .s32 grid[2][3] = {{1}, {2, 3}};
.global .u64 pointers[3] = {f, generic(bytes)+1, 0};
.global .u8 address[2] = {0xFF(f), 0xFF00(generic(f+4))};
)");
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(module->find_variable("f")->initializers[0].bits, 0x3FC00000u);
  const Variable* bytes = module->find_variable("bytes");
  EXPECT_EQ(bytes->size_bytes(), 2u);
  EXPECT_EQ(bytes->initializers[0].bits, 0xFFu);
  EXPECT_EQ(bytes->initializers[1].bits, 0xFFu);
  const Variable* grid = module->find_variable("grid");
  ASSERT_EQ(grid->initializers.size(), 5u);
  EXPECT_EQ(grid->initializers[3].bits, 2u);
  const Variable* pointers = module->find_variable("pointers");
  EXPECT_EQ(pointers->initializers[0].kind, Initializer::Kind::kSymbol);
  EXPECT_EQ(pointers->initializers[1].kind, Initializer::Kind::kGenericSymbol);
  EXPECT_EQ(pointers->initializers[1].offset, 1);
  EXPECT_EQ(module->find_variable("address")->initializers[1].mask, 0xFF00u);
  EXPECT_EQ(module->find_variable("address")->initializers[1].offset, 4);
}

TEST(Parser, BadText_SaysWhereAndWhat) {
  const std::string head = ".version 8.3\n.target sm_90\n.address_size 64\n";
  const struct {
    std::string text;
    const char* message;
  } kRows[] = {
      {"", "f.ptx:1:1: expected .version, which begins every PTX module, found end of file"},
      {".version eight", "f.ptx:1:10: expected a version such as 8.3, found 'eight'"},
      {".version 8.3\nfoo", "f.ptx:2:1: expected .target after .version, found 'foo'"},
      {head + ".global .u32 x", "f.ptx:4:15: expected ',', '=' or ';' after the variable, found end of file"},
      {head + ".global x;", "f.ptx:4:9: expected a variable's type, found 'x'"},
      {head + ".global .align 3 .u32 x;", "f.ptx:4:16: expected an alignment that is a power of two, found '3'"},
      {head + ".entry k() { add.s32 %r1, }", "f.ptx:4:27: expected an operand, found '}'"},
      {head + ".entry k() {\n  mov.u32 %r1, 5\n}", "f.ptx:6:1: expected ',' or ';' after the operand, found '}'"},
      {head + ".entry k() {\n  @%p1 ret;\n}", "f.ptx:5:4: expected a declared predicate register, found '%p1'"},
      {head + ".entry k() { .reg .b32 %r<4000000000>; }",
       "f.ptx:4:27: expected fewer registers, in proportion to the text's length, found '4000000000'"},
      {head + ".entry k() { .reg .b32 %r<0>; }", "f.ptx:4:27: expected at least one register, found '0'"},
      {head + ".entry k() { mov.u32 x, 1/0; }", "f.ptx:4:26: expected a divisor other than zero, found '/'"},
      {head + ".entry k() { mov.f32 x, 0f12; }", "f.ptx:4:25: expected an operand, found malformed number '0f12'"},
      {head + ".entry k() { mov.f32 x, 08; }", "f.ptx:4:25: expected an integer of 64 bits, found '08'"},
      {head + ".entry k() { \x01 }", "f.ptx:4:14: expected an instruction, found byte 0x01"},
      {head + ".entry k() { /* ", "f.ptx:4:14: expected an instruction, found a comment without its end"},
      {head + ".entry k() { ret;", "f.ptx:4:18: expected '}' at the end of the function, found end of file"},
      {head + ".entry k() { vadd %r1, %r2 }", "f.ptx:4:28: expected ';' after the instruction, found '}'"},
      {head + ".entry k() { call (r), 5; }", "f.ptx:4:24: expected a function to call, found '5'"},
      {head + ".entry k() { .local .b8 x[8]; call x[4]; }", "f.ptx:4:36: expected a function to call, found 'x'"},
      {head + ".file 1 x", "f.ptx:4:9: expected a file's path in quotes, found 'x'"},
      {head + ".entry k() { p:; .callprototype () _ (); }",
       "f.ptx:4:18: expected a label, whose this is, right before it, found '.callprototype'"},
      {head + ".global .b64 x = {1.0, 2.0};",
       "f.ptx:4:28: expected no more values than the variable has elements, found ';'"},
      {head + ".global .u8 x[2][2] = {1, 2, 3, 4, 5};",
       "f.ptx:4:38: expected no more values than the variable has elements, found ';'"},
      {head + ".section .debug { .b8 1", "f.ptx:4:24: expected '}' after the section, found end of file"},
      {head + ".weird directive;", "f.ptx:4:1: expected a directive of modules, found '.weird'"},
      {head + ".shared .u32 s = 5;",
       "f.ptx:4:16: expected ';', as variables in .shared have no initial value, found '='"},
      {head + "add.s32 x;", "f.ptx:4:1: expected a module directive, variable or function, found 'add'"},
  };
  for (const auto& row : kRows) EXPECT_EQ(error_of(row.text), row.message) << row.text;
}

TEST(Parser, IndexedNames_AreThoseOfTheirScope) {
  const auto module = parse(in_kernel(R"(.local .b16 u[4];
    { .local .b64 array[4]; .local .b64 u[4]; ld.local.u32 %r1, array[2]; ld.local.u32 %r1, u[2]; }
    ld.global.u32 %r1, array[2]; ld.local.u32 %r1, u[2];)") +
                            R"(
    .visible .entry l() { .reg .b32 %r; .shared .b8 u[4]; ld.shared.u32 %r, u[2]; ret; })");
  ASSERT_TRUE(module.ok()) << module.message();
  std::vector<std::int64_t> offsets;
  for (const Function* function : module->functions())
    for (const Statement& statement : function->body)
      if (const Instruction* instruction = statement.instruction(); instruction && instruction->op == Op::kLd)
        offsets.push_back(instruction->operands[1].offset);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{16, 16, 8, 4, 2}));
  const auto gone = parse(in_kernel("{ .local .b32 v[4]; } ld.local.u32 %r1, v[2];"));
  EXPECT_FALSE(gone.ok()) << "its scope has ended";
}

// Names of labels and of what branches to them, in order: "a:" stands there, "a" is meant.
std::string labels_of(const Module& module) {
  std::string text;
  for (const Statement& statement : module.find_function("k")->body) {
    if (const auto* label = std::get_if<Label>(&statement.node)) text += label->name + ": ";
    if (const auto* targets = std::get_if<BranchTargets>(&statement.node)) {
      text += targets->name + ":";
      for (const std::string& name : targets->labels) text += " " + name;
      text += "; ";
    }
    if (const Instruction* instruction = statement.instruction())
      for (const Operand& operand : instruction->operands)
        if (operand.kind == Operand::Kind::kLabel) text += operand.name + " ";
  }
  return text;
}

TEST(Parser, LabelsOfSeveralScopes_AreToldApart) {
  const auto labels = [](std::string_view body) {
    const auto module = parse(in_kernel(body));
    EXPECT_TRUE(module.ok()) << module.message();
    if (!module.ok()) return std::string();
    const auto again = parse(print(*module));
    EXPECT_TRUE(again.ok() && *again == *module) << print(*module);
    return labels_of(*module);
  };
  EXPECT_EQ(labels("a: bra a; { bra a; b: } { bra b; b: }"), "a: a a b: b_1 b_1: ");
  EXPECT_EQ(labels("{ a: bra a; } { a: bra a; { a: bra a; } bra a; } bra a; a:"),
            "a: a a_1: a_1 a_2: a_2 a_1 a_3 a_3: ");
  EXPECT_EQ(labels("a_1: { a: bra a; } { a: bra a; bra a_1; }"), "a_1: a: a a_2: a_2 a_1 ") << "a name that is taken";
  EXPECT_EQ(
      labels("{ t: .branchtargets a, b; a: b: brx.idx %r1, t; } { t: .branchtargets a, b; a: b: brx.idx %r1, t; }"),
      "t: a b; a: b: t t_1: a_1 b_1; a_1: b_1: t_1 ");
  EXPECT_EQ(labels("{ a: } { bra a; }"), "a: a ") << "what is not seen stays, and is refused";
  const auto unseen = parse(in_kernel("{ a: } { bra a; }"));
  EXPECT_EQ(verify(*unseen).code(), Code::kParseError);
  const auto twice = parse(in_kernel("{ a: } { a: a: bra a; }"));
  EXPECT_EQ(verify(*twice).code(), Code::kParseError) << "the same one twice in one scope";
}

TEST(Parser, DeepNesting_IsRefused) {
  const std::string many(100000, '(');
  EXPECT_NE(error_of(in_kernel("mov.u32 %r1, " + many)).find("a less deeply nested expression"), std::string::npos);
  EXPECT_NE(error_of(in_kernel("mov.u32 %r1, " + std::string(100000, '-') + "1;")).find("nested"), std::string::npos);
  EXPECT_NE(error_of(in_kernel("mov.u32 " + std::string(100000, '{'))).find("nested operands"), std::string::npos);
  EXPECT_NE(error_of(in_kernel("mov.u32 " + std::string(100000, '['))).find("nested operands"), std::string::npos);
  EXPECT_NE(error_of(in_kernel(std::string(100000, '{'))).find("nested scopes"), std::string::npos);
  const std::string head = ".version 8.3\n.target sm_90\n.global .u32 x[4] = ";
  EXPECT_NE(error_of(head + std::string(100000, '{')).find("nested braces"), std::string::npos);
}

TEST(Parser, LongTextOfManyStatements_TakesLinearTime) {
  std::string body;
  for (int i = 0; i < 200000; ++i) body += "add.s32 %r1, %r1, 1; ";  // one line
  const auto module = parse(in_kernel(body));
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(module->find_function("k")->body.size(), 200005u);
}

}  // namespace
}  // namespace pergola::ptx
