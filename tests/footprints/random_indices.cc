// A pool of 32-bit registers grows by random steps; an access takes one of them as its index, which unsigned `min`
// keeps in its array (a negative one becomes the last). Loops count up or down, test first or last, and registers that
// were there before are changed in them, so that they are carried.
#include "tests/footprints/random_indices.h"

#include <fmt/format.h>

#include <cstring>
#include <random>

namespace pergola::footprints_test {
namespace {

constexpr std::uint32_t kElements = 4096;

class Generator {
 public:
  Generator(std::uint64_t seed, bool is_tame) : random_(seed), is_tame_(is_tame) {}

  pointer_modes_test::Experiment run() {
    body_ = "  ld.param.b64 %rd1, [a]; ld.param.b64 %rd2, [b]; ld.param.b32 %r1, [n]; ld.param.b32 %r2, [k];\n";
    registers_ = 3;
    for (const char* special : {"%tid.x", "%ctaid.x", "%ntid.x", "%tid.y", "%ctaid.y", "%nctaid.x"}) {
      body_ += fmt::format("  mov.u32 %r{}, {};\n", registers_, special);
      pool_.push_back(registers_++);
    }
    body_ += fmt::format("  mad.lo.s32 %r{}, %r4, %r5, %r3;\n", registers_);
    pool_.push_back(registers_++);
    pool_.push_back(1);
    statements(6 + below(8), 0);
    access();
    return experiment();
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  std::uint32_t pick() { return pool_[below(static_cast<std::uint32_t>(pool_.size()))]; }
  std::string operand() { return below(3) == 0 ? std::to_string(below(20)) : fmt::format("%r{}", pick()); }
  void line(const std::string& text) { body_ += "  " + text + "\n"; }

  void statements(std::uint32_t count, int depth) {
    for (std::uint32_t i = 0; i < count; ++i) statement(depth);
  }

  void statement(int depth) {
    const std::uint32_t kind = below(20);
    if (kind < 9 || depth >= 3) return step();
    if (kind < 12) return access();
    if (kind < 14) return branch(depth);
    if (kind < 17) return loop(depth);
    change();
  }

  // A new register, or one that was there before.
  void step() {
    const bool is_new = below(4) != 0;
    const std::uint32_t to = is_new ? registers_++ : pool_[3 + below(static_cast<std::uint32_t>(pool_.size()) - 3)];
    const std::uint32_t from = pick(), small = 1 + below(16);
    switch (below(is_tame_ ? 14 : 20)) {
      case 0: line(fmt::format("add.s32 %r{}, %r{}, {};", to, from, operand())); break;
      case 1: line(fmt::format("sub.s32 %r{}, %r{}, {};", to, from, operand())); break;
      case 2: line(fmt::format("mul.lo.s32 %r{}, %r{}, {};", to, from, small)); break;
      case 3: line(fmt::format("shl.b32 %r{}, %r{}, {};", to, from, below(5))); break;
      case 4: line(fmt::format("shr.u32 %r{}, %r{}, {};", to, from, below(6))); break;
      case 5:
        line(fmt::format("and.b32 %r{}, %r{}, {};", to, from, below(3) == 0 ? below(512) : (1u << below(8)) - 1));
        break;
      case 6: line(fmt::format("div.{} %r{}, %r{}, {};", sign(), to, from, small)); break;
      case 7: line(fmt::format("rem.{} %r{}, %r{}, {};", sign(), to, from, small)); break;
      case 8: line(fmt::format("min.s32 %r{}, %r{}, {};", to, from, operand())); break;
      case 9: line(fmt::format("max.s32 %r{}, %r{}, {};", to, from, operand())); break;
      case 10: line(fmt::format("mad.lo.s32 %r{}, %r{}, {}, %r{};", to, from, small, pick())); break;
      case 11:
        compare();
        line(fmt::format("selp.b32 %r{}, %r{}, %r{}, %p1;", to, from, pick()));
        break;
      case 12: line(fmt::format("{}.b32 %r{}, %r{}, {};", below(3) == 0 ? "or" : "xor", to, from, below(300))); break;
      case 13: line(fmt::format("mul24.lo.{} %r{}, %r{}, {};", sign(), to, from, small)); break;
      case 14: line(fmt::format("xor.b32 %r{}, %r{}, {};", to, from, operand())); break;
      case 15: line(fmt::format("or.b32 %r{}, %r{}, {};", to, from, operand())); break;
      case 16: line(fmt::format("shr.s32 %r{}, %r{}, {};", to, from, below(31))); break;
      case 17: line(fmt::format("mul.lo.s32 %r{}, %r{}, %r{};", to, from, pick())); break;
      case 18: line(fmt::format("and.b32 %r{}, %r{}, {};", to, from, -static_cast<int>(small))); break;
      case 19: line(fmt::format("mul.hi.u32 %r{}, %r{}, 1431655766;", to, from)); break;
    }
    if (is_new) pool_.push_back(to);
  }

  void change() {
    const std::uint32_t to = pool_[3 + below(static_cast<std::uint32_t>(pool_.size()) - 3)];
    line(fmt::format("add.s32 %r{}, %r{}, {};", to, to, static_cast<int>(below(9)) - 2));
    // What counts on and wraps early.
    const char* narrow[] = {"cvt.u32.u8", "cvt.s32.s8", "cvt.s32.s16"};
    if (below(3) == 0)
      line(fmt::format("mad.lo.s32 %r{}, %r{}, 1, {};\n  {} %r{}, %r{};", to, to, 40, narrow[below(3)], to, to));
  }
  const char* sign() { return below(2) == 0 ? "u32" : "s32"; }

  void compare() {
    const char* relations[] = {"lt.s32", "ge.u32", "gt.s32", "le.u32", "eq.s32", "ne.s32", "lt.u32"};
    line(fmt::format("setp.{} %p1, %r{}, {};", relations[below(std::size(relations))], pick(), operand()));
  }

  void branch(int depth) {
    const std::uint32_t label = labels_++;
    compare();
    if (below(2) == 0) {
      line(fmt::format("setp.lt.u32 %p2, %r{}, {};", pick(), operand()));
      line(below(2) == 0 ? "or.pred %p1, %p1, %p2;" : "and.pred %p1, %p1, %p2;");
    }
    line(fmt::format("@{}%p1 bra L{};", below(2) == 0 ? "!" : "", label));
    const std::size_t outer = pool_.size();
    statements(1 + below(4), depth + 1);
    pool_.resize(outer);  // what is made on one way alone stays there
    line(fmt::format("L{}:", label));
  }

  // i from a small number, by a step, at most some thirty times.
  void loop(int depth) {
    const std::uint32_t label = labels_++, i = registers_++, end = registers_++, step = 1 + below(4);
    const bool is_down = below(4) == 0, tests_first = below(2) == 0;
    line(fmt::format("and.b32 %r{}, %r{}, 7;", i, pick()));
    line(fmt::format("and.b32 %r{}, %r{}, 15;", end, pick()));
    if (is_down) line(fmt::format("add.s32 %r{}, %r{}, {};", i, i, step * below(9)));
    const std::string relation = is_down ? fmt::format("setp.gt.s32 %p3, %r{}, {};", i, -static_cast<int>(below(3)))
                                         : fmt::format("setp.lt.s32 %p3, %r{}, %r{};", i, end);
    // Equality ends it where it is met: made so that it is, n & ~3 in fours.
    const bool by_equality = !is_down && !tests_first && below(2) == 0;
    if (by_equality) line(fmt::format("mov.u32 %r{}, {};\n  mov.u32 %r{}, {};", i, 0, end, step * (1 + below(6))));
    line(fmt::format("LOOP{}:", label));
    const std::size_t outer = pool_.size();
    if (tests_first) line(fmt::format("{}\n  @!%p3 bra DONE{};", relation, label));
    pool_.push_back(i);
    pool_.push_back(i);
    protected_.push_back(i);
    const std::size_t first = body_.size();
    statements(1 + below(4), depth + 1);
    keep_counter(first, i);
    pool_.resize(outer);
    line(fmt::format("{}.s32 %r{}, %r{}, {};", is_down ? "sub" : "add", i, i, step));
    if (tests_first) {
      line(fmt::format("bra LOOP{};\nDONE{}:", label, label));
    } else {
      line(by_equality ? fmt::format("setp.ne.s32 %p3, %r{}, %r{};", i, end) : relation);
      line(fmt::format("@%p3 bra LOOP{};", label));
    }
  }

  // A counter that the body changed could count for ever: it is put back from a copy.
  void keep_counter(std::size_t first, std::uint32_t i) {
    const std::uint32_t copy = registers_++;
    const std::string inside = body_.substr(first);
    body_.resize(first);
    bool is_changed = false;
    for (const char* op :
         {"add.s32",  "sub.s32", "mul.lo.s32", "mul24.lo.s32", "mul24.lo.u32", "shl.b32",      "shr.u32", "and.b32",
          "div.u32",  "rem.u32", "div.s32",    "rem.s32",      "cvt.u32.u8",   "min.s32",      "max.s32", "mad.lo.s32",
          "selp.b32", "xor.b32", "or.b32",     "shr.s32",      "mul.hi.u32",   "ld.global.u32"}) {
      is_changed |= inside.find(fmt::format("{} %r{},", op, i)) != std::string::npos;
    }
    if (is_changed) line(fmt::format("mov.u32 %r{}, %r{};", copy, i));
    body_ += inside;
    if (is_changed) line(fmt::format("mov.u32 %r{}, %r{};", i, copy));
  }

  void access() {
    const std::uint32_t index = registers_++, wide = wides_++;
    line(fmt::format("min.u32 %r{}, %r{}, {};", index, pick(), kElements - 4));
    const int array = 1 + static_cast<int>(below(2));
    switch (below(5)) {
      case 0:
        line(fmt::format("mul.wide.u32 %rd{}, %r{}, 4;\n  add.s64 %rd{}, %rd{}, %rd{};", wide, index, wide, array,
                         wide));
        line(fmt::format("st.global.u32 [%rd{}], %r{};", wide, pick()));
        break;
      case 1:
        line(fmt::format("mad.wide.s32 %rd{}, %r{}, 4, %rd{};", wide, index, array));
        line(fmt::format("red.global.add.u32 [%rd{}+4], 1;", wide));
        break;
      case 2:
        line(fmt::format("cvt.u64.u32 %rd{}, %r{};\n  add.s64 %rd{}, %rd{}, %rd{};", wide, index, wide, array, wide));
        line(fmt::format("st.global.u8 [%rd{}+3], 1;", wide));
        break;
      default: {
        const std::uint32_t value = registers_++;
        line(fmt::format("mad.wide.u32 %rd{}, %r{}, 4, %rd{};", wide, index, array));
        line(fmt::format("ld.global.u32 %r{}, [%rd{}+{}];", value, wide, 4 * below(4)));
        if (!is_tame_) pool_.push_back(value);
      }
    }
  }

  pointer_modes_test::Experiment experiment() {
    pointer_modes_test::Experiment made;
    made.name = "random_indices.ptx";
    made.text = fmt::format(
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, "
        ".param .u32 k)\n{{\n  .reg .pred %p<4>;\n  .reg .b32 %r<{}>;\n  .reg .b64 %rd<{}>;\n{}  ret;\n}}\n",
        registers_, wides_, body_);
    made.config.grid = {1 + below(4), 1 + below(3), 1};
    made.config.block = {1 + below(40), 1 + below(3), 1};
    for (int i = 0; i < 2; ++i) {
      std::vector<std::byte> bytes(kElements * 4);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
      made.buffers.push_back(std::move(bytes));
    }
    made.parameters.resize(4, std::vector<std::byte>(8));
    for (int i = 2; i < 4; ++i) {
      const std::uint32_t value = below(200);
      made.parameters[static_cast<std::size_t>(i)].resize(4);
      std::memcpy(made.parameters[static_cast<std::size_t>(i)].data(), &value, 4);
    }
    made.bound = {{0, 0, 0}, {1, 0, 1}};
    return made;
  }

  std::mt19937_64 random_;
  const bool is_tame_;
  std::string body_;
  std::vector<std::uint32_t> pool_;  // registers that hold something wherever the next statement stands
  std::vector<std::uint32_t> protected_;
  std::uint32_t registers_ = 0, wides_ = 3, labels_ = 0;
};

}  // namespace

pointer_modes_test::Experiment random_indices(std::uint64_t seed, bool is_tame) {
  return Generator(seed, is_tame).run();
}

}  // namespace pergola::footprints_test
