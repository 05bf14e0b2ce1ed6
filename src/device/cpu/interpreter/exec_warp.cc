// Warp collectives (ISA 9.7.9.6, 9.7.13): shfl, vote, match, redux, elect, bar.warp.sync, activemask.
//
// A lane that reaches a .sync form waits until every live lane of its member mask waits at a collective of the same
// kind and with the same mask, wherever that stands in the code; then all get their results. A lane that is not in
// its own mask is a fault. The forms without .sync work on the lanes that run together.
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

// Inst: mode the kind, mode2 its variant, dst (dst2) the results, src the operands, src[3] the member mask.
enum Collective : std::uint8_t { kShuffle, kVote, kMatchAny, kMatchAll, kRedux, kElect, kWarpSync };
enum Vote : std::uint8_t { kAll, kAny, kUni, kBallot };

void shuffle(Warp& w, LaneMask set, const Inst&) {
  std::uint32_t values[32] = {};
  for_each_lane(w, set, [&](Thread& t) { values[t.lane] = read<std::uint32_t>(t, t.waiting->src[0]); });
  for_each_lane(w, set, [&](Thread& t) {
    const Inst& i = *t.waiting;
    const ShuffleSource from = shuffle_source(static_cast<ShuffleMode>(i.mode2), t.lane, read<std::uint32_t>(t, i.src[1]),
                                              read<std::uint32_t>(t, i.src[2]));
    // A source lane that takes no part gives an undefined value: the lane's own here.
    t.regs[i.dst] = values[(set & bit(from.lane)) != 0 ? from.lane : t.lane];
    if (i.dst2 != kNoCell) t.regs[i.dst2] = from.in_range ? 1 : 0;
  });
}

void vote(Warp& w, LaneMask set, const Inst&) {
  LaneMask yes = 0;
  for_each_lane(w, set, [&](Thread& t) { yes |= cell(t, t.waiting->src[0]) != 0 ? bit(t.lane) : 0; });
  for_each_lane(w, set, [&](Thread& t) {
    const Inst& i = *t.waiting;
    switch (i.mode2) {
      case kAll: t.regs[i.dst] = yes == set; break;
      case kAny: t.regs[i.dst] = yes != 0; break;
      case kUni: t.regs[i.dst] = yes == 0 || yes == set; break;
      default: t.regs[i.dst] = yes; break;
    }
  });
}

void match(Warp& w, LaneMask set, const Inst& inst) {
  std::uint64_t values[32] = {};
  const std::uint64_t width = inst.mode2 != 0 ? ~std::uint64_t{0} : 0xffffffffu;
  for_each_lane(w, set, [&](Thread& t) { values[t.lane] = cell(t, t.waiting->src[0]) & width; });
  for_each_lane(w, set, [&](Thread& t) {
    LaneMask same = 0;
    for_each_lane(w, set, [&](Thread& other) { same |= values[other.lane] == values[t.lane] ? bit(other.lane) : 0; });
    const Inst& i = *t.waiting;
    const bool all = same == set;
    t.regs[i.dst] = i.mode == kMatchAny ? same : all ? set : 0;
    if (i.dst2 != kNoCell) t.regs[i.dst2] = all;
  });
}

void reduce(Warp& w, LaneMask set, const Inst& inst) {
  std::array<std::uint32_t, 32> values{};
  for_each_lane(w, set, [&](Thread& t) { values[t.lane] = read<std::uint32_t>(t, t.waiting->src[0]); });
  const std::uint32_t result = redux(static_cast<ReduxOp>(inst.mode2), inst.flags != 0, set, values);
  for_each_lane(w, set, [&](Thread& t) { t.regs[t.waiting->dst] = result; });
}

void elect(Warp& w, LaneMask set, const Inst&) {
  const auto leader = static_cast<std::uint32_t>(std::countr_zero(set));
  for_each_lane(w, set, [&](Thread& t) {
    t.regs[t.waiting->dst] = leader;
    t.regs[t.waiting->dst2] = t.lane == leader;
  });
}

void complete(Warp& w, LaneMask set) {
  const Inst& first = *w.threads[std::countr_zero(set)].waiting;
  switch (first.mode) {
    case kShuffle: shuffle(w, set, first); break;
    case kVote: vote(w, set, first); break;
    case kMatchAny:
    case kMatchAll: match(w, set, first); break;
    case kRedux: reduce(w, set, first); break;
    case kElect: elect(w, set, first); break;
    default: break;
  }
}

void arrive(Machine& m, Warp& w, LaneMask lanes, const Inst& i) {
  for_each_lane(w, lanes, [&](Thread& t) {
    t.members = i.src[3] != kNoCell ? read<std::uint32_t>(t, i.src[3]) : lanes;
    if ((t.members & bit(t.lane)) == 0)
      m.fault(t, i, fmt::format("executes a warp operation whose member mask {:#x} does not name its lane {}", t.members, t.lane));
  });
  if (m.stopped()) return;
  m.block_lanes(w, lanes, i, ThreadStatus::kCollective);
  complete_collectives(m, w);
}

void active_mask(Machine&, Warp& w, LaneMask lanes, const Inst& i) {
  for_each_lane(w, lanes, [&](Thread& t) {
    t.regs[i.dst] = lanes;
    ++t.pc;
  });
}

struct Sources {
  std::int32_t value = kNoCell, b = kNoCell, c = kNoCell, members = kNoCell;
};

// Appends the collective with its one or two destinations.
Inst& emit_collective(Decoder& d, const ptx::Instruction& i, Collective kind, const Sources& sources) {
  std::int32_t dst = kNoCell, dst2 = kNoCell;
  if (kind != kWarpSync) {
    const ptx::Operand& destination = i.operands[0];
    const bool two = destination.kind == ptx::Operand::Kind::kPair;
    dst = d.write_cell(two ? destination.elements[0] : destination);
    if (two) dst2 = d.write_cell(destination.elements[1]);
  }
  Inst& inst = d.emit_group(arrive);
  inst.mode = kind;
  inst.dst = dst;
  inst.dst2 = dst2;
  inst.src[0] = sources.value;
  inst.src[1] = sources.b;
  inst.src[2] = sources.c;
  inst.src[3] = sources.members;
  return inst;
}

Decoded decode_shuffle(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool sync = mods.take(Mod::kSync);
  constexpr std::pair<Mod, ShuffleMode> kModes[] = {{Mod::kUp, ShuffleMode::kUp},
                                                    {Mod::kDown, ShuffleMode::kDown},
                                                    {Mod::kBfly, ShuffleMode::kBfly},
                                                    {Mod::kIdx, ShuffleMode::kIdx}};
  std::optional<ShuffleMode> mode;
  for (const auto& [mod, value] : kModes)
    if (!mode && mods.take(mod)) mode = value;
  mods.take_type();
  if (!mode || !mods.empty() || i.operands.size() != (sync ? 5u : 4u)) return d.unsupported(i);
  Sources s;
  s.value = d.read(i.operands[1], Type::kB32);
  s.b = d.read(i.operands[2], Type::kB32);
  s.c = d.read(i.operands[3], Type::kB32);
  if (sync) s.members = d.read(i.operands[4], Type::kB32);
  emit_collective(d, i, kShuffle, s).mode2 = static_cast<std::uint8_t>(*mode);
  return true;
}

Decoded decode_vote(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool sync = mods.take(Mod::kSync);
  constexpr std::pair<Mod, Vote> kVotes[] = {
      {Mod::kAll, kAll}, {Mod::kAny, kAny}, {Mod::kUni, kUni}, {Mod::kBallot, kBallot}};
  std::optional<Vote> variant;
  for (const auto& [mod, value] : kVotes)
    if (!variant && mods.take(mod)) variant = value;
  mods.take_type();
  if (!variant || !mods.empty() || i.operands.size() != (sync ? 3u : 2u)) return d.unsupported(i);
  Sources s;
  s.value = d.read_predicate(i.operands[1]);
  if (sync) s.members = d.read(i.operands[2], Type::kB32);
  emit_collective(d, i, kVote, s).mode2 = *variant;
  return true;
}

Decoded decode_match(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  const bool any = mods.take(Mod::kAny), all = mods.take(Mod::kAll);
  const Type type = mods.take_type();
  if (!mods.take(Mod::kSync) || any == all || !mods.empty() || i.operands.size() != 3) return d.unsupported(i);
  Sources s;
  s.value = d.read(i.operands[1], type);
  s.members = d.read(i.operands[2], Type::kB32);
  emit_collective(d, i, any ? kMatchAny : kMatchAll, s).mode2 = ptx::size_bytes(type) == 8;
  return true;
}

Decoded decode_redux(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  constexpr std::pair<Mod, ReduxOp> kOps[] = {{Mod::kAdd, ReduxOp::kAdd}, {Mod::kMin, ReduxOp::kMin},
                                              {Mod::kMax, ReduxOp::kMax}, {Mod::kAnd, ReduxOp::kAnd},
                                              {Mod::kOr, ReduxOp::kOr},   {Mod::kXor, ReduxOp::kXor}};
  std::optional<ReduxOp> op;
  for (const auto& [mod, value] : kOps)
    if (!op && mods.take(mod)) op = value;
  const Type type = mods.take_type();
  if (!mods.take(Mod::kSync) || !op || !mods.empty() || ptx::is_float(type) || i.operands.size() != 3)
    return d.unsupported(i);
  Sources s;
  s.value = d.read(i.operands[1], type);
  s.members = d.read(i.operands[2], Type::kB32);
  Inst& inst = emit_collective(d, i, kRedux, s);
  inst.mode2 = static_cast<std::uint8_t>(*op);
  inst.flags = type == Type::kS32;
  return true;
}

Decoded decode_single(Decoder& d, const ptx::Instruction& i) {  // elect.sync, bar.warp.sync, activemask
  ModReader mods(i);
  mods.take(Mod::kWarp);
  const bool sync = mods.take(Mod::kSync);
  mods.take_type();
  if (!mods.empty()) return d.unsupported(i);
  Sources s;
  if (i.op == Op::kActivemask) {
    if (i.operands.size() != 1) return d.unsupported(i);
    const std::int32_t dst = d.write_cell(i.operands[0]);
    d.emit_group(active_mask).dst = dst;
    return true;
  }
  const bool elects = i.op == Op::kElect;
  if (!sync || i.operands.size() != (elects ? 2u : 1u)) return d.unsupported(i);
  if (elects && i.operands[0].kind != ptx::Operand::Kind::kPair) return d.unsupported(i);
  s.members = d.read(i.operands.back(), Type::kB32);
  emit_collective(d, i, elects ? kElect : kWarpSync, s);
  return true;
}

}  // namespace

void complete_collectives(Machine& m, Warp& w) {
  LaneMask waiting = 0;
  for_each_lane(w, w.live & ~w.ready,
                [&](Thread& t) { waiting |= t.status == ThreadStatus::kCollective ? bit(t.lane) : 0; });
  LaneMask undecided = waiting;
  while (undecided != 0) {
    const Thread& first = w.threads[std::countr_zero(undecided)];
    const LaneMask set = first.members & w.live;
    bool whole = (set & ~waiting) == 0;
    for_each_lane(w, set & waiting, [&](Thread& t) {
      whole = whole && t.members == first.members && t.waiting->mode == first.waiting->mode &&
              t.waiting->mode2 == first.waiting->mode2;
    });
    if (whole) {
      if (first.waiting->mode == kWarpSync && m.shared_check() != nullptr)
        m.shared_check()->sync_warp(m.number_of(w.threads[0]), set);
      complete(w, set);
      m.release(w, set);
      waiting &= ~set;
      undecided &= ~set;
    } else {
      undecided &= undecided - 1;
    }
  }
}

Decoded decode_warp(Decoder& d, const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kShfl: return decode_shuffle(d, i);
    case Op::kVote: return decode_vote(d, i);
    case Op::kMatch: return decode_match(d, i);
    case Op::kRedux: return decode_redux(d, i);
    case Op::kElect:
    case Op::kActivemask: return decode_single(d, i);
    case Op::kBar: return i.has(Mod::kWarp) ? decode_single(d, i) : Decoded(false);
    default: return false;
  }
}

}  // namespace pergola::device::cpu::interp
