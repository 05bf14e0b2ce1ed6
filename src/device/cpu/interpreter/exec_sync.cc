// Barriers of a block (ISA 9.7.13.1): bar, barrier. Arrival counting is in warp_sync.h.
#include "src/base/plural.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

enum Form : std::uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

// mode the form; src: barrier, count, predicate.
void arrive_at_barrier(Machine& m, Warp& w, LaneMask lanes, const Inst& i) {
  for_each_lane(w, lanes, [&](Thread& t) {
    const auto id = source<std::uint32_t>(t, i, 0);
    const std::uint32_t count = i.src[1] != kNoCell ? source<std::uint32_t>(t, i, 1) : 0;
    if (id > 15 || count % 32 != 0 || (i.mode == kArrive && count == 0)) {
      m.fault(t, i, fmt::format("uses barrier {} with {}; there are barriers 0 to 15, and counts are "
                                "multiples of 32", id, plural(count, "thread")));
      return;
    }
    m.barrier(id).arrive(t.warp, t.lane, count, i.src[2] != kNoCell && cell(t, i.src[2]) != 0);
    t.barrier = static_cast<std::int32_t>(id);
    if (m.shared_check() != nullptr) m.shared_check()->arrive(m.number_of(t), id);
  });
  if (m.stopped()) return;
  if (i.mode == kArrive)
    for_each_lane(w, lanes, [](Thread& t) { ++t.pc; });
  else
    m.block_lanes(w, lanes, i, ThreadStatus::kBarrier);
  m.note_write();
  m.check_barriers();
}

}  // namespace

void finish_barrier(Thread& t, const Inst& i, const NamedBarrier& barrier) {
  switch (i.mode) {
    case kRedPopc: t.regs[i.dst] = barrier.popc(); break;
    case kRedAnd: t.regs[i.dst] = barrier.all() ? 1 : 0; break;
    case kRedOr: t.regs[i.dst] = barrier.any() ? 1 : 0; break;
    default: break;
  }
}

Decoded decode_sync(Decoder& d, const ptx::Instruction& i) {
  if (i.op != Op::kBar && i.op != Op::kBarrier) return false;
  if (i.has(Mod::kWarp)) return false;  // decode_warp
  ModReader mods(i);
  mods.take(Mod::kCta);
  mods.take(Mod::kAligned);
  std::uint8_t form = kSync;
  if (mods.take(Mod::kArrive)) {
    form = kArrive;
  } else if (mods.take(Mod::kRed)) {
    if (mods.take(Mod::kPopc))
      form = kRedPopc;
    else if (mods.take(Mod::kAnd))
      form = kRedAnd;
    else if (mods.take(Mod::kOr))
      form = kRedOr;
    mods.take_type();
    if (form == kSync) return d.unsupported(i);
  } else if (!mods.take(Mod::kSync)) {
    return d.unsupported(i);
  }
  if (!mods.empty()) return d.unsupported(i);
  const bool reduces = form >= kRedPopc;
  std::size_t at = reduces ? 1 : 0;
  const std::size_t end = i.operands.size() - (reduces ? 1 : 0);
  if (i.operands.size() < at + 1 + (reduces ? 1 : 0) || end - at > 2) return d.unsupported(i);
  const std::int32_t id = d.read(i.operands[at++], Type::kU32);
  const std::int32_t count = at < end ? d.read(i.operands[at], Type::kU32) : kNoCell;
  const std::int32_t predicate = reduces ? d.read_predicate(i.operands.back()) : kNoCell;
  const std::int32_t dst = reduces ? d.write_cell(i.operands[0]) : kNoCell;
  Inst& inst = d.emit_group(arrive_at_barrier);
  inst.dst = dst;
  inst.src[0] = id;
  inst.src[1] = count;
  inst.src[2] = predicate;
  inst.mode = form;
  return true;
}

}  // namespace pergola::device::cpu::interp
