// What vector code calls for a group of lanes at once; see vector_calls.cc for who calls what.
#include "src/device/cpu/jit/vector_runtime.h"

#include <bit>

#include "src/device/cpu/jit/block_run.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::jit {
namespace {

// tid of each lane, for blocks whose rows are not whole groups.
void group_indices(ThreadContext* thread, std::uint32_t lanes, std::uint32_t* x, std::uint32_t* y, std::uint32_t* z) {
  const BlockContext& block = *thread->block;
  std::uint32_t at[3] = {thread->tid[0], thread->tid[1], thread->tid[2]};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    x[lane] = at[0];
    y[lane] = at[1];
    z[lane] = at[2];
    if (++at[0] < block.ntid[0]) continue;
    at[0] = 0;
    if (++at[1] < block.ntid[1]) continue;
    at[1] = 0;
    ++at[2];
  }
}

void lane_context(ThreadContext* group, std::uint32_t lane, ThreadContext* out) {
  *out = run_of(group).context_of_lane(*group, lane);
}

void raise_not_a_member(ThreadContext* thread, std::uint32_t lane, std::uint32_t mask) {
  BlockRun& run = run_of(thread);
  const ThreadContext context = run.context_of_lane(*thread, lane);
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} executes a warp operation whose member mask {:#x} does not name its lane {}.",
                          run.where(&context, {thread->wait_line}), mask, lane));
}

PERGOLA_SWITCHES_STACK void group_members(ThreadContext* thread, std::uint32_t mask, std::uint32_t active) {
  const std::uint32_t outside = active & ~mask;
  if (outside == 0) return;
  raise_not_a_member(thread, static_cast<std::uint32_t>(std::countr_zero(outside)), mask);
  run_of(thread).leave_after_fault();
}

// Lanes with the same mask make one operation; those of the old forms without a mask are all that are here.
PERGOLA_SWITCHES_STACK void group_collective(ThreadContext* thread, std::uint32_t kind, std::uint32_t active,
                                             const std::uint32_t* masks, const std::uint64_t* values, const std::uint32_t* b,
                                             const std::uint32_t* c, std::uint64_t* results) {
  const bool converged = (kind & kConverged) != 0;
  for (std::uint32_t rest = active; rest != 0;) {
    const std::uint32_t mask = masks[std::countr_zero(rest)];
    std::uint32_t members = 0;
    for (std::uint32_t lanes = rest; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
      if (converged || masks[lane] == mask) members |= 1u << lane;
    }
    if (!converged) group_members(thread, mask, members);
    warp_collective(kind, members, values, b, c, results);
    rest &= ~members;
  }
}

}  // namespace

void warp_collective(std::uint32_t kind, std::uint32_t members, const std::uint64_t* all_values, const std::uint32_t* b,
                     const std::uint32_t* c, std::uint64_t* results) {
  constexpr std::uint64_t kFlag = std::uint64_t{1} << 32;
  std::uint32_t values[32] = {};
  std::uint32_t ballot = 0;
  const auto first = static_cast<std::uint32_t>(std::countr_zero(members));
  const std::uint32_t detail = kind >> 8;
  bool equal = true;
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    values[lane] = static_cast<std::uint32_t>(all_values[lane]);
    if (values[lane] != 0) ballot |= 1u << lane;
    equal &= all_values[lane] == all_values[first];
  }
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint64_t& result = results[lane];
    switch (kind & 0x7f) {
      case kShuffle: {
        const ShuffleSource source = shuffle_source(static_cast<ShuffleMode>(detail), lane, b[lane], c[lane]);
        const bool there = source.lane < 32 && (members >> source.lane & 1) != 0;
        result = (there ? values[source.lane] : values[lane]) | (source.in_range ? kFlag : 0);
        break;
      }
      case kBallot: result = ballot; break;
      case kAll: result = ballot == members ? kFlag : 0; break;
      case kAny: result = ballot != 0 ? kFlag : 0; break;
      case kUniform: result = ballot == members || ballot == 0 ? kFlag : 0; break;
      case kMatchAll: result = equal ? members | kFlag : 0; break;
      case kMatchAny: {
        std::uint32_t same = 0;
        for (std::uint32_t others = members; others != 0; others &= others - 1) {
          const auto other = static_cast<std::uint32_t>(std::countr_zero(others));
          if (all_values[other] == all_values[lane]) same |= 1u << other;
        }
        result = same;
        break;
      }
      case kRedux: result = redux(static_cast<ReduxOp>(detail & 0xff), (detail >> 8 & 1) != 0, members, values); break;
      case kActiveMask: result = members; break;
      case kElect: result = first | (first == lane ? kFlag : 0); break;
      default: result = 0; break;
    }
  }
}

std::vector<RuntimeSymbol> group_symbols() {
  return {
      symbol("pergola_jit_group_barrier", BlockRun::group_barrier), symbol("pergola_jit_group_indices", group_indices),
      symbol("pergola_jit_lane_context", lane_context),   symbol("pergola_jit_group_members", group_members),
      symbol("pergola_jit_group_collective", group_collective),
  };
}

}  // namespace pergola::device::cpu::jit
