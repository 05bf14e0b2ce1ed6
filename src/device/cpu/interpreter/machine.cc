// Threads of a block: their start, calls, ends, barriers and faults. Scheduling is in scheduling.cc, addresses are in
// memory_access.cc.
#include "src/device/cpu/interpreter/machine.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/memory_map.h"
#include "src/device/cpu/reserved_shared.h"
#include "src/device/cpu/stack_limit.h"

namespace pergola::device::cpu::interp {
namespace {

constexpr std::size_t kMaxCallDepth = 4096;
constexpr std::size_t kMaxCells = std::size_t{1} << 22;

}  // namespace

Machine::Machine(std::shared_ptr<const KernelImage> kernel, Block& block)
    : kernel_(std::move(kernel)), block_(block), recorder_(access_recorder()),
      hook_(execution_hook()) {
  const Dim3 shape = launch().config.block;
  const auto count = static_cast<std::uint32_t>(shape.count());
  if (kernel_->checked) {
    shared_check_ = std::make_unique<SharedCheck>(count, block_.shared_base, block_.shared_bytes);
    for (const SharedLayout::Slot& slot : kernel_->shared.slots)
      if (slot.name == kReservedSharedSlot) shared_check_->initialize(slot.offset_bytes, kReservedSharedBytes);
  }
  threads_.resize(count);
  warps_.resize((count + 31) / 32);
  for (auto& barrier : barriers_) barrier.reset(warp_count());
  // Zeroed lazily by the system; a thread that never touches its stack costs nothing.
  stacks_.reset(static_cast<std::byte*>(std::calloc(std::size_t{count} + 1, kernel_->stack_bytes + 16)));
  if (!stacks_) {
    launch().fault->raise(PERGOLA_ERROR(kResourceExhausted,
                                        "Kernel '{}': there is no host memory for {} stacks of {} bytes.",
                                        launch().kernel_name, count, kernel_->stack_bytes));
    stop_ = true;
    return;
  }
  for (std::uint32_t n = 0; n < count; ++n) {
    Thread& t = threads_[n];
    t.warp = n / 32;
    t.lane = n % 32;
    t.tid = Dim3{n % shape.x, n / shape.x % shape.y, n / shape.x / shape.y};
    const std::size_t stride = (kernel_->stack_bytes + 15) / 16 * 16;
    t.stack = stacks_.get() + stride * n;
    t.function = kernel_->entry;
    t.constants = kernel_->constants[t.function->index].data();
    t.cells.assign(t.function->cell_count, 0);
    t.regs = t.cells.data();
    t.frame = (module().module_local_bytes + 15) / 16 * 16;
    t.stack_top = t.frame + t.function->frame_bytes;
    t.frames.push_back({t.function, 0, 0, t.frame, t.frame, nullptr});
    Warp& w = warps_[t.warp];
    if (t.lane == 0) w.threads = &t;
    ++w.size;
    w.live |= bit(t.lane);
    w.ready |= bit(t.lane);
  }
  live_ = count;
}

void Machine::enter(Thread& t, const FunctionCode& callee, const CallSite* site, const Inst& inst) {
  const std::uint32_t frame = (t.stack_top + 15) / 16 * 16;
  if (t.frames.size() >= kMaxCallDepth || t.cells.size() + callee.cell_count > kMaxCells ||
      std::uint64_t{frame} + callee.frame_bytes > kernel_->stack_bytes) {
    fault(t, inst, fmt::format("calls '{}' and overflows its stack at depth {}, of which recursion, calls through registers and alloca "
                               "have {} bytes (PERGOLA_CPU_STACK_BYTES)", callee.source->name, t.frames.size(), open_stack_bytes()));
    return;
  }
  const auto cells = static_cast<std::uint32_t>(t.cells.size());
  t.cells.resize(cells + callee.cell_count, 0);
  std::uint64_t* const caller = t.cells.data() + t.frames.back().cells;
  std::uint64_t* const fresh = t.cells.data() + cells;
  for (std::size_t n = 0; n < callee.parameters.size() && n < site->arguments.size(); ++n) {
    const CallSite::Value& from = site->arguments[n];
    const FrameSlot& to = callee.parameters[n];
    const std::uint64_t scalar = from.in_frame ? 0 : from.cell >= 0 ? caller[from.cell] : t.constants[~from.cell];
    std::byte* target = to.cell != kNoCell ? reinterpret_cast<std::byte*>(fresh + to.cell) : t.stack + frame + to.offset;
    const std::uint32_t size = std::min(to.size, from.in_frame ? from.size : 8u);
    if (from.in_frame)
      std::memcpy(target, t.stack + t.frame + from.offset, size);
    else
      std::memcpy(target, &scalar, size);
  }
  t.frames.push_back({&callee, t.pc, cells, frame, t.stack_top, site});
  t.function = &callee;
  t.constants = kernel_->constants[callee.index].data();
  t.regs = fresh;
  t.frame = frame;
  t.stack_top = frame + callee.frame_bytes;
  t.pc = 0;
}

void Machine::leave(Thread& t) {
  if (t.frames.size() == 1) {
    exit(t);
    return;
  }
  const Frame done = t.frames.back();
  t.frames.pop_back();
  const Frame& back = t.frames.back();
  std::uint64_t* const caller = t.cells.data() + back.cells;
  for (std::size_t n = 0; n < done.function->results.size() && n < done.site->results.size(); ++n) {
    const FrameSlot& from = done.function->results[n];
    const CallSite::Value& to = done.site->results[n];
    const std::byte* value = from.cell != kNoCell ? reinterpret_cast<const std::byte*>(t.regs + from.cell)
                                                  : t.stack + done.stack + from.offset;
    if (to.in_frame) {
      std::memcpy(t.stack + back.stack + to.offset, value, std::min(from.size, to.size));
    } else {
      caller[to.cell] = 0;
      std::memcpy(caller + to.cell, value, std::min(from.size, 8u));
    }
  }
  t.cells.resize(done.cells);
  t.function = back.function;
  t.constants = kernel_->constants[back.function->index].data();
  t.regs = t.cells.data() + back.cells;
  t.frame = back.stack;
  t.stack_top = done.saved_top;
  t.pc = done.return_pc;
}

void Machine::exit(Thread& t) {
  Warp& w = warp_of(t);
  if (t.gone_past != nullptr && w.at_barrier != 0 && !stop_) {
    const Thread& waits = w.threads[std::countr_zero(w.at_barrier)];
    fault(waits, *waits.waiting,
          fmt::format("waits at a barrier for its whole warp, and thread ({},{},{}) of the warp has gone past it, at "
                      "{} ({}), and ended; "
                      "lanes {:#x} wait, and all of a warp must come to the same barrier",
                      t.tid.x, t.tid.y, t.tid.z, where(*module().module, *t.gone_past->source),
                      spell(*t.gone_past->source), w.at_barrier));
  }
  t.status = ThreadStatus::kExited;
  w.live &= ~bit(t.lane);
  w.ready &= ~bit(t.lane);
  --live_;
  wrote_ = true;
  exited_ = true;  // who waits is looked at after all lanes of the instruction have exited
}

void Machine::sleep(Thread& t) {
  Warp& w = warp_of(t);
  t.status = ThreadStatus::kSleeping;
  w.ready &= ~bit(t.lane);
  w.sleeping |= bit(t.lane);
}

void Machine::release(Warp& w, LaneMask lanes) {
  for_each_lane(w, lanes, [&](Thread& t) {
    t.status = ThreadStatus::kReady;
    t.waiting = nullptr;
    ++t.pc;
  });
  w.ready |= lanes;
  w.at_barrier &= ~lanes;
}

void Machine::block_lanes(Warp& w, LaneMask lanes, const Inst& inst, ThreadStatus status) {
  for_each_lane(w, lanes, [&](Thread& t) {
    t.status = status;
    t.waiting = &inst;
    t.gone_past = nullptr;
    t.past_barrier = 0;
  });
  w.ready &= ~lanes;
  if (status == ThreadStatus::kBarrier && is_aligned_barrier(inst)) w.at_barrier |= lanes;
}

// Lanes are about to come to `inst`, and those that are active to execute it, while others of their warp wait at an
// aligned barrier.
void Machine::note_gone_past(Warp& w, LaneMask lanes, LaneMask active, const Inst& inst, std::uint32_t pc) {
  const Thread& waits = w.threads[std::countr_zero(w.at_barrier)];
  const LaneMask doers = is_effect(inst) ? active : 0;
  for_each_lane(w, lanes, [&](Thread& t) {
    if (barrier_paths_.has_gone_past(waits, t, pc) && t.gone_past == nullptr && (doers & bit(t.lane)) != 0)
      t.gone_past = &inst;
  });
}

// Whether the lanes of each warp that meet at barrier `id` do so at one barrier of the source; else the fault has been
// raised. PTX without .loc does not tell which are copies of one: then only --check, which is strict, raises it.
bool Machine::check_same_barrier(std::uint32_t id) {
  for (Warp& w : warps_) {
    const Thread* first = nullptr;
    for_each_lane(w, w.at_barrier, [&](Thread& t) {
      if (t.barrier != static_cast<std::int32_t>(id) || stop_) return;
      if (first == nullptr) first = &t;
      if (are_of_one_line(*t.waiting->source, *first->waiting->source)) return;
      if (t.waiting->source->debug_line == 0 && shared_check_ == nullptr) return;
      fault(t, *t.waiting,
            fmt::format("is at a barrier for its whole warp, and thread ({},{},{}) of the warp is at another, at {} "
                        "({}); all of a warp must "
                        "come to the same barrier",
                        first->tid.x, first->tid.y, first->tid.z, where(*module().module, *first->waiting->source),
                        spell(*first->waiting->source)));
    });
  }
  return !stop_;
}

void Machine::check_waiters(Warp& w) {
  complete_collectives(*this, w);
  check_barriers();
}

void Machine::check_barriers() {
  for (std::uint32_t id = 0; id < barriers_.size(); ++id) {
    NamedBarrier& barrier = barriers_[id];
    if (barrier.idle()) continue;
    std::array<std::uint32_t, 64> live{};
    for (std::uint32_t n = 0; n < warps_.size(); ++n) live[n] = warps_[n].live;
    if (!barrier.complete({live.data(), warps_.size()})) continue;
    if (!check_same_barrier(id)) return;
    for (Warp& w : warps_) {
      LaneMask released = 0;
      for_each_lane(w, w.live & ~w.ready, [&](Thread& t) {
        if (t.status != ThreadStatus::kBarrier || t.barrier != static_cast<std::int32_t>(id)) return;
        if (shared_check_) shared_check_->leave(number_of(t), id);
        finish_barrier(t, *t.waiting, barrier);
        released |= bit(t.lane);
      });
      release(w, released);
    }
    barrier.clear();
    if (shared_check_) shared_check_->clear_barrier(id);
  }
}

void Machine::fault(const Thread& t, const Inst& inst, const std::string& what) {
  stop_ = true;
  const Dim3 b = block_.index;
  const std::string place =
      inst.source != nullptr
          ? fmt::format(" at {} ({})", where(*module().module, *inst.source), spell(*inst.source))
          : std::string();
  launch().fault->raise(PERGOLA_ERROR(kDeviceFault, "Kernel '{}'{}: thread ({},{},{}) of block ({},{},{}) {}.",
                                      launch().kernel_name, place, t.tid.x, t.tid.y, t.tid.z, b.x, b.y, b.z, what));
}

std::string Machine::waits_of(const Thread& t) const {
  switch (t.status) {
    case ThreadStatus::kBarrier: {
      const NamedBarrier& barrier = barriers_[static_cast<std::size_t>(t.barrier)];
      return "waits at " + describe_barrier(static_cast<std::uint32_t>(t.barrier), barrier.arrived(),
                                            barrier.expected() == 0 ? live_ : barrier.expected());
    }
    case ThreadStatus::kCollective: return fmt::format("waits for lanes {:#x} of its warp", t.members);
    case ThreadStatus::kSleeping: return "sleeps";
    default: break;
  }
  if (t.looked_by == nullptr) return "runs";
  return fmt::format("spins on {:#x}, {}", reinterpret_cast<std::uintptr_t>(t.looked_at),
                     in_shared(t.looked_at) ? shared_place(static_cast<std::uint32_t>(t.looked_at - block_.shared_base))
                                            : launch().memory->describe_nearest(reinterpret_cast<std::uintptr_t>(t.looked_at)));
}

std::vector<Stand> Machine::stands() const {
  std::vector<Stand> all;
  for (std::uint32_t w = 0; w < warps_.size(); ++w) {
    const std::size_t first = all.size();
    for (LaneMask rest = warps_[w].live; rest != 0; rest &= rest - 1) {
      const Thread& t = warps_[w].threads[std::countr_zero(rest)];
      const Inst* inst = t.waiting != nullptr ? t.waiting
                         : t.status == ThreadStatus::kReady && t.looked_by != nullptr ? t.looked_by
                                                                                      : &t.function->code[t.pc];
      Stand stand{block_.index, w, bit(t.lane), {}, waits_of(t)};
      if (inst->source != nullptr) stand.place = fmt::format("{} ({})", where(*module().module, *inst->source), spell(*inst->source));
      const auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(), [&](const Stand& other) {
        return other.place == stand.place && other.waits == stand.waits;
      });
      if (same == all.end())
        all.push_back(std::move(stand));
      else
        same->lanes |= stand.lanes;
    }
  }
  return all;
}

void Machine::raise_deadlock() {
  stop_ = true;
  const Dim3 b = block_.index;
  launch().fault->raise(PERGOLA_ERROR(kDeviceFault, "Kernel '{}': block ({},{},{}) waits for ever, as no thread of it can go on:{}",
                                      launch().kernel_name, b.x, b.y, b.z, describe_stands(stands())));
}

}  // namespace pergola::device::cpu::interp
