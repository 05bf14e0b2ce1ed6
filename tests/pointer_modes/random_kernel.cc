// How a kernel is made: a pool of registers, each of which holds a valid 8-byte aligned address in the middle of some
// array, grows by random steps; each step derives a new such address from earlier ones. Accesses are strewn in.
//
//   arrays a0..a3 (.u64 parameters), a4..a6 (fields of a struct parameter), indices (small numbers), scratch (where
//   pointers are put and fetched)
//
// Validity: an array has kArrayBytes, addresses start in its middle, and a step moves by at most 256 bytes. Scratch has
// 256 bytes for each thread.
#include "tests/pointer_modes/random_kernel.h"

#include <cstring>
#include <random>

namespace pergola::pointer_modes_test {
namespace {

constexpr std::size_t kArrays = 7;
constexpr std::size_t kPlainArrays = 4;
constexpr std::uint64_t kArrayBytes = 1 << 18;
constexpr std::uint32_t kThreads = 32;

constexpr const char* kModuleText = R"(.version 8.3
.target sm_90
.address_size 64
.func (.param .b64 out) identity(.param .b64 p) {
  .reg .b64 %rd<4>;
  ld.param.b64 %rd1, [p]; add.s64 %rd2, %rd1, 8; st.param.b64 [out], %rd2; ret;
}
.func (.param .b64 out) choose(.param .b64 p, .param .b64 q, .param .b32 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.b64 %rd1, [p]; ld.param.b64 %rd2, [q]; ld.param.b32 %r1, [n];
  setp.lt.u32 %p1, %r1, 2; selp.b64 %rd3, %rd1, %rd2, %p1; st.param.b64 [out], %rd3; ret;
}
.func (.param .b64 out) descend(.param .b64 p, .param .b64 q, .param .b32 n) {
  .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.b64 %rd1, [p]; ld.param.b64 %rd2, [q]; ld.param.b32 %r1, [n];
  setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
  sub.u32 %r2, %r1, 1;
  { .param .b64 x; .param .b64 y; .param .b32 z; .param .b64 r;
    st.param.b64 [x], %rd2; st.param.b64 [y], %rd1; st.param.b32 [z], %r2;
    call (r), descend, (x, y, z); ld.param.b64 %rd3, [r]; }
  st.param.b64 [out], %rd3; ret;
END: st.param.b64 [out], %rd1; ret;
}
.func put(.param .b64 slot, .param .b64 p) {
  .reg .b64 %rd<4>;
  ld.param.b64 %rd1, [slot]; ld.param.b64 %rd2, [p]; st.b64 [%rd1], %rd2; ret;
}
.func (.param .b64 out) field(.param .align 8 .b8 s[24], .param .b32 n) {
  .reg .b64 %rd<6>; .reg .b32 %r<4>;
  ld.param.b32 %r1, [n]; and.b32 %r2, %r1, 1; ld.param.b64 %rd1, [s+8]; ld.param.b64 %rd2, [s+16];
  cvt.u64.u32 %rd3, %r2; sub.s64 %rd4, 0, %rd3; and.b64 %rd5, %rd4, 8; add.s64 %rd1, %rd1, %rd5;
  st.param.b64 [out], %rd1; ret;
}
)";

class Generator {
 public:
  Generator(std::uint64_t seed, Style style) : random_(seed), style_(style) {}

  Experiment make() {
    prologue();
    const int steps = 4 + pick(20);
    for (int i = 0; i < steps; ++i) {
      step();
      if (pick(2) == 0) access();
    }
    access();
    return finish();
  }

 private:
  int pick(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }

  template <typename... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string wide() { return fmt::format("%rd{}", ++wide_); }
  std::string narrow() { return fmt::format("%r{}", ++narrow_); }
  std::string any() { return pool_[static_cast<std::size_t>(pick(static_cast<int>(pool_.size())))]; }
  std::string fresh() {  // a new member of the pool
    pool_.push_back(wide());
    return pool_.back();
  }
  int multiple_of_8() { return 8 * (pick(9) - 4); }

  void prologue() {
    emit("mov.u32 %thread, %tid.x;");
    emit("and.b32 %odd32, %thread, 1;");
    emit("setp.eq.u32 %odd, %odd32, 1;");
    emit("ld.param.u32 %n, [n];");      // 3 at run time
    emit("ld.param.u64 %len, [len];");  // 5
    emit("mov.u64 %stack, stack_; cvta.local.u64 %gstack, %stack;");
    emit("ld.param.u64 %scratch, [scratch]; mad.wide.u32 %scratch, %thread, 256, %scratch;");
    emit("ld.param.u64 %indices, [indices];");
    for (std::size_t i = 0; i < kArrays; ++i) {
      const std::string loaded = wide(), p = fresh();
      if (i < kPlainArrays) {
        emit("ld.param.u64 {}, [a{}];", loaded, i);
      } else {
        emit("ld.param.u64 {}, [s+{}];", loaded, 8 * (i - kPlainArrays));
      }
      emit("add.s64 {}, {}, {};", p, loaded, kArrayBytes / 2);
    }
    // Not every array is in play, so that sets of candidates stay small enough to tell something.
    const auto keep = static_cast<std::size_t>(1 + pick(4));
    while (pool_.size() > keep) pool_.erase(pool_.begin() + pick(static_cast<int>(pool_.size())));
  }

  void access() {
    const std::string p = any(), value = narrow(), space = pick(2) == 0 ? ".global" : "";
    switch (pick(5)) {
      case 0:
      case 1: emit("ld{}.u32 {}, [{}+{}];", space, value, p, multiple_of_8()); break;
      case 2: emit("st{}.u64 [{}+{}], {};", space, p, multiple_of_8(), 3); break;
      case 3: emit("atom{}.and.b32 {}, [{}], 7;", space, value, p); break;
      default: emit("@%odd ld{}.u32 {}, [{}];", space, value, p); break;
    }
  }

  void step() {
    const int tame = 15, wild = 17;
    const int kind = style_ == Style::kTame ? pick(tame) : pick(tame + wild);
    if (kind < tame) return tame_step(kind);
    wild_step(kind - tame);
  }

  void tame_step(int kind) {
    const std::string p = any(), q = any(), t = wide(), r = narrow();
    switch (kind) {
      case 0: emit("add.s64 {}, {}, {};", fresh(), p, multiple_of_8()); break;
      case 1: emit("mad.wide.u32 {}, %thread, 8, {};", fresh(), p); break;
      case 2: emit("selp.b64 {}, {}, {}, %odd;", fresh(), p, q); break;
      case 3: {
        const std::string to = fresh();
        emit("mov.b64 {}, {}; @%odd mov.b64 {}, {};", to, p, to, q);
        break;
      }
      case 4:
        emit("ld.global.u32 {}, [%indices]; mul.wide.u32 {}, {}, 8;", r, t, r);
        emit("add.s64 {}, {}, {};", fresh(), p, t);
        break;
      case 5: {
        const std::string i = wide();
        emit("ld.global.u64 {}, [%indices+64]; shl.b64 {}, {}, 3;", i, t, i);
        emit("add.s64 {}, {}, {};", fresh(), t, p);
        break;
      }
      case 6:
        emit("shl.b64 {}, %len, 3;", t);
        emit("add.s64 {}, {}, {};", fresh(), p, t);
        break;
      case 7: loop(p, q); break;
      case 8: spill(p, q); break;
      case 9: emit("and.b64 {}, {}, -8;", fresh(), p); break;
      case 10: call("identity", {p}, false); break;
      case 11: call("choose", {p, q}, true); break;
      case 12: call("descend", {p, q}, true); break;
      case 13:
        emit("{{ .param .b64 x; .param .b64 y; st.param.b64 [x], %gstack; st.param.b64 [y], {}; call put, (x, y); }}",
             p);
        emit("ld.local.u64 {}, [%stack];", fresh());
        break;
      default:
        emit("{{ .param .align 8 .b8 x[24]; .param .b32 y; .param .b64 r;");
        emit("st.param.v2.b64 [x+8], {{{}, {}}}; st.param.b32 [y], %thread; call (r), field, (x, y);", p, q);
        emit("ld.param.b64 {}, [r]; }}", fresh());
    }
  }

  void call(const char* function, std::initializer_list<std::string> pointers, bool counts) {
    std::string names;
    emit("{{ .param .b64 r;");
    int i = 0;
    for (const std::string& pointer : pointers) {
      emit(".param .b64 x{}; st.param.b64 [x{}], {};", i, i, pointer);
      names += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
      ++i;
    }
    if (counts) {
      emit(".param .b32 k; st.param.b32 [k], %n;");
      names += ", k";
    }
    emit("call (r), {}, ({}); ld.param.b64 {}, [r]; }}", function, names, fresh());
  }

  void loop(const std::string& p, const std::string& q) {
    const std::string a = fresh(), b = fresh(), t = wide(), i = narrow();
    const int label = ++labels_;
    emit("mov.b64 {}, {}; mov.b64 {}, {}; mov.u32 {}, 0;", a, p, b, q, i);
    emit("L{}:", label);
    switch (pick(3)) {
      case 0: emit("mov.b64 {}, {}; mov.b64 {}, {}; mov.b64 {}, {};", t, a, a, b, b, t); break;
      case 1: emit("add.s64 {}, {}, 8; add.s64 {}, {}, -8;", a, a, b, b); break;
      default: emit("ld.global.u32 %r0, [{}]; add.s64 {}, {}, 16;", a, a, a); break;
    }
    emit("add.u32 {}, {}, 1; setp.lt.u32 %again, {}, %n; @%again bra L{};", i, i, i, label);
  }

  void spill(const std::string& p, const std::string& q) {
    const std::string t = wide();
    switch (pick(4)) {
      case 0: emit("st.local.u64 [%stack+16], {}; ld.local.u64 {}, [%stack+16];", p, fresh()); break;
      case 1:
        emit("st.u64 [%gstack+32], {}; st.u64 [%gstack+40], {};", p, q);
        emit("mad.wide.u32 {}, %odd32, 8, %gstack; ld.u64 {}, [{}+32];", t, fresh(), t);
        break;
      case 2:
        emit("st.local.v2.u64 [%stack+48], {{{}, {}}};", p, q);
        emit("mad.wide.u32 {}, %odd32, 8, %stack; st.local.u64 [{}+48], {};", t, t, any());
        emit("ld.local.u64 {}, [%stack+48];", fresh());
        break;
      default:
        emit("st.u64 [%gstack+64], {}; atom.exch.b64 {}, [%gstack+64], {};", p, fresh(), q);
        emit("ld.local.u64 {}, [%stack+64];", fresh());
    }
  }

  void wild_step(int kind) {
    const std::string p = any(), q = any(), t = wide(), u = wide(), r = narrow(), v = narrow();
    switch (kind) {
      case 0:
        emit("xor.b64 {}, {}, {};", t, p, q);
        emit("xor.b64 {}, {}, {};", fresh(), t, q);
        break;
      case 1:
        emit("sub.s64 {}, {}, {};", t, p, q);
        emit("add.s64 {}, {}, {};", fresh(), q, t);
        break;
      case 2:
        emit("sub.s64 {}, {}, {}; shr.s64 {}, {}, 3; shl.b64 {}, {}, 3;", t, p, q, t, t, t, t);
        emit("add.s64 {}, {}, {};", fresh(), q, t);
        break;
      case 3:
        emit("mov.b64 {{{}, {}}}, {};", r, v, p);
        emit("mov.b64 {}, {{{}, {}}};", fresh(), r, v);
        break;
      case 4:
        emit("shl.b64 {}, {}, 16;", t, p);
        emit("shr.u64 {}, {}, 16;", fresh(), t);
        break;
      case 5:
        emit("cvt.u32.u64 {}, {}; shr.u64 {}, {}, 32; shl.b64 {}, {}, 32; cvt.u64.u32 {}, {};", r, p, t, p, t, t, u, r);
        emit("or.b64 {}, {}, {};", fresh(), t, u);
        break;
      case 6: emit("cvt.rn.f64.u64 %fd1, {}; cvt.rzi.u64.f64 {}, %fd1;", p, fresh()); break;
      case 7:
        emit("neg.s64 {}, {}; not.b64 {}, {};", t, p, u, t);
        emit("add.s64 {}, {}, 1;", fresh(), u);
        break;
      case 8:
        emit("mad.wide.u32 {}, %thread, 8, %sbase; st.shared.u64 [{}], {}; ld.shared.u64 {}, [{}];", t, t, p, fresh(),
             t);
        break;
      case 9: emit("st.global.u64 [%scratch], {}; ld.global.u64 {}, [%scratch];", p, fresh()); break;
      case 10:
        emit("mov.b64 {{{}, {}}}, {}; st.global.v2.u32 [%scratch+8], {{{}, {}}};", r, v, p, r, v);
        emit("ld.global.v2.u32 {{{}, {}}}, [%scratch+8]; mov.b64 {}, {{{}, {}}};", r, v, fresh(), r, v);
        break;
      case 11:  // the difference through memory
        emit("sub.s64 {}, {}, {}; st.global.u64 [%scratch+16], {}; ld.global.u64 {}, [%scratch+16];", t, p, q, t, u);
        emit("add.s64 {}, {}, {};", fresh(), q, u);
        break;
      case 12:
        emit("div.u64 {}, {}, 8;", t, p);
        emit("mul.lo.s64 {}, {}, 8;", fresh(), t);
        break;
      case 13:
        emit("mul.lo.s64 {}, {}, 3; shl.b64 {}, {}, 1;", t, p, u, p);
        emit("sub.s64 {}, {}, {};", fresh(), t, u);
        break;
      case 14:
        emit("mov.b64 {{{}, {}}}, {}; add.cc.u32 {}, {}, 8; addc.u32 {}, {}, 0;", r, v, p, r, r, v, v);
        emit("mov.b64 {}, {{{}, {}}};", fresh(), r, v);
        break;
      case 15:  // half of the stack's cell at a time
        emit("st.local.u64 [%stack+96], {}; ld.local.u32 {}, [%stack+96]; ld.local.u32 {}, [%stack+100];", p, r, v);
        emit("st.local.u32 [%stack+104], {}; st.local.u32 [%stack+108], {}; ld.local.u64 {}, [%stack+104];", r, v,
             fresh());
        break;
      default:  // a pointer to the stack lives in memory
        emit("st.global.u64 [%scratch+24], %gstack; st.local.u64 [%stack+120], {};", q);
        emit("ld.global.u64 {}, [%scratch+24]; st.u64 [{}+120], {}; ld.local.u64 {}, [%stack+120];", t, t, p, fresh());
    }
  }

  Experiment finish() const {
    std::string text = kModuleText;
    text += ".visible .entry k(";
    for (std::size_t i = 0; i < kPlainArrays; ++i) text += fmt::format(".param .u64 a{}, ", i);
    text += ".param .align 8 .b8 s[24], .param .u64 indices, .param .u64 scratch, .param .u64 len, .param .u32 n)\n{\n";
    text += fmt::format("  .reg .b64 %rd<{}>;\n  .reg .b32 %r<{}>;\n", wide_ + 1, narrow_ + 1);
    text +=
        "  .reg .pred %odd, %again;\n  .reg .b32 %thread, %odd32, %n;\n  .reg .f64 %fd<2>;\n"
        "  .reg .b64 %len, %stack, %gstack, %scratch, %indices, %sbase;\n"
        "  .local .align 8 .b8 stack_[128];\n  .shared .align 8 .b8 shared_[256];\n";
    text += "  mov.u64 %sbase, shared_;\n";
    text += body_ + "  ret;\n}\n";
    return bind(text);
  }

  static Experiment bind(std::string text) {
    Experiment experiment;
    experiment.text = std::move(text);
    experiment.name = "random.ptx";
    experiment.kernel = "k";
    experiment.config.grid = {1, 1, 1};
    experiment.config.block = {kThreads, 1, 1};
    experiment.buffers.assign(kArrays, std::vector<std::byte>(kArrayBytes, std::byte{0}));
    experiment.buffers.emplace_back(1024, std::byte{0});            // indices
    experiment.buffers.emplace_back(kThreads * 256, std::byte{0});  // scratch
    experiment.buffers[kArrays][0] = std::byte{7};
    experiment.buffers[kArrays][64] = std::byte{5};
    for (std::uint32_t i = 0; i < kPlainArrays; ++i) {
      experiment.parameters.emplace_back(8);
      experiment.bound.push_back({i, 0, i});
    }
    experiment.parameters.emplace_back(24);
    for (std::uint32_t i = kPlainArrays; i < kArrays; ++i) {
      experiment.bound.push_back({kPlainArrays, 8 * (i - static_cast<std::uint32_t>(kPlainArrays)), i});
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      experiment.parameters.emplace_back(8);
      experiment.bound.push_back({static_cast<std::uint32_t>(kPlainArrays) + 1 + i, 0, kArrays + i});
    }
    experiment.parameters.emplace_back(8);
    experiment.parameters.back()[0] = std::byte{5};
    experiment.parameters.emplace_back(4);
    experiment.parameters.back()[0] = std::byte{3};
    return experiment;
  }

  std::mt19937_64 random_;
  Style style_;
  std::string body_;
  std::vector<std::string> pool_;
  int wide_ = 0, narrow_ = 0, labels_ = 0;
};

}  // namespace

Experiment random_kernel(std::uint64_t seed, Style style) {
  return Generator(seed, style).make();
}

}  // namespace pergola::pointer_modes_test
