#include "src/device/cpu/jit/block_run.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/plural.h"
#include "src/device/cpu/jit/fault_signals.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/vector_runtime.h"
#include "src/device/cpu/memory_map.h"
#include "src/device/cpu/place.h"

namespace pergola::device::cpu::jit {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

namespace {
constexpr std::uint32_t kSpinTurns = 16;    // back-edges of a spinning loop before others run
constexpr std::uint32_t kSpunRounds = 4;    // rounds in which everybody spun before the block says that it waits
constexpr std::uint32_t kChangeovers = 1 << 12;  // from group to group, until the scheduler looks
// The number of true predicates; the top bit says whether all were.
std::uint32_t result_of(const NamedBarrier& barrier) { return barrier.popc() | (barrier.all() ? 0x80000000u : 0u); }
constexpr std::uint32_t kTurnsUntilPoll = 1 << 16;  // of loops that may not end
}  // namespace

BlockRun::BlockRun(Block& block, const Code& code) : block_(block), code_(code) {
  const LaunchConfig& config = block.launch->config;
  context_.parameters = block.launch->parameters.data();
  context_.shared_base = block.shared_base;
  context_.shared_bytes = block.shared_bytes;
  context_.dynamic_shared_bytes = config.dynamic_shared_bytes;
  const auto set = [](std::uint32_t (&to)[3], const Dim3& from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; };
  set(context_.ntid, config.block);
  set(context_.ctaid, block.index);
  set(context_.nctaid, config.grid);
  context_.smid = block.sm;
  context_.nsmid = block.launch->sm_count;
  context_.gridid = block.launch->grid_id;
  context_.grid_workspace = block.launch->grid_workspace;
  context_.run = this;

  const auto threads = code_.fibers ? static_cast<std::uint32_t>(config.block.count()) : 1;
  fibers_.resize((threads + code_.lanes - 1) / code_.lanes);
  live_count_ = static_cast<std::uint32_t>(fibers_.size());
  live_.assign((threads + 31) / 32, 0xffffffffu);
  if (threads % 32 != 0) live_.back() = (1u << threads % 32) - 1;
  ThreadContext first;
  first.block = &context_;
  first.spin_left = kSpinTurns;
  for (std::uint32_t n = 0; n < fibers_.size(); ++n) fibers_[n].context = context_of_lane(first, n * code_.lanes);
}

ThreadContext BlockRun::context_of_lane(const ThreadContext& first, std::uint32_t lane) const {
  ThreadContext thread = first;
  thread.linear += lane;
  thread.tid[0] = thread.linear % context_.ntid[0];
  thread.tid[1] = thread.linear / context_.ntid[0] % context_.ntid[1];
  thread.tid[2] = thread.linear / context_.ntid[0] / context_.ntid[1];
  return thread;
}

BlockRun::~BlockRun() {
  for (Fiber& fiber : fibers_) StackPool::of_this_thread().give_back(fiber.stack);
}

PtxPlace BlockRun::place_of(std::uintptr_t address) const {
  return code_.unit == nullptr ? PtxPlace{} : code_.unit->place_of(address);
}

std::string BlockRun::where(const ThreadContext* thread, PtxPlace place) const {
  const Dim3 b = block_.index;
  std::string text = fmt::format("Kernel '{}'{}: ", block_.launch->kernel_name,
                                 code_.module != nullptr ? describe_place(*code_.module, place) : std::string());
  const auto tid = [](const ThreadContext& of) { return fmt::format("({},{},{})", of.tid[0], of.tid[1], of.tid[2]); };
  if (thread != nullptr && (running_ == nullptr || thread != &running_->context)) {
    text += fmt::format("thread {} of ", tid(*thread));
  } else if (running_ != nullptr) {
    // A loop over threads or groups leaves the index of the one it is at (module_emitter.cc, vector_kernel.cc).
    const ThreadContext first = context_of_lane(running_->context, 0);
    if (code_.group == 1) {
      text += fmt::format("thread {} of ", tid(first));
    } else {
      const auto threads = static_cast<std::uint32_t>(block_.launch->config.block.count());
      const std::uint32_t last = std::min(code_.group, threads - first.linear) - 1;
      text += last == 0 ? fmt::format("thread {} of ", tid(first))
                        : fmt::format("one of the threads {} to {} of ", tid(first), tid(context_of_lane(first, last)));
    }
  }
  return text + fmt::format("block ({},{},{})", b.x, b.y, b.z);
}

BlockRun::Fiber& BlockRun::fiber_of(ThreadContext*) { return *running_; }

PERGOLA_SWITCHES_STACK void BlockRun::fiber_main(transfer_t from) {
  auto* run = static_cast<BlockRun*>(from.data);
  Fiber& fiber = *run->running_;
  after_switch(nullptr, &run->scheduler_bottom_, &run->scheduler_bytes_);
  run->scheduler_ = from.fctx;
  do {
    run->code_.function(&run->context_, &fiber.context);
  } while (run->begin_next());
  fiber.state = State::kDone;
  before_switch(nullptr, run->scheduler_bottom_, run->scheduler_bytes_);
  jump_fcontext(run->scheduler_, nullptr);
  __builtin_unreachable();
}

// Runs the fiber until it waits, spins or is done. False where it could not be started.
PERGOLA_SWITCHES_STACK bool BlockRun::resume(Fiber& fiber) {
  if (fiber.state == State::kNew) {
    fiber.stack = StackPool::of_this_thread().take(code_.stack_bytes, code_.bounded_stack);
    if (!fiber.stack) {
      raise(PERGOLA_ERROR(kResourceExhausted, "{} gets no stack of {} bytes: the host has no memory or mapping left{}.",
                          where(&fiber.context), code_.stack_bytes,
                          code_.bounded_stack ? "" : " (a thread of a kernel with recursion or calls through registers takes two of "
                                                     "its vm.max_map_count mappings; PERGOLA_CPU_SMS lets fewer wait at a time)"));
      return false;
    }
    fiber.context.local_base = fiber.stack.bottom;
    fiber.context.local_bytes = static_cast<std::uint32_t>(fiber.stack.size_bytes);
    fiber.where = make_fcontext(fiber.stack.top(), fiber.stack.size_bytes, &BlockRun::fiber_main);
  }
  void* const data = fiber.state == State::kNew ? this : nullptr;
  fiber.state = State::kReady;
  running_ = &fiber;
  set_running_block(this, fiber.stack.top());
  before_switch(&scheduler_fake_stack_, fiber.stack.bottom, fiber.stack.size_bytes);
  const transfer_t back = jump_fcontext(fiber.where, data);
  after_switch(scheduler_fake_stack_, nullptr, nullptr);
  set_running_block(nullptr, nullptr);
  raise_pending_fault(*this);
  Fiber& last = *running_;  // another one where they changed over among themselves
  last.where = back.fctx;
  running_ = nullptr;
  if (last.state == State::kDone) finish(last);
  return true;
}

// On the fiber's own stack again, which either the scheduler or another fiber (then in `from.data`) has left for it.
PERGOLA_SWITCHES_STACK_INLINE void BlockRun::arrive_on_stack(Fiber& fiber, transfer_t from) {
  if (from.data != nullptr) {
    after_switch(fiber.fake_stack, nullptr, nullptr);
    static_cast<Fiber*>(from.data)->where = from.fctx;
  } else {
    after_switch(fiber.fake_stack, &scheduler_bottom_, &scheduler_bytes_);
    scheduler_ = from.fctx;
  }
}

PERGOLA_SWITCHES_STACK void BlockRun::suspend(Fiber& fiber) {
  before_switch(&fiber.fake_stack, scheduler_bottom_, scheduler_bytes_);
  arrive_on_stack(fiber, jump_fcontext(scheduler_, nullptr));
}

// Moves on to the block that follows, where this fiber is the whole block.
bool BlockRun::begin_next() {
  if (code_.fibers || block_.following == 0 || block_.launch->fault->raised()) return false;
  block_.advance(block_.launch->config.grid);
  context_.ctaid[0] = block_.index.x, context_.ctaid[1] = block_.index.y, context_.ctaid[2] = block_.index.z;
  context_.turns_left = BlockContext().turns_left;
  return true;
}

void BlockRun::finish(Fiber& fiber) {
  StackPool::of_this_thread().give_back(fiber.stack);
  fiber.stack = {};
  const auto index = static_cast<std::uint32_t>(&fiber - fibers_.data());
  const std::uint32_t first = index * code_.lanes;
  live_[first / 32] &= ~((code_.lanes == 32 ? ~0u : (1u << code_.lanes) - 1) << first % 32);
  --live_count_;
  if (code_.fibers && code_.lanes == 1) check_collectives(index / 32);
}

void BlockRun::yield(ThreadContext* thread) {
  thread->spin_left = kSpinTurns;
  if (!code_.fibers) return;
  context_.turns_left = kTurnsUntilPoll;  // turns of a loop that spins are no progress, as poll() would have it
  Fiber& fiber = fiber_of(thread);
  fiber.state = State::kSpun;
  fiber.polled_from = nullptr;
  suspend(fiber);
}

void BlockRun::poll(const void* from) {
  context_.turns_left = kTurnsUntilPoll;
  running_->polled_from = from;
  running_->state = State::kPolled;
  suspend(*running_);
}

void BlockRun::exit(ThreadContext* thread) {
  Fiber& fiber = fiber_of(thread);
  fiber.state = State::kDone;
  before_switch(nullptr, scheduler_bottom_, scheduler_bytes_);
  jump_fcontext(scheduler_, nullptr);
  __builtin_unreachable();
}

void BlockRun::leave_after_fault() {
  faulted_ = true;
  running_->state = State::kDone;
  before_switch(nullptr, scheduler_bottom_, scheduler_bytes_);
  jump_fcontext(scheduler_, nullptr);
  __builtin_unreachable();
}

// --- barriers -------------------------------------------------------------------------------------------------------

std::uint32_t BlockRun::barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t expected, std::uint32_t kind,
                                bool predicate) {
  if (!takes_part(id, expected, kind, thread)) leave_after_fault();
  barriers_[id].arrive(thread->linear / 32, thread->linear % 32, expected, predicate);
  if (kind == kBarrierArrive) return 0;
  Fiber& fiber = fiber_of(thread);
  fiber.state = State::kBarrier;
  fiber.barrier = static_cast<std::uint8_t>(id);
  fiber.aligned = kind == kBarrierAligned;
  suspend(fiber);
  return static_cast<std::uint32_t>(fiber.result);
}

// From a group that waits straight to the next one that is ready; to the scheduler where there is none, and now and
// then for its own sake.
PERGOLA_SWITCHES_STACK_INLINE void BlockRun::suspend_to_next(Fiber& fiber) {
  const auto count = static_cast<std::uint32_t>(fibers_.size());
  const auto self = static_cast<std::uint32_t>(&fiber - fibers_.data());
  if (changeovers_left_ == 0) return suspend(fiber);
  for (std::uint32_t step = 1; step < count; ++step) {
    const std::uint32_t n = self + step < count ? self + step : self + step - count;
    Fiber& next = fibers_[n];
    if (next.state != State::kReady) continue;
    --changeovers_left_;
    running_ = &next;
    set_running_block(this, next.stack.top());
    before_switch(&fiber.fake_stack, next.stack.bottom, next.stack.size_bytes);
    arrive_on_stack(fiber, jump_fcontext(next.where, &fiber));
    return;
  }
  suspend(fiber);
}

PERGOLA_SWITCHES_STACK std::uint32_t BlockRun::group_barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t expected,
                                                             std::uint32_t kind, std::uint32_t active,
                                                             std::uint32_t truths, std::uint32_t live) {
  BlockRun& run = *thread->block->run;
  const bool known = id < kBarriers && (run.barriers_used_ >> id & 1) != 0 && expected % 32 == 0;
  if ((!known || kind == kBarrierArrive) && !run.takes_part(id, expected, kind, thread)) run.leave_after_fault();
  const std::uint32_t warp = thread->linear / 32, shift = thread->linear % 32;
  const std::uint32_t all = run.code_.lanes == 32 ? ~0u : (1u << run.code_.lanes) - 1;
  run.live_[warp] &= ~((all & ~live) << shift);
  NamedBarrier& barrier = run.barriers_[id];
  barrier.arrive_together(warp, active << shift, expected, truths << shift);
  if (kind == kBarrierArrive) return 0;
  if (barrier.complete(run.live_)) {  // the last to come need not wait
    const std::uint32_t result = result_of(barrier);
    run.release_barrier(id);
    return result;
  }
  Fiber& fiber = *run.running_;
  fiber.state = State::kBarrier;
  fiber.barrier = static_cast<std::uint8_t>(id);
  run.suspend_to_next(fiber);
  return static_cast<std::uint32_t>(fiber.result);
}

// False where the barrier does not exist; the fault has been raised.
bool BlockRun::takes_part(std::uint32_t id, std::uint32_t expected, std::uint32_t kind, const ThreadContext* thread) {
  if (id >= kBarriers || expected % 32 != 0 || (kind == kBarrierArrive && expected == 0)) {
    raise(PERGOLA_ERROR(kDeviceFault,
                        "{} uses barrier {} with {}; there are barriers 0 to {}, and counts are multiples of 32.",
                        where(thread, {thread->wait_line}), id, plural(expected, "thread"), kBarriers - 1));
    return false;
  }
  if (barriers_ == nullptr) barriers_ = std::make_unique<NamedBarrier[]>(kBarriers);
  if ((barriers_used_ >> id & 1) == 0) barriers_[id].reset(static_cast<std::uint32_t>(live_.size()));
  barriers_used_ |= 1u << id;
  return true;
}

void BlockRun::release_barrier(std::uint32_t id) {
  NamedBarrier& barrier = barriers_[id];
  const std::uint32_t result = result_of(barrier);
  const Fiber* before = nullptr;
  for (Fiber& fiber : fibers_) {
    if (fiber.state != State::kBarrier || fiber.barrier != id) continue;
    fiber.state = State::kReady;
    fiber.result = result;
    // Groups are at one instruction by their code's making.
    if (!fiber.aligned) continue;
    if (before != nullptr && before->context.wait_line != fiber.context.wait_line &&
        before->context.linear / 32 == fiber.context.linear / 32) {
      check_same_barrier(fiber, *before);
    }
    before = &fiber;
  }
  barrier.clear();
}

// Two barriers of the source, that is: copies of one have its line, and without lines there is no telling.
void BlockRun::check_same_barrier(const Fiber& one, const Fiber& other) {
  if (code_.module == nullptr) return;
  const ptx::Instruction* here = instruction_at(*code_.module, {one.context.wait_line});
  const ptx::Instruction* there = instruction_at(*code_.module, {other.context.wait_line});
  if (here == nullptr || there == nullptr || here->debug_line == 0 || are_of_one_line(*here, *there)) return;
  const auto* tid = other.context.tid;
  raise(PERGOLA_ERROR(
      kDeviceFault,
      "{} is at a barrier for its whole warp, and thread ({},{},{}) of the warp is at another,{}; all of a "
      "warp must come to the same barrier.",
      where(&one.context, {one.context.wait_line}), tid[0], tid[1], tid[2],
      describe_place(*code_.module, {other.context.wait_line})));
}

bool BlockRun::complete_barriers() {
  bool any = false;
  if (barriers_used_ == 0) return false;
  for (std::uint32_t id = 0; id < kBarriers; ++id) {
    if ((barriers_used_ >> id & 1) == 0 || barriers_[id].idle() || !barriers_[id].complete(live_)) continue;
    release_barrier(id);
    any = true;
  }
  return any;
}

// --- warp operations ------------------------------------------------------------------------------------------------

std::uint64_t BlockRun::collective(ThreadContext* thread, std::uint32_t kind, std::uint32_t mask, std::uint64_t value,
                                   std::uint32_t b, std::uint32_t c) {
  Fiber& fiber = fiber_of(thread);
  fiber.kind = kind;
  fiber.mask = mask;
  fiber.value = value;
  fiber.b = b;
  fiber.c = c;
  arrive(fiber, thread->linear % 32);
  if (fiber.state != State::kReady) suspend(fiber);
  return fiber.result;
}

// Marks the lane as waiting; where it was the last of its mask, all of them go on.
void BlockRun::arrive(Fiber& fiber, std::uint32_t lane) {
  const bool converges = (fiber.kind & kConverged) != 0;
  if (!converges && (fiber.mask >> lane & 1) == 0) {
    raise(PERGOLA_ERROR(kDeviceFault, "{} executes a warp operation whose member mask {:#x} does not name its lane {}.",
                        where(&fiber.context, {fiber.context.wait_line}), fiber.mask, lane));
    leave_after_fault();
  }
  fiber.state = converges ? State::kSite : State::kWarp;
  if (!converges) check_collectives(fiber.context.linear / 32);
}

// Completes every operation of the warp whose live members have all arrived with the same mask.
void BlockRun::check_collectives(std::uint32_t warp) {
  const std::uint32_t live = live_[warp];
  std::uint32_t waiting = 0;
  for (std::uint32_t rest = live; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (fibers_[warp * 32 + lane].state == State::kWarp) waiting |= 1u << lane;
  }
  while (waiting != 0) {
    const std::uint32_t mask = fibers_[warp * 32 + static_cast<std::uint32_t>(std::countr_zero(waiting))].mask;
    std::uint32_t members = 0;
    for (std::uint32_t rest = waiting; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (fibers_[warp * 32 + lane].mask == mask) members |= 1u << lane;
    }
    if (members == (mask & live)) complete_collective(warp, members);
    waiting &= ~members;
  }
}

// Lanes at the same site of an operation without a mask, once no lane of the warp can go on: they are converged.
bool BlockRun::converge(std::uint32_t warp) {
  for (std::uint32_t rest = live_[warp]; rest != 0; rest &= rest - 1) {
    const Fiber& first = fibers_[warp * 32 + static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (first.state != State::kSite) continue;
    std::uint32_t members = 0;
    for (std::uint32_t lanes = live_[warp]; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
      const Fiber& fiber = fibers_[warp * 32 + lane];
      if (fiber.state == State::kSite && fiber.mask == first.mask) members |= 1u << lane;
    }
    complete_collective(warp, members);
    return true;
  }
  return false;
}

void BlockRun::complete_collective(std::uint32_t warp, std::uint32_t members) {
  Fiber* lanes = &fibers_[warp * 32];
  std::uint64_t values[32] = {}, results[32] = {};
  std::uint32_t b[32] = {}, c[32] = {};
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    values[lane] = lanes[lane].value;
    b[lane] = lanes[lane].b;
    c[lane] = lanes[lane].c;
  }
  // A barrier of the warp and a shuffle may meet under one mask: each lane gets what its own instruction gives.
  for (std::uint32_t rest = members; rest != 0;) {
    const std::uint32_t kind = lanes[std::countr_zero(rest)].kind;
    warp_collective(kind, members, values, b, c, results);
    for (std::uint32_t same = rest; same != 0; same &= same - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(same));
      if (lanes[lane].kind != kind) continue;
      lanes[lane].state = State::kReady;
      lanes[lane].result = results[lane];
      rest &= ~(1u << lane);
    }
  }
}

// --- scheduling -----------------------------------------------------------------------------------------------------

// Runs the warp's lanes until none can go on but those that spun. True where any ran.
bool BlockRun::run_warp(std::uint32_t warp, std::uint64_t& budget) {
  bool ran = false;
  for (bool again = true; again && !faulted_;) {
    again = false;
    const std::size_t per_warp = 32 / code_.lanes, first = warp * per_warp;
    for (std::size_t n = first; n < std::min(first + per_warp, fibers_.size()); ++n) {
      Fiber& fiber = fibers_[n];
      if (fiber.state != State::kNew && fiber.state != State::kReady) continue;
      if (!resume(fiber)) faulted_ = true;
      budget -= std::min<std::uint64_t>(budget, 16);
      if (faulted_) return true;
      ran = true;
      again = code_.lanes == 1;  // another lane may have made it ready meanwhile; a group waits for other warps alone
    }
    if (!again && code_.lanes == 1) again = converge(warp);
  }
  return ran;
}

Progress BlockRun::step(std::uint64_t budget) {
  const FaultSlot& fault = *block_.launch->fault;
  prepare_fault_signals();
  std::uint32_t spun_rounds = 0;
  while (live_count_ > 0) {
    if (faulted_ || fault.raised()) return Progress::kFinished;
    bool ran = false, spun = false, polled = false;
    changeovers_left_ = kChangeovers;
    for (std::uint32_t warp = 0; warp < live_.size() && !faulted_; ++warp) ran |= run_warp(warp, budget);
    if (faulted_) return Progress::kFinished;
    const bool released = complete_barriers();
    for (Fiber& fiber : fibers_) {
      if (fiber.state != State::kSpun && fiber.state != State::kPolled) continue;
      polled |= fiber.state == State::kPolled;
      spun = true;
      fiber.state = State::kReady;
    }
    if (live_count_ == 0) break;
    if (!ran && !released && !spun) {
      report_deadlock();
      return Progress::kFinished;
    }
    if (spun && !released && !polled) {
      if (++spun_rounds >= kSpunRounds) return Progress::kWaiting;
    } else {
      spun_rounds = 0;
    }
    if (budget == 0 || polled) return Progress::kRan;
  }
  return Progress::kFinished;
}

std::string BlockRun::waits_of(const Fiber& fiber) const {
  switch (fiber.state) {
    case State::kBarrier: {
      const NamedBarrier& barrier = barriers_[fiber.barrier];
      return "waits at " + describe_barrier(fiber.barrier, barrier.arrived(), barrier.expected() == 0 ? live_threads() : barrier.expected());
    }
    case State::kWarp: return fmt::format("waits for lanes {:#x} of its warp", fiber.mask);
    case State::kSite: return "waits for its warp to converge";
    default: break;
  }
  if (fiber.context.look_line == 0 || fiber.polled_from != nullptr) return "runs";
  const std::uint64_t at = fiber.context.look_address;
  const std::uint64_t into = at - reinterpret_cast<std::uintptr_t>(block_.shared_base);
  if (into < block_.shared_bytes) return fmt::format("spins on {:#x}, offset {} of the block's shared memory", at, into);
  return fmt::format("spins on {:#x}, {}", at,
                     block_.launch->memory != nullptr ? block_.launch->memory->describe_nearest(at) : "and no buffer is known");
}

std::uint32_t BlockRun::live_threads() const {
  std::uint32_t count = 0;
  for (const std::uint32_t lanes : live_) count += static_cast<std::uint32_t>(std::popcount(lanes));
  return count;
}

// "blur.cu:77 (bar.sync)", or nothing.
std::string BlockRun::place_of(const Fiber& fiber) const {
  const bool waits = fiber.state == State::kBarrier || fiber.state == State::kWarp || fiber.state == State::kSite;
  PtxPlace place;
  if (!waits && fiber.polled_from != nullptr) {
    place = place_of(reinterpret_cast<std::uintptr_t>(fiber.polled_from) - 1);  // the call, not what follows it
  } else {
    place.line = waits || fiber.context.look_line == 0 ? fiber.context.wait_line : fiber.context.look_line;
  }
  if (code_.module == nullptr || place.line == 0) return {};
  return describe_place(*code_.module, place).substr(4);  // without " at "
}

std::vector<Stand> BlockRun::stands() const {
  std::vector<Stand> all;
  if (!code_.fibers && fibers_.front().polled_from == nullptr)
    return {{block_.index, 0, 0, {}, "runs in a loop over its threads"}};
  std::size_t first = 0;  // of the warp
  // A loop over threads or groups leaves the index of the one it is at: as many threads as the code works on at a time.
  const std::uint32_t together = code_.fibers ? code_.lanes : code_.group;
  const auto threads = static_cast<std::uint32_t>(block_.launch->config.block.count());
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == State::kDone) continue;
    const std::uint32_t warp = fiber.context.linear / 32, shift = fiber.context.linear % 32;
    std::uint32_t lanes = (together == 32 ? ~0u : (1u << together) - 1) << shift;
    if (code_.fibers) lanes &= live_[warp];
    if (threads - warp * 32 < 32) lanes &= (1u << (threads - warp * 32)) - 1;
    Stand stand{block_.index, warp, lanes, place_of(fiber), waits_of(fiber)};
    while (first < all.size() && all[first].warp != warp) ++first;
    const auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(), [&](const Stand& other) {
      return other.place == stand.place && other.waits == stand.waits;
    });
    if (same == all.end()) {
      all.push_back(std::move(stand));
    } else {
      same->lanes |= lanes;
    }
  }
  return all;
}

void BlockRun::report_deadlock() {
  raise(PERGOLA_ERROR(kDeviceFault, "Kernel '{}': block ({},{},{}) waits for ever, as no thread of it can go on:{}",
                      block_.launch->kernel_name, block_.index.x, block_.index.y, block_.index.z, describe_stands(stands())));
}

}  // namespace pergola::device::cpu::jit
