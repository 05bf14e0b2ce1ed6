#include "tests/litmus/litmus_kernel.h"

#include <fmt/format.h>

namespace pergola::litmus {
namespace {

constexpr const char* kHead = R"(.version 7.8
.target sm_70
.address_size 64
.visible .entry litmus(.param .u64 locations, .param .u64 results, .param .u64 counters, .param .u64 delays,
                       .param .u32 rounds)
{
  .reg .b64 x, y, z, d<4>;
  .reg .b32 r<4>, t<4>;
  .reg .b16 h<2>;
  .reg .pred p<4>, %p;
  .reg .b64 %locations, %results, %counter, %delays, %round_results, %at;
  .reg .b32 %role, %group, %rounds, %n, %target, %v, %i, %chain;
  ld.param.u64 %locations, [locations];
  ld.param.u64 %results, [results];
  ld.param.u64 %counter, [counters];
  ld.param.u64 %delays, [delays];
  ld.param.u32 %rounds, [rounds];
)";

// Which thread of its group a thread is, and which group; threads that take no part leave.
std::string roles(const LitmusCase& test) {
  const std::size_t count = test.threads.size();
  if (test.place == Place::kBlocks)
    return fmt::format("  mov.u32 %v, %ctaid.x;\n  rem.u32 %role, %v, {0};\n  div.u32 %group, %v, {0};\n", count);
  if (test.place == Place::kLanes) return "  mov.u32 %role, %tid.x;\n  mov.u32 %group, %ctaid.x;\n";
  return "  mov.u32 %v, %tid.x;\n  and.b32 %i, %v, 31;\n  setp.ne.u32 %p, %i, 0;\n  @%p exit;\n"
         "  shr.u32 %role, %v, 5;\n  mov.u32 %group, %ctaid.x;\n";
}

// Adds to the group's counter and spins until all of the group have: at %target turns of each.
std::string meet(const LitmusCase& test, const std::string& label) {
  return fmt::format(
      "  add.u32 %target, %target, {1};\n  atom.add.acq_rel.gpu.global.u32 %v, [%counter], 1;\n"
      "{0}:\n  ld.acquire.gpu.global.u32 %v, [%counter];\n  setp.lt.u32 %p, %v, %target;\n  @%p bra {0};\n",
      label, test.threads.size());
}

// x, y, z of round %n.
std::string place_locations(const LitmusCase& test) {
  const std::uint32_t stride = test.shared ? kSharedStride : kLocationStride;
  std::string code = fmt::format("  mad.wide.u32 x, %n, {}, %locations;\n", kLocations * stride);
  return code + fmt::format("  add.u64 y, x, {};\n  add.u64 z, x, {};\n", stride, 2 * stride);
}

std::string clear_shared() {
  return fmt::format(
      "  setp.ne.u32 %p, %role, 0;\n  @%p bra CLEARED;\n  mov.u32 %n, 0;\nCLEAR:\n"
      "  setp.ge.u32 %p, %n, {};\n  @%p bra CLEARED;\n  cvt.u64.u32 %at, %n;\n  add.u64 %at, %at, %locations;\n"
      "  st.shared.u32 [%at], 0;\n  add.u32 %n, %n, 4;\n  bra CLEAR;\nCLEARED:\n",
      kMostSharedRounds * kLocations * kSharedStride);
}

std::string stagger(std::size_t threads) {
  return fmt::format(
      "  mad.lo.u32 %v, %n, {}, %role;\n  and.b32 %v, %v, {};\n  mad.wide.u32 %at, %v, 4, %delays;\n"
      "  ld.global.u32 %i, [%at];\nDELAY:\n  setp.eq.u32 %p, %i, 0;\n  @%p bra GO;\n"
      "  mad.lo.u32 %chain, %chain, 1664525, 1013904223;\n  sub.u32 %i, %i, 1;\n  bra DELAY;\nGO:\n",
      threads, kDelays - 1);
}

}  // namespace

std::string litmus_kernel(const LitmusCase& test) {
  const std::uint32_t round_bytes = result_bytes(test);
  std::string code = kHead;
  if (test.shared) code += fmt::format("  .shared .align 16 .b8 tile[{}];\n", kMostSharedRounds * kLocations * kSharedStride);
  code += roles(test);
  code += fmt::format("  mad.wide.u32 %counter, %group, {}, %counter;\n", kCounterStride);
  code += fmt::format("  mul.lo.u32 %v, %group, %rounds;\n  mad.wide.u32 %results, %v, {}, %results;\n", round_bytes);
  if (test.shared) {
    code += "  mov.u64 %locations, tile;\n" + clear_shared();
  } else {
    code += fmt::format("  mad.wide.u32 %locations, %v, {}, %locations;\n", kLocations * kLocationStride);
  }
  code += "  mov.u32 %target, 0;\n  mov.u32 %n, 0;\n  mov.u32 %chain, %role;\nROUND:\n";
  code += place_locations(test);
  for (std::uint32_t n = 0; n < kResults; ++n) code += fmt::format("  mov.u32 r{}, 0;\n", n);
  code += fmt::format("  mad.wide.u32 %round_results, %n, {}, %results;\n", round_bytes);
  code += meet(test, "MEET") + stagger(test.threads.size());
  for (std::size_t role = 0; role < test.threads.size(); ++role)
    code += fmt::format("  setp.eq.u32 %p, %role, {0};\n  @%p bra THREAD{0};\n", role);
  for (std::size_t role = 0; role < test.threads.size(); ++role)
    code += fmt::format("THREAD{}:\n{}  bra JOIN;\n", role, test.threads[role]);
  code += fmt::format("JOIN:\n  mad.wide.u32 %at, %role, {}, %round_results;\n", 4 * kResults);
  for (std::uint32_t n = 0; n < kResults; ++n) code += fmt::format("  st.global.u32 [%at+{}], r{};\n", 4 * n, n);
  code += "  add.u32 %n, %n, 1;\n  setp.lt.u32 %p, %n, %rounds;\n  @%p bra ROUND;\n";
  code += meet(test, "LAST");
  code += "  setp.ne.u32 %p, %role, 0;\n  @%p bra DONE;\n  mov.u32 %n, 0;\nCOPY:\n" + place_locations(test);
  code += fmt::format("  mad.wide.u32 %round_results, %n, {}, %results;\n", round_bytes);
  for (std::uint32_t n = 0; n < kLocations; ++n)
    code += fmt::format("  ld.relaxed.gpu.{}.u32 %v, [{}];\n  st.global.u32 [%round_results+{}], %v;\n",
                        test.shared ? "shared" : "global", "xyz"[n], 4 * (test.threads.size() * kResults + n));
  code += "  add.u32 %n, %n, 1;\n  setp.lt.u32 %p, %n, %rounds;\n  @%p bra COPY;\nDONE:\n";
  // The chain of the delays is kept, so that no compiler takes it away.
  code += fmt::format("  setp.ne.u32 %p, %chain, 1;\n  @%p exit;\n  st.global.u32 [%delays+{}], %chain;\n  ret;\n}}\n",
                      4 * kDelays);
  return code;
}

}  // namespace pergola::litmus
