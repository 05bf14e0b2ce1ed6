#include "tests/differential/kernel_generator.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace pergola::differential {
namespace {

using fmt::format;

// Registers of the pool, by class: %i 32-bit, %l 64-bit, %f f32, %d f64, %h f16, %p predicates.
constexpr int kInts = 8, kLongs = 4, kFloats = 5, kDoubles = 3, kHalves = 3, kPredicates = 4;
constexpr std::uint32_t kTotals = 8;  // words behind the outputs that all threads reduce into, each by one operation
constexpr int kOutputBytes = kInts * 4 + kLongs * 8 + kFloats * 4 + kDoubles * 8 + kHalves * 4;

// format() of what is drawn in the order in which it is written: that of a function's arguments is the compiler's.
struct Drawn {
  template <typename... Values>
  explicit Drawn(fmt::format_string<Values...> pattern, Values&&... values)
      : text(format(pattern, std::forward<Values>(values)...)) {}
  operator const std::string&() const { return text; }

  std::string text;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : seed_(seed) {}

  ptx_cases::Case run() {
    ptx_cases::Case test;
    test.kernel = "k";
    test.path = format("seed{}.ptx", seed_);
    test.config.grid = {1 + below(3), 1, 1};
    test.config.block = {32 * (1 + below(4)), 1, 1};
    const std::uint32_t threads = test.config.grid.x * test.config.block.x;
    threads_per_block_ = test.config.block.x;
    body();
    test.text = text();
    ptx_cases::BufferSpec in{"in", {}}, out{"out", {}};
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint64_t word = ptx_cases::random_word(seed_ ^ 0x5eed, n);
      // A third of the inputs are small or at an edge: that is where mistakes are.
      constexpr std::uint32_t kEdges[] = {0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0x00800000};
      if (n % 3 == 0) word = kEdges[word % std::size(kEdges)];
      for (int b = 0; b < 4; ++b) in.initial.push_back(static_cast<std::byte>(word >> (8 * b)));
    }
    out.initial.resize(std::size_t{threads} * kOutputBytes + 4 * kTotals);
    test.buffers = {in, out};
    test.arguments = {{"in", {}}, {"out", {}}};
    return test;
  }

 private:
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(ptx_cases::random_word(seed_, counter_++) % bound);
  }
  template <std::size_t N>
  const char* any(const std::array<const char*, N>& choices) {
    return choices[below(N)];
  }
  void line(const std::string& instruction) { code_ += std::string(2 * (depth_ + 1), ' ') + instruction + "\n"; }
  std::string i() { return format("%i{}", below(kInts)); }
  std::string l() { return format("%l{}", below(kLongs)); }
  std::string f() { return format("%f{}", below(kFloats)); }
  std::string d() { return format("%d{}", below(kDoubles)); }
  std::string h() { return format("%h{}", below(kHalves)); }
  std::string p() { return format("%p{}", below(kPredicates)); }
  std::string i_or_number() { return below(4) == 0 ? format("{}", static_cast<std::int32_t>(below(200)) - 100) : i(); }

  void integer32() {
    switch (below(12)) {
      case 0: line(Drawn{"{}.b32 {}, {}, {};", any<3>({"and", "or", "xor"}), i(), i(), i_or_number()}); break;
      case 1: line(Drawn{"{} {}, {}, {};", any<4>({"add.s32", "sub.u32", "mul.lo.s32", "mul.hi.u32"}), i(), i(), i_or_number()}); break;
      case 2: line(Drawn{"{} {}, {}, {}, {};", any<4>({"mad.lo.s32", "mad.hi.s32", "sad.u32", "sad.s32"}), i(), i(), i(), i()}); break;
      case 3: line(Drawn{"{} {}, {}, {};", any<4>({"min.s32", "max.s32", "min.u32", "max.u32"}), i(), i(), i_or_number()}); break;
      case 4: line(Drawn{"{} {}, {}, {};", any<3>({"shl.b32", "shr.u32", "shr.s32"}), i(), i(), i_or_number()}); break;
      case 5: line(Drawn{"{} {}, {};", any<7>({"popc.b32", "clz.b32", "brev.b32", "not.b32", "neg.s32", "abs.s32", "bfind.u32"}), i(), i()}); break;
      case 6: line(Drawn{"{} {}, {}, {}, {};", any<4>({"shf.l.wrap.b32", "shf.r.clamp.b32", "bfe.u32", "bfe.s32"}), i(), i(), i(), i()}); break;
      case 7: line(Drawn{"lop3.b32 {}, {}, {}, {}, {};", i(), i(), i(), i(), below(256)}); break;
      case 8: line(Drawn{"prmt.b32 {}, {}, {}, {};", i(), i(), i(), i()}); break;
      case 9: {
        line(Drawn{"or.b32 %t0, {}, {};", i(), 1 + below(9)});  // never zero
        line(Drawn{"{} {}, {}, %t0;", any<4>({"div.s32", "div.u32", "rem.s32", "rem.u32"}), i(), i()});
        break;
      }
      case 10: line(Drawn{"dp4a.s32.u32 {}, {}, {}, {};", i(), i(), i(), i()}); break;
      default: line(Drawn{"bfi.b32 {}, {}, {}, {}, {};", i(), i(), i(), below(32), below(33)}); break;
    }
  }

  void integer64() {
    switch (below(7)) {
      case 0: line(Drawn{"{} {}, {}, {};", any<5>({"add.s64", "sub.s64", "mul.lo.s64", "mul.hi.u64", "mul.hi.s64"}), l(), l(), l()}); break;
      case 1: line(Drawn{"{} {}, {}, {};", any<4>({"min.s64", "max.u64", "and.b64", "xor.b64"}), l(), l(), l()}); break;
      case 2: line(Drawn{"{} {}, {}, {};", any<3>({"shl.b64", "shr.u64", "shr.s64"}), l(), l(), i()}); break;
      case 3: line(Drawn{"{} {}, {}, {};", any<2>({"mul.wide.s32", "mul.wide.u32"}), l(), i(), i()}); break;
      case 4: line(Drawn{"mad.wide.s32 {}, {}, {}, {};", l(), i(), i(), l()}); break;
      case 5:
        line(format("or.b64 %u0, {}, 3;", l()));
        line(Drawn{"{} {}, {}, %u0;", any<3>({"div.u64", "rem.u64", "div.s64"}), l(), l()});
        break;
      default: line(Drawn{"mov.b64 {}, {{{}, {}}};", l(), i(), i()}); break;
    }
  }

  void carry_chain() {
    const std::string low = i();
    line(Drawn{"add.cc.u32 {}, {}, {};", low, i(), i()});
    line(Drawn{"addc.cc.u32 {}, {}, {};", i(), i(), i()});
    line(Drawn{"addc.u32 {}, {}, 0;", i(), i()});
  }

  void float32() {
    const char* rounding = any<4>({"rn", "rz", "rm", "rp"});
    switch (below(8)) {
      case 0: line(Drawn{"{}.{}.f32 {}, {}, {};", any<3>({"add", "sub", "mul"}), rounding, f(), f(), f()}); break;
      case 1: line(Drawn{"fma.{}.f32 {}, {}, {}, {};", rounding, f(), f(), f(), f()}); break;
      case 2: line(Drawn{"{}.f32 {}, {}, {};", any<2>({"min", "max"}), f(), f(), f()}); break;
      case 3: line(Drawn{"div.{}.f32 {}, {}, {};", rounding, f(), f(), f()}); break;
      case 4: line(Drawn{"{}.{}.f32 {}, {};", any<2>({"sqrt", "rcp"}), rounding, f(), f()}); break;
      case 5: {
        const std::string to = f();
        line(Drawn{"{}.f32 {}, {};", any<2>({"neg", "abs"}), to, f()});
        canonical(to);
        break;
      }
      case 6: line(Drawn{"add.sat.f32 {}, {}, {};", f(), f(), f()}); break;
      default: line(Drawn{"selp.f32 {}, {}, {}, {};", f(), f(), f(), p()}); break;
    }
  }

  void float64() {
    const char* rounding = any<4>({"rn", "rz", "rm", "rp"});
    switch (below(4)) {
      case 0: line(Drawn{"{}.{}.f64 {}, {}, {};", any<3>({"add", "sub", "mul"}), rounding, d(), d(), d()}); break;
      case 1: line(Drawn{"fma.{}.f64 {}, {}, {}, {};", rounding, d(), d(), d(), d()}); break;
      case 2: line(Drawn{"div.{}.f64 {}, {}, {};", rounding, d(), d(), d()}); break;
      default: line(Drawn{"sqrt.{}.f64 {}, {};", rounding, d(), d()}); break;
    }
  }

  // The NaN of `value`, if it is one, made the one pattern that arithmetic gives.
  void canonical(const std::string& value) {
    line(format("setp.nan.f32 %q, {}, {};", value, value));
    line(format("selp.f32 {}, 0f7FFFFFFF, {}, %q;", value, value));
  }

  void half() {
    switch (below(3)) {
      case 0: line(Drawn{"{}.f16 {}, {}, {};", any<3>({"add", "sub", "mul"}), h(), h(), h()}); break;
      case 1: line(Drawn{"fma.rn.f16 {}, {}, {}, {};", h(), h(), h(), h()}); break;
      default: line(Drawn{"cvt.rn.f16.f32 {}, {};", h(), f()}); break;
    }
  }

  void conversion() {
    switch (below(10)) {
      case 0: line(Drawn{"cvt.{}.f32.s32 {}, {};", any<4>({"rn", "rz", "rm", "rp"}), f(), i()}); break;
      case 1: line(Drawn{"cvt.{}.{}.f32 {}, {};", any<4>({"rni", "rzi", "rmi", "rpi"}), any<2>({"s32", "u32"}), i(), f()}); break;
      case 2: line(Drawn{"cvt.f64.f32 {}, {};", d(), f()}); break;
      case 3: {
        const char* rounding = any<4>({"rn", "rz", "rm", "rp"});
        const std::string to = f();
        line(format("cvt.{}.f32.f64 {}, {};", rounding, to, d()));
        canonical(to);
        break;
      }
      case 4: line(Drawn{"cvt.rn.f64.s64 {}, {};", d(), l()}); break;
      case 5: line(Drawn{"cvt.{} {}, {};", any<2>({"s64.s32", "u64.u32"}), l(), i()}); break;
      case 6: line(Drawn{"cvt.u32.u64 {}, {};", i(), l()}); break;
      case 7: line(Drawn{"cvt.{} {}, {};", any<5>({"s32.s8", "u32.u8", "s32.s16", "sat.s8.s32", "sat.u16.s32"}), i(), i()}); break;
      case 8: line(Drawn{"cvt.f32.f16 {}, {};", f(), h()}); break;
      default: line(Drawn{"cvt.rn.f32.u64 {}, {};", f(), l()}); break;
    }
  }

  void comparison() {
    switch (below(5)) {
      case 0: line(Drawn{"setp.{}.s32 {}, {}, {};", any<6>({"eq", "ne", "lt", "le", "gt", "ge"}), p(), i(), i_or_number()}); break;
      case 1: line(Drawn{"setp.{}.f32 {}, {}, {};", any<8>({"eq", "ne", "lt", "ge", "ltu", "gtu", "num", "nan"}), p(), f(), f()}); break;
      case 2: line(Drawn{"setp.{}.{}.u64 {}, {}, {}, {};", any<4>({"lo", "hs", "eq", "hi"}), any<3>({"and", "or", "xor"}), p(), l(), l(), p()}); break;
      case 3: line(Drawn{"selp.b32 {}, {}, {}, {};", i(), i(), i(), p()}); break;
      default: line(Drawn{"set.{}.u32.f32 {}, {}, {};", any<3>({"lt", "geu", "ne"}), i(), f(), f()}); break;
    }
  }

  void simple() {
    switch (below(10)) {
      case 0: case 1: case 2: return integer32();
      case 3: return integer64();
      case 4: return carry_chain();
      case 5: case 6: return float32();
      case 7: return below(2) == 0 ? float64() : half();
      case 8: return conversion();
      default: return comparison();
    }
  }

  void branch() {
    const int label = labels_++;
    line(Drawn{"@{}{} bra ELSE{};", below(2) == 0 ? "" : "!", p(), label});
    ++depth_;
    statements(2 + below(4), false);
    line(format("bra.uni JOIN{};", label));
    code_ += format("ELSE{}:\n", label);
    if (below(2) == 0) statements(1 + below(3), false);
    --depth_;
    code_ += format("JOIN{}:\n", label);
  }

  void loop() {
    const int label = labels_++;
    line(format("mov.u32 %c{}, 0;", label));
    // Each lane its own number of turns.
    line(format("and.b32 %n{}, {}, 7;", label, i()));
    code_ += format("LOOP{}:\n", label);
    line(format("setp.ge.u32 %q{}, %c{}, %n{};", label, label, label));
    line(format("@%q{} bra END{};", label, label));
    ++depth_;
    statements(2 + below(3), false);
    line(format("add.u32 %c{}, %c{}, 1;", label, label));
    --depth_;
    line(format("bra LOOP{};", label));
    code_ += format("END{}:\n", label);
  }

  void exchange() {  // all threads of the block are here
    const char* type = any<2>({"b32", "f32"});
    const std::string value = type[0] == 'b' ? i() : f();
    line(format("st.shared.{} [%slot], {};", type, value));
    line("bar.sync 0;");
    line(format("add.u32 %t0, %tidx, {};", 1 + below(threads_per_block_)));
    line(format("rem.u32 %t0, %t0, {};", threads_per_block_));
    line("shl.b32 %t0, %t0, 2;");
    line("mov.u32 %t1, tile;");
    line("add.u32 %t0, %t0, %t1;");
    line(format("ld.shared.{} {}, [%t0];", type, value));
    line("bar.sync 0;");
  }

  void accumulate() {
    line("setp.eq.u32 %q, %tidx, 0;");
    line("@%q st.shared.b32 [total], 0;");
    line("bar.sync 0;");
    line(Drawn{"red.shared.{} [total], {};", any<4>({"add.u32", "max.s32", "xor.b32", "min.u32"}), i()});
    line("bar.sync 0;");
    line(format("ld.shared.u32 {}, [total];", i()));
    line("bar.sync 0;");
  }

  void warp() {
    switch (below(4)) {
      case 0: line(Drawn{"shfl.sync.{}.b32 {}|{}, {}, {}, {}, 0xffffffff;", any<2>({"bfly", "idx"}), i(), p(), i(), below(32), below(2) == 0 ? 31 : 0x181f}); break;
      case 1: line(below(2) == 0 ? Drawn{"shfl.sync.up.b32 {}|{}, {}, {}, 0, 0xffffffff;", i(), p(), i(), below(32)}
                                : Drawn{"shfl.sync.down.b32 {}|{}, {}, {}, 31, 0xffffffff;", i(), p(), i(), below(32)});
        break;
      case 2: line(Drawn{"vote.sync.ballot.b32 {}, {}, 0xffffffff;", i(), p()}); break;
      default: {
        // Through a shuffle, without which the driver's compiler may move the vote into a branch (docs/driver-faults.md).
        const char* mode = any<3>({"all", "any", "uni"});
        const std::string to = p();
        line(format("vote.sync.{}.pred %q, {}, 0xffffffff;", mode, p()));
        line("selp.b32 %t0, 1, 0, %q;");
        line("shfl.sync.idx.b32 %t0, %t0, 0, 31, 0xffffffff;");
        line(format("setp.ne.u32 {}, %t0, 0;", to));
        break;
      }
    }
  }

  // --- wide kernels alone -------------------------------------------------------------------------------------------

  void reduce_globally() {  // in any order the same
    const std::uint32_t slot = below(kTotals);
    constexpr const char* kOperations[] = {"add.u32", "xor.b32", "max.s32", "min.u32", "or.b32", "and.b32", "add.u32", "max.u32"};
    line(format("red.global.{} [%totals+{}], {};", kOperations[slot], 4 * slot, i()));
  }

  // Even and odd warps meet at barriers of their own, between which each reads what its neighbour of the warp stored.
  void warps_apart() {
    const int label = labels_++;
    const std::uint32_t warps = threads_per_block_ / 32, odd = warps / 2;
    line("bar.sync 0;");
    line("shr.u32 %t0, %tidx, 5;");
    line("and.b32 %t0, %t0, 1;");
    line("setp.eq.u32 %q, %t0, 1;");
    line(format("st.shared.b32 [%slot], {};", i()));
    line(format("@%q bra ELSE{};", label));
    line(format("barrier.sync 1, {};", 32 * (warps - odd)));
    line(format("bra.uni JOIN{};", label));
    code_ += format("ELSE{}:\n", label);
    line(format("bar.sync 2, {};", odd == 0 ? 32 : 32 * odd));
    code_ += format("JOIN{}:\n", label);
    line("mov.u32 %t1, tile;");
    line("xor.b32 %t0, %tidx, 1;");
    line("mad.lo.u32 %t0, %t0, 4, %t1;");
    line(format("ld.shared.b32 {}, [%t0];", i()));
    line("bar.sync 0;");
  }

  // The halves of each warp do different operations among themselves.
  void lanes_apart() {
    const int label = labels_++;
    line("and.b32 %t0, %tidx, 16;");
    line("setp.ne.u32 %q, %t0, 0;");
    line(format("@%q bra ELSE{};", label));
    line(Drawn{"shfl.sync.bfly.b32 {}, {}, {}, 31, 0xffff;", i(), i(), below(16)});
    line("bar.warp.sync 0xffff;");
    line(format("bra.uni JOIN{};", label));
    code_ += format("ELSE{}:\n", label);
    line(Drawn{"match.any.sync.b32 {}, {}, 0xffff0000;", i(), i()});
    code_ += format("JOIN{}:\n", label);
    line("bar.warp.sync 0xffffffff;");
  }

  void count_at_barrier() {
    if (below(2) == 0)
      line(Drawn{"bar.red.popc.u32 {}, 0, {};", i(), p()});
    else
      line(Drawn{"bar.red.{}.pred {}, 0, {};", any<2>({"and", "or"}), p(), p()});
  }

  // A loop that lanes leave by several ways in different turns, or begin anew from its middle; loops in it, which they
  // also leave for the outer one's next turn or end; and, in kernels where threads may leave, returns.
  //
  //   TURN ─▶ block ─▶ block ─▶ … ─▶ TURN      each block ends in a random branch: forward, to a TURN, to an OUT;
  //                      └─ the one that ends  past the fifth turn only outward, so that the loop ends
  void tangle() {
    const int label = labels_++;
    const std::uint32_t blocks = 2 + below(4), ends = below(blocks);
    line(format("mov.u32 %c{}, 0;", label));
    line(format("and.b32 %n{}, {}, 7;", label, i()));
    code_ += format("TURN{}:\n", label);
    line(format("add.u32 %c{}, %c{}, 1;", label, label));
    ++depth_;
    tangles_.push_back(label);
    for (std::uint32_t n = 0; n < blocks; ++n) {
      code_ += format("T{}_{}:\n", label, n);
      statements(1 + below(2), false);
      if (n == ends) {
        line(format("setp.gt.u32 %q{}, %c{}, %n{};", label, label, label));
        line(format("@%q{} bra OUT{};", label, label));
      }
      const std::uint32_t way = below(exits_ ? 6 : 5);
      const int of = tangles_[below(static_cast<std::uint32_t>(tangles_.size()))];
      if (way < 2 && n + 1 < blocks) tangled_branch(label, format("T{}_{}", label, n + 1 + below(blocks - n - 1)), true);
      else if (way < 3) tangled_branch(of, format("TURN{}", of), true);
      else if (way < 5) tangled_branch(of, format("{}{}", below(2) == 0 ? "OUT" : "SIDE", of), false);
      else tangled_branch(of, "GONE", false);
    }
    tangles_.pop_back();
    line(format("bra TURN{};", label));
    code_ += format("SIDE{}:\n", label);
    statements(1 + below(2), false);
    if (below(2) == 0) line(format("bra.uni MEET{};", label));
    code_ += format("OUT{}:\n", label);
    statements(1, false);
    --depth_;
    code_ += format("MEET{}:\n", label);
  }

  // Where `early`, only in the first turns of loop `label`.
  void tangled_branch(int label, const std::string& to, bool early) {
    const std::string predicate = p();
    if (early) line(format("setp.lt.and.u32 %q{}, %c{}, {}, {};", label, label, 2 + below(5), predicate));
    else line(Drawn{"setp.eq.and.s32 %q{}, {}, {}, {};", label, i(), i(), predicate});
    if (!early && below(2) == 0) line(format("setp.gt.or.u32 %q{}, %c{}, {}, %q{};", label, label, below(9), label));
    line(format("@%q{} bra {};", label, to));
  }

  bool wide_statement(bool together) {
    const std::uint32_t kind = below(together ? 10 : 26);
    if (kind == 4 && depth_ < 2) return tangle(), true;
    if (exits_ && kind < 3 && kind > 0) return false;
    if (together && kind == 1) return warps_apart(), true;
    if (together && kind == 2) return lanes_apart(), true;
    if (together && kind == 3) return count_at_barrier(), true;
    return kind == 0 ? (reduce_globally(), true) : false;
  }

  // `together`: every thread of the block comes here, so barriers and full-warp operations are allowed.
  void statements(std::uint32_t count, bool together) {
    for (std::uint32_t n = 0; n < count; ++n) {
      if (wide_ && wide_statement(together)) continue;
      const std::uint32_t kind = below(20);
      if (together && kind < 2)
        exchange();
      else if (together && kind < 5 && !exits_)
        warp();
      else if (together && kind == 5)
        accumulate();
      else if (kind < 8 && depth_ < 3)
        branch();
      else if (kind == 8 && depth_ < 2)
        loop();
      else
        simple();
    }
  }

  void body() {
    line("ld.param.u64 %in, [in];");
    line("ld.param.u64 %out, [out];");
    line("mov.u32 %tidx, %tid.x;");
    line("mov.u32 %t0, %ctaid.x;");
    line("mov.u32 %t1, %ntid.x;");
    line("mad.lo.u32 %index, %t0, %t1, %tidx;");
    line("mov.u32 %t1, tile;");
    line("mad.lo.u32 %slot, %tidx, 4, %t1;");
    for (int n = 0; n < kInts; ++n) load_input(format("%i{}", n), n);
    for (int n = 0; n < kLongs; ++n) line(Drawn{"mov.b64 %l{}, {{%i{}, %i{}}};", n, below(kInts), below(kInts)});
    for (int n = 0; n < kFloats; ++n) {
      load_input("%t0", 16 + n);
      // Every other one any pattern, made canonical; the others of moderate size.
      if (n % 2 == 0) {
        line(format("mov.b32 %f{}, %t0;", n));
        canonical(format("%f{}", n));
      } else
        line(format("cvt.rn.f32.s32 %f{}, %t0;\n  mul.f32 %f{}, %f{}, 0f35800000;", n, n, n));
    }
    for (int n = 0; n < kDoubles; ++n) line(format("cvt.rn.f64.s64 %d{}, %l{};", n, n));
    for (int n = 0; n < kHalves; ++n) line(format("cvt.rn.f16.f32 %h{}, %f{};", n, 1 + 2 * (n % 2)));
    for (int n = 0; n < kPredicates; ++n) line(format("setp.lt.s32 %p{}, %i{}, %i{};", n, n, n + 1));
    if (wide_) {
      line("mov.u32 %t0, %nctaid.x;");
      line(format("mul.lo.u32 %t0, %t0, {};", threads_per_block_));
      line(format("mad.wide.u32 %totals, %t0, {}, %out;", kOutputBytes));
    }
    if (exits_) {  // others may read what a thread that left has not written
      line("st.shared.b32 [%slot], %i0;");
      line("st.shared.b32 [total], 0;");
      line("bar.sync 0;");
    }
    statements(20 + below(25), true);
    store_all();
  }

  void load_input(const std::string& to, int n) {
    line(format("mad.lo.u32 %t1, %index, {}, {};", 2 * n + 3, 37 * n));
    line("and.b32 %t1, %t1, 255;");
    line("mad.wide.u32 %u0, %t1, 4, %in;");
    line(format("ld.global.u32 {}, [%u0];", to));
  }

  void store_all() {
    line(format("mad.wide.u32 %u0, %index, {}, %out;", kOutputBytes));
    int at = 0;
    // 64-bit values first, so that all are aligned.
    for (int n = 0; n < kLongs; ++n, at += 8) line(format("st.global.u64 [%u0+{}], %l{};", at, n));
    for (int n = 0; n < kDoubles; ++n, at += 8) {
      line(format("setp.nan.f64 %q, %d{}, %d{};", n, n));
      line(format("selp.f64 %d{}, 0d7FF8000000000000, %d{}, %q;", n, n));
      line(format("st.global.f64 [%u0+{}], %d{};", at, n));
    }
    for (int n = 0; n < kInts; ++n, at += 4) line(format("st.global.u32 [%u0+{}], %i{};", at, n));
    for (int n = 0; n < kFloats; ++n, at += 4) line(format("st.global.f32 [%u0+{}], %f{};", at, n));
    for (int n = 0; n < kHalves; ++n, at += 4) line(format("st.global.b16 [%u0+{}], %h{};", at, n));
    line("ret;");
    if (!exits_) return;
    code_ += "GONE:\n";
    line(format("mad.wide.u32 %u0, %index, {}, %out;", kOutputBytes));
    line("st.global.u64 [%u0], %l0;");
    line("ret;");
  }

  std::string text() const {
    return format(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n"
        "  .reg .b32 %i<{}>;\n  .reg .b64 %l<{}>;\n  .reg .f32 %f<{}>;\n  .reg .f64 %d<{}>;\n  .reg .b16 %h<{}>;\n"
        "  .reg .pred %p<{}>;\n  .reg .b32 %c<{}>;\n  .reg .b32 %n<{}>;\n  .reg .pred %q<{}>;\n  .reg .pred %q;\n"
        "  .reg .b32 %t<2>;\n  .reg .b64 %u<2>;\n  .reg .b64 %in, %out, %totals;\n  .reg .b32 %tidx, %index, %slot;\n"
        "  .shared .align 4 .b8 tile[{}];\n  .shared .align 4 .b32 total;\n{}}}\n",
        kInts, kLongs, kFloats, kDoubles, kHalves, kPredicates, labels_ + 1, labels_ + 1, labels_ + 1,
        4 * threads_per_block_, code_);
  }

  const std::uint64_t seed_;
  const bool wide_ = seed_ >= kFirstWideSeed;
  const bool exits_ = wide_ && seed_ % 3 == 0;  // threads may leave early: no operations of full warps then
  std::vector<int> tangles_;                    // labels of the open ones, outermost first
  std::uint64_t counter_ = 0;
  std::uint32_t threads_per_block_ = 32;
  std::string code_;
  int depth_ = 0, labels_ = 0;
};

}  // namespace

ptx_cases::Case generate_kernel(std::uint64_t seed) { return Generator(seed).run(); }

}  // namespace pergola::differential
