#include "src/device/cpu/interpreter/barrier_paths.h"

#include <vector>

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;

// The instructions that may follow the one at `at`; the function's end is one past its last instruction.
std::vector<std::uint32_t> next_of(const FunctionCode& function, std::uint32_t at) {
  const auto end = static_cast<std::uint32_t>(function.code.size());
  if (at >= end) return {};
  const Inst& inst = function.code[at];
  const Op op = inst.kind == Kind::kControl && inst.source != nullptr ? inst.source->op : Op::kMov;
  std::vector<std::uint32_t> next;
  if (op == Op::kBra) next.push_back(static_cast<std::uint32_t>(inst.imm));
  if (op == Op::kBrx) {
    for (std::uint64_t n = 0; n < inst.imm; ++n)
      next.push_back(static_cast<std::uint32_t>(function.extra[inst.extra + n]));
  }
  if (op == Op::kRet || op == Op::kExit) next.push_back(end);
  // A trap ends the launch: nothing comes behind it.
  if ((next.empty() && op != Op::kTrap) || inst.guard != kNoCell) next.push_back(at + 1);
  return next;
}

// From which instruction each that can be reached from `from` was first come to, without going through `without`; ~0
// for others. `from` itself only where a path leads back to it.
std::vector<std::uint32_t> walk(const FunctionCode& function, std::uint32_t from, std::uint32_t without) {
  std::vector<std::uint32_t> come_from(function.code.size() + 1, ~0u), open{from};
  for (std::size_t n = 0; n < open.size(); ++n) {
    for (const std::uint32_t to : next_of(function, open[n])) {
      if (to == without || to >= come_from.size() || come_from[to] != ~0u) continue;
      come_from[to] = open[n];
      open.push_back(to);
    }
  }
  return come_from;
}

// Where the thread is in its frame `depth`: at the call that leads to the next one, or at `pc`.
std::uint32_t place_in(const Thread& t, std::size_t depth, std::uint32_t pc) {
  return depth + 1 < t.frames.size() ? t.frames[depth + 1].return_pc - 1 : pc;
}

}  // namespace

BarrierPaths::Marks BarrierPaths::marks_of(const FunctionCode& function, std::uint32_t barrier) {
  Marks marks;
  const auto end = static_cast<std::uint32_t>(function.code.size());
  const std::vector<std::uint32_t> come_from = walk(function, barrier, ~0u);
  if (come_from[end] == ~0u) return marks;
  // What is on all paths is on this one.
  for (std::uint32_t at = come_from[end]; at != barrier; at = come_from[at]) {
    if (walk(function, barrier, at)[end] != ~0u) continue;
    marks.turn = at;
    if (walk(function, at, ~0u)[barrier] == ~0u) marks.way_out = at;
  }
  return marks;
}

bool BarrierPaths::has_gone_past(const Thread& waits, Thread& runs, std::uint32_t pc) {
  std::size_t depth = 0;
  while (depth + 1 < waits.frames.size() && depth + 1 < runs.frames.size() &&
         waits.frames[depth + 1].function == runs.frames[depth + 1].function &&
         waits.frames[depth + 1].return_pc == runs.frames[depth + 1].return_pc) {
    ++depth;
  }
  const FunctionCode* function = waits.frames[depth].function;
  const std::uint32_t barrier = place_in(waits, depth, waits.pc);
  const auto [found, fresh] = marks_.try_emplace({function, barrier});
  if (fresh) found->second = marks_of(*function, barrier);
  if (depth + 1 >= runs.frames.size()) {  // in a call it has been counted where it was made
    if (pc == found->second.turn) ++runs.past_barrier;
    if (pc == found->second.way_out) runs.past_barrier += 2;
  }
  return runs.past_barrier >= 2;
}

bool is_aligned_barrier(const Inst& inst) {
  const ptx::Instruction* source = inst.source;
  if (source == nullptr || source->has(Mod::kWarp) || source->has(Mod::kArrive)) return false;
  return source->op == Op::kBar || (source->op == Op::kBarrier && source->has(Mod::kAligned));
}

bool is_effect(const Inst& inst) {
  if (inst.source == nullptr) return false;
  switch (inst.source->op) {
    case Op::kSt: return inst.source->space() != ptx::Space::kLocal && inst.source->space() != ptx::Space::kParam;
    case Op::kAtom:
    case Op::kRed:
    case Op::kCall: return true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::interp
