// random_indices.cc makes what compilers make. A footprint that takes one number for another is mostly wrong where none
// of them goes: at shift counts of 32 and more, residues that are read as wider or signed numbers, two halves in one
// register, addresses that are compared or subtracted, conditions that hold for another value than it seems.
//
// There is a pool of registers for each width, and one of predicates. A step is a template whose capitals are filled in
// from the pools, so that an instruction more is a line more; immediates are often at the edges of some width. The last
// registers are picked most, so that what is made of one value meets in one expression: footprints are wrong about
// relations between values, seldom about a value alone. An index is kept in its array by what bounds it, or by a
// condition around its access, which is what the analysis has to believe.
#include "tests/footprints/random_widths.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <random>
#include <string_view>

namespace pergola::footprints_test {
namespace {

constexpr std::uint32_t kArrayBytes = 16384;
constexpr std::uint32_t kMaxIndex = 1000;  // of elements of up to 16 bytes, and some more behind

// D: a register to write, R: one to read, O: one or a number, A and B: the same two wherever they stand, X and Y: the
// first two that were written; each of as many bits as follow. V: one that holds an edge. S: a shift count, N: a small
// number, M: a mask, P: a predicate, Q: one to write, C: a comparison, E: equal or not, J: and, or, xor, G: s or u.
constexpr std::array kPlain = {
    "add.G32 D32, R32, O32;",       "sub.s32 D32, R32, O32;",         "mul.lo.G32 D32, R32, N;",
    "mad.lo.s32 D32, R32, N, R32;", "shl.b32 D32, R32, S;",           "shr.u32 D32, R32, S;",
    "shr.s32 D32, R32, S;",         "and.b32 D32, R32, M;",           "min.G32 D32, R32, O32;",
    "max.G32 D32, R32, O32;",       "div.G32 D32, R32, N;",           "rem.G32 D32, R32, N;",
    "selp.b32 D32, R32, O32, P;",   "cvt.u64.u32 D64, R32;",          "cvt.s64.s32 D64, R32;",
    "cvt.u32.u64 D32, R64;",        "cvt.u16.u32 D16, R32;",          "cvt.u32.u16 D32, R16;",
    "cvt.s32.s16 D32, R16;",        "cvt.u32.u8 D32, R32;",           "add.G64 D64, R64, O64;",
    "sub.s64 D64, R64, O64;",       "shl.b64 D64, R64, S;",           "shr.u64 D64, R64, S;",
    "shr.s64 D64, R64, S;",         "mul.wide.G32 D64, R32, N;",      "mad.wide.G32 D64, R32, N, R64;",
    "min.G64 D64, R64, O64;",       "max.G64 D64, R64, O64;",         "selp.b64 D64, R64, O64, P;",
    "and.b64 D64, R64, M;",         "add.G16 D16, R16, O16;",         "sub.s16 D16, R16, O16;",
    "mul.wide.G16 D32, R16, N;",    "mad.wide.G16 D32, R16, N, R32;", "shl.b16 D16, R16, S;",
    "min.G16 D16, R16, O16;",       "mov.u32 D32, %tid.x;",           "mov.u32 D32, %ctaid.x;",
    "mov.u16 D16, %tid.x;",
};

constexpr std::array kOdd = {
    // Shifts and fields
    "shr.G16 D16, R16, S;",
    "bfe.G32 D32, R32, S, S;",
    "bfe.u64 D64, R64, S, S;",
    "bfi.b32 D32, R32, R32, S, S;",
    "bfi.b64 D64, R64, R64, S, S;",
    "shf.l.wrap.b32 D32, R32, R32, S;",
    "shf.r.clamp.b32 D32, R32, R32, S;",
    "prmt.b32 D32, R32, O32, 21552;",
    "prmt.b32 D32, R32, R32, R32;",
    "and.b32 D32, R32, O32;",
    "or.b32 D32, R32, O32;",
    "xor.b32 D32, R32, O32;",
    "and.b64 D64, R64, O64;",
    "or.b64 D64, R64, O64;",
    "xor.b64 D64, R64, O64;",
    "or.b16 D16, R16, O16;",
    "and.b16 D16, R16, O16;",
    "lop3.b32 D32, R32, R32, R32, 150;",
    "not.b32 D32, R32;",
    "not.b16 D16, R16;",
    "not.b64 D64, R64;",
    "cnot.b32 D32, R32;",
    "popc.b32 D32, R32;",
    "popc.b64 D32, R64;",
    "clz.b32 D32, R32;",
    "bfind.G32 D32, R32;",
    "brev.b32 D32, R32;",
    // Arithmetic that is not modulo the register
    "mul.hi.G32 D32, R32, O32;",
    "mad.hi.G32 D32, R32, O32, R32;",
    "mul.hi.G16 D16, R16, O16;",
    "mul.hi.u64 D64, R64, O64;",
    "mul24.lo.G32 D32, R32, N;",
    "mad24.lo.G32 D32, R32, N, R32;",
    "mul.lo.s32 D32, R32, O32;",
    "mul.lo.s64 D64, R64, O64;",
    "mul.lo.u16 D16, R16, O16;",
    "mul.wide.G32 D64, R32, O32;",
    "mad.wide.G32 D64, R32, O32, R64;",
    "mul.wide.G16 D32, R16, O16;",
    "div.G16 D16, R16, N;",
    "rem.G16 D16, R16, N;",
    "div.G64 D64, R64, N;",
    "rem.G64 D64, R64, N;",
    "abs.s32 D32, R32;",
    "abs.s16 D16, R16;",
    "abs.s64 D64, R64;",
    "neg.s32 D32, R32;",
    "neg.s16 D16, R16;",
    "neg.s64 D64, R64;",
    "sad.G32 D32, R32, O32, R32;",
    "sad.G16 D16, R16, O16, R16;",
    "add.s32 D32, R32, V32; add.sat.s32 D32, X32, V32;",
    "sub.s32 D32, R32, V32; sub.sat.s32 D32, X32, V32;",
    "sub.s32 D32, R32, N; min.relu.s32 D32, X32, O32;",
    "sub.s32 D32, O32, R32; max.relu.s32 D32, X32, -8;",
    "max.G16 D16, R16, O16;",
    "add.cc.u32 D32, R32, O32; addc.u32 D32, R32, O32;",
    "sub.cc.u32 D32, R32, O32; subc.u32 D32, R32, O32;",
    "mad.lo.cc.u32 D32, R32, O32, R32; madc.hi.u32 D32, R32, O32, R32;",
    // Two numbers in one register, one number in two
    "add.G16x2 D32, R32, V32;",
    "add.s32 D32, R32, V32; add.u16x2 D32, X32, V32;",
    "min.G16x2 D32, R32, V32;",
    "max.G16x2 D32, R32, V32;",
    "min.relu.s16x2 D32, R32, R32;",
    "max.relu.s16x2 D32, R32, R32;",
    "mov.b32 D32, {R16, R16};",
    "mov.b32 {D16, D16}, R32;",
    "mov.b64 D64, {R32, R32};",
    "mov.b64 {D32, D32}, R64;",
    "mov.b64 D64, {R16, R16, R16, R16};",
    // One width as another, into registers of a third
    "cvt.u8.u32 D32, R32;",
    "cvt.s8.s32 D32, R32;",
    "cvt.u8.u32 D16, R32;",
    "cvt.s8.u32 D64, R32;",
    "cvt.u16.u32 D32, R32;",
    "cvt.s16.u32 D32, R32;",
    "cvt.s16.s32 D64, R32;",
    "cvt.u32.s8 D32, R32;",
    "cvt.s32.s8 D32, R16;",
    "cvt.u32.s16 D32, R16;",
    "cvt.u32.s16 D64, R16;",
    "cvt.s32.u64 D64, R64;",
    "cvt.u32.u64 D64, R64;",
    "cvt.u64.s32 D64, R32;",
    "cvt.s64.u32 D64, R32;",
    "cvt.u64.u16 D64, R16;",
    "cvt.s64.s16 D64, R16;",
    "cvt.u64.u8 D64, R64;",
    "cvt.s64.s8 D64, R32;",
    "cvt.u16.u64 D16, R64;",
    "cvt.s16.s8 D16, R16;",
    "cvt.sat.u8.s32 D32, R32;",
    "cvt.sat.s16.s32 D32, R32;",
    "cvt.sat.u32.s64 D32, R64;",
    "ld.param.u32 D32, [n];",
    "ld.param.s32 D64, [k];",
    "ld.param.b32 D64, [n];",
    "ld.param.u64 D64, [w];",
    "ld.param.b32 D32, [w+4];",
    "ld.param.s16 D32, [h];",
    "ld.param.b16 D64, [h];",
    "ld.param.u16 D16, [h];",
    "ld.param.s8 D32, [c];",
    "ld.param.u8 D16, [c];",
    "ld.param.b8 D64, [c];",
    "ld.param.s16 D32, [k+2];",
    "ld.param.v2.u32 {D32, D32}, [w];",
    // One of two
    "selp.b16 D16, R16, O16, P;",
    "slct.b32.s32 D32, R32, O32, R32;",
    "slct.u64.s32 D64, R64, O64, R32;",
    "selp.b32 D32, A32, B32, P; selp.b32 D32, A32, B32, P; sub.s32 D32, X32, Y32;",
    "selp.b64 D64, A64, B64, P; selp.b64 D64, A64, B64, P; sub.s64 D64, X64, Y64;",
    "ld.global.s32 D64, [%base1+4]; max.u64 D64, X64, O64;",
    "ld.global.s32 D64, [%base1+8]; min.u64 D64, X64, O64; max.s64 D64, X64, N;",
    // Addresses
    "mov.u64 D64, %base0;",
    "add.s64 D64, %base0, R64;",
    "add.s64 D64, %base1, R64; sub.s64 D64, X64, %base1;",
    "mov.u32 D32, one;",
    "mov.u32 D32, two+4;",
    "mov.u64 D64, one+8;",
    "mov.u64 D64, two;",
    "mov.u32 D32, one; mov.u32 D32, two; sub.s32 D32, Y32, X32;",
    "mov.u32 D32, two; mov.u32 D32, two+8; sub.s32 D32, Y32, X32;",
    "mov.u64 D64, one; cvta.shared.u64 D64, X64; mov.u64 D64, two; sub.s64 D64, Y64, X64;",
    "mov.u32 D32, one; mov.u32 D32, two; setp.C.u32 Q, Y32, X32; selp.b32 D32, R32, O32, P;",
    "mov.u32 D32, one; mov.u32 D32, two; setp.E.u32 Q, Y32, X32; selp.b32 D32, R32, O32, P;",
};

constexpr std::array kCompare = {
    "setp.C.G32 Q, R32, O32;",
    "setp.C.G32 Q, R32, O32;",
    "setp.C.G64 Q, R64, O64;",
    "setp.C.G16 Q, R16, O16;",
    "setp.E.b32 Q, R32, O32;",
    "setp.E.b64 Q, R64, O64;",
    "setp.E.b16 Q, R16, O16;",
    "setp.C.J.G32 Q, R32, O32, P;",
    "setp.C.J.G64 Q, R64, O64, !P;",
    "setp.C.J.G16 Q, R16, O16, P;",
    "setp.C.G32 Q|Q, R32, O32;",
    "setp.C.J.G32 Q|Q, R32, O32, !P;",
    "setp.C.J.G64 Q|Q, R64, O64, P;",
    "J.pred Q, P, P;",
    "not.pred Q, P;",
    "mov.pred Q, P;",
    "add.s64 D64, %base0, A64; setp.C.u64 Q, X64, %base1;",
    "shl.b64 D64, A64, S; add.s64 D64, %base0, X64; add.s64 D64, %base0, O64; setp.C.G64 Q, Y64, R64;",
};

class WidthsGenerator {
 public:
  explicit WidthsGenerator(std::uint64_t seed) : random_(seed) {}

  pointer_modes_test::Experiment run() {
    for (const char*& favourite : favourites_) favourite = kOdd[below(kOdd.size())];
    body_ = "  ld.param.u64 %base0, [a]; ld.param.u64 %base1, [b];\n";
    for (const char* first :
         {"mov.u32 D32, %tid.x;", "mov.u32 D32, %ctaid.x;", "mov.u32 D32, %ntid.x;", "mad.lo.s32 D32, R32, R32, R32;",
          "ld.param.u32 D32, [n];", "ld.param.s32 D32, [k];", "cvt.u64.u32 D64, R32;", "cvt.u16.u32 D16, R32;",
          "mov.u32 D32, %ctaid.y;", "mov.u32 D32, %tid.y;", "setp.C.G32 Q, R32, O32;"}) {
      step(first);
    }
    statements(5 + below(8), 0);
    access();
    access();
    return experiment();
  }

 private:
  struct Pool {
    const char* name;
    std::uint32_t bits;
    std::uint32_t count = 0;               // of all that there are
    std::vector<std::uint32_t> registers;  // that hold something wherever the next statement stands
  };
  using Sizes = std::array<std::size_t, 4>;

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  bool one_in(std::uint32_t count) { return below(count) == 0; }
  template <typename T>
  const auto& any(const T& of) {
    return of[below(static_cast<std::uint32_t>(std::size(of)))];
  }
  void line(const std::string& text) { body_ += "  " + text + "\n"; }

  Pool& pool(std::uint32_t bits) { return pools_[bits == 16 ? 0 : bits == 32 ? 1 : bits == 64 ? 2 : 3]; }
  static std::string name(const Pool& pool, std::uint32_t number) { return fmt::format("{}{}", pool.name, number); }

  // The last ones most.
  std::string pick(std::uint32_t bits) {
    const Pool& from = pool(bits);
    const auto size = static_cast<std::uint32_t>(from.registers.size());
    const std::uint32_t last = std::min(size, 3u);
    return name(from, from.registers[one_in(2) ? size - 1 - below(last) : below(size)]);
  }

  std::string fresh(std::uint32_t bits) {
    Pool& to = pool(bits);
    fresh_.emplace_back(&to, to.count);
    return name(to, to.count++);
  }

  std::string destination(std::uint32_t bits) {
    std::string made = is_change_ ? pick(bits) : fresh(bits);
    written_.push_back(made);
    return made;
  }

  // At the edge of some width, of either sign; as many bits as asked for.
  std::string edge(std::uint32_t bits) {
    static constexpr std::uint32_t kWidths[] = {1, 2, 4, 5, 6, 7, 8, 15, 16, 31, 32, 63};
    std::uint64_t value = (std::uint64_t{1} << any(kWidths)) + below(3) - 1;
    if (one_in(3)) value = -value;
    if (bits == 64) return fmt::format("{}", static_cast<std::int64_t>(value));
    value &= (std::uint64_t{1} << bits) - 1;
    const auto as_signed = static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits);
    return one_in(2) ? fmt::format("{}", as_signed) : fmt::format("{}", value);
  }

  std::string operand(std::uint32_t bits) {
    switch (below(5)) {
      case 0: return std::to_string(below(200));
      case 1: return edge(bits);
      default: return pick(bits);
    }
  }

  std::string shift_count() {
    static constexpr const char* kEdges[] = {"31", "32", "33",         "40", "48", "63",
                                             "64", "65", "4294967295", "-1", "15", "16"};
    switch (below(6)) {
      case 0: return any(kEdges);
      case 1: return pick(32);
      case 2: {  // a number that is in a register
        const std::string made = fresh(32);
        line(fmt::format("mov.u32 {}, {};", made, any(kEdges)));
        return made;
      }
      default: return std::to_string(below(6));
    }
  }

  std::string filled(char capital, std::uint32_t bits) {
    static constexpr const char* kComparisons[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    static constexpr const char* kJoins[] = {"and", "or", "xor"};
    switch (capital) {
      case 'D': return destination(bits);
      case 'R': return pick(bits);
      case 'O': return operand(bits);
      case 'V': {
        std::string made = fresh(bits);
        line(fmt::format("mov.b{} {}, {};", bits, made, edge(bits)));
        return made;
      }
      case 'A':
      case 'B': {
        std::string& same = same_[capital - 'A'];
        if (same.empty()) same = pick(bits);
        return same;
      }
      case 'X': return written_.at(0);
      case 'Y': return written_.at(1);
      case 'S': return shift_count();
      case 'N': return std::to_string(1 + below(16));
      case 'M': return std::to_string(((1u << (1 + below(9))) - 1) << (one_in(4) ? below(8) : 0));
      case 'P': return pick(1);
      case 'Q': return fresh(1);
      case 'C': return any(kComparisons);
      case 'E': return kComparisons[4 + below(2)];
      case 'J': return any(kJoins);
      default: return one_in(2) ? "s" : "u";
    }
  }

  // One step; `is_change` writes registers that were there before, perhaps under a guard.
  void step(std::string_view form, bool is_change = false) {
    is_change_ = is_change && form.find('{') == std::string_view::npos;  // a vector names a register once
    written_.clear();
    fresh_.clear();
    same_ = {};
    const bool is_guarded = is_change_ && form.find('Q') == std::string_view::npos && one_in(3);
    const std::string guard = is_guarded ? fmt::format("@{}{} ", one_in(2) ? "!" : "", pick(1)) : "";
    std::string text = guard;
    for (std::size_t i = 0; i < form.size(); ++i) {
      const char capital = form[i];
      if (capital < 'A' || capital > 'Z') {
        text += capital;
        if (capital == ';' && i + 1 < form.size()) text += "\n " + (guard.empty() ? "" : " " + guard);
        continue;
      }
      std::uint32_t bits = 0;
      const bool is_letter = std::string_view("SNMPQCEJG").find(capital) != std::string_view::npos;
      while (!is_letter && i + 1 < form.size() && form[i + 1] >= '0' && form[i + 1] <= '9' && bits < 10)
        bits = 10 * bits + static_cast<std::uint32_t>(form[++i] - '0');
      text += filled(capital, bits);
    }
    line(text);
    for (const auto& [to, number] : fresh_) to->registers.push_back(number);
  }

  void statements(std::uint32_t count, int depth) {
    for (std::uint32_t i = 0; i < count; ++i) statement(depth);
  }

  void statement(int depth) {
    const std::uint32_t kind = below(20);
    if (kind < 10 || depth >= 2) return any_step(one_in(5));
    if (kind < 13) return access();
    if (kind < 15) return step(any(kCompare));
    if (kind < 17) return branch(depth);
    if (kind < 19) return loop(depth);
    if (depth == 0 && one_in(2)) leave();
  }

  void any_step(bool is_change) {
    if (!one_in(3)) return step(any(kPlain), is_change);
    step(one_in(2) ? any(kOdd) : any(favourites_), is_change);
    if (!written_.empty() && one_in(2)) access_at(written_.back());
  }

  // What a step made, or some way from it, as an index.
  void access_at(const std::string& made) {
    const std::uint32_t bits = made[1] == 'h' ? 16 : made[1] == 'r' ? 32 : 64;
    const int away = one_in(2) ? static_cast<int>(below(80)) - 20 : 0;
    access(away == 0 ? made : bounded(fmt::format("add.s{} I, {}, {};", bits, made, away), bits), bits);
  }

  std::string predicate() {
    if (!one_in(4)) step(any(kCompare));
    return fmt::format("{}{}", one_in(2) ? "!" : "", pick(1));
  }

  // Some of the threads go.
  void leave() { line(fmt::format("@{} {};", predicate(), one_in(2) ? "ret" : "exit")); }

  Sizes sizes() const {
    Sizes result;
    for (std::size_t i = 0; i < 4; ++i) result[i] = pools_[i].registers.size();
    return result;
  }
  // What is made on one way alone stays there.
  void back_to(const Sizes& outer) {
    for (std::size_t i = 0; i < 4; ++i) pools_[i].registers.resize(outer[i]);
  }

  void branch(int depth) {
    const std::uint32_t label = labels_++;
    const std::string other = predicate();
    line(fmt::format("@{} bra L{};", other, label));
    const Sizes outer = sizes();
    statements(1 + below(3), depth + 1);
    if (one_in(2)) access();
    back_to(outer);
    if (one_in(3)) {
      line(fmt::format("bra M{};\nL{}:", label, label));
      statements(1 + below(2), depth + 1);
      back_to(outer);
      line(fmt::format("M{}:", label));
    } else {
      line(fmt::format("L{}:", label));
    }
  }

  // Any condition may end it. What ends it if none does is a bit that is shifted out, which tells an analysis nothing.
  void loop(int depth) {
    const std::uint32_t label = labels_++, bits = 16u << below(3);
    const std::string first = one_in(3) ? pick(bits) : std::to_string(below(4)), counter = fresh(bits);
    line(fmt::format("mov.b{} {}, {};", bits, counter, first));
    pool(bits).registers.push_back(pool(bits).count - 1);
    line(fmt::format("mov.u32 %left{}, {};", label, 1u << (20 + below(11))));
    line(fmt::format("LOOP{}:", label));
    const Sizes outer = sizes();
    if (one_in(2)) line(fmt::format("@{} bra DONE{};", predicate(), label));
    statements(1 + below(3), depth + 1);
    if (one_in(2)) access();
    const std::string by = one_in(4) ? edge(bits) : std::to_string(1 + below(8));
    line(fmt::format("{}.s{} {}, {}, {};", one_in(4) ? "sub" : "add", bits, counter, counter, by));
    if (one_in(2)) any_step(true);
    const std::string comparison = filled('C', 0), sign = filled('G', 0), stay = fresh(1);
    std::string end = operand(bits);
    if (one_in(4)) {  // chosen anew each time
      step(fmt::format("setp.C.G{0} Q, {1}, O{0};", bits, counter));
      step(fmt::format("selp.b{0} D{0}, N, N, P;", bits));
      end = written_.back();
    }
    line(fmt::format("shl.b32 %left{0}, %left{0}, 1;\n  setp.ne.u32 %more, %left{0}, 0;", label));
    line(fmt::format("setp.{}.and.{}{} {}, {}, {}, %more;", comparison, sign, bits, stay, counter, end));
    back_to(outer);
    line(fmt::format("@{} bra LOOP{};\nDONE{}:", stay, label, label));
  }

  // An index that is kept in its array, or an access under a condition that keeps it there.
  void access() {
    const std::uint32_t bits = 16u << (one_in(3) ? below(3) : 1 + below(2));
    access(pick(bits), bits);
  }

  void access(std::string index, std::uint32_t bits) {
    std::string guard, end;
    switch (below(8)) {
      case 0:
        index = bounded(fmt::format("and.b{0} I, {1}, {2};", bits, index, (1u << (3 + below(7))) - 1), bits);
        break;
      case 1: index = bounded(fmt::format("rem.u{0} I, {1}, {2};", bits, index, kMaxIndex), bits); break;
      case 2: guard = in_range(index, bits); break;
      case 3:
      case 4:
        guard = in_range(index, bits);
        end = fmt::format("OUT{}", labels_++);
        line(fmt::format("@!{} bra {};", guard, end));
        guard.clear();
        break;
      default: index = bounded(fmt::format("min.u{0} I, {1}, {2};", bits, index, kMaxIndex), bits);
    }
    const Sizes outer = sizes();
    touch(index, bits, guard);
    if (end.empty()) return;
    back_to(outer);
    line(end + ":");
  }

  std::string bounded(std::string form, std::uint32_t bits) {
    const std::string made = fmt::format("%at{}_{}", bits, indices_++);
    form.replace(form.find(" I,"), 3, " " + made + ",");
    declared_ += fmt::format("  .reg .b{} {};\n", bits, made);
    line(form);
    return made;
  }

  std::string in_range(const std::string& index, std::uint32_t bits) {
    const std::string low = fresh(1), both = fresh(1);
    if (one_in(2)) {
      line(fmt::format("setp.le.u{} {}, {}, {};", bits, both, index, kMaxIndex));
    } else if (one_in(2)) {
      line(fmt::format("setp.ge.s{} {}, {}, 0;", bits, low, index));
      line(fmt::format("setp.lt.and.s{} {}, {}, {}, {};", bits, both, index, kMaxIndex, low));
    } else {
      line(fmt::format("setp.lt.s{} {}, {}, 0;", bits, low, index));
      line(fmt::format("setp.gt.or.s{} {}, {}, {}, {};", bits, both, index, kMaxIndex, low));
      line(fmt::format("not.pred {}, {};", both, both));
    }
    return both;
  }

  void touch(const std::string& index, std::uint32_t bits, const std::string& guard) {
    const std::uint32_t bytes_log = below(5), more = below(4) << bytes_log;
    const bool is_load = one_in(2);
    const std::string address = place(index, bits, bytes_log, is_load ? 1 : 0);
    const std::string when = guard.empty() ? "" : fmt::format("@{} ", guard);
    if (is_load) return load(when, fmt::format("[{}+{}]", address, more), bytes_log);
    static constexpr const char* kStores[] = {"u8", "u16", "u32", "v2.u32", "v4.u32"};
    const std::string value = pick(bytes_log < 2 ? 16 : 32);
    const char* const values[] = {"{0}", "{0}", "{0}", "{{{0}, {0}}}", "{{{0}, {0}, {0}, {0}}}"};
    const std::string what = fmt::format(fmt::runtime(values[bytes_log]), value);
    line(fmt::format("{}st.global.{} [{}+{}], {};", when, kStores[bytes_log], address, more, what));
  }

  // What is loaded may become an index.
  void load(const std::string& when, const std::string& from, std::uint32_t bytes_log) {
    static constexpr const char* kLoads[][2] = {{"u8 D32", "s8 D64"},
                                                {"s16 D32", "u16 D64"},
                                                {"u32 D32", "s32 D64"},
                                                {"u64 D64", "v2.u32 {D32, D32}"},
                                                {"v4.u32 {D32, D32, D32, D32}", "v2.u64 {D64, D64}"}};
    const std::string form = fmt::format("ld.global.{}, {};", kLoads[bytes_log][below(2)], from);
    if (when.empty()) return step(form);
    // What its guard may leave as it is was there before.
    line(fmt::format("{}ld.global.u{} {}, {};", when, bytes_log == 0 ? 8 : bytes_log == 1 ? 16 : 32, pick(32), from));
  }

  // The address of element `index` of an array, in one of the ways there are.
  std::string place(const std::string& index, std::uint32_t bits, std::uint32_t bytes_log, int array) {
    const std::string address = fmt::format("%addr{}", addresses_++), base = fmt::format("%base{}", array);
    const std::uint32_t bytes = 1u << bytes_log;
    const auto add = [&] { line(fmt::format("add.s64 {0}, {1}, {0};", address, base)); };
    if (bits == 64) {
      if (one_in(2)) {
        line(fmt::format("shl.b64 {}, {}, {};", address, index, bytes_log));
        add();
      } else {
        line(fmt::format("mad.lo.s64 {}, {}, {}, {};", address, index, bytes, base));
      }
      return address;
    }
    if (bits == 16 && one_in(2)) {
      const std::string wide = bounded(fmt::format("mul.wide.u16 I, {}, {};", index, bytes), 32);
      line(fmt::format("cvt.u64.u32 {}, {};", address, wide));
      add();
      return address;
    }
    const std::string whole = bits == 16 ? bounded(fmt::format("cvt.u32.u16 I, {};", index), 32) : index;
    const char sign = one_in(2) ? 's' : 'u';
    switch (below(3)) {
      case 0:
        line(fmt::format("mul.wide.{}32 {}, {}, {};", sign, address, whole, bytes));
        add();
        break;
      case 1: line(fmt::format("mad.wide.{}32 {}, {}, {}, {};", sign, address, whole, bytes, base)); break;
      default:
        line(fmt::format("cvt.{0}64.{0}32 {1}, {2};\n  shl.b64 {1}, {1}, {3};", sign, address, whole, bytes_log));
        add();
    }
    return address;
  }

  // Small numbers, edges, and anything.
  std::uint64_t number(std::uint32_t bits) {
    if (one_in(2)) return below(100);
    return one_in(2) ? std::strtoull(edge(bits).c_str(), nullptr, 10) : random_();
  }

  pointer_modes_test::Experiment experiment() {
    pointer_modes_test::Experiment made;
    made.name = "random_widths.ptx";
    std::string registers;
    for (const Pool& of : pools_) {
      const std::string type = of.bits == 1 ? ".pred" : fmt::format(".b{}", of.bits);
      registers += fmt::format("  .reg {} {}<{}>;\n", type, of.name, of.count + 1);
    }
    made.text = fmt::format(
        ".version 8.3\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 one[64];\n"
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 k, .param .u64 w, .param .u16 h, "
        ".param .u8 c)\n{{\n  .shared .align 16 .b8 two[64];\n{}{}  .reg .pred %more;\n  .reg .b32 %left<{}>;\n"
        "  .reg .b64 %base<2>, %addr<{}>;\n{}  ret;\n}}\n",
        registers, declared_, labels_ + 1, addresses_ + 1, body_);
    made.config.grid = {1 + below(4), 1 + below(2), 1};
    made.config.block = {1 + below(40), 1 + below(2), 1};
    for (int array = 0; array < 2; ++array) {
      std::vector<std::byte> bytes(kArrayBytes);
      for (std::size_t i = 0; i < bytes.size(); i += 4) {
        const std::uint64_t value = number(32);
        std::memcpy(bytes.data() + i, &value, 4);
      }
      made.buffers.push_back(std::move(bytes));
    }
    for (const std::uint32_t bytes : {8, 8, 4, 4, 8, 2, 1}) {
      const std::uint64_t value = number(8 * bytes);
      std::memcpy(made.parameters.emplace_back(bytes).data(), &value, bytes);
    }
    made.bound = {{0, 0, 0}, {1, 0, 1}};
    return made;
  }

  std::mt19937_64 random_;
  std::string body_, declared_;
  std::array<const char*, 4> favourites_ = {};  // what a kernel has often meets itself
  std::array<Pool, 4> pools_ = {Pool{"%h", 16}, Pool{"%r", 32}, Pool{"%d", 64}, Pool{"%p", 1}};
  std::uint32_t labels_ = 0, addresses_ = 0, indices_ = 0;
  // Of the step that is being made.
  bool is_change_ = false;
  std::vector<std::string> written_;
  std::vector<std::pair<Pool*, std::uint32_t>> fresh_;
  std::array<std::string, 2> same_;
};

}  // namespace

pointer_modes_test::Experiment random_widths(std::uint64_t seed) {
  return WidthsGenerator(seed).run();
}

}  // namespace pergola::footprints_test
