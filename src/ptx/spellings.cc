// The table of forms (ISA 9.7.1 to 9.7.9) and its lookup. Patterns of an opcode are expanded when it is first met: most
// modules use a few of them.
#include "src/ptx/spellings.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>

#include <fmt/format.h>

namespace pergola::ptx {
namespace {

#define PERGOLA_ORDER "{eq,ne,lt,le,gt,ge}"
#define PERGOLA_COMPARE "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
#define PERGOLA_BOOL "{,.and,.or,.xor}"
#define PERGOLA_INTEGERS "{u16,u32,u64,s16,s32,s64}"
#define PERGOLA_ROUNDING "{.rn,.rz,.rm,.rp}"
#define PERGOLA_ANY_ROUNDING "{,.rn,.rz,.rm,.rp}"

constexpr const char* kPatterns[] = {
    "{add,sub}.{u16,u32,u64,s16,s32,s64}",
    "{add,sub}.sat.s32",
    "add{.u16x2,.s16x2}",
    "{add,sub}.cc.{u32,s32,u64,s64}",
    "{addc,subc}{,.cc}.{u32,s32,u64,s64}",
    "mul.{lo,hi}." PERGOLA_INTEGERS,
    "mul.wide.{u16,s16,u32,s32}",
    "mad.{lo,hi}." PERGOLA_INTEGERS,
    "mad.wide.{u16,s16,u32,s32}",
    "mad.hi.sat.s32",
    "mad.{lo,hi}.cc.{u32,s32,u64,s64}",
    "madc.{lo,hi}{,.cc}.{u32,s32,u64,s64}",
    "mul24.{lo,hi}.{u32,s32}",
    "mad24.{lo,hi}.{u32,s32}",
    "mad24.hi.sat.s32",
    "sad." PERGOLA_INTEGERS,
    "{div,rem}." PERGOLA_INTEGERS,
    "{abs,neg}.{s16,s32,s64}",
    "{min,max}.{u16,u32,u64,s16,s32,s64,u16x2,s16x2}",
    "{min,max}.relu.{s32,s16x2}",
    "{popc,clz,brev}.{b32,b64}",
    "bfind{,.shiftamt}.{u32,s32,u64,s64}",
    "bfe.{u32,s32,u64,s64}",
    "bfi.{b32,b64}",
    "bmsk.{clamp,wrap}.b32",
    "szext.{clamp,wrap}.{u32,s32}",
    "fns.b32",
    "dp4a.{u32,s32}.{u32,s32}",
    "dp2a.{lo,hi}.{u32,s32}.{u32,s32}",
    "{vadd2,vadd4,vsub2,vsub4,vavrg2,vavrg4,vabsdiff2,vabsdiff4,vmin2,vmin4,vmax2,vmax4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
    "{vset2,vset4}.{u32,s32}.{u32,s32}." PERGOLA_ORDER "{,.add}",
    "{and,or,xor,not}.{pred,b16,b32,b64}",
    "cnot.{b16,b32,b64}",
    "shl.{b16,b32,b64}",
    "shr.{b16,b32,b64,u16,u32,u64,s16,s32,s64}",
    "shf.{l,r}.{clamp,wrap}.b32",
    "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}",
    "lop3{,.or,.and}.b32",
    "setp." PERGOLA_ORDER PERGOLA_BOOL "." PERGOLA_INTEGERS,
    "setp.{eq,ne}" PERGOLA_BOOL ".{b16,b32,b64}",
    "setp.{lo,ls,hi,hs}" PERGOLA_BOOL ".{u16,u32,u64}",
    "setp." PERGOLA_COMPARE PERGOLA_BOOL "{,.ftz}.{f32,f16,f16x2}",
    "setp." PERGOLA_COMPARE PERGOLA_BOOL ".{f64,bf16,bf16x2}",
    "set." PERGOLA_ORDER PERGOLA_BOOL ".{u32,s32,f32}." PERGOLA_INTEGERS,
    "set.{eq,ne}" PERGOLA_BOOL ".{u32,s32,f32}.{b16,b32,b64}",
    "set.{lo,ls,hi,hs}" PERGOLA_BOOL ".{u32,s32,f32}.{u16,u32,u64}",
    "set." PERGOLA_COMPARE PERGOLA_BOOL "{,.ftz}.{u32,s32,f32}.f32",
    "set." PERGOLA_COMPARE PERGOLA_BOOL ".{u32,s32,f32}.f64",
    "set." PERGOLA_COMPARE PERGOLA_BOOL "{,.ftz}.{f16,u16,s16,u32,s32}.f16",
    "set." PERGOLA_COMPARE PERGOLA_BOOL ".{bf16,u16,s16,u32,s32}.bf16",
    "set." PERGOLA_COMPARE PERGOLA_BOOL "{,.ftz}.{f16x2,u32,s32}.f16x2",
    "set." PERGOLA_COMPARE PERGOLA_BOOL ".{bf16x2,u32,s32}.bf16x2",
    "{addc,subc}.{u16,s16}",
    "{addc,subc}.sat.s32",
    "madc.{lo,hi}.{u16,s16}",
    "set." PERGOLA_ORDER PERGOLA_BOOL ".{f16,bf16}." PERGOLA_INTEGERS,
    "set.{eq,ne}" PERGOLA_BOOL ".{f16,bf16}.{b16,b32,b64}",
    "set.{lo,ls,hi,hs}" PERGOLA_BOOL ".{f16,bf16}.{u16,u32,u64}",
    "set." PERGOLA_COMPARE PERGOLA_BOOL "{,.ftz}.f16.f32",
    "set." PERGOLA_COMPARE PERGOLA_BOOL ".f16.f64",
    "set." PERGOLA_COMPARE PERGOLA_BOOL ".bf16.{f16,f32,f64}",
    "selp.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}",
    "slct.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.s32",
    "slct{,.ftz}.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.f32",
    "{add,sub,mul}" PERGOLA_ANY_ROUNDING "{,.ftz}{,.sat}.f32",
    "{add,sub,mul}" PERGOLA_ANY_ROUNDING ".f64",
    "fma" PERGOLA_ROUNDING "{,.ftz}{,.sat}.f32",
    "mad" PERGOLA_ROUNDING "{,.ftz}{,.sat}.f32",
    "{fma,mad}" PERGOLA_ROUNDING ".f64",
    "div" PERGOLA_ROUNDING "{,.ftz}.f32",
    "div" PERGOLA_ROUNDING ".f64",
    "div.{approx,full}{,.ftz}.f32",
    "{rcp,sqrt}" PERGOLA_ROUNDING "{,.ftz}.f32",
    "{rcp,sqrt}" PERGOLA_ROUNDING ".f64",
    "rcp" PERGOLA_ROUNDING ".ftz.f64",
    "{rcp,sqrt,rsqrt,sin,cos,lg2,ex2}.approx{,.ftz}.f32",
    "{rcp,rsqrt}.approx.ftz.f64",
    "rsqrt.approx.f64",
    "tanh.approx.{f32,f16,f16x2,bf16,bf16x2}",
    "ex2.approx.{f16,f16x2}",
    "ex2.approx.ftz.{bf16,bf16x2}",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32",
    "{min,max}{,.ftz}{,.NaN}.abs.f32",
    "{min,max}.f64",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.{f16,f16x2}",
    "{min,max}{,.NaN}{,.xorsign.abs}.{bf16,bf16x2}",
    "{abs,neg}{,.ftz}.{f32,f16,f16x2}",
    "{abs,neg}.{f64,bf16,bf16x2}",
    "copysign.{f32,f64}",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}",
    "{add,sub,mul}" PERGOLA_ANY_ROUNDING "{,.ftz}.f32x2",
    "fma" PERGOLA_ROUNDING "{,.ftz}.f32x2",
    "{add,sub}" PERGOLA_ANY_ROUNDING "{,.sat}.f32.{f16,bf16}",
    "fma" PERGOLA_ROUNDING "{,.sat}.f32.{f16,bf16}",
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2}",
    "{add,sub,mul}{,.rn}.{bf16,bf16x2}",
    "fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2}",
    "fma.rn{,.relu}.{bf16,bf16x2}",
    "fma{.rz,.rm,.rp}.{bf16,bf16x2}",
    // cvt between two scalar types; other pairs are not of the table (is_tabulated).
    "cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64}",
    "cvt.sat.{u8.{s8,u16,s16,u32,s32,u64,s64},s8.{u8,u16,s16,u32,s32,u64,s64},u16.{s8,s16,u32,s32,u64,s64}}",
    "cvt.sat.{s16.{u16,u32,s32,u64,s64},u32.{s8,s16,s32,u64,s64},s32.{u32,u64,s64},u64.{s8,s16,s32,s64},s64.u64}",
    "cvt{.rni,.rzi,.rmi,.rpi}{,.sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,f64}",
    "cvt{.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.f32",
    "cvt{.rni,.rzi,.rmi,.rpi}.{u16,s16,u32,s32,u64,s64}.bf16",
    "cvt" PERGOLA_ROUNDING "{,.sat}.{f16,f64}.{u8,s8,u16,s16,u32,s32,u64,s64}",
    "cvt" PERGOLA_ROUNDING "{,.ftz}{,.sat}.f32.{u8,s8,u16,s16,u32,s32,u64,s64}",
    "cvt" PERGOLA_ROUNDING ".bf16.{u16,s16,u32,s32,u64,s64}",
    "cvt{,.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}.f32.f32",
    "cvt{,.rni,.rzi,.rmi,.rpi}{,.sat}.{f16.f16,f64.f64}",
    "cvt{,.rni,.rzi,.rmi,.rpi}.bf16.bf16",
    "cvt{" PERGOLA_ROUNDING "{,.ftz}{,.sat},{.rn,.rz}{,.relu}{,.satfinite}}.f16.f32",
    "cvt{" PERGOLA_ROUNDING "{,.ftz},{.rn,.rz}{,.relu}{,.satfinite}}.bf16.f32",
    "cvt" PERGOLA_ROUNDING "{,.sat}.f16.f64",
    "cvt" PERGOLA_ROUNDING ".bf16.f64",
    "cvt" PERGOLA_ROUNDING "{,.ftz}{,.sat}.f32.f64",
    "cvt{,.ftz}{,.sat}.{f32.f16,f64.f32}",
    "cvt{,.sat}.f64.f16",
    "cvt" PERGOLA_ANY_ROUNDING "{,.ftz}.f32.bf16",
    "cvt" PERGOLA_ANY_ROUNDING ".{f16.bf16,bf16.f16,f64.bf16}",
};

// Types in order, then the rest sorted.
std::u16string key_of(const std::vector<Mod>& mods) {
  std::u16string types, rest;
  for (const Mod mod : mods) (type_of(mod) != Type::kNone ? types : rest) += static_cast<char16_t>(mod);
  std::sort(rest.begin(), rest.end());
  return types + rest;
}

struct Forms {
  bool listed = false;  // the opcode is of the table
  std::unordered_set<std::u16string> keys;
};

Forms forms_of(Op op) {
  Forms forms;
  for (const std::string& pattern : spelling_patterns()) {
    // The opcodes stand before the first dot outside of braces, perhaps as alternatives.
    const std::string_view name = spelling(op);
    if (pattern.find(name) == std::string::npos) continue;
    for (const std::string& text : expand_spellings(pattern)) {
      const std::vector<std::string> parts = split_spelling(text, '.');
      if (parts[0] != name) continue;
      forms.listed = true;
      std::vector<Mod> mods;
      for (std::size_t n = 1; n < parts.size(); ++n) {
        if (const auto mod = parse_mod(parts[n])) mods.push_back(*mod);
      }
      forms.keys.insert(key_of(mods));
    }
  }
  return forms;
}

// Written once, under the flag of its opcode; read-only after.
const Forms& cached_forms(Op op) {
  constexpr std::size_t kOps = 256;
  static std::array<std::once_flag, kOps> flags;
  static auto& all = *new std::array<Forms, kOps>;  // never destroyed, as the tables of instruction.cc
  const auto index = static_cast<std::size_t>(op);
  std::call_once(flags[index], [&] { all[index] = forms_of(op); });
  return all[index];
}

// Of cvt only what goes between two scalar types: the packed and narrow forms are too many and too young.
bool is_tabulated(const Instruction& instruction) {
  if (instruction.op != Op::kCvt) return true;
  for (int n = 0; n < 2; ++n) {
    const Type type = instruction.type(n);
    const bool scalar = type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64 ||
                        class_of(type) == TypeClass::kSigned || class_of(type) == TypeClass::kUnsigned;
    if (!scalar) return false;
  }
  return instruction.type(2) == Type::kNone && instruction.operands.size() == 2;
}

}  // namespace

std::vector<std::string> split_spelling(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == separator && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(part);
  return parts;
}

std::vector<std::string> expand_spellings(std::string_view pattern) {
  const std::size_t open = pattern.find('{');
  if (open == std::string_view::npos) return {std::string(pattern)};
  std::size_t close = open;
  for (int depth = 0; close < pattern.size(); ++close) {
    depth += pattern[close] == '{' ? 1 : pattern[close] == '}' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::vector<std::string> tails = expand_spellings(pattern.substr(close + 1));
  std::vector<std::string> all;
  for (const std::string& alternative : split_spelling(pattern.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& head : expand_spellings(alternative)) {
      for (const std::string& tail : tails) all.push_back(std::string(pattern.substr(0, open)) + head + tail);
    }
  }
  return all;
}

std::vector<std::string> spelling_patterns() { return {std::begin(kPatterns), std::end(kPatterns)}; }

std::optional<std::string> check_spelling(const Instruction& instruction) {
  if (instruction.op == Op::kOpaque || !is_tabulated(instruction)) return std::nullopt;
  const Forms& forms = cached_forms(instruction.op);
  if (!forms.listed) return std::nullopt;
  if (forms.keys.contains(key_of({instruction.mods.begin(), instruction.mods.end()}))) return std::nullopt;
  std::string text(spelling(instruction.op));
  for (const Mod mod : instruction.mods) text += fmt::format(".{}", spelling(mod));
  return fmt::format("expected a form of '{}' that PTX has, found '{}'; its modifiers or types do not go together",
                     spelling(instruction.op), text);
}

}  // namespace pergola::ptx
