// Every arithmetic instruction on a grid of edge values: the JIT gives the interpreter's bits.
//
// A row of kRows is an instruction and the kinds of its registers; `expand` turns {a,b} into one row each. A kernel
// per row loads its operands from an array of patterns (all pairs of them; the third operand follows from both) and
// stores the result's bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cpu/jit/jit_test_util.h"

namespace pergola::device::cpu {
namespace {

using jit::testing::Program;

struct Row {
  const char* instruction;  // with {a,b} alternatives
  const char* registers;    // destination, then sources: h b16, r b32, d b64, f f32, g f64, p pred; i an immediate 0..
};

constexpr Row kRows[] = {
    {"{add,sub,mul.lo,mul.hi,min,max}.{u16,s16}", "hhh"},
    {"{add,sub,mul.lo,mul.hi,min,max,div,rem}.{u32,s32}", "rrr"},
    {"{add,sub,mul.lo,mul.hi,min,max,div,rem}.{u64,s64}", "ddd"},
    {"{div,rem}.{u16,s16}", "hhh"},
    {"{add,sub}.sat.s32", "rrr"},
    {"{min,max}.relu.s32", "rrr"},
    {"mul.wide.{u16,s16}", "rhh"},
    {"mul.wide.{u32,s32}", "drr"},
    {"mad.{lo,hi}.{u32,s32}", "rrrr"},
    {"mad.hi.sat.s32", "rrrr"},
    {"mad.{lo,hi}.{u64,s64}", "dddd"},
    {"mad.lo.{u16,s16}", "hhhh"},
    {"mad.wide.{u32,s32}", "drrd"},
    {"mad.wide.{u16,s16}", "rhhr"},
    {"mul24.{lo,hi}.{u32,s32}", "rrr"},
    {"mad24.{lo,hi}.{u32,s32}", "rrrr"},
    {"mad24.hi.sat.s32", "rrrr"},
    {"sad.{u32,s32}", "rrrr"},
    {"sad.{u64,s64}", "dddd"},
    {"sad.{u16,s16}", "hhhh"},
    {"{abs,neg}.s16", "hh"},
    {"{abs,neg}.s32", "rr"},
    {"{abs,neg}.s64", "dd"},
    {"{add,min,max}.{u16x2,s16x2}", "rrr"},
    {"dp4a.{u32,s32}.{u32,s32}", "rrrr"},
    {"dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "rrrr"},
    {"{popc,clz,brev}.b32", "rr"},
    {"{popc,clz}.b64", "rd"},
    {"brev.b64", "dd"},
    {"bfind.{u32,s32}", "rr"},
    {"bfind.shiftamt.{u32,s32}", "rr"},
    {"bfind.{u64,s64}", "rd"},
    {"bfind.shiftamt.{u64,s64}", "rd"},
    {"bfe.{u32,s32}", "rrrr"},
    {"bfe.{u64,s64}", "ddrr"},
    {"bfi.b32", "rrrrr"},
    {"bfi.b64", "dddrr"},
    {"bmsk.{clamp,wrap}.b32", "rrr"},
    {"szext.{clamp,wrap}.{u32,s32}", "rrr"},
    {"fns.b32", "rrrr"},
    {"{and,or,xor}.b16", "hhh"},
    {"{and,or,xor}.b32", "rrr"},
    {"{and,or,xor}.b64", "ddd"},
    {"{not,cnot}.b16", "hh"},
    {"{not,cnot}.b32", "rr"},
    {"{not,cnot}.b64", "dd"},
    {"shl.b16", "hhr"},
    {"shl.b32", "rrr"},
    {"shl.b64", "ddr"},
    {"shr.{u16,s16,b16}", "hhr"},
    {"shr.{u32,s32,b32}", "rrr"},
    {"shr.{u64,s64,b64}", "ddr"},
    {"shf.{l,r}.{clamp,wrap}.b32", "rrrr"},
    {"prmt.b32", "rrrr"},
    {"prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16}", "rrrr"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u32,s32}", "prr"},
    {"setp.{lo,ls,hi,hs}.u32", "prr"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u16,s16}", "phh"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u64,s64}", "pdd"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32", "pff"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.ftz.f32", "pff"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64", "pgg"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16,bf16}", "phh"},
    {"set.{lt,ge,neu}.{u32,s32,f32}.f32", "rff"},
    {"set.{lt,ge,ne}.{u32,f32}.{s32,u32}", "rrr"},
    {"set.{lt,geu}.{f16x2,u32,ftz.f16x2}.f16x2", "rrr"},
    {"set.{lt,ne}.{u16,f16}.f16", "hhh"},
    {"slct.b32.s32", "rrrr"},
    {"slct.b64.f32", "dddf"},
    {"slct.ftz.f32.f32", "ffff"},
    {"{add,sub,mul}.{rn,rz,rm,rp}.f32", "fff"},
    {"{add,sub,mul}.{rn,rz,rm,rp}.ftz.f32", "fff"},
    {"{add,sub,mul}.{rn,rz}.ftz.sat.f32", "fff"},
    {"{add,sub,mul}.sat.f32", "fff"},
    {"{add,sub,mul}.{rn,rz,rm,rp}.f64", "ggg"},
    {"fma.{rn,rz,rm,rp}.f32", "ffff"},
    {"fma.rn.{ftz,sat,ftz.sat}.f32", "ffff"},
    {"fma.{rn,rz,rm,rp}.f64", "gggg"},
    {"div.{rn,rz,rm,rp}.f32", "fff"},
    {"div.{rn,rz}.ftz.f32", "fff"},
    {"div.{approx,full,approx.ftz,full.ftz}.f32", "fff"},
    {"div.{rn,rz,rm,rp}.f64", "ggg"},
    {"{rcp,sqrt}.{rn,rz,rm,rp,approx,rn.ftz,approx.ftz}.f32", "ff"},
    {"{rcp,sqrt}.{rn,rz,rm,rp}.f64", "gg"},
    {"{rcp,rsqrt}.approx.ftz.f64", "gg"},
    {"{rsqrt,sin,cos,lg2,ex2}.{approx,approx.ftz}.f32", "ff"},
    {"tanh.approx.f32", "ff"},
    {"{tanh,ex2}.approx.f16", "hh"},
    {"{tanh,ex2}.approx.f16x2", "rr"},
    {"{min,max}.{ftz,NaN,ftz.NaN,NaN.xorsign.abs,xorsign.abs}.f32", "fff"},
    {"{min,max}.{f32,NaN.f32}", "fff"},
    {"{min,max}.f64", "ggg"},
    {"{abs,neg}.{f32,ftz.f32}", "ff"},
    {"{abs,neg}.f64", "gg"},
    {"{abs,neg}.{f16,bf16,ftz.f16}", "hh"},
    {"{abs,neg}.{f16x2,bf16x2}", "rr"},
    {"copysign.f32", "fff"},
    {"copysign.f64", "ggg"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "pf"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "pg"},
    {"{add,sub,mul}.{f16,bf16,rn.f16,ftz.f16,sat.f16}", "hhh"},
    {"{add,sub,mul}.{f16x2,bf16x2,ftz.f16x2}", "rrr"},
    {"fma.rn.{f16,bf16,ftz.f16,sat.f16,relu.f16,ftz.relu.f16,relu.bf16}", "hhhh"},
    {"fma.rn.{f16x2,bf16x2,relu.f16x2}", "rrrr"},
    {"{min,max}.{f16,bf16,ftz.f16,NaN.f16,NaN.bf16,xorsign.abs.f16}", "hhh"},
    {"{min,max}.{f16x2,bf16x2,NaN.f16x2}", "rrr"},
    {"{add,mul}.{rn,rz,ftz}.f32x2", "ddd"},
    {"fma.rn.f32x2", "dddd"},
    {"cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16}", "dh"},
    {"cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u32,s32}", "dr"},
    {"cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u64,s64}", "dd"},
    {"cvt.sat.{u8,s8,u16,s16,u32}.{s32,s16}", "dr"},
    {"cvt.sat.{u8,s8,u16,s16,u32,s32,u64,s64}.{u64,s64}", "dd"},
    {"cvt.{rn,rz,rm,rp}.f32.{u32,s32}", "fr"},
    {"cvt.{rn,rz,rm,rp}.f32.{u64,s64}", "fd"},
    {"cvt.{rn,rz,rm,rp}.f32.{u16,s16,u8,s8}", "fh"},
    {"cvt.{rn,rz,rm,rp}.f64.{u64,s64}", "gd"},
    {"cvt.{rn,rz,rm,rp}.f64.{u32,s32}", "gr"},
    {"cvt.{rn,rz,rm,rp}.f16.{u32,s32}", "hr"},
    {"cvt.{rn,rz}.{f16,bf16}.{u64,s64}", "hd"},
    {"cvt.rn.sat.f32.{u32,s32}", "fr"},
    {"cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32}.f32", "rf"},
    {"cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f32", "df"},
    {"cvt.{rni,rzi}.ftz.{u32,s32}.f32", "rf"},
    {"cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32}.f64", "rg"},
    {"cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64", "dg"},
    {"cvt.{rni,rzi,rmi,rpi}.{u16,s16,u32,s32}.{f16,bf16}", "rh"},
    {"cvt.{rni,rzi,rmi,rpi}.{f32,ftz.f32,sat.f32}.f32", "ff"},
    {"cvt.{sat,ftz,ftz.sat}.f32.f32", "ff"},
    {"cvt.{rni,rzi,rmi,rpi}.f64.f64", "gg"},
    {"cvt.{rni,rzi,rmi,rpi}.f16.f16", "hh"},
    {"cvt.{rn,rz,rm,rp,rn.ftz,rn.sat}.f32.f64", "fg"},
    {"cvt.{f64,ftz.f64,sat.f64}.f32", "gf"},
    {"cvt.{rn,rz,rm,rp,rn.ftz,rn.sat,rn.relu}.f16.f32", "hf"},
    {"cvt.{rn,rz,rn.relu}.bf16.f32", "hf"},
    {"cvt.{rn,rz}.f16.f64", "hg"},
    {"cvt.f32.{f16,bf16}", "fh"},
    {"cvt.f64.f16", "gh"},
    {"cvt.{rna,rn,rz,rn.relu,rna.satfinite}.tf32.f32", "rf"},
    {"cvt.{rn,rz,rn.relu,rn.satfinite}.{f16x2,bf16x2}.f32", "rff"},
    {"cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32", "hff"},
    {"cvt.rn.satfinite.relu.{e4m3x2,e5m2x2}.f32", "hff"},
    {"cvt.rn.satfinite.{e4m3x2,e5m2x2}.f16x2", "hr"},
    {"cvt.rn.{f16x2,relu.f16x2}.{e4m3x2,e5m2x2}", "rh"},
    {"cvt.pack.sat.{u8,s8}.s32.b32", "rrrr"},
    {"cvt.pack.sat.{u16,s16}.s32", "rrr"},
};

// {a,b}c{d,e} -> acd, ace, bcd, bce
std::vector<std::string> expand(const std::string& text) {
  const std::size_t open = text.find('{');
  if (open == std::string::npos) return {text};
  const std::size_t close = text.find('}', open);
  std::vector<std::string> all;
  const std::vector<std::string> tails = expand(text.substr(close + 1));
  std::size_t at = open + 1;
  while (at <= close) {
    const std::size_t end = std::min(text.find(',', at), close);
    for (const std::string& tail : tails) all.push_back(text.substr(0, open) + text.substr(at, end - at) + tail);
    at = end + 1;
  }
  return all;
}

std::string register_name(char kind, std::size_t index) {
  const char* prefix = kind == 'h' ? "%h" : kind == 'r' ? "%r" : kind == 'd' ? "%d" : kind == 'f' ? "%f" : kind == 'g' ? "%g" : "%p";
  return prefix + std::to_string(10 + index);
}

std::string kernel_of(const std::string& name, const std::string& instruction, const std::string& registers) {
  std::string text = ".visible .entry " + name + "(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
      "  .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<40>; .reg .f32 %f<20>; .reg .f64 %g<20>; .reg .pred %p<20>;\n"
      "  ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];\n"
      "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x;\n";  // pattern of a: block; of b: thread
  std::string operands;
  for (std::size_t n = 1; n < registers.size(); ++n) {
    const char kind = registers[n];
    const std::string index = n == 1 ? "%r2" : n == 2 ? "%r3" : "%r4";
    if (n >= 3) {
      text += "  mul.lo.u32 %r5, %r2, " + std::to_string(7 + 2 * n) + "; mad.lo.u32 %r4, %r3, " + std::to_string(5 + 6 * n) +
              ", %r5; rem.u32 %r4, %r4, %r1;\n";
    }
    const std::string reg = register_name(kind, n);
    const char* type = kind == 'h' ? "u16" : kind == 'r' ? "u32" : kind == 'd' ? "u64" : kind == 'f' ? "f32" : "f64";
    // Each pattern has its 16-, 32- and 64-bit forms at offsets 0, 4 and 8 of 16 bytes.
    const char* offset = kind == 'h' ? "0" : kind == 'r' || kind == 'f' ? "4" : "8";
    text += "  mul.wide.u32 %d3, " + index + ", 16; add.s64 %d4, %d1, %d3; ld.global." + type + " " + reg + ", [%d4+" + offset + "];\n";
    operands += ", " + reg;
  }
  const std::string to = register_name(registers[0], 0);
  text += "  mov.b64 %d5, 0;\n  " + instruction + " " + to + operands + ";\n";
  switch (registers[0]) {
    case 'h': text += "  cvt.u64.u16 %d5, %h10;\n"; break;
    case 'r': text += "  cvt.u64.u32 %d5, %r10;\n"; break;
    case 'd': text += "  mov.b64 %d5, %d10;\n"; break;
    case 'f': text += "  mov.b32 %r6, %f10; cvt.u64.u32 %d5, %r6;\n"; break;
    case 'g': text += "  mov.b64 %d5, %g10;\n"; break;
    default: text += "  selp.b64 %d5, 1, 0, %p10;\n"; break;
  }
  return text + "  mad.lo.u32 %r7, %r2, %r1, %r3; mul.wide.u32 %d6, %r7, 8; add.s64 %d7, %d2, %d6; st.global.u64 [%d7], %d5;\n  ret;\n}\n";
}

struct Pattern {
  std::uint16_t half;
  std::uint16_t pad = 0;
  std::uint32_t word;
  std::uint64_t wide;
};

std::vector<Pattern> patterns() {
  const std::uint32_t words[] = {0, 1, 2, 7, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff,
      0x10000, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0x12345678, 0xdeadbeef, 0x3f800000, 0xbf800000,
      0x3f000000, 0x40200000, 0xc0200000, 0x3fc00000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f7fffff,
      0xff7fffff, 0x00800000, 0x007fffff, 0x80400000, 0x4f000000, 0x4f800000, 0x5f000000, 0x3eaaaaab, 0x42c80000,
      0x7e900000, 0x3f7fffff, 0x477fe000, 0x33000001, 0x38000001, 0x3f801000, 0x3f803000};
  const std::uint16_t halves[] = {0, 1, 2, 7, 8, 15, 16, 17, 0x3c00, 0xbc00, 0x3800, 0x4100, 0xc100, 0x7c00, 0xfc00,
      0x7e00, 0xfe01, 0x7bff, 0xfbff, 0x0400, 0x03ff, 0x83ff, 0x8000, 0x7f80, 0xff80, 0x3f80, 0xbf80, 0x7fff, 0xffff, 0x3555,
      0x5640, 0x1234, 0x00ff, 0x807f};
  const double doubles[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.5, INFINITY, -INFINITY, 1e308, -1e308, 2.2250738585072014e-308,
      5e-324, -5e-324, 1.0 / 3, 2147483647.0, 2147483648.0, 4294967296.0, 9223372036854775808.0, -9223372036854775808.0,
      18446744073709551616.0, 1e-40, 3.4028235677973366e38, 65520.0, 65504.0, 0.99999999999999989, 1.0000001};
  const std::uint64_t wides[] = {1, 0x7fffffffffffffff, 0x8000000000000001, 0xffffffffffffffff, 0x00000000ffffffff,
      0xffffffff00000000, 0x123456789abcdef0, 0x7ff8000000000000, 0x20000000000001, 0x7fffffbfffffffff, 0x8000000000000401};
  std::vector<std::uint64_t> all_wide(std::begin(wides), std::end(wides));
  for (const double value : doubles) all_wide.push_back(std::bit_cast<std::uint64_t>(value));
  std::vector<Pattern> made;
  for (std::size_t n = 0; n < std::size(words); ++n) {
    made.push_back({halves[n % std::size(halves)], 0, words[n], all_wide[n % all_wide.size()]});
  }
  return made;
}

TEST(Instructions, OnEdgeValues_TiersGiveTheSameBits) {
  const std::vector<Pattern> in = patterns();
  const auto n = static_cast<std::uint32_t>(in.size());
  const std::shared_ptr<Engine> interpreter = create_interpreter();
  std::size_t checked = 0, refused = 0;
  for (const Row& row : kRows) {
    for (const std::string& instruction : expand(row.instruction)) {
      SCOPED_TRACE(instruction);
      const std::string text = kernel_of("row", instruction, row.registers);
      Program reference(text, *interpreter), program(text);
      std::vector<std::uint64_t> expected(std::size_t{n} * n, 0), got = expected;
      for (Program* one : {&reference, &program}) {
        for (const std::vector<std::uint64_t>* out : {&expected, &got}) {
          one->memory().add({reinterpret_cast<std::uintptr_t>(out->data()), out->size() * 8, "out"});
        }
        one->memory().add({reinterpret_cast<std::uintptr_t>(in.data()), in.size() * sizeof(Pattern), "in"});
      }
      const bool binary = std::string_view(row.registers).size() > 2;
      const Dim3 grid{n, 1, 1}, block{binary ? n : 1, 1, 1};
      const Status first = reference.run("row", grid, block, 0, in.data(), expected.data(), n);
      const Status second = program.run("row", grid, block, 0, in.data(), got.data(), n);
      if (first.code() == Code::kUnsupported || second.code() == Code::kUnsupported || first.code() == Code::kParseError) {
        ++refused;
        // What one tier refuses, the other may have; a message says which.
        std::printf("refused: %-40s interpreter: %s; jit: %s\n", instruction.c_str(), first.message().c_str(), second.message().c_str());
        continue;
      }
      EXPECT_TRUE(first.ok()) << first.message();
      EXPECT_TRUE(second.ok()) << second.message();
      std::size_t differences = 0;
      for (std::uint32_t a = 0; a < n && differences < 3; ++a) {
        for (std::uint32_t b = 0; b < (binary ? n : 1) && differences < 3; ++b) {
          if (expected[a * n + b] == got[a * n + b]) continue;
          // Which of its operands' payloads an f64 NaN carries is nobody's contract.
          const bool both_nan = std::isnan(std::bit_cast<double>(expected[a * n + b])) &&
                                std::isnan(std::bit_cast<double>(got[a * n + b]));
          if (row.registers[0] == 'g' && both_nan) continue;
          ++differences;
          ADD_FAILURE() << std::hex << "a=" << in[a].half << "/" << in[a].word << "/" << in[a].wide << " b=" << in[b].half
                        << "/" << in[b].word << "/" << in[b].wide << ": interpreter " << expected[a * n + b] << ", JIT "
                        << got[a * n + b];
        }
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 400u);
  std::printf("%zu instructions agree or were reported, %zu refused\n", checked, refused);
}

}  // namespace
}  // namespace pergola::device::cpu
