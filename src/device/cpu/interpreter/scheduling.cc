// Which lanes run next; the rule is in machine.h.
#include <algorithm>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

// Instructions that a group may run while other lanes of its warp are ready and elsewhere.
constexpr std::uint32_t kFirstTurn = 2048, kOtherTurn = 512;
// Instructions that a warp may run before the next warp's turn.
constexpr std::uint64_t kWarpQuantum = 4096;
// Rounds over all warps that only spun before the block says that it waits.
constexpr std::uint32_t kSpunRounds = 2;

// Deeper calls first, then the lower function, then the lower pc.
std::uint64_t key_of(const Thread& t) {
  const std::uint64_t depth = 0xffff - std::min<std::size_t>(t.frames.size(), 0xffff);
  return depth << 48 | std::uint64_t{t.function->index & 0xffff} << 32 | t.pc;
}

}  // namespace

Machine::Group Machine::pick_group(Warp& w) {
  Group group;
  std::uint64_t keys[32];
  std::uint64_t lowest = ~std::uint64_t{0};
  for_each_lane(w, w.ready, [&](Thread& t) {
    keys[t.lane] = key_of(t);
    lowest = std::min(lowest, keys[t.lane]);
  });
  std::uint64_t chosen = lowest;
  if (w.leader >= 0) {
    if ((w.ready & bit(static_cast<std::uint32_t>(w.leader))) != 0 && keys[w.leader] != lowest)
      chosen = keys[w.leader];
    else
      w.leader = -1;
  }
  std::uint64_t next = ~std::uint64_t{0};
  for_each_lane(w, w.ready, [&](Thread& t) {
    if (keys[t.lane] == chosen)
      group.mask |= bit(t.lane);
    else if (keys[t.lane] > chosen)
      next = std::min(next, keys[t.lane]);
  });
  group.alone = group.mask == w.ready;
  if (next >> 32 == chosen >> 32) group.merge_pc = static_cast<std::uint32_t>(next);
  if (!group.alone && w.turn == 0) {
    // The turn is over: another group's. Lanes take it in order, so none is passed over for ever.
    if (w.leader < 0) {
      LaneMask others = w.ready & ~group.mask;
      LaneMask after = w.last_leader >= 31 ? 0 : others & ~((bit(static_cast<std::uint32_t>(w.last_leader + 1))) - 1);
      w.leader = w.last_leader = std::countr_zero(after != 0 ? after : others);
      w.turn = kOtherTurn;
    } else {
      w.leader = -1;
      w.turn = kFirstTurn;
    }
    return pick_group(w);
  }
  return group;
}

std::uint64_t Machine::run_group(Warp& w, const Group& group, std::uint64_t limit) {
  Thread& first = w.threads[std::countr_zero(group.mask)];
  const FunctionCode* function = first.function;
  const Inst* code = function->code.data();
  std::uint32_t pc = first.pc;
  std::uint64_t spent = 0;
  // Who waits at a barrier stays there till this group has stopped.
  const bool watched = shared_check_ != nullptr && w.at_barrier != 0;
  auto store_pc = [&] { for_each_lane(w, group.mask, [&](Thread& t) { t.pc = pc; }); };
  while (true) {
    const Inst& inst = code[pc];
    LaneMask active = group.mask;
    if (inst.guard != kNoCell) {
      for_each_lane(w, group.mask, [&](Thread& t) {
        if ((t.regs[inst.guard] != 0) == inst.guard_negated) active &= ~bit(t.lane);
      });
    }
    ++spent;
    ++instructions_;
    if (hook_ != nullptr) hook_->issued(first.warp, *function, pc, active);
    if (watched) note_gone_past(w, group.mask, active, inst, pc);
    if (inst.kind == Kind::kLane) {
      LaneMask left = active;
      while (left != 0 && !stop_) {
        inst.lane(*this, w.threads[std::countr_zero(left)], inst);
        left &= left - 1;
      }
      ++pc;
      if (pc == group.merge_pc || spent >= limit || stop_) {
        store_pc();
        return spent;
      }
      continue;
    }
    ++pc;
    store_pc();
    if (active == 0) {
      if (pc == group.merge_pc || spent >= limit) return spent;
      continue;
    }
    if (inst.kind == Kind::kGroup) {
      for_each_lane(w, active, [&](Thread& t) { --t.pc; });
      inst.group(*this, w, active, inst);
    } else {
      LaneMask left = active;
      while (left != 0 && !stop_) {
        inst.lane(*this, w.threads[std::countr_zero(left)], inst);
        left &= left - 1;
      }
    }
    if (exited_) {
      exited_ = false;
      check_waiters(w);
      return spent;
    }
    // A uniform branch of a converged warp goes on without looking for groups.
    if (stop_ || spent >= limit || w.ready != group.mask || !group.alone) return spent;
    bool together = true;
    for_each_lane(w, group.mask,
                  [&](Thread& t) { together = together && t.pc == first.pc && t.function == function; });
    if (!together || first.function != function) return spent;
    pc = first.pc;
  }
}

std::uint64_t Machine::run_warp(Warp& w, std::uint64_t quantum) {
  std::uint64_t spent = 0;
  while (spent < quantum && w.ready != 0 && !stop_) {
    const Group group = pick_group(w);
    const std::uint64_t limit = group.alone ? quantum - spent : std::min<std::uint64_t>(quantum - spent, w.turn);
    const std::uint64_t used = run_group(w, group, std::max<std::uint64_t>(limit, 1));
    spent += used;
    w.turn = group.alone ? kFirstTurn : w.turn - static_cast<std::uint32_t>(std::min<std::uint64_t>(w.turn, used));
  }
  return spent;
}

Progress Machine::step(std::uint64_t budget) {
  std::uint64_t spent = 0;
  std::uint32_t spun_rounds = 0;
  for (Warp& w : warps_) {
    for_each_lane(w, w.sleeping, [&](Thread& t) { t.status = ThreadStatus::kReady; });
    w.ready |= w.sleeping;
    w.sleeping = 0;
  }
  while (spent < budget && live_ != 0 && spun_rounds < kSpunRounds) {
    if (stop_ || launch().fault->raised()) return Progress::kFinished;
    const std::uint64_t before = spent;
    wrote_ = spun_ = false;
    for (std::size_t n = 0; n < warps_.size() && spent < budget && !stop_; ++n) {
      Warp& w = warps_[next_warp_];
      next_warp_ = next_warp_ + 1 == warps_.size() ? 0 : next_warp_ + 1;
      if (w.ready == 0) continue;
      const std::uint64_t used = run_warp(w, std::min(kWarpQuantum, budget - spent));
      spent += used;
    }
    if (spent == before) break;
    // Nothing was done that anyone could see, and something that others write was read: it spins.
    spun_rounds = spun_ && !wrote_ ? spun_rounds + 1 : 0;
  }
  if (stop_ || live_ == 0) return Progress::kFinished;
  bool ready = false, slept = false;
  for (const Warp& w : warps_) {
    ready = ready || w.ready != 0;
    slept = slept || w.sleeping != 0;
  }
  if (!ready && !slept) {
    raise_deadlock();
    return Progress::kFinished;
  }
  return !ready || spun_rounds != 0 ? Progress::kWaiting : Progress::kRan;
}

}  // namespace pergola::device::cpu::interp
