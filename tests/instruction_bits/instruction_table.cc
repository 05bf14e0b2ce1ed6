#include "tests/instruction_bits/instruction_table.h"

#include <algorithm>
#include <array>

#include "src/ptx/spellings.h"

namespace pergola::instruction_bits {
namespace {

// kinds: destination, then sources (instruction_table.h). A pattern with a '$' is a template; else the operands follow
// the spelling in order.
struct Row {
  const char* pattern;
  const char* kinds;
  int minimum_sm = 90;
};

constexpr Row kIntegerRows[] = {
    {"{add,sub,mul.lo,mul.hi,min,max,div,rem}.{u16,s16}", "hhh"},
    {"{add,sub,mul.lo,mul.hi,min,max,div,rem}.{u32,s32}", "rrr"},
    {"{add,sub,mul.lo,mul.hi,min,max,div,rem}.{u64,s64}", "ddd"},
    {"{add,sub}.sat.s32", "rrr"},
    {"{add,min,max}.{u16x2,s16x2}", "WWW"},
    {"{min,max}.relu.s32", "rrr"},
    {"{min,max}.relu.s16x2", "WWW"},
    {"mul.wide.{u16,s16}", "rhh"},
    {"mul.wide.{u32,s32}", "drr"},
    {"mad.{lo,hi}.{u16,s16}", "hhhh"},
    {"mad.{lo,hi}.{u32,s32}", "rrrr"},
    {"mad.{lo,hi}.{u64,s64}", "dddd"},
    {"mad.hi.sat.s32", "rrrr"},
    {"mad.wide.{u16,s16}", "rhhr"},
    {"mad.wide.{u32,s32}", "drrd"},
    {"{mul24.lo,mul24.hi}.{u32,s32}", "rrr"},
    {"{mad24.lo,mad24.hi}.{u32,s32}", "rrrr"},
    {"mad24.hi.sat.s32", "rrrr"},
    {"sad.{u16,s16}", "hhhh"},
    {"sad.{u32,s32}", "rrrr"},
    {"sad.{u64,s64}", "dddd"},
    {"{abs,neg}.s16", "hh"},
    {"{abs,neg}.s32", "rr"},
    {"{abs,neg}.s64", "dd"},
    {"dp4a.{u32,s32}.{u32,s32}", "rrrr"},
    {"dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "rrrr"},
    {"{vadd2,vadd4,vsub2,vsub4,vavrg2,vavrg4,vabsdiff2,vabsdiff4,vmin2,vmin4,vmax2,vmax4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}", "rrrr"},
    {"{vset2,vset4}.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}{,.add}", "rrrr"},
    // Carry chains: the second instruction shows what the first left in CC.CF.
    {"{add,sub}.cc.{u32,s32} $0, $1, $2; addc.u32 $0, $0, $3", "rrrr"},
    {"add.cc.u32 $0, $1, $2; {addc,subc}.cc.{u32,s32} $0, $2, $3; addc.u32 $0, $0, 0", "rrrr"},
    {"sub.cc.u32 $0, $1, $2; {addc,subc}.cc.{u32,s32} $0, $2, $3; subc.u32 $0, $0, 0", "rrrr"},
    {"{add,sub}.cc.{u64,s64} $0, $1, $2; addc.u64 $0, $0, $3", "dddd"},
    {"add.cc.u64 $0, $1, $2; {addc,subc}.cc.{u64,s64} $0, $2, $3; addc.u64 $0, $0, 0", "dddd"},
    {"mad.{lo,hi}.cc.{u32,s32} $0, $1, $2, $3; addc.u32 $0, $0, 0", "rrrr"},
    {"mad.{lo,hi}.cc.{u64,s64} $0, $1, $2, $3; addc.u64 $0, $0, 0", "dddd"},
    {"add.cc.u32 $0, $1, $2; madc.{lo,hi}{,.cc}.{u32,s32} $0, $1, $3, $2; addc.u32 $0, $0, 0", "rrrr"},
    {"add.cc.u64 $0, $1, $2; madc.{lo,hi}{,.cc}.{u64,s64} $0, $1, $3, $2; addc.u64 $0, $0, 0", "dddd"},
};

constexpr Row kBitRows[] = {
    {"{popc,clz,brev}.b32", "rr"},
    {"{popc,clz}.b64", "rd"},
    {"brev.b64", "dd"},
    {"bfind{,.shiftamt}.{u32,s32}", "rr"},
    {"bfind{,.shiftamt}.{u64,s64}", "rd"},
    {"bfe.{u32,s32}", "rrss"},
    {"bfe.{u64,s64}", "ddss"},
    {"bfi.b32", "rrrss"},
    {"bfi.b64", "dddss"},
    {"bmsk.{clamp,wrap}.b32", "rss"},
    {"szext.{clamp,wrap}.{u32,s32}", "rrs"},
    {"fns.b32 $0, $1, $2, $3", "rrsr"},
    {"{and,or,xor}.b16", "hhh"},
    {"{and,or,xor}.b32", "rrr"},
    {"{and,or,xor}.b64", "ddd"},
    {"{and,or,xor}.pred", "ppp"},
    {"not.pred", "pp"},
    {"{not,cnot}.b16", "hh"},
    {"{not,cnot}.b32", "rr"},
    {"{not,cnot}.b64", "dd"},
    {"lop3.b32 $0, $1, $2, $3, {0x00,0x1b,0x3c,0x80,0x96,0xca,0xe8,0xfe,0xff}", "rrrr"},
    {"shl.b16", "hhs"},
    {"shl.b32", "rrs"},
    {"shl.b64", "dds"},
    {"shr.{b16,u16,s16}", "hhs"},
    {"shr.{b32,u32,s32}", "rrs"},
    {"shr.{b64,u64,s64}", "dds"},
    {"shf.{l,r}.{clamp,wrap}.b32", "rrrs"},
    {"prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "rrrr"},
};

constexpr Row kCompareRows[] = {
    {"setp.{eq,ne,lt,le,gt,ge}.{u16,s16}", "phh"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u32,s32}", "prr"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u64,s64}", "pdd"},
    {"setp.{eq,ne}.b16", "phh"},
    {"setp.{eq,ne}.b32", "prr"},
    {"setp.{eq,ne}.b64", "pdd"},
    {"setp.{lo,ls,hi,hs}.u16", "phh"},
    {"setp.{lo,ls,hi,hs}.u32", "prr"},
    {"setp.{lo,ls,hi,hs}.u64", "pdd"},
    {"setp.{lt,geu}.{and,or,xor}.f32 $0, $1, $2, {,!}$3", "qffp"},
    {"setp.{ne,gt}.{and,or,xor}.s32 $0, $1, $2, {,!}$3", "qrrp"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32", "pff"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64", "pgg"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16", "pee"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16", "pbb"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16x2", "qEE"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16x2", "qBB"},
    {"set.{eq,lt,ge}.{u32,s32,f32}.{u16,s16}", "rhh"},
    {"set.{eq,lt,ge}.{u32,s32,f32}.{u32,s32}", "rrr"},
    {"set.{eq,lt,ge}.{u32,s32,f32}.{u64,s64}", "rdd"},
    {"set.{lt,neu,num,nan}.{u32,s32,f32}{,.ftz}.f32", "rff"},
    {"set.{lt,neu,num,nan}.{u32,s32,f32}.f64", "rgg"},
    {"set.{lt,neu}.{and,or,xor}.{u32,f32}.f32 $0, $1, $2, $3", "rffp"},
    {"set.{lt,neu,nan}{,.ftz}.{f16,u16,s16}.f16", "hee"},
    {"set.{lt,neu,nan}{,.ftz}.{u32,s32}.f16", "ree"},
    {"set.{lt,neu,nan}.{bf16,u16,s16}.bf16", "hbb"},
    {"set.{lt,neu,nan}.{u32,s32}.bf16", "rbb"},
    {"set.{lt,neu,nan}{,.ftz}.{f16x2,u32,s32}.f16x2", "rEE"},
    {"set.{lt,neu,nan}.{bf16x2,u32,s32}.bf16x2", "rBB"},
    {"selp.{b16,u16,s16}", "hhhp"},
    {"selp.{b32,u32,s32}", "rrrp"},
    {"selp.{b64,u64,s64}", "dddp"},
    {"selp.f32", "fffp"},
    {"selp.f64", "gggp"},
    {"slct.{b16,u16,s16}.s32", "hhhr"},
    {"slct.{b32,u32,s32}.s32", "rrrr"},
    {"slct.{b64,u64,s64}.s32", "dddr"},
    {"slct.{b32,u32}{,.ftz}.f32 $0, $1, $2, $3", "rrrf"},
    {"slct.b64.f32", "dddf"},
    {"slct{,.ftz}.f32.f32", "ffff"},
    {"slct.f32.s32", "fffr"},
    {"slct.f64.s32", "gggr"},
};

constexpr Row kFloatRows[] = {
    {"{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32", "fff"},
    {"{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64", "ggg"},
    {"{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32", "ffff"},
    {"{fma,mad}.{rn,rz,rm,rp}.f64", "gggg"},
    {"div.{rn,rz,rm,rp}{,.ftz}.f32", "fff"},
    {"div.{rn,rz,rm,rp}.f64", "ggg"},
    {"{rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32", "ff"},
    {"{rcp,sqrt}.{rn,rz,rm,rp}.f64", "gg"},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32", "fff"},
    {"{min,max}{,.ftz}{,.NaN}{,.abs}.f32", "ffff", 100},
    {"{min,max}.f64", "ggg"},
    {"{abs,neg}{,.ftz}.f32", "ff"},
    {"{abs,neg}.f64", "gg"},
    {"copysign.f32", "fff"},
    {"copysign.f64", "ggg"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "pf"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "pg"},
    {"{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}.f32x2", "FFF", 100},
    {"fma.{rn,rz,rm,rp}{,.ftz}.f32x2", "FFFF", 100},
    {"{add,sub}{,.rn,.rz,.rm,.rp}{,.sat}.f32.f16", "fef", 100},
    {"{add,sub}{,.rn,.rz,.rm,.rp}{,.sat}.f32.bf16", "fbf", 100},
    {"fma.{rn,rz,rm,rp}{,.sat}.f32.f16", "feef", 100},
    {"fma.{rn,rz,rm,rp}{,.sat}.f32.bf16", "fbbf", 100},
};

constexpr Row kHalfRows[] = {
    {"{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16", "eee"},
    {"{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16x2", "EEE"},
    {"{add,sub,mul}{,.rn}.bf16", "bbb"},
    {"{add,sub,mul}{,.rn}.bf16x2", "BBB"},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16", "eeee"},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16x2", "EEEE"},
    {"fma.rn{,.relu}.bf16", "bbbb"},
    {"fma.rn{,.relu}.bf16x2", "BBBB"},
    {"{abs,neg}{,.ftz}.f16", "ee"},
    {"{abs,neg}{,.ftz}.f16x2", "EE"},
    {"{abs,neg}.bf16", "bb"},
    {"{abs,neg}.bf16x2", "BB"},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16", "eee"},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16x2", "EEE"},
    {"{min,max}{,.NaN}{,.xorsign.abs}.bf16", "bbb"},
    {"{min,max}{,.NaN}{,.xorsign.abs}.bf16x2", "BBB"},
};

constexpr Row kApproximateRows[] = {
    {"div.{approx,full}{,.ftz}.f32", "fff"},
    {"{rcp,sqrt,rsqrt,sin,cos,lg2,ex2}.approx{,.ftz}.f32", "ff"},
    {"{rcp,rsqrt}.approx.ftz.f64", "gg"},
    {"rsqrt.approx.f64", "gg"},
    {"tanh.approx.f32", "ff"},
    {"{tanh,ex2}.approx.f16", "ee"},
    {"{tanh,ex2}.approx.f16x2", "EE"},
    {"tanh.approx.bf16", "bb"},
    {"tanh.approx.bf16x2", "BB"},
    {"ex2.approx.ftz.bf16", "bb"},
    {"ex2.approx.ftz.bf16x2", "BB"},
};

constexpr Row kPackedConvertRows[] = {
    {"cvt.{rn,rz}{,.relu}{,.satfinite}.f16x2.f32", "Eff"},
    {"cvt.{rn,rz}{,.relu}{,.satfinite}.bf16x2.f32", "Bff"},
    {"cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32", "yff"},
    {"cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2", "yE"},
    {"cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}", "Ey"},
    {"cvt.rna.tf32.f32", "rf"},
    {"cvt.{rn,rz}{,.relu}.tf32.f32", "rf"},
    {"cvt.rna.satfinite.tf32.f32", "rf"},
    {"cvt.{rn,rz}.satfinite{,.relu}.tf32.f32", "rf", 100},
    {"cvt.pack.sat.{u16,s16}.s32", "Wrr"},
    {"cvt.pack.sat.{u8,s8}.s32.b32", "rrrr"},
};

// A spelling without operands gets them; a template's spelling is its instructions without registers.
Instruction make(const std::string& text, std::string_view kinds, int minimum_sm, bool approximate) {
  Instruction made;
  made.kinds = kinds;
  made.minimum_sm = minimum_sm;
  made.approximate = approximate;
  if (text.find('$') == std::string::npos) {
    made.spelling = text;
    made.text = text;
    for (std::size_t n = 0; n < kinds.size(); ++n) made.text += (n == 0 ? " $" : ", $") + std::to_string(n);
    return made;
  }
  made.text = text;
  for (const std::string& one : ptx::split_spelling(text, ';')) {
    const std::size_t start = one.find_first_not_of(' ');
    const std::size_t space = one.find(' ', start);
    if (!made.spelling.empty()) made.spelling += "; ";
    made.spelling += one.substr(start, space - start);
    const std::string last = one.substr(one.rfind(' ') + 1);
    if (last[0] != '$') made.spelling += " " + last;  // an immediate, a negated predicate
  }
  return made;
}

void add_rows(std::vector<Instruction>& all, const Row* rows, std::size_t count, bool approximate = false) {
  for (std::size_t n = 0; n < count; ++n) {
    for (const std::string& text : expand(rows[n].pattern)) {
      all.push_back(make(text, rows[n].kinds, rows[n].minimum_sm, approximate));
    }
  }
}

// ---- cvt between two scalar types: the modifiers that ptxas takes for each pair.

struct Scalar {
  const char* name;
  int bits;
  bool is_float;
  bool is_signed;
  char kind;
};
constexpr Scalar kScalars[] = {
    {"u8", 8, false, false, 'h'},  {"s8", 8, false, true, 'h'},   {"u16", 16, false, false, 'h'}, {"s16", 16, false, true, 'h'},
    {"u32", 32, false, false, 'r'}, {"s32", 32, false, true, 'r'}, {"u64", 64, false, false, 'd'}, {"s64", 64, false, true, 'd'},
    {"f16", 16, true, true, 'e'},  {"bf16", 16, true, true, 'b'}, {"f32", 32, true, true, 'f'},   {"f64", 64, true, true, 'g'},
};

// Every value of `from` is one of `to`: nothing to saturate.
bool contains(const Scalar& to, const Scalar& from) {
  if (to.is_signed == from.is_signed) return to.bits >= from.bits;
  return to.is_signed && to.bits > from.bits;
}

std::string float_to_float(std::string_view to, std::string_view from) {
  constexpr std::string_view kIntegral = "{,.rni,.rzi,.rmi,.rpi}", kRounding = "{.rn,.rz,.rm,.rp}";
  const std::string pair = std::string(to) + "<" + std::string(from);
  if (pair == "f32<f32") return std::string(kIntegral) + "{,.ftz}{,.sat}";
  if (pair == "f16<f16" || pair == "f64<f64") return std::string(kIntegral) + "{,.sat}";
  if (pair == "bf16<bf16") return std::string(kIntegral);
  if (pair == "f16<f32") return "{{.rn,.rz,.rm,.rp}{,.ftz}{,.sat},{.rn,.rz}{,.relu}{,.satfinite}}";
  if (pair == "bf16<f32") return "{{.rn,.rz,.rm,.rp}{,.ftz},{.rn,.rz}{,.relu}{,.satfinite}}";
  if (pair == "f16<f64") return std::string(kRounding) + "{,.sat}";
  if (pair == "bf16<f64") return std::string(kRounding);
  if (pair == "f32<f64") return std::string(kRounding) + "{,.ftz}{,.sat}";
  if (pair == "f32<f16" || pair == "f64<f32") return "{,.ftz}{,.sat}";
  if (pair == "f64<f16") return "{,.sat}";
  if (pair == "f32<bf16") return "{,.rn,.rz,.rm,.rp}{,.ftz}";
  return "{,.rn,.rz,.rm,.rp}";  // f16 and bf16 between each other, f64 from bf16
}

std::string conversion_modifiers(const Scalar& to, const Scalar& from) {
  const std::string_view to_name = to.name, from_name = from.name;
  if (to.is_float && from.is_float) return float_to_float(to_name, from_name);
  if (!to.is_float && !from.is_float) return contains(to, from) ? "" : "{,.sat}";
  if (!to.is_float) {
    if (from_name == "bf16") return "{.rni,.rzi,.rmi,.rpi}";
    return from_name == "f32" ? "{.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}" : "{.rni,.rzi,.rmi,.rpi}{,.sat}";
  }
  if (to_name == "bf16") return "{.rn,.rz,.rm,.rp}";
  return to_name == "f32" ? "{.rn,.rz,.rm,.rp}{,.ftz}{,.sat}" : "{.rn,.rz,.rm,.rp}{,.sat}";
}

// ptxas has no conversion between bf16 and bytes.
bool is_conversion(const Scalar& to, const Scalar& from) {
  const bool bf16_and_byte = (std::string_view(to.name) == "bf16" && from.bits == 8) ||
                             (std::string_view(from.name) == "bf16" && to.bits == 8);
  return !bf16_and_byte;
}

// Integers go to 64-bit registers, so that the extension of a narrow result is seen too.
void add_conversions(std::vector<Instruction>& all) {
  for (const Scalar& to : kScalars) {
    for (const Scalar& from : kScalars) {
      if (!is_conversion(to, from)) continue;
      for (const std::string& modifiers : expand(conversion_modifiers(to, from))) {
        const bool natural = to.is_float || std::string_view(from.name) == "bf16";  // ptxas takes no wider one of bf16
        const std::string kinds = {natural ? to.kind : 'd', from.kind};
        all.push_back(make("cvt" + modifiers + "." + to.name + "." + from.name, kinds, 90, false));
      }
    }
  }
}

}  // namespace

std::vector<std::string> expand(std::string_view pattern) { return ptx::expand_spellings(pattern); }

std::vector<std::string> arithmetic_patterns() {
  std::vector<std::string> patterns;
  const auto add = [&](const auto& rows) {
    for (const Row& row : rows) {
      if (std::string_view(row.pattern).find('$') == std::string_view::npos) {
        patterns.emplace_back(row.pattern);
        continue;
      }
      for (const std::string& part : ptx::split_spelling(row.pattern, ';')) {  // of a template the opcodes
        const std::size_t start = part.find_first_not_of(' ');
        const std::string opcode = part.substr(start, part.find(' ', start) - start);
        if (std::find(patterns.begin(), patterns.end(), opcode) == patterns.end()) patterns.push_back(opcode);
      }
    }
  };
  add(kIntegerRows);
  add(kBitRows);
  add(kCompareRows);
  add(kFloatRows);
  add(kHalfRows);
  add(kApproximateRows);
  add(kPackedConvertRows);
  for (const Scalar& to : kScalars) {
    for (const Scalar& from : kScalars) {
      if (!is_conversion(to, from)) continue;
      patterns.push_back("cvt" + conversion_modifiers(to, from) + "." + to.name + "." + from.name);
    }
  }
  return patterns;
}

std::vector<Instruction> all_instructions() {
  std::vector<Instruction> all;
  add_rows(all, kIntegerRows, std::size(kIntegerRows));
  add_rows(all, kBitRows, std::size(kBitRows));
  add_rows(all, kCompareRows, std::size(kCompareRows));
  add_rows(all, kFloatRows, std::size(kFloatRows));
  add_rows(all, kHalfRows, std::size(kHalfRows));
  add_rows(all, kPackedConvertRows, std::size(kPackedConvertRows));
  add_conversions(all);
  add_rows(all, kApproximateRows, std::size(kApproximateRows), true);
  // One way to write two rows gives a spelling twice: cvt.rn.f16.f32.
  std::vector<Instruction> unique;
  for (Instruction& one : all) {
    const bool seen = std::any_of(unique.begin(), unique.end(), [&](const Instruction& other) {
      return other.text == one.text && other.kinds == one.kinds;
    });
    if (!seen) unique.push_back(std::move(one));
  }
  return unique;
}

}  // namespace pergola::instruction_bits
