// A launch writes one window of the memory, from an index that is another for every thread, and reads the other windows
// from any index. Windows overlap from launch to launch, as their places are random; those of one launch do not.
#include "tests/block_orders/random_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace pergola::block_orders_test {
namespace {

using bench::blocks::BufferArgument;

constexpr std::uint32_t kReach = 1024;  // elements of 4 bytes that a pointer's index stays below
constexpr std::uint32_t kBuffers = 2, kAlikeBuffers = 4, kElements = 3 * kReach;

class Generator {
 public:
  Generator(std::uint64_t seed, bool is_alike) : random_(seed), is_alike_(is_alike) {}

  RandomChain run() {
    RandomChain made;
    made.program.name = "random chain";
    for (std::uint32_t b = 0; b < buffers(); ++b) {
      made.program.buffers.push_back({fmt::format("b{}", b), bench::blocks::Element::kInt, kElements,
                                      [seed = random_()](std::span<std::byte> bytes) {
                                        std::mt19937_64 random(seed);
                                        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
                                      },
                                      true});
    }
    made.ptx = ".version 8.3\n.target sm_90\n.address_size 64\n";
    for (std::uint32_t k = 0, kernels = (is_alike_ ? 5 : 3) + below(4); k < kernels; ++k) {
      if (is_alike_ && k != 0 && below(2) == 0) {
        bench::blocks::Launch again = made.program.launches[below(k)];
        again.arguments = arguments();
        made.program.launches.push_back(std::move(again));
        continue;
      }
      const std::string name = fmt::format("k{}", k);
      made.program.launches.push_back(launch(name));
      made.ptx += kernel(name, made.program.launches.back());
    }
    return made;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  void line(const std::string& text) { body_ += "  " + text + "\n"; }

  // The window that is written and two that are read, apart from it by a window at least.
  bench::blocks::Launch launch(const std::string& name) {
    bench::blocks::Launch made;
    made.kernel = name;
    made.grid = {1 + below(6), 1 + below(3), 1};
    made.block = {1 + below(32), 1, 1};
    if (is_alike_ && below(4) != 0) made.grid = {4, 2, 1}, made.block = {24, 1, 1};
    made.arguments = arguments();
    return made;
  }
  std::vector<bench::blocks::Argument> arguments() {
    const std::uint32_t of = below(buffers()), at = window();
    std::vector<bench::blocks::Argument> made = {BufferArgument{of, 4 * std::size_t{at}}};
    while (made.size() < 3) {
      const std::uint32_t other = below(buffers()), place = window();
      if (other == of && place < at + kReach && at < place + kReach) continue;
      made.push_back(BufferArgument{other, 4 * std::size_t{place}});
    }
    made.push_back(static_cast<std::int32_t>(below(200)));
    return made;
  }
  std::uint32_t buffers() const { return is_alike_ ? kAlikeBuffers : kBuffers; }
  std::uint32_t window() {
    const std::uint32_t places = is_alike_ ? 3 : 9;
    return below(places) * (kElements - kReach) / (places - 1);
  }

  // %r1 tid, %r2 ctaid.x, %r3 ctaid.y, %r4 number of the block, %r5 number of the thread, %r6 n.
  std::string kernel(const std::string& name, const bench::blocks::Launch& launch) {
    const std::uint32_t threads = launch.block.x, blocks = launch.grid.x * launch.grid.y;
    body_.clear();
    registers_ = 8;
    line("ld.param.b64 %rd1, [w]; ld.param.b64 %rd2, [a]; ld.param.b64 %rd3, [b]; ld.param.b32 %r6, [n];");
    line("mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;");
    line(fmt::format("mad.lo.s32 %r4, %r3, {}, %r2;", launch.grid.x));
    line(fmt::format("mad.lo.s32 %r5, %r4, {}, %r1;", threads));
    if (below(3) == 0) line("setp.lt.s32 %p1, %r5, %r6;\n  @!%p1 bra DONE;");
    line("mov.u32 %r7, 17;");
    for (std::uint32_t i = 0, reads = 1 + below(3); i < reads; ++i) read(2 + below(2), threads, blocks);
    if (below(6) == 0) {  // many threads to one element, in an order that does not matter
      const std::uint32_t to = registers_++;
      line(fmt::format("shr.u32 %r{}, %r5, {};", to, below(5)));
      line(fmt::format("mad.wide.s32 %rd4, %r{}, 4, %rd1;\n  red.global.add.u32 [%rd4], %r7;", to));
    } else {
      write(threads, blocks);
    }
    return fmt::format(
        ".visible .entry {}(.param .u64 w, .param .u64 a, .param .u64 b, .param .u32 n)\n{{\n  .reg .pred %p<4>;\n"
        "  .reg .b32 %r<{}>;\n  .reg .b64 %rd<6>;\n{}DONE:\n  ret;\n}}\n",
        name, registers_, body_);
  }

  // An index from 0 to kReach - 1 of %r5, %r4 or %r1; the threads of a launch are 576 at most.
  std::uint32_t any_index(std::uint32_t threads, std::uint32_t blocks) {
    const std::uint32_t index = registers_++, most = threads * blocks - 1;
    if (is_alike_ && below(2) == 0) {
      line(fmt::format("mov.u32 %r{}, %r5;", index));
      return index;
    }
    const std::uint32_t small = below(8);
    switch (below(9)) {
      case 0: line(fmt::format("add.s32 %r{}, %r5, {};", index, below(kReach - 8 - most))); break;
      case 1: line(fmt::format("sub.s32 %r{}, {}, %r5;", index, most + small)); break;
      case 2:
        line(fmt::format("mad.lo.s32 %r{}, %r5, {}, {};", index, 1 + below((kReach - 16) / (most + 1)), small));
        break;
      case 3: line(fmt::format("add.s32 %r{}, %r1, {};", index, below(400))); break;
      case 4: line(fmt::format("mad.lo.s32 %r{}, %r4, {}, {};", index, 1 + below(50), small)); break;
      case 5: line(fmt::format("shr.u32 %r{}, %r5, {};", index, below(4))); break;
      case 6: line(fmt::format("and.b32 %r{}, %r5, {};", index, (1u << (3 + below(4))) - 1)); break;
      case 7: line(fmt::format("mad.lo.s32 %r{}, %r1, {}, %r4;", index, blocks)); break;
      case 8: line(fmt::format("div.u32 %r{}, %r5, {};", index, 3 + small)); break;
    }
    return index;
  }

  // Mixes a[index], or the sum of a few from there on, into %r7; in some threads alone.
  void read(std::uint32_t array, std::uint32_t threads, std::uint32_t blocks) {
    const std::uint32_t index = any_index(threads, blocks), value = registers_++, label = labels_++;
    line(fmt::format("mad.wide.s32 %rd4, %r{}, 4, %rd{};", index, array));
    const bool is_guarded = below(3) == 0;
    const char* registers[] = {"%r1", "%r2", "%r5"};
    if (is_guarded) {
      line(fmt::format("setp.{}.s32 %p2, {}, {};\n  @!%p2 bra L{};", below(2) == 0 ? "lt" : "ge", registers[below(3)],
                       below(20), label));
    }
    if (below(3) == 0) {
      const std::uint32_t i = registers_++;
      line(fmt::format("mov.u32 %r{}, 0;\nLOOP{}:", i, label));
      line(fmt::format("ld.global.u32 %r{}, [%rd4];", value));
      line(fmt::format("mad.lo.s32 %r7, %r7, 31, %r{};", value));
      line(fmt::format("add.s64 %rd4, %rd4, 4;\n  add.s32 %r{}, %r{}, 1;", i, i));
      line(fmt::format("setp.lt.s32 %p3, %r{}, {};\n  @%p3 bra LOOP{};", i, 2 + below(7), label));
    } else {
      line(fmt::format("ld.global.u32 %r{}, [%rd4];\n  mad.lo.s32 %r7, %r7, 31, %r{};", value, value));
    }
    if (is_guarded) line(fmt::format("L{}:", label));
  }

  // To an element of the thread's own, which may be read first.
  void write(std::uint32_t threads, std::uint32_t blocks) {
    const std::uint32_t index = registers_++, most = threads * blocks - 1;
    switch (is_alike_ && below(2) == 0 ? 4 : below(4)) {
      case 0: line(fmt::format("add.s32 %r{}, %r5, {};", index, below(kReach - most))); break;
      case 1: line(fmt::format("sub.s32 %r{}, {}, %r5;", index, most + below(kReach - most))); break;
      case 2: line(fmt::format("mul.lo.s32 %r{}, %r5, {};", index, 1 + below(kReach / (most + 1)))); break;
      case 3: line(fmt::format("mad.lo.s32 %r{}, %r1, {}, %r4;", index, blocks)); break;
      case 4: line(fmt::format("mov.u32 %r{}, %r5;", index)); break;
    }
    line(fmt::format("mad.wide.s32 %rd4, %r{}, 4, %rd1;", index));
    if (below(2) == 0) {
      const std::uint32_t old = registers_++;
      line(fmt::format("ld.global.u32 %r{}, [%rd4];\n  mad.lo.s32 %r7, %r{}, 3, %r7;", old, old));
    }
    line("st.global.u32 [%rd4], %r7;");
  }

  std::mt19937_64 random_;
  const bool is_alike_;
  std::string body_;
  std::uint32_t registers_ = 0, labels_ = 0;
};

}  // namespace

RandomChain random_chain(std::uint64_t seed, bool is_alike) {
  return Generator(seed, is_alike).run();
}

}  // namespace pergola::block_orders_test
