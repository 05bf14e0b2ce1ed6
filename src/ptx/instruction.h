// One PTX instruction as the parser reads it and the printer writes it.
//
// The form stays close to the text: an opcode root, its modifiers in order, its operands in order. What a modifier
// means for an operand (its type, whether it is written) is asked of semantics.h, never stored twice.
//
//   @!%p1  ld.global.nc.v2.f32  {%f1, %f2}, [%rd4+16];
//   guard  op mods...           operands[0] operands[1]
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ptx/types.h"

namespace pergola::ptx {

// Where something stands in the text; both count from 1, 0 where it was built by a pass.
// Locations never take part in equality: two modules are equal where they mean the same.
struct Location {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend bool operator==(const Location&, const Location&) { return true; }
};

enum class Op : std::uint8_t {
  // Not understood: Instruction::text holds it verbatim. It may do anything that an instruction can: branch to any
  // label, call, access memory, read and write text_registers. An analysis answers conservatively or refuses by name.
  kOpaque,
#define PERGOLA_PTX_OP(name, spelling) k##name,
#include "src/ptx/ops.def"
#undef PERGOLA_PTX_OP
};

enum class Mod : std::uint16_t {
#define PERGOLA_PTX_MOD(name, spelling) k##name,
#define PERGOLA_PTX_TYPE_MOD(name, spelling) k##name,
#define PERGOLA_PTX_SPACE_MOD(name, spelling, space) k##name,
#include "src/ptx/mods.def"
#undef PERGOLA_PTX_MOD
#undef PERGOLA_PTX_TYPE_MOD
#undef PERGOLA_PTX_SPACE_MOD
};

std::string_view spelling(Op op);
std::string_view spelling(Mod mod);  // without the dot: "shared::cta"
std::optional<Op> parse_op(std::string_view root);
std::optional<Mod> parse_mod(std::string_view spelling);
Type type_of(Mod mod);                   // kNone where the modifier is no type
std::optional<Space> space_of(Mod mod);  // empty where the modifier is no space

// Special registers (ISA 10). Multi-component ones have a component in Operand::component (0 x, 1 y, 2 z).
enum class Special : std::uint8_t {
  kTid, kNtid, kLaneid, kWarpid, kNwarpid, kCtaid, kNctaid, kSmid, kNsmid, kGridid,
  kIsExplicitCluster, kClusterid, kNclusterid, kClusterCtaid, kClusterNctaid, kClusterCtarank, kClusterNctarank,
  kLanemaskEq, kLanemaskLe, kLanemaskLt, kLanemaskGe, kLanemaskGt,
  kClock, kClockHi, kClock64, kPm, kEnvreg, kGlobaltimer, kGlobaltimerLo, kGlobaltimerHi,
  kReservedSmemOffset, kTotalSmemSize, kAggrSmemSize, kDynamicSmemSize, kCurrentGraphExec,
  kOther,  // a %name that is not listed: Operand::name holds it
};
std::string_view spelling(Special special);                          // "%tid"
// Lanes of a SIMD video instruction (vadd2, vset4, ...): 2 or 4; 0 of any other.
std::uint32_t video_lanes(Op op);
std::optional<Special> parse_special(std::string_view spelling);     // of "%tid", without a component

// Index into Function::registers.
using RegisterId = std::uint32_t;
inline constexpr RegisterId kNoRegister = 0xffffffffu;

struct Operand {
  enum class Kind : std::uint8_t {
    kSink,      // _
    kRegister,  // reg [.component]
    kSpecial,   // %tid.x
    kInteger,   // bits (sign-extended to 64)
    kF32,       // bits: the IEEE pattern, written 0fXXXXXXXX
    kF64,       // bits: the IEEE pattern, written 0dXXXXXXXXXXXXXXXX (decimal literals too)
    kSymbol,    // name [+ offset]: variable, parameter or function
    kLabel,     // name: branch target, or a .branchtargets / .calltargets / .callprototype label
    kAddress,   // [elements[0] + offset]; elements[1..]: further parts, as texture coordinates or multi-part addresses
    kVector,    // {elements...}
    kPair,      // elements[0] | elements[1]
    kTuple,     // (elements...): a call's results or arguments
  };

  Kind kind = Kind::kSink;
  bool negated = false;         // !reg
  std::int8_t component = -1;   // .x .y .z .w -> 0..3
  RegisterId reg = kNoRegister;
  Special special = Special::kTid;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string name;
  std::vector<Operand> elements;

  bool operator==(const Operand&) const = default;

  static Operand make_register(RegisterId id);
  static Operand make_integer(std::int64_t value);
  static Operand make_symbol(std::string name, std::int64_t offset = 0);
  static Operand make_label(std::string name);
  static Operand make_address(Operand base, std::int64_t offset = 0);
};

struct Guard {
  RegisterId predicate = kNoRegister;
  bool negated = false;
  bool present() const { return predicate != kNoRegister; }
  bool operator==(const Guard&) const = default;
};

struct Instruction {
  Op op = Op::kOpaque;
  Guard guard;
  boost::container::small_vector<Mod, 6> mods;
  boost::container::small_vector<Operand, 4> operands;
  std::string text;                       // kOpaque: from the opcode up to, not including, ';'
  std::vector<RegisterId> text_registers;  // kOpaque: every register named in text; each may be read and written
  Location location;
  std::uint32_t debug_file = 0, debug_line = 0;  // from the .loc before it; 0: none. Printed by the .loc itself.
  std::uint32_t caller_file = 0, caller_line = 0;  // where that is inlined; 0: it is not

  bool has(Mod mod) const;
  // The n-th modifier that is a type, kNone where there are fewer: cvt.rn.f32.s32 has f32 (0) and s32 (1).
  Type type(int n = 0) const;
  // The state space modifier; kNone is generic.
  Space space() const;
  int vector_width() const;  // 1, 2, 4 or 8 from .v2 .v4 .v8

  bool operator==(const Instruction& other) const;  // all but location and debug position
};

}  // namespace pergola::ptx
