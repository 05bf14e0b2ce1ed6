#include "src/device/cpu/task_crew.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <unordered_map>

#include "src/abi/task_inbox.h"
#include "src/base/log.h"
#include "src/device/cpu/task_worker.h"
#include "src/device/cpu/work.h"

namespace pergola::device::cpu {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// How long a thread looks for what it waits for before it sleeps: about what it takes to wake one.
constexpr std::chrono::microseconds kLookFor{20};
constexpr std::uint64_t kSlotMask = TaskCrew::kMostOpen - 1;
constexpr std::uint32_t kLongestRun = 32, kRunShares = 4;  // blocks of one task that a worker takes at a time

}  // namespace

TaskCrew::TaskCrew(std::shared_ptr<CpuDevice> device) : device_(std::move(device)), slots_(new Slot[kMostOpen]) {
  free_.reserve(kMostOpen);
  for (std::uint32_t n = kMostOpen; n-- > 0;) {
    free_.push_back(n);
    slots_[n].crew = this;
  }
}

void TaskCrew::start(std::uint32_t threads) {
  const std::scoped_lock lock(mutex_);  // threads look at how many they are
  threads_.reserve(threads);
  try {
    for (std::uint32_t n = 0; n < threads; ++n)
      threads_.emplace_back([crew = shared_from_this(), n] { Worker(*crew, n).run(); });
  } catch (const std::system_error&) {  // the host gives no more: one will do
    if (threads_.empty()) throw;
  }
}

Result<TaskRunner::KindPtr> TaskCrew::kind(const ModulePtr& module, const Kernel& kernel,
                                           const LaunchConfig& config) const {
  auto made = std::make_shared<Kind>();
  made->parameter_bytes = kernel.signature().parameter_bytes;
  PERGOLA_ASSIGN(const CheckedLaunch checked,
                 check_launch(*device_, module, kernel, config, made->parameter_bytes, "these tasks"));
  made->module = module;
  made->kernel = checked.kernel;
  made->config = config;
  made->shared_bytes = checked.shared_bytes;
  made->crew = this;
  return TaskRunner::KindPtr(std::move(made));
}

// ── Spawning ────────────────────────────────────────────────────────────────────────────────────────────────────────

Status TaskCrew::open_slot(Slot& slot, const TaskRunner::KindPtr& given, std::span<const std::byte> parameters) {
  const std::size_t bytes = std::max<std::size_t>(parameters.size(), kParameterAlignBytes);
  if (slot.parameters.size_bytes() < bytes) slot.parameters = AlignedBytes::make(bytes, kParameterAlignBytes);
  if (slot.parameters.data() == nullptr)
    return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for parameters.", parameters.size());
  if (!parameters.empty()) std::memcpy(slot.parameters.data(), parameters.data(), parameters.size());
  slot.kind = std::static_pointer_cast<const Kind>(given);
  const Kind& kind = *slot.kind;
  slot.fault.emplace();
  slot.print.emplace(device_->output());
  slot.launch = launch_of(*device_, *kind.kernel, kind.config, {slot.parameters.data(), parameters.size()}, *slot.fault,
                          *slot.print);
  slot.next = 0;
  slot.total = kind.config.grid.count();
  slot.left.store(slot.total, std::memory_order_relaxed);
  slot.launch.spawner = &slot;
  slot.founder = &slot;
  slot.has_ended_itself = false;
  slot.serial = ++last_serial_;
  slot.waited_for = false;
  return {};
}

Result<TaskCrew::Id> TaskCrew::spawn(const TaskRunner::KindPtr& given, std::span<const std::byte> parameters,
                                     bool high_priority, bool waits) {
  const auto* kind = static_cast<const Kind*>(given.get());
  if (kind == nullptr || kind->crew != this || parameters.size() != kind->parameter_bytes)
    return PERGOLA_ERROR(kInvalidArgument, "The task's kind is {}.",
                         kind == nullptr      ? "null"
                         : kind->crew != this ? "of another runner of tasks"
                                              : "of a kernel with more or fewer bytes of parameters");
  std::unique_lock lock(mutex_);
  const auto may_go = [&] {
    return !cancelled_.ok() || (!free_.empty() && (high_priority || high_wait_for_room_ == 0 || is_normals_spawn()));
  };
  if (!may_go()) {
    if (!waits) return Id{0};
    ++wait_for_room_;
    high_wait_for_room_ += high_priority ? 1 : 0;
    has_room_.wait(lock, may_go);
    --wait_for_room_;
    high_wait_for_room_ -= high_priority ? 1 : 0;
    if (wait_for_room_ != 0 && !free_.empty()) has_room_.notify_all();
  }
  PERGOLA_TRY(cancelled_);
  const std::uint32_t number = free_.back();
  Slot& slot = slots_[number];
  PERGOLA_TRY(open_slot(slot, given, parameters));
  ++spawned_;
  high_spawns_ = high_priority ? high_spawns_ + 1 : 0;
  enqueue(number, high_priority);
  const Id id = id_of(slot, slot.state.load(std::memory_order_relaxed));
  const bool wakes = sleeping_ != 0 && looking_ == 0;
  lock.unlock();
  if (wakes) has_work_.notify_one();
  return id;
}

// The last of the free ones, which has been filled in.
TaskCrew::Slot& TaskCrew::enqueue(std::uint32_t number, bool high_priority) {
  Slot& slot = slots_[number];
  free_.pop_back();
  ++open_;
  slot.state.store(slot.state.load(std::memory_order_relaxed) + 3, std::memory_order_relaxed);  // the next, and open
  (high_priority ? high_ : normal_).push_back(number);
  arrived_.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

// ── Tasks that spawn tasks ──────────────────────────────────────────────────────────────────────────────────────────

Result<std::uint64_t> TaskCrew::handle_of(const TaskRunner::KindPtr& given, bool high_priority) {
  const auto& kind = static_cast<const Kind&>(*given);
  if (kind.parameter_bytes > abi::kInboxParameterBytes)
    return PERGOLA_ERROR(kUnsupported,
                         "Kernel '{}' has {} bytes of parameters, and a task that tasks spawn has {} at most: have it "
                         "take a pointer to them.",
                         kind.kernel->signature().name, kind.parameter_bytes, abi::kInboxParameterBytes);
  const std::scoped_lock lock(mutex_);
  auto at = std::find(handles_.begin(), handles_.end(), given);
  if (at == handles_.end()) {
    if (handles_.size() == abi::kMostKinds)
      return PERGOLA_ERROR(kResourceExhausted, "Tasks spawn tasks of {} kinds at most.", abi::kMostKinds);
    at = handles_.insert(handles_.end(), given);
  }
  return abi::task_handle(static_cast<std::uint32_t>(at - handles_.begin()), high_priority,
                          static_cast<std::uint32_t>(kind.parameter_bytes), 1);
}

Result<bool> TaskCrew::Slot::spawn(std::uint64_t handle, std::uint32_t parameter_bytes,
                                   std::span<const std::uint64_t, kWords> words) {
  return crew->spawn_from(*this, handle, parameter_bytes, words);
}

Result<bool> TaskCrew::spawn_from(Slot& parent, std::uint64_t handle, std::uint32_t parameter_bytes,
                                  std::span<const std::uint64_t, TaskSpawner::kWords> words) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = handle & (abi::kMostKinds - 1);
  if (handle >> abi::kHandleMagicShift != abi::kHandleMagic || number >= handles_.size())
    return PERGOLA_ERROR(kInvalidArgument, "spawns a task of {:#x}, which is no handle of a kind of this pool.",
                         handle);
  const TaskRunner::KindPtr& given = handles_[number];
  const auto& kind = static_cast<const Kind&>(*given);
  if (kind.parameter_bytes != parameter_bytes)
    return PERGOLA_ERROR(kInvalidArgument, "spawns a task of kernel '{}' with {} bytes of parameters; it has {}.",
                         kind.kernel->signature().name, parameter_bytes, kind.parameter_bytes);
  if (free_.empty() || !cancelled_.ok()) return false;
  const std::uint32_t free = free_.back();
  Slot& slot = slots_[free];
  PERGOLA_TRY(open_slot(slot, given, std::as_bytes(words).first(parameter_bytes)));
  ++spawned_by_tasks_;
  slot.founder = parent.founder;
  ++slot.founder->members;
  enqueue(free, (handle >> abi::kHandleUrgentShift & 1) != 0);
  const bool wakes = sleeping_ != 0 && looking_ == 0;
  lock.unlock();
  if (wakes) has_work_.notify_one();
  return true;
}

TaskCrew::Part TaskCrew::take() {
  const bool is_high = !high_.empty() && (normal_.empty() || !is_normals_turn());
  std::deque<std::uint32_t>& queue = is_high ? high_ : normal_;
  if (queue.empty()) return {};
  high_taken_ = is_high ? high_taken_ + 1 : 0;
  Slot& slot = slots_[queue.front()];
  const std::uint64_t share = (slot.total - slot.next) / (std::uint64_t{kRunShares} * threads_.size());
  const auto count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, kLongestRun));
  const Part part{&slot, {slot.next, count}};
  slot.next += count;
  if (slot.next == slot.total) queue.pop_front();
  if (sleeping_ != 0 && looking_ == 0 && has_work()) has_work_.notify_one();
  return part;
}

void TaskCrew::await_work(std::unique_lock<std::mutex>& lock) {
  ++looking_;
  const std::uint64_t seen = arrived_.load(std::memory_order_relaxed);
  lock.unlock();
  const auto until = Clock::now() + kLookFor;
  while (arrived_.load(std::memory_order_relaxed) == seen && Clock::now() < until) std::this_thread::yield();
  lock.lock();
  --looking_;
  if (has_work() || stop_) return;
  ++sleeping_;
  has_work_.wait(lock, [this] { return has_work() || stop_; });
  --sleeping_;
}

// ── Ending ──────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

}  // namespace

void TaskCrew::begin(Slot& slot, std::uint32_t worker) {
  if (most_slices_.load(std::memory_order_relaxed) != 0) {
    slot.worker = worker;
    slot.kernel_name = slot.launch.kernel_name;
    slot.begun_ns = now_ns();
  }
  slot.margins.emplace(device_->memory()->margins, slot.launch.kernel_name, slot.launch.parameters);
  slot.first_heap_block = device_->heap().next_id();
}

Status TaskCrew::end(Slot& slot) {
  if (slot.begun_ns != 0) slot.ended_ns = now_ns();
  Status status = slot.fault->status();
  if (status.ok()) status = slot.margins->end();
  if (status.ok()) status = device_->heap().check(slot.launch.kernel_name, slot.first_heap_block);
  slot.print->flush();
  slot.margins.reset();
  slot.kind.reset();  // before the task counts as ended: whoever has waited finds its module let go
  return status;
}

void TaskCrew::note_slice(Slot& slot) {
  const std::uint64_t begun_ns = std::exchange(slot.begun_ns, 0);
  const std::size_t most = most_slices_.load(std::memory_order_relaxed);
  if (begun_ns == 0 || most == 0) return;
  const Id id = slot.founder == &slot ? id_of(slot, slot.state.load(std::memory_order_relaxed)) : 0;
  slices_.push_back({{id, 0, slot.worker, begun_ns, slot.ended_ns}, std::move(slot.kernel_name)});
  if (slices_.size() <= most) return;
  slices_.pop_front();
  ++dropped_slices_;
}

void TaskCrew::keep_slices(std::size_t most) {
  const std::scoped_lock lock(mutex_);
  most_slices_.store(most, std::memory_order_relaxed);
  slices_.clear();
  dropped_slices_ = 0;
}

TaskSlices TaskCrew::take_slices() {
  const std::scoped_lock lock(mutex_);
  TaskSlices taken;
  taken.dropped = std::exchange(dropped_slices_, 0);
  taken.slices.reserve(slices_.size());
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (NamedSlice& named : slices_) {
    const auto known = numbers.try_emplace(std::move(named.kernel_name), static_cast<std::uint32_t>(numbers.size()));
    if (known.second) taken.kernels.push_back(known.first->first);
    named.slice.kernel = known.first->second;
    taken.slices.push_back(named.slice);
  }
  slices_.clear();
  return taken;
}

void TaskCrew::note_ended(Slot& slot, Status status) {
  note_slice(slot);
  Slot& founder = *slot.founder;
  if (!status.ok() && founder.outcome.ok()) {
    founder.outcome = std::move(status);
    if (&founder != &slot)
      founder.outcome =
          Error{founder.outcome.code(), fmt::format("A task that it has spawned fails: {}", founder.outcome.message()),
                __FILE__, __LINE__};
  }
  slot.has_ended_itself = true;
  if (&founder != &slot) {
    --founder.members;
    close_slot(slot);
  }
  if (founder.members != 0 || !founder.has_ended_itself) return;
  if (!founder.outcome.ok())
    failures_.add(id_of(founder, founder.state.load(std::memory_order_relaxed)), founder.outcome.code(),
                  founder.outcome.message());
  founder.outcome = {};
  close_slot(founder);
}

void TaskCrew::close_slot(Slot& slot) {
  slot.state.store(slot.state.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.get()));
  --open_;
  if (waiting_ != 0 && (slot.waited_for || open_ == 0)) has_ended_.notify_all();
  if (wait_for_room_ != 0 && (high_wait_for_room_ != 0 || free_.size() >= kMostOpen / 8 || !has_work()))
    has_room_.notify_all();
}

void TaskCrew::cancel(const Error& why) {
  const std::scoped_lock lock(mutex_);
  if (!cancelled_.ok()) return;
  cancelled_ = why;
  for (std::deque<std::uint32_t>* queue : {&high_, &normal_}) {
    for (const std::uint32_t number : *queue) {
      Slot& slot = slots_[number];
      if (slot.next == 0) {
        slot.kind.reset();
        note_ended(slot, why);
        continue;
      }
      // Its blocks that nobody has taken never will be; those that run see the fault.
      slot.fault->raise(why);
      const std::uint64_t rest = slot.total - std::exchange(slot.next, slot.total);
      if (slot.left.fetch_sub(rest, std::memory_order_acq_rel) == rest) note_ended(slot, end(slot));
    }
    queue->clear();
  }
  for (std::uint32_t n = 0; n < kMostOpen; ++n)
    if ((slots_[n].state.load(std::memory_order_relaxed) & 1) != 0) slots_[n].fault->raise(why);
  has_room_.notify_all();
  has_ended_.notify_all();
}

bool TaskCrew::await_idle(std::unique_lock<std::mutex>& lock, milliseconds grace) {
  const milliseconds slice = std::clamp(grace / 8, milliseconds(1), milliseconds(100));
  milliseconds still = device_->has_just_given_up() ? grace - slice : milliseconds(0);
  while (!has_ended_.wait_for(lock, slice, [this] { return open_ == 0; })) {
    still = device_->gets_on() ? milliseconds(0) : still + slice;
    if (still >= grace) return false;
  }
  return true;
}

void TaskCrew::close(milliseconds grace) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  bool ended = await_idle(lock, grace);
  if (!ended) {
    lock.unlock();
    PERGOLA_WARN(
        "Tasks of the CPU device get nowhere when their pool ends, or while the process ends; they are stopped "
        "after {} ms.",
        grace.count());
    cancel(
        PERGOLA_ERROR(kDeviceLost, "The pool of tasks has ended, and this one did not within {} ms.", grace.count()));
    lock.lock();
    ended = has_ended_.wait_for(lock, std::max(grace, milliseconds(2000)), [this] { return open_ == 0; });
    device_->note_given_up();
  }
  stop_ = true;
  lock.unlock();
  has_work_.notify_all();
  if (!ended) PERGOLA_WARN("A task of the CPU device does not stop when it is told to; its thread is left behind.");
  for (std::thread& thread : threads_) ended ? thread.join() : thread.detach();
}

void TaskCrew::abandon() {
  for (std::thread& thread : threads_) thread.detach();
}

// ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TaskCrew::Id TaskCrew::id_of(const Slot& slot, std::uint64_t state) const {
  return (state >> 1) << kSlotBits | static_cast<std::uint64_t>(&slot - slots_.get());
}

Result<bool> TaskCrew::has_ended(Id id) const {
  const std::uint64_t state = slots_[id & kSlotMask].state.load(std::memory_order_acquire);
  const std::uint64_t number = id >> kSlotBits;
  if (number == 0 || number > state >> 1)
    return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
  return number < state >> 1 || (state & 1) == 0;
}

// Looks for a while, then sleeps: `next` is the task whose end is waited for, or 0 where it is over.
template <typename Next>
Status TaskCrew::wait_until(Deadline deadline, const Next& next) {
  const auto over = [] { return PERGOLA_ERROR(kTimeout, "The time is over, and the tasks go on."); };
  const auto looks_until = Clock::now() + kLookFor;
  while (next() != 0) {
    if (Clock::now() < looks_until && (!deadline || Clock::now() < *deadline)) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    const Id id = next();
    if (id == 0) break;
    Slot& slot = slots_[id & kSlotMask];
    slot.waited_for = true;
    const auto ended = [&] { return *has_ended(id); };
    ++waiting_;
    bool in_time = true;
    if (deadline)
      in_time = has_ended_.wait_until(lock, *deadline, ended);
    else
      has_ended_.wait(lock, ended);
    --waiting_;
    if (!in_time) return over();
  }
  return {};
}

Status TaskCrew::wait(Id id, Deadline deadline) {
  PERGOLA_TRY(has_ended(id).status());
  PERGOLA_TRY(wait_until(deadline, [&] { return *has_ended(id) ? 0 : id; }));
  return failures_.outcome(id);
}

Result<bool> TaskCrew::check(Id id) {
  PERGOLA_ASSIGN(const bool ended, has_ended(id));
  if (ended) PERGOLA_TRY(failures_.outcome(id));
  return ended;
}

template <typename CountsAs>
std::vector<TaskCrew::Id> TaskCrew::find_open(const CountsAs& counts_as) const {
  std::vector<std::pair<std::uint64_t, Id>> open;  // by when they were spawned
  {
    const std::scoped_lock lock(mutex_);
    if (open_ != 0) open.reserve(open_);
    std::size_t seen = 0;
    for (std::uint32_t n = 0; n < kMostOpen && seen < open_; ++n) {
      if ((slots_[n].state.load(std::memory_order_relaxed) & 1) == 0) continue;
      ++seen;
      if (const Slot* const slot = counts_as(slots_[n]))
        open.emplace_back(slot->serial, id_of(*slot, slot->state.load(std::memory_order_relaxed)));
    }
  }
  std::sort(open.begin(), open.end());
  open.erase(std::unique(open.begin(), open.end()), open.end());
  std::vector<Id> ids;
  ids.reserve(open.size());
  for (const auto& [serial, id] : open) ids.push_back(id);
  return ids;
}

std::vector<TaskCrew::Id> TaskCrew::open_tasks() const {
  return find_open([](const Slot& slot) { return &slot; });
}

std::vector<TaskCrew::Id> TaskCrew::users_of(DeviceAddress begin, DeviceAddress end) const {
  return find_open([&](const Slot& slot) -> const Slot* {
    const std::span<const std::byte> parameters = slot.launch.parameters;
    for (std::size_t at = 0; at + sizeof(DeviceAddress) <= parameters.size(); at += sizeof(DeviceAddress)) {
      DeviceAddress given = 0;
      std::memcpy(&given, parameters.data() + at, sizeof given);
      if (begin <= given && given <= end) return slot.founder;
    }
    return nullptr;
  });
}

Status TaskCrew::wait_for(std::vector<Id> open, Deadline deadline) {
  // The last one first: when it has ended most others have, and nobody was woken for each of them.
  PERGOLA_TRY(wait_until(deadline, [&]() -> Id {
    while (!open.empty() && *has_ended(open.back())) open.pop_back();
    return open.empty() ? 0 : open.back();
  }));
  return failures_.untold();
}

TaskRunnerInfo TaskCrew::info() const {
  const std::scoped_lock lock(mutex_);
  TaskRunnerInfo info;
  info.threads = static_cast<std::uint32_t>(threads_.size());
  info.most_open = kMostOpen;
  info.memory_bytes = kMostOpen * sizeof(Slot);
  for (std::uint32_t n = 0; n < kMostOpen; ++n) info.memory_bytes += slots_[n].parameters.size_bytes();
  info.spawned = spawned_;
  info.spawned_by_tasks = spawned_by_tasks_;
  info.failed = failures_.count();
  return info;
}

}  // namespace pergola::device::cpu
