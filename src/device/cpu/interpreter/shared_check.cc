#include "src/device/cpu/interpreter/shared_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {

using ptx::Mod;
using ptx::Op;

SharedCheck::SharedCheck(std::uint32_t threads, const std::byte* shared, std::uint32_t shared_bytes)
    : shared_(shared), shared_bytes_(shared_bytes), threads_(threads), words_((shared_bytes + 3) / 4),
      initialized_(shared_bytes, false) {}

void SharedCheck::initialize(std::uint32_t offset, std::uint32_t size_bytes) {
  std::fill_n(initialized_.begin() + offset, size_bytes, true);
}

// --- clocks -----------------------------------------------------------------------------------------------------------

void SharedCheck::Join::take(const Clock& clock) {
  if (clock == nullptr || std::find(taken.begin(), taken.end(), clock.get()) != taken.end()) return;
  taken.push_back(clock.get());
  if (times.size() < clock->size()) times.resize(clock->size());
  for (std::size_t n = 0; n < clock->size(); ++n) times[n] = std::max(times[n], (*clock)[n]);
}

SharedCheck::Clock SharedCheck::join(const Clock& a, const Clock& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  Join both;
  both.take(a);
  both.take(b);
  return std::make_shared<const Times>(std::move(both.times));
}

void SharedCheck::add_to(Join& into, std::uint32_t self) {
  into.times.resize(threads_.size());
  into.take(threads_[self].known);
  into.times[self] = std::max(into.times[self], threads_[self].time);
}

SharedCheck::Clock SharedCheck::own_clock(std::uint32_t self) const {
  Times times = threads_[self].known != nullptr ? *threads_[self].known : Times(threads_.size());
  times[self] = threads_[self].time;
  return std::make_shared<const Times>(std::move(times));
}

bool SharedCheck::ordered(const Access& before, std::uint32_t self) const {
  const Clock& known = threads_[self].known;
  return before.thread == self || (known != nullptr && (*known)[before.thread] >= before.time);
}

// --- synchronisation --------------------------------------------------------------------------------------------------

void SharedCheck::fence(std::uint32_t self) {
  ThreadState& state = threads_[self];
  state.known = join(state.known, state.observed);
  state.observed = nullptr;
  state.fenced = own_clock(self);
  ++state.time;
}

void SharedCheck::arrive(std::uint32_t self, std::uint32_t barrier) {
  add_to(barriers_[barrier], self);
  ++threads_[self].time;
}

void SharedCheck::leave(std::uint32_t self, std::uint32_t barrier) {
  if (released_[barrier] == nullptr) released_[barrier] = std::make_shared<const Times>(barriers_[barrier].times);
  threads_[self].known = released_[barrier];  // holds what the thread knew: it arrived there
}

void SharedCheck::clear_barrier(std::uint32_t barrier) {
  barriers_[barrier] = {};
  released_[barrier] = nullptr;
}

void SharedCheck::sync_warp(std::uint32_t first_lane, LaneMask lanes) {
  Join all;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) add_to(all, first_lane + static_cast<std::uint32_t>(std::countr_zero(rest)));
  const auto clock = std::make_shared<const Times>(std::move(all.times));
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    ThreadState& state = threads_[first_lane + static_cast<std::uint32_t>(std::countr_zero(rest))];
    state.known = clock;
    ++state.time;
  }
}

SharedCheck::Order SharedCheck::order_of(const Inst& inst) {
  Order order;
  if (inst.source == nullptr) return order;
  const ptx::Instruction& in = *inst.source;
  switch (in.op) {
    case Op::kAtom:
    case Op::kRed:
      order.strong = order.read_modify_write = true;
      break;
    case Op::kMbarrier:
      // Making and ending the object are plain stores to it.
      order.strong = order.acquires = order.releases = order.read_modify_write = !in.has(Mod::kInit) && !in.has(Mod::kInval);
      // libcu++'s pipelines order it by a vote among those who still wait, which orders nothing here.
      if (in.has(Mod::kInval)) order.strong = true;
      return order;
    case Op::kLd:
    case Op::kSt:
      order.strong = in.has(Mod::kVolatile) || in.has(Mod::kRelaxed) || in.has(Mod::kMmio);
      break;
    default: return order;
  }
  order.acquires = in.has(Mod::kAcquire) || in.has(Mod::kAcqRel);
  order.releases = in.has(Mod::kRelease) || in.has(Mod::kAcqRel);
  order.strong = order.strong || order.acquires || order.releases;
  return order;
}

void SharedCheck::synchronize(std::uint32_t self, const Order& order, const std::byte* at, bool write) {
  ThreadState& state = threads_[self];
  if (!write || order.read_modify_write) {
    if (const auto found = published_.find(at); found != published_.end()) {
      (order.acquires ? state.known : state.observed) = join(order.acquires ? state.known : state.observed, found->second);
    }
  }
  if (!write) return;
  Clock carried = state.fenced;
  if (order.releases) {
    carried = join(carried, own_clock(self));
    ++state.time;
  }
  // An atomic carries on what it found (a release sequence); a store ends it.
  if (order.read_modify_write) {
    if (carried != nullptr) published_[at] = join(published_[at], carried);
  } else if (carried != nullptr) {
    published_[at] = carried;
  } else {
    published_.erase(at);
  }
}

// --- accesses ---------------------------------------------------------------------------------------------------------

bool SharedCheck::stores_what_is_there(const Thread& t, const Inst& inst, const std::byte* at, std::uint32_t size) const {
  if (inst.source == nullptr || inst.source->op != Op::kSt || inst.width == 0) return false;
  const std::uint32_t each = size / inst.width;
  for (std::uint32_t n = 0; n < inst.width; ++n) {
    const std::uint64_t value = cell(t, t.function->extra[inst.extra + n]);
    if (std::memcmp(&value, at + std::size_t{n} * each, each) != 0) return false;
  }
  return true;
}

SharedCheck::Finding SharedCheck::check_word(std::uint32_t self, std::uint32_t word, std::uint8_t mask, const Inst& inst,
                                             bool write, bool strong, bool same_value) {
  std::vector<Access>& accesses = words_[word];
  for (const Access& before : accesses) {
    if ((before.mask & mask) == 0 || (!before.write && !write) || (before.strong && strong)) continue;
    if (ordered(before, self) || (before.write && write && same_value)) continue;
    const auto byte = static_cast<std::uint32_t>(std::countr_zero(static_cast<unsigned>(before.mask & mask)));
    return {Finding::Kind::kRace, 4 * word + byte, before.thread, before.write, before.inst};
  }
  // Whatever races with an access that comes before this one, and is weaker in no way, races with this one too.
  std::erase_if(accesses, [&](Access& before) {
    if ((write || !before.write) && (before.strong || !strong) && ordered(before, self)) before.mask &= static_cast<std::uint8_t>(~mask);
    return before.mask == 0;
  });
  accesses.push_back({self, threads_[self].time, &inst, mask, write, strong});
  return {};
}

SharedCheck::Finding SharedCheck::access(std::uint32_t self, const Thread& thread, const Inst& inst, const std::byte* at,
                                         std::uint32_t size, bool write) {
  const Order order = order_of(inst);
  const bool shared = at >= shared_ && at < shared_ + shared_bytes_;
  Finding found;
  if (shared) {
    const auto offset = static_cast<std::uint32_t>(at - shared_);
    const bool same = write && stores_what_is_there(thread, inst, at, size);
    const bool reads = !write || order.read_modify_write;
    for (std::uint32_t byte = offset; byte < offset + size && reads; ++byte)
      if (!initialized_[byte]) return {Finding::Kind::kUninitialized, byte, 0, false, nullptr};
    for (std::uint32_t byte = offset; byte < offset + size && write; ++byte) initialized_[byte] = true;
    for (std::uint32_t word = offset / 4; word <= (offset + size - 1) / 4 && found.kind == Finding::Kind::kNone; ++word) {
      std::uint8_t mask = 0;
      for (std::uint32_t byte = 0; byte < 4; ++byte)
        if (4 * word + byte >= offset && 4 * word + byte < offset + size) mask |= static_cast<std::uint8_t>(1u << byte);
      found = check_word(self, word, mask, inst, write, order.strong, same);
    }
  }
  if (order.strong) synchronize(self, order, at, write);
  return found;
}

}  // namespace pergola::device::cpu::interp
