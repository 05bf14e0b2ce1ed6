#include "src/transform/task_barriers.h"

namespace pergola::transform {
namespace {

using Form = BarrierUse::Form;

bool reduces(Form form) {
  return form == Form::kPopc || form == Form::kAnd || form == Form::kOr;
}

// The hardware's own barrier: every lane of the block's warps comes to it.
std::string named_text(const BarrierText& barrier) {
  const char* forms[] = {"sync", "arrive", "red.popc.u32", "red.and.pred", "red.or.pred"};
  const std::string form = forms[static_cast<int>(barrier.form)];
  const std::string root = barrier.is_aligned ? "bar." : "barrier.";
  const std::string count = barrier.has_count ? "%count" : kThreadsName;
  const bool red = reduces(barrier.form);
  return fmt::format(R"(
    .reg .b32 %pg_name; .reg .pred %pg_virtual;
    ld.shared.u32 %pg_name, [{slot}+{field}];
    setp.eq.u32 %pg_virtual, %pg_name, 0;
    @%pg_virtual bra $pergola_virtual_#;
    add.u32 %pg_name, %pg_name, {index};
    {root}{form} {out}%pg_name, {count}{pred};
    bra $pergola_done_#;
  $pergola_virtual_#:
)",
                     fmt::arg("slot", kSlotName), fmt::arg("field", offsetof(abi::TaskSlot, named_barrier)),
                     fmt::arg("index", *barrier.index), fmt::arg("root", root), fmt::arg("form", form),
                     fmt::arg("out", red ? "%out, " : ""), fmt::arg("count", count),
                     fmt::arg("pred", red ? ", %pred" : ""));
}

std::string mbarrier_text(const BarrierText& barrier) {
  return fmt::format(R"(
    .reg .b64 %pg_state; .reg .pred %pg_over;
    mbarrier.arrive.shared.b64 %pg_state, [%pg_at];
  $pergola_wait_#:
    mbarrier.{}.shared.b64 %pg_over, [%pg_at], %pg_state;
    @!%pg_over bra $pergola_wait_#;
)",
                     barrier.has_try_wait ? "try_wait" : "test_wait");
}

// The bits that the last arrival of a phase leaves, in %pg_new, from the word before it, with nothing in `arrived`.
constexpr char kComplete[] = R"(
    shr.u64 %pg_part, %pg_word, 44;
    add.u64 %pg_part, %pg_part, 1;
    shl.b64 %pg_part, %pg_part, 44;
    or.b64 %pg_new, %pg_new, %pg_part;
    shr.u64 %pg_sum, %pg_word, 20;
    and.b64 %pg_sum, %pg_sum, 4095;
    add.u64 %pg_sum, %pg_sum, %pg_add;
    shl.b64 %pg_part, %pg_sum, 32;
    or.b64 %pg_new, %pg_new, %pg_part;
    and.b64 %pg_part, %pg_word, 258048;
    or.b64 %pg_new, %pg_new, %pg_part;
    setp.ne.u64 %pg_again, %pg_part, 0;
    @%pg_again or.b64 %pg_new, %pg_new, 262144;
)";

constexpr char kWordRegisters[] = R"(
    .reg .b64 %pg_word, %pg_new, %pg_part, %pg_sum, %pg_add, %pg_arrived, %pg_needed; .reg .pred %pg_again, %pg_last;
)";

// Waits for the phase to pass, and takes its sum.
std::string wait_text(bool red) {
  std::string text = R"(
    shr.u64 %pg_part, %pg_word, 44;
  $pergola_wait_#:
    ld.acquire.cta.shared.u64 %pg_word, [%pg_at];
    shr.u64 %pg_new, %pg_word, 44;
    setp.eq.u64 %pg_again, %pg_new, %pg_part;
    @%pg_again bra $pergola_wait_#;
)";
  if (!red) return text;
  return text + R"(
    shr.u64 %pg_sum, %pg_word, 32;
    and.b64 %pg_sum, %pg_sum, 4095;
  $pergola_read_#:
    sub.u64 %pg_new, %pg_word, 4096;
    and.b64 %pg_part, %pg_new, 258048;
    setp.eq.u64 %pg_again, %pg_part, 0;
    @%pg_again and.b64 %pg_new, %pg_new, -262145;
    atom.acq_rel.cta.shared.cas.b64 %pg_part, [%pg_at], %pg_word, %pg_new;
    setp.ne.u64 %pg_again, %pg_part, %pg_word;
    mov.b64 %pg_word, %pg_part;
    @%pg_again bra $pergola_read_#;
)";
}

// abi::TaskBarrier's word: one compare-and-swap an arrival, so that counts, sums and phases never part.
std::string word_text(const BarrierText& barrier) {
  const bool red = reduces(barrier.form), waits = barrier.form != Form::kArrive;
  std::string text = kWordRegisters;
  text += red ? "cvt.u64.u32 %pg_add, %pg_votes;\n" : "mov.u64 %pg_add, 0;\n";
  text += R"(
  $pergola_arrive_#:
    ld.acquire.cta.shared.u64 %pg_word, [%pg_at];
    and.b64 %pg_part, %pg_word, 262144;
    setp.ne.u64 %pg_again, %pg_part, 0;
    @%pg_again bra $pergola_arrive_#;
    and.b64 %pg_arrived, %pg_word, 63;
    add.u64 %pg_arrived, %pg_arrived, 1;
)";
  text += barrier.has_count ? "cvt.u64.u32 %pg_needed, %count;\nshr.u64 %pg_needed, %pg_needed, 5;\n"
                            : "shr.u64 %pg_needed, %pg_word, 6;\nand.b64 %pg_needed, %pg_needed, 63;\n";
  text += R"(
    setp.ge.u64 %pg_last, %pg_arrived, %pg_needed;
    @%pg_last bra $pergola_last_#;
    shl.b64 %pg_part, %pg_add, 20;
    add.u64 %pg_new, %pg_word, %pg_part;
)";
  text += fmt::format("add.u64 %pg_new, %pg_new, {};\n", red ? 4096 + 1 : 1);
  if (barrier.has_count) text += "or.b64 %pg_new, %pg_new, 524288;\n";
  text += R"(
    bra $pergola_swap_#;
  $pergola_last_#:
    and.b64 %pg_new, %pg_word, 4032;
)";
  text += kComplete;
  text += R"(
  $pergola_swap_#:
    atom.acq_rel.cta.shared.cas.b64 %pg_part, [%pg_at], %pg_word, %pg_new;
    setp.ne.u64 %pg_again, %pg_part, %pg_word;
    @%pg_again bra $pergola_arrive_#;
)";
  if (waits) text += "@%pg_last bra $pergola_sum_#;\n" + wait_text(red) + "$pergola_sum_#:\n";
  if (red) text += "cvt.u32.u64 %pg_total, %pg_sum;\n";
  return text;
}

std::string of_total(Form form) {
  return form == Form::kPopc  ? "mov.u32 %out, %pg_total;\n"
         : form == Form::kAnd ? "setp.eq.u32 %out, %pg_total, 0;\n"
                              : "setp.ne.u32 %out, %pg_total, 0;\n";
}

// `and` counts the lanes that say no: none must.
std::string votes_text(Form form) {
  return fmt::format("vote.sync.ballot.b32 %pg_votes, {}%pred, {};\npopc.b32 %pg_votes, %pg_votes;\n",
                     form == Form::kAnd ? "!" : "", kLiveName);
}

std::string one_warp_text(const BarrierText& barrier) {
  if (barrier.form == Form::kArrive) return {};
  std::string text = barrier.has_guard ? "@!%guard bra $pergola_done_#;\n" : "";
  text += barrier.gather + fmt::format("bar.warp.sync {};\n", kLiveName);
  if (reduces(barrier.form))
    text += ".reg .b32 %pg_votes, %pg_total;\n" + votes_text(barrier.form) + "mov.u32 %pg_total, %pg_votes;\n" +
            of_total(barrier.form);
  return text + "$pergola_done_#:\n";
}

std::string result_text(Form form) {
  return fmt::format(R"(
    brev.b32 %pg_below, {0};
    clz.b32 %pg_below, %pg_below;
    shfl.sync.idx.b32 %pg_total, %pg_total, %pg_below, 31, {0};
)",
                     kLiveName) +
         of_total(form);
}

}  // namespace

std::string barrier_text(const BarrierText& barrier) {
  if (barrier.is_one_warp) return one_warp_text(barrier);
  const bool red = reduces(barrier.form);
  std::string text = barrier.has_guard ? "@!%guard bra $pergola_done_#;\n" : "";
  if (barrier.may_be_named) text += named_text(barrier);
  text += barrier.gather;
  text += ".reg .b32 %pg_at, %pg_below, %pg_votes, %pg_total; .reg .pred %pg_follows;\n";
  text += fmt::format("bar.warp.sync {};\n", kLiveName);
  if (red) text += "mov.u32 %pg_total, 0;\n" + votes_text(barrier.form);
  text += fmt::format(R"(
    mov.u32 %pg_below, %lanemask_lt;
    and.b32 %pg_below, %pg_below, {live};
    setp.ne.u32 %pg_follows, %pg_below, 0;
    @%pg_follows bra $pergola_met_#;
    ld.shared.u32 %pg_at, [{slot}+{field}];
)",
                      fmt::arg("live", kLiveName), fmt::arg("slot", kSlotName),
                      fmt::arg("field", offsetof(abi::TaskSlot, barriers)));
  if (!barrier.index)
    text += "mad.lo.u32 %pg_at, %id, 8, %pg_at;\n";
  else if (*barrier.index != 0)
    text += fmt::format("add.u32 %pg_at, %pg_at, {};\n", *barrier.index * sizeof(abi::TaskBarrier));
  text += barrier.kind == TaskBarrierKind::kMbarrier ? mbarrier_text(barrier) : word_text(barrier);
  text += "$pergola_met_#:\n";
  if (barrier.form != Form::kArrive) text += fmt::format("bar.warp.sync {};\n", kLiveName);
  if (red) text += result_text(barrier.form);
  return text + "$pergola_done_#:\n";
}

std::string drop_text(std::uint32_t index, TaskBarrierKind kind) {
  std::string text = fmt::format(".reg .b32 %pg_at;\nld.shared.u32 %pg_at, [{}+{}];\nadd.u32 %pg_at, %pg_at, {};\n",
                                 kSlotName, offsetof(abi::TaskSlot, barriers), index * sizeof(abi::TaskBarrier));
  if (kind == TaskBarrierKind::kMbarrier)
    return text + ".reg .b64 %pg_state;\nmbarrier.arrive_drop.shared.b64 %pg_state, [%pg_at];\n";
  text += kWordRegisters;
  text += R"(
    mov.u64 %pg_add, 0;
  $pergola_arrive_#:
    ld.acquire.cta.shared.u64 %pg_word, [%pg_at];
    and.b64 %pg_part, %pg_word, 262144;
    setp.ne.u64 %pg_again, %pg_part, 0;
    @%pg_again bra $pergola_arrive_#;
    sub.u64 %pg_new, %pg_word, 64;
    and.b64 %pg_arrived, %pg_word, 524351;
    setp.eq.u64 %pg_again, %pg_arrived, 0;
    @%pg_again bra $pergola_swap_#;
    shr.u64 %pg_needed, %pg_new, 6;
    and.b64 %pg_needed, %pg_needed, 63;
    setp.lt.u64 %pg_again, %pg_arrived, %pg_needed;
    @%pg_again bra $pergola_swap_#;
    and.b64 %pg_arrived, %pg_word, 524288;
    setp.ne.u64 %pg_again, %pg_arrived, 0;
    @%pg_again bra $pergola_swap_#;
    and.b64 %pg_new, %pg_new, 4032;
)";
  text += kComplete;
  return text + R"(
  $pergola_swap_#:
    atom.acq_rel.cta.shared.cas.b64 %pg_part, [%pg_at], %pg_word, %pg_new;
    setp.ne.u64 %pg_again, %pg_part, %pg_word;
    @%pg_again bra $pergola_arrive_#;
)";
}

}  // namespace pergola::transform
