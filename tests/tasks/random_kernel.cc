#include "tests/tasks/random_kernel.h"

#include <fmt/format.h>

#include <vector>

namespace pergola::tasks {
namespace {

class Writer {
 public:
  explicit Writer(std::mt19937& random) : random_(random) {}

  std::string text() {
    for (const char* given : {"%lin", "%width", "%n", "%m", "%s", "%i"}) values_.emplace_back(given);
    for (int n = 0; n < 2; ++n) {
      mutables_.push_back(fmt::format("%u{}", n));
      out_ += fmt::format("mov.u32 {}, {};\n", mutables_.back(), value());
    }
    if (among(3) == 0)
      out_ += fmt::format("setp.ge.s32 %over, {}, {};\n@%over bra $end;\n", pick({"%lin", "%i"}), value());
    const int depth = static_cast<int>(among(3)) + 1;
    loop(depth);  // small kernels are known more often
    if (among(2) == 0) statements(depth);
    if (among(2) == 0) out_ += "bar.sync 0;\n";
    if (among(4) == 0) statements(1);
    return fmt::format(
        ".version 7.8\n.target sm_80\n.address_size 64\n"
        ".visible .entry kernel(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m, .param .u32 s)\n{{\n"
        ".reg .pred %over, %c<{0}>; .reg .b32 %lin, %width, %n, %m, %s, %i, %u<2>, %fuel, %v<{0}>, %acc;\n"
        ".reg .b64 %p, %q, %a<{0}>;\n"
        "ld.param.u64 %p, [p]; ld.param.u64 %q, [q]; ld.param.u32 %n, [n]; ld.param.u32 %m, [m]; ld.param.u32 %s, "
        "[s];\n"
        "cvta.to.global.u64 %p, %p; cvta.to.global.u64 %q, %q;\n"
        "mov.u32 %lin, %tid.x; mov.u32 %width, %ntid.x; mov.u32 %i, %ctaid.x; mad.lo.s32 %i, %i, %width, %lin;\n"
        "mov.u32 %fuel, 0; mov.u32 %acc, 1;\n{1}\n$end: ret;\n}}\n",
        registers_ + 1, out_);
  }

 private:
  std::uint32_t among(std::uint32_t count) { return static_cast<std::uint32_t>(random_()) % count; }
  std::string pick(std::vector<std::string> from) { return from[among(static_cast<std::uint32_t>(from.size()))]; }
  std::string fresh(const char* kind = "v") { return fmt::format("%{}{}", kind, registers_++); }

  std::string value() {
    switch (among(8)) {
      case 0: return fmt::format("{}", among(9));
      case 1: return fmt::format("{}", static_cast<int>(among(200)) - 40);
      case 2: return mutables_.empty() ? "3" : pick(mutables_);
      case 3:
      case 4: return computed();
      default: return pick(values_);
    }
  }

  std::string computed() {
    const std::string a = value(), b = value(), to = fresh();
    const std::string small = fmt::format("{}", among(4));
    switch (among(16)) {
      case 0: out_ += fmt::format("sub.s32 {}, {}, {};\n", to, a, b); break;
      case 1: out_ += fmt::format("mul.lo.s32 {}, {}, {};\n", to, a, b); break;
      case 2: out_ += fmt::format("mad.lo.s32 {}, {}, {}, {};\n", to, a, small, b); break;
      case 3: out_ += fmt::format("shl.b32 {}, {}, {};\n", to, a, small); break;
      case 4:
        out_ += fmt::format("shr.{} {}, {}, {};\n", pick({"s32", "u32"}), to, a, among(3) == 0 ? "31" : small);
        break;
      case 5: out_ += fmt::format("and.b32 {}, {}, {};\n", to, a, pick({"7", "63", "255", "-8", "252"})); break;
      case 6: out_ += fmt::format("or.b32 {}, {}, {};\n", to, a, pick({"1", "128", "3"})); break;
      case 7:
        out_ += fmt::format("{}.{} {}, {}, {};\n", pick({"div", "rem"}), pick({"s32", "u32"}), to, a,
                            pick({"%m", "5", "16"}));
        break;
      case 8: out_ += fmt::format("{}.{} {}, {}, {};\n", pick({"min", "max"}), pick({"s32", "u32"}), to, a, b); break;
      case 9: out_ += fmt::format("not.b32 {}, {};\n", to, a); break;
      case 10: {  // what a division leaves over, by hand
        const std::string by = fresh();
        out_ += fmt::format("div.s32 {0}, {1}, %m;\nmul.lo.s32 {0}, {0}, %m;\nsub.s32 {2}, {1}, {0};\n", by, a, to);
        break;
      }
      case 11: {
        const std::string wide = fresh("a");
        out_ += fmt::format("cvt.s64.s32 {0}, {1};\ncvt.u32.u64 {2}, {0};\n", wide, held(a), to);
        break;
      }
      case 12: {
        const std::string c = condition();
        out_ += fmt::format("selp.b32 {}, {}, {}, {};\n", to, a, b, c);
        break;
      }
      default: out_ += fmt::format("add.s32 {}, {}, {};\n", to, a, b);
    }
    values_.push_back(to);
    return to;
  }
  std::string held(const std::string& value_) {
    const std::string to = fresh();
    out_ += fmt::format("mov.u32 {}, {};\n", to, value_);
    return to;
  }

  std::string condition() {
    const std::string a = held(value()), b = value(), to = fresh("c");
    out_ += fmt::format("setp.{}.{} {}, {}, {};\n", pick({"lt", "le", "gt", "ge", "ne", "eq"}),
                        pick({"s32", "s32", "u32"}), to, among(2) == 0 ? pick(values_) : a, b);
    if (among(4) != 0) return to;
    const std::string other = fresh("c"), both = fresh("c");
    out_ += fmt::format("setp.lt.s32 {}, {}, {};\n{}.pred {}, {}, {};\n", other, pick(values_), value(),
                        pick({"and", "or"}), both, to, other);
    return both;
  }

  std::string address(const std::vector<std::string>& pointers) {
    if (!pointers.empty() && among(2) == 0) return pick(pointers);
    const std::string index = among(3) == 0 ? computed() : pick(values_), to = fresh("a");
    switch (among(4)) {
      case 0: out_ += fmt::format("mul.wide.u32 {}, {}, 4;\n", to, index); break;
      case 1:
        out_ += fmt::format("cvt.{} {}, {};\nshl.b64 {}, {}, {};\n", pick({"s64.s32", "u64.u32"}), to, index, to, to,
                            pick({"2", "3"}));
        break;
      default: out_ += fmt::format("mul.wide.s32 {}, {}, {};\n", to, index, pick({"4", "4", "8"}));
    }
    const std::string sum = fresh("a");
    out_ += fmt::format("add.s64 {}, {}, {};\n", sum, pick({"%p", "%q"}), to);
    return sum;
  }

  void access() {
    const std::string at = address(pointers_), offset = fmt::format("{}", (static_cast<int>(among(5)) - 2) * 4);
    const std::string guard = among(8) == 0 ? fmt::format("@{} ", condition()) : "";
    switch (among(5)) {
      case 0:
      case 1: out_ += fmt::format("{}st.global.u32 [{}+{}], 7;\n", guard, at, offset); break;
      case 2: {
        const std::string x = held("0"), y = held("0");
        out_ += fmt::format("{}ld.global.v2.u32 {{{}, {}}}, [{}+{}];\nadd.s32 %acc, %acc, {};\n", guard, x, y, at,
                            offset, y);
        break;
      }
      default: {
        const std::string x = held("0");
        out_ += fmt::format("{}ld.global.u32 {}, [{}+{}];\nadd.s32 %acc, %acc, {};\n", guard, x, at, offset, x);
        if (among(6) == 0) {  // an index of which nothing is known but its bits
          const std::string mixed = fresh(), masked = fresh();
          out_ += fmt::format("xor.b32 {}, {}, {};\nand.b32 {}, {}, {};\n", mixed, pick(values_), pick(values_), masked,
                              mixed, pick({"127", "1023"}));
          values_.push_back(masked);
        }
      }
    }
  }

  void statements(int depth) {
    for (std::uint32_t n = 1 + among(4); n > 0; --n) {
      switch (among(depth >= 3 ? 4 : 8)) {
        case 0: computed(); break;
        case 1: out_ += fmt::format("add.s32 {}, {}, {};\n", mutables_[0], mutables_[0], among(4)); break;
        case 4: branch(depth); break;
        case 5:
        case 6:
        case 7: loop(depth); break;
        default: access();
      }
    }
  }

  // What is made inside is not seen behind it.
  template <typename Inside>
  void scope(const Inside& inside) {
    const std::size_t values = values_.size(), pointers = pointers_.size();
    inside();
    values_.resize(values);
    pointers_.resize(pointers);
  }

  void branch(int depth) {
    const unsigned label = labels_++;
    const std::string c = condition();
    out_ += fmt::format("@{}{} bra $else_{};\n", among(2) == 0 ? "!" : "", c, label);
    scope([&] {
      statements(depth + 1);
      if (among(2) == 0) out_ += fmt::format("mov.u32 {}, {};\n", pick(mutables_), value());
    });
    if (among(3) == 0) {
      out_ += fmt::format("bra $over_{};\n$else_{}:\n", label, label);
      scope([&] { statements(depth + 1); });
      out_ += fmt::format("$over_{}:\n", label);
    } else {
      out_ += fmt::format("$else_{}:\n", label);
    }
  }

  void fuel(unsigned label) {
    const std::string c = fresh("c");
    out_ += fmt::format("setp.gt.u32 {}, %fuel, 200;\n@{} bra $out_{};\n", c, c, label);
  }

  void loop(int depth) {
    const unsigned label = labels_++;
    const std::string first = among(3) == 0 ? value() : pick({"0", "%lin", "%i", "%n"});
    const std::string limit = among(2) == 0 ? value() : pick({"%n", "%m", "64", "16"}), counter = fresh();
    const std::string step = pick({"1", "1", "2", "4", "-1", "-2", "%width", "%width", "%s"});
    const std::string pointer = fresh("a"), wide = fresh("a"), stride = fresh("a"), c = fresh("c");
    const bool tests_first = among(2) == 0;
    const std::string compares = fmt::format("setp.{}.{} {}, {}, {};\n", pick({"lt", "lt", "le", "gt", "ge", "ne"}),
                                             pick({"s32", "s32", "u32"}), c, counter, limit);
    out_ += fmt::format("mov.u32 {}, {};\n", counter, first);
    out_ += fmt::format("mul.wide.s32 {0}, {1}, 4;\nadd.s64 {2}, {3}, {0};\nmul.wide.s32 {4}, {5}, 4;\n", wide, counter,
                        pointer, pick({"%p", "%q"}), stride, held(step));
    out_ += fmt::format("$loop_{}:\n", label);
    if (tests_first) out_ += fmt::format("{}@!{} bra $out_{};\n", compares, c, label);
    if (among(2) == 0) fuel(label);
    scope([&] {
      values_.push_back(counter);
      values_.push_back(counter);
      pointers_.push_back(pointer);
      access();
      statements(depth + 1);
      if (among(4) == 0) out_ += fmt::format("@{} bra $out_{};\n", condition(), label);
    });
    out_ += fmt::format("add.s32 %fuel, %fuel, 1;\nadd.s32 {0}, {0}, {1};\nadd.s64 {2}, {2}, {3};\n", counter, step,
                        pointer, stride);
    fuel(label);
    out_ +=
        tests_first ? fmt::format("bra $loop_{};\n", label) : fmt::format("{}@{} bra $loop_{};\n", compares, c, label);
    out_ += fmt::format("$out_{}:\n", label);
  }

  std::mt19937& random_;
  std::string out_;
  std::vector<std::string> values_, mutables_, pointers_;
  unsigned registers_ = 0, labels_ = 0;
};

}  // namespace

std::string random_kernel(std::mt19937& random) {
  return Writer(random).text();
}

}  // namespace pergola::tasks
