#include "src/executor/executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>

#include "src/abi/task_inbox.h"
#include "src/base/fork.h"
#include "src/base/log.h"
#include "src/base/name_list.h"
#include "src/base/plural.h"
#include "src/device/validate.h"
#include "src/executor/generation.h"
#include "src/executor/kind.h"
#include "src/executor/process_fence.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"

namespace pergola::executor {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t kThreads = 1024;

// Of a ring for tasks that are not urgent, and how much deeper it is for those that are.
constexpr std::uint32_t kMostDepth = 47, kDeeper = 16;
static_assert(kMostDepth + kDeeper <= abi::kRingRecords);

template <typename T>
T* host(const device::BufferPtr& buffer) {
  return reinterpret_cast<T*>(buffer->host_pointer());
}

}  // namespace

Executor::Executor(device::DevicePtr device, const ExecutorOptions& options)
    : device_(std::move(device)),
      options_(options),
      fences_(!register_process_fence()),
      stay_(options.longest_stay),
      next_group_(kGroupBit) {}

Result<std::shared_ptr<Executor>> Executor::create(device::DevicePtr device, const ExecutorOptions& options) {
  const device::DeviceInfo& info = device->info();
  if (info.kind == device::DeviceKind::kNull || info.max_threads_per_block < kThreads)
    return PERGOLA_ERROR(kUnsupported, "'{}' ({}) cannot run narrow tasks: it has no blocks of {} threads that work.",
                         info.id, info.name, kThreads);
  std::shared_ptr<Executor> executor(new Executor(std::move(device), options));
  PERGOLA_TRY(executor->allocate());
  return executor;
}

Status Executor::allocate() {
  const device::DeviceInfo& info = device_->info();
  arena_bytes_ = kArenaBytes;
  // The CPU device's blocks share its cores, and are as many as these without waiting for each other.
  if (info.kind == device::DeviceKind::kCpu) blocks_per_sm_ = 1;
  PERGOLA_ASSIGN(program_, load(blocks_per_sm_, [] { return Status(); }));
  PERGOLA_ASSIGN(const std::uint32_t most, program_.kernel->max_resident_blocks_per_sm(kThreads, arena_bytes_));
  if (most == 0)
    return PERGOLA_ERROR(kUnsupported,
                         "'{}' ({}) cannot run narrow tasks: no multiprocessor holds a block of {} threads.", info.id,
                         info.name, kThreads);
  blocks_per_sm_ = std::min(blocks_per_sm_, most);
  blocks_ = info.sm_count * blocks_per_sm_;
  if (options_.blocks != 0) blocks_ = std::min(blocks_, options_.blocks);

  using device::MemoryKind;
  PERGOLA_ASSIGN(queue_, device_->create_queue());
  PERGOLA_ASSIGN(copies_, device_->create_queue());
  PERGOLA_ASSIGN(rings_memory_, device_->allocate_apart(blocks_ * sizeof(abi::TaskRing), MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(answers_, device_->allocate_apart(blocks_ * sizeof(abi::TaskAnswer), MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(states_, device_->allocate_apart(blocks_ * sizeof(abi::TaskRingState), MemoryKind::kDevice));
  PERGOLA_ASSIGN(kinds_memory_,
                 device_->allocate_apart(abi::kMostKinds * sizeof(abi::TaskKindEntry), MemoryKind::kDevice));
  for (const device::BufferPtr& buffer : {rings_memory_, answers_})
    std::memset(buffer->host_pointer(), 0, buffer->size_bytes());
  PERGOLA_TRY(copies_->fill(states_, 0, states_->size_bytes(), 0, 4));
  PERGOLA_TRY(copies_->synchronize());
  PERGOLA_TRY(faults_told_.attach(*device_, blocks_));
  if (options_.fences) {
    PERGOLA_ASSIGN(fence_table_, FenceTable::create(*device_, *copies_));
  }
  if (options_.slices) {
    PERGOLA_ASSIGN(traces_, TaskTraces::create(*device_, *copies_, blocks_));
  }
  rings_ = std::vector<HostRing>(blocks_);
  producers_ = std::make_shared<Producers>(blocks_, fences_);
  for (std::uint32_t n = 0; n < blocks_; ++n) {
    rings_[n].attach(host<abi::TaskRing>(rings_memory_) + n, host<abi::TaskAnswer>(answers_) + n);
    rings_[n].on_faults([this, n] { take_faults(n); });
  }
  keeper_ = std::thread([this] { keep(); });
  return {};
}

Executor::~Executor() {
  if (is_forked_child()) {  // which has neither the keeper nor the device
    if (keeper_.joinable()) keeper_.detach();
    return;
  }
  if (keeper_.joinable()) {
    (void)wait_all(std::nullopt);
    {
      const std::lock_guard lock(keeper_mutex_);
      keeper_stops_ = true;
    }
    keeper_wakes_.notify_all();
    keeper_.join();
    (void)park();
  }
}

// ── Programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<Executor::Program> Executor::load(std::uint32_t blocks_per_sm,
                                         const FunctionRef<Status()>& when_compiled) const {
  PERGOLA_ASSIGN(const std::string text, generation_text(bodies_, blocks_per_sm, options_.slices));
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(text, "the executor"));
  PERGOLA_TRY(ptx::verify(module));
  Program program;
  PERGOLA_ASSIGN(program.module, device_->load({&module, text, "the executor", &when_compiled}));
  PERGOLA_ASSIGN(program.kernel, program.module->kernel(kExecutorKernel));
  PERGOLA_TRY(fence_variables(module, *program.module));
  return program;
}

// Variables that bodies bring with them are memory too.
Status Executor::fence_variables(const ptx::Module& text, const device::Module& module) const {
  if (fence_table_ == nullptr) return {};
  for (const ptx::Item& item : text.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item.node);
    if (variable == nullptr || variable->space != ptx::Space::kGlobal || variable->linkage == ptx::Linkage::kExtern)
      continue;
    PERGOLA_ASSIGN(const device::Module::Global global, module.global(variable->name));
    PERGOLA_TRY(fence_table_->allow(global.address, global.size_bytes));
  }
  return {};
}

std::optional<transform::FenceConfig> Executor::fences() const {
  if (fence_table_ == nullptr) return std::nullopt;
  transform::FenceConfig config;
  config.granule_shift = fence_table_->granule_shift();
  return config;
}

Status Executor::send_away(std::optional<Away>& away) {
  away.emplace();
  away->turn = std::unique_lock(turnstile_);
  away->quiet = std::unique_lock(quiet_);
  away->lifecycle = std::unique_lock(lifecycle_);
  await_stay(away->lifecycle);
  return park_locked();
}

Result<std::uint32_t> Executor::add_body(transform::TaskBody body) {
  std::vector<transform::TaskBody> one;
  one.push_back(std::move(body));
  return add_bodies(std::move(one));
}

Result<std::uint32_t> Executor::add_bodies(std::vector<transform::TaskBody> bodies) {
  for (const transform::TaskBody& body : bodies) PERGOLA_TRY(check_body(body));
  const std::lock_guard adding(adding_);
  const std::size_t first = bodies_.size();  // written under both locks
  if (bodies.empty()) return static_cast<std::uint32_t>(first);
  {
    const std::lock_guard lock(lifecycle_);
    for (transform::TaskBody& body : bodies) {
      bodies_.push_back(std::move(body));
      const transform::TaskBody& added = bodies_.back();
      faults_told_.set_body(static_cast<std::uint32_t>(bodies_.size() - 1), added.kernel, added.fences);
    }
  }
  const Status made = make_program(first);
  if (!made.ok()) {
    const std::lock_guard lock(lifecycle_);
    while (bodies_.size() > first) bodies_.pop_back();
    return made;
  }
  wake_keeper();
  if (const Status wider = make_wider(); !wider.ok())
    PERGOLA_WARN("The executor of narrow tasks stays with {} a multiprocessor: {}", plural(blocks_per_sm_, "block"),
                 wider.message());
  wake_keeper();
  return static_cast<std::uint32_t>(first);
}

// With the bodies from this one on, which are new.
Status Executor::make_program(std::size_t first_new) {
  const auto fresh = std::span(bodies_).subspan(first_new);
  const std::uint32_t parameter_bytes =
      std::ranges::max_element(fresh, {}, &transform::TaskBody::parameter_bytes)->parameter_bytes;
  const bool spawns = std::ranges::any_of(fresh, &transform::TaskBody::spawns);
  std::optional<Away> away;
  const auto send = [&] { return send_away(away); };
  for (std::uint32_t shape = info().blocks_per_sm;; shape = blocks_per_sm_, away.reset()) {
    PERGOLA_ASSIGN(Program program, load(shape, send));
    if (shape != blocks_per_sm_) continue;  // an earlier body's wider shape has come meanwhile
    if (parameter_bytes > abi::kRecordParameterBytes) PERGOLA_TRY(fit_large_parameters(parameter_bytes));
    if (spawns) PERGOLA_TRY(make_inboxes());
    program_ = std::move(program);
    wider_.reset();  // it lacks the body
    return {};
  }
}

// One block a multiprocessor, where bodies spill with two and less so with one.
Status Executor::make_wider() {
  const auto local_bytes = [](const Program& one) { return one.kernel->resources().local_bytes_per_thread; };
  {
    const std::lock_guard lock(lifecycle_);
    if (blocks_per_sm_ == 1 || local_bytes(program_) == 0) return {};
  }
  std::optional<Away> away;
  const auto send = [&] { return send_away(away); };
  PERGOLA_ASSIGN(Program one, load(1, send));
  if (local_bytes(one) >= local_bytes(program_)) return {};
  wider_ = std::move(one);
  widen();
  return {};
}

void Executor::widen() {
  if (!wider_) return;
  std::uint32_t blocks = device_->info().sm_count;
  if (options_.blocks != 0) blocks = std::min(blocks, options_.blocks);
  if (!producers_->use_rings(blocks, [&] { return !has_open_tasks(); })) return;
  PERGOLA_INFO(
      "The executor of narrow tasks has one block of {} threads a multiprocessor from now on, with {} registers and {} "
      "bytes of local memory a thread: with two there were {} and {}.",
      kThreads, wider_->kernel->resources().registers_per_thread, wider_->kernel->resources().local_bytes_per_thread,
      program_.kernel->resources().registers_per_thread, program_.kernel->resources().local_bytes_per_thread);
  program_ = *std::exchange(wider_, std::nullopt);
  blocks_per_sm_ = 1;
  blocks_ = blocks;
}

Status Executor::fit_large_parameters(std::uint32_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (!slabs_.empty() && bytes <= slabs_.back()->bytes) return {};
  const std::size_t size_bytes = std::size_t{bytes} * rings_.size();
  Slab slab;
  slab.bytes = bytes;
  PERGOLA_ASSIGN(slab.on_host,
                 device_->allocate_apart(size_bytes * abi::kRingRecords, device::MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(slab.on_device, device_->allocate_apart(size_bytes * abi::kTaskEntries, device::MemoryKind::kDevice));
  slabs_.push_back(std::make_unique<const Slab>(std::move(slab)));
  slab_.store(slabs_.back().get(), std::memory_order_release);
  return {};
}

Status Executor::make_inboxes() {
  if (inboxes_ != nullptr) return {};
  PERGOLA_ASSIGN(device::BufferPtr made,
                 device_->allocate_apart(rings_.size() * sizeof(abi::TaskInbox), device::MemoryKind::kDevice));
  PERGOLA_TRY(copies_->fill(made, 0, made->size_bytes(), 0, 4));
  PERGOLA_TRY(copies_->synchronize());
  inboxes_ = std::move(made);
  return {};
}

Result<std::uint64_t> Executor::handle_of(const Kind& kind) const {
  const std::lock_guard lock(lifecycle_);
  const transform::TaskBody& body = bodies_.at(kinds_.at(kind.number).body);
  if (body.parameter_bytes > abi::kInboxParameterBytes)
    return PERGOLA_ERROR(kUnsupported,
                         "Kernel '{}' has {} bytes of parameters, and a task that tasks spawn has {} at most: have it "
                         "take a pointer to them.",
                         body.kernel, body.parameter_bytes, abi::kInboxParameterBytes);
  if (kind.pieces > abi::kMostHandlePieces)
    return PERGOLA_ERROR(kUnsupported,
                         "A task of kernel '{}' with this shape has {} pieces of a multiprocessor's size, and one that "
                         "tasks spawn has {} at most: give it a smaller grid.",
                         body.kernel, kind.pieces, abi::kMostHandlePieces);
  return abi::task_handle(kind.number, kind.is_urgent, body.parameter_bytes, kind.pieces);
}

Result<Kind> Executor::add_kind(std::uint32_t number, const device::LaunchConfig& shape) {
  const std::lock_guard lock(lifecycle_);
  PERGOLA_ASSIGN(const abi::TaskKindEntry kind, kind_entry(bodies_.at(number), number, shape, arena_bytes_));
  PERGOLA_TRY(device::validate_extents(device_->info(), bodies_[number].kernel, shape));
  auto same = std::find_if(kinds_.begin(), kinds_.end(),
                           [&](const auto& one) { return std::memcmp(&one, &kind, sizeof kind) == 0; });
  if (same == kinds_.end()) {
    if (kinds_.size() == abi::kMostKinds)
      return PERGOLA_ERROR(kResourceExhausted,
                           "A pool has {} kinds of tasks at most: spawn tasks of one shape by one kind.",
                           abi::kMostKinds);
    PERGOLA_TRY(
        copies_->copy_to_device(kinds_memory_, kinds_.size() * sizeof kind, std::as_bytes(std::span(&kind, 1))));
    PERGOLA_TRY(copies_->synchronize());
    same = kinds_.insert(kinds_.end(), kind);
  }
  const std::uint32_t piece_warps = std::min(kind.blocks, kind.piece_blocks) * (kind.blocks_warps & 0xff);
  Kind made;
  made.number = static_cast<std::uint32_t>(same - kinds_.begin());
  made.pieces = (kind.blocks - 1) / kind.piece_blocks + 1;
  made.parameter_bytes = kind.parameter_bytes;
  if (made.parameter_bytes > abi::kRecordParameterBytes)
    large_kinds_[made.number / 64].fetch_or(std::uint64_t{1} << made.number % 64, std::memory_order_release);
  made.usual_depth = 46 / piece_warps + 1;
  // What a block runs at once at least, and all that it holds waiting: it has read as many.
  const std::uint32_t leaf = arena_bytes_ / abi::kArenaLeaves;
  const std::uint32_t of_memory =
      kind.shared_bytes == 0 ? 31 : arena_bytes_ / std::bit_ceil(std::max(kind.shared_bytes, leaf));
  const std::uint32_t run = std::min(31 / piece_warps, of_memory / std::min(kind.blocks, kind.piece_blocks));
  made.usual_most_depth = std::max(made.usual_depth, std::min(kMostDepth, run + abi::kFewestWaiting));
  return made.with_urgency(false);
}

Kind Kind::with_urgency(bool urgent) const {
  Kind made = *this;
  made.is_urgent = urgent;
  made.depth = urgent ? usual_most_depth + kDeeper : usual_depth;
  made.most_depth = urgent ? made.depth : usual_most_depth;
  return made;
}

// ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// After as long a wait for ordinary work at most. Such work itself waits for the tasks of a stay, from which the kernel
// may have left.
bool Executor::need_not_wait(ExecutorOptions::AtMost at_most) {
  return failed_.load(std::memory_order_acquire) || stays_.load(std::memory_order_relaxed) ||
         options_.before_start(at_most);
}

Status Executor::start() {
  // With all locks for as long as tasks have waited without, so that one or two rounds suffice whatever is under way.
  constexpr std::chrono::nanoseconds kHeldAtLeast = std::chrono::milliseconds(1),
                                     kHeldAtFirst = std::chrono::seconds(1);
  const std::lock_guard starting(starting_);
  for (int grown = 1;; grown = std::min(2 * grown, 1 << 20)) {
    if (running_.load(std::memory_order_acquire)) return {};
    const auto begin = steady_clock::now();
    (void)need_not_wait(std::nullopt);
    const std::chrono::nanoseconds waited = steady_clock::now() - begin;
    const std::lock_guard turn(turnstile_);
    const std::unique_lock quiet(quiet_);
    const std::lock_guard lock(lifecycle_);
    if (need_not_wait(grown * std::clamp(waited, kHeldAtLeast, kHeldAtFirst))) return start_locked();
  }
}

// Nobody else is waited for either.
Status Executor::start_unless_it_waits() {
  if (const std::unique_lock starting(starting_, std::try_to_lock); starting)
    if (const std::unique_lock turn(turnstile_, std::try_to_lock); turn)
      if (const std::unique_lock quiet(quiet_, std::try_to_lock); quiet)
        if (const std::unique_lock lock(lifecycle_, std::try_to_lock); lock)
          if (need_not_wait(std::chrono::nanoseconds(0))) return start_locked();
  wake_keeper();
  const std::lock_guard lock(keeper_mutex_);
  return running_.load(std::memory_order_acquire) ? Status() : keepers_start_;
}

Status Executor::start_locked() {
  if (running_.load(std::memory_order_relaxed)) return {};
  if (failed_.load(std::memory_order_relaxed)) return failure_;
  abi::TaskExecutorParameters parameters{};
  const auto pointer = [](const device::BufferPtr& buffer, auto*& to) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(buffer->address());
  };
  pointer(rings_memory_, parameters.rings);
  pointer(answers_, parameters.answers);
  pointer(states_, parameters.states);
  pointer(kinds_memory_, parameters.kinds);
  pointer(faults_told_.memory(), parameters.faults);
  if (fence_table_ != nullptr) parameters.fence_table = reinterpret_cast<const void*>(fence_table_->address());
  if (inboxes_ != nullptr) pointer(inboxes_, parameters.inboxes);
  if (traces_ != nullptr) {
    parameters.traces = reinterpret_cast<abi::TaskTrace*>(traces_->address());
    PERGOLA_TRY(traces_->launches(*queue_, blocks_));
  }
  if (!slabs_.empty()) {
    pointer(slabs_.back()->on_device, parameters.large_parameters);
    parameters.large_bytes = slabs_.back()->bytes;
  }
  parameters.launch = launches_ + 1;
  parameters.arena_bytes = arena_bytes_;
  parameters.idle_ms = idle_ms();
  parameters.reserve_ns = reserve_ns();
  device::LaunchConfig config;
  config.grid = {blocks_, 1, 1};
  config.block = {kThreads, 1, 1};
  config.dynamic_shared_bytes = arena_bytes_;
  device_->resident_begins();
  Status started = queue_->launch(program_.module, *program_.kernel, config, std::as_bytes(std::span(&parameters, 1)));
  if (started.ok()) {
    Result<device::EventPtr> ended = queue_->record_untimed();
    started = ended.status();
    if (ended.ok()) ended_ = std::move(*ended);
    ++launches_;
    if (!ended.ok()) {  // it runs, and nobody could be told of its end
      tell_to_park();
      (void)queue_->synchronize();
    }
  }
  if (!started.ok()) {
    device_->resident_ends();
    return started;
  }
  started_at_.store(steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  running_.store(true, std::memory_order_release);
  {
    const std::lock_guard told(keeper_mutex_);
    keepers_start_ = Status();
  }
  wake_keeper();
  return {};
}

// Elsewhere a round of the scheduler takes a thousand times as long as on a GPU.
std::uint32_t Executor::reserve_ns() const {
  constexpr std::chrono::nanoseconds kOnAGpu = std::chrono::microseconds(50), kElsewhere = std::chrono::seconds(1);
  return static_cast<std::uint32_t>((device_->info().kind == device::DeviceKind::kCuda ? kOnAGpu : kElsewhere).count());
}

std::uint32_t Executor::idle_ms() const {
  constexpr std::chrono::milliseconds kLeast{50}, kMost{1'000'000'000};
  const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(options_.park_after);
  return static_cast<std::uint32_t>((kLeast + 2 * std::min(longest, kMost)).count());
}

void Executor::tell_to_park() {
  for (std::uint32_t n = 0; n < rings_.size(); ++n)
    std::atomic_ref(host<abi::TaskRing>(rings_memory_)[n].parks).store(launches_, std::memory_order_release);
}

// Whoever holds lifecycle_ may call it.
Status Executor::park_locked() {
  if (running_.load(std::memory_order_relaxed)) {
    tell_to_park();
    const Status status = ended_->wait();
    ended_ = nullptr;
    device_->resident_ends();
    if (!status.ok()) {
      failure_ =
          Error{status.code(),
                fmt::format("The executor of narrow tasks has failed, and all tasks that had not "
                            "ended are lost{}: {}{}",
                            lost_tasks(), status.message(),
                            status.code() == Code::kDeviceLost ? " What arrays hold on the device is lost too." : ""),
                __FILE__, __LINE__};
      failed_.store(true, std::memory_order_release);
    }
    // What the queue keeps of launches that have ended goes now: unloading a program waits for the resident kernel.
    (void)queue_->synchronize();
    running_.store(false, std::memory_order_release);
    process_fence();  // what a spawn has stored before it saw running_ is seen by has_open_tasks() from here on
    stay_over_.notify_all();
  }
  widen();
  return failed_.load(std::memory_order_relaxed) ? failure_ : Status();
}

// ", 3 of 'tile', 1 of 'blur' (0x1000000000005 to 0x1000000000008)": of several pieces each counts. All are named:
// where that is too long for a message, by a warning.
std::string Executor::lost_tasks() {
  std::map<std::string_view, std::size_t> counts;
  std::vector<TaskId> all;
  for (std::size_t n = 0; n < rings_.size(); ++n)
    rings_[n].for_each_open([&](std::uint64_t position, std::uint32_t kind) {
      if (kind >= kinds_.size()) return;
      ++counts[bodies_[kinds_[kind].body].kernel];
      all.push_back(failures_.called(std::uint64_t{n + 1} << kIdRingShift | position));
    });
  if (all.empty()) return {};
  std::ranges::sort(all);
  std::vector<std::string> kernels, ids;
  for (const auto& [kernel, count] : counts) kernels.push_back(fmt::format("{} of '{}'", count, kernel));
  for (auto first = all.begin(); first != all.end();) {
    auto behind = first + 1;
    while (behind != all.end() && *behind == *(behind - 1) + 1) ++behind;
    ids.push_back(behind - first == 1 ? fmt::format("{:#x}", *first)
                                      : fmt::format("{:#x} to {:#x}", *first, *(behind - 1)));
    first = behind;
  }
  return fmt::format(", {} ({})", fmt::join(kernels, ", "),
                     name_list(ids, "tasks lost with the executor of narrow tasks"));
}

Status Executor::park() {
  std::unique_lock lock(lifecycle_);
  await_stay(lock);
  return park_locked();
}

Status Executor::park_unless_it_stays() {
  const std::lock_guard lock(lifecycle_);
  if (stays_.load(std::memory_order_relaxed)) return {};
  return park_locked();
}

void Executor::await_stay(std::unique_lock<std::mutex>& lifecycle) {
  stay_over_.wait(lifecycle, [this] {
    return !stays_.load(std::memory_order_relaxed) || !running_.load(std::memory_order_relaxed);
  });
}

bool Executor::stay() {
  constexpr int kTries = 16;  // others may have it leave again
  for (int n = 0; n < kTries; ++n) {
    if (!running_.load(std::memory_order_acquire) && !start().ok()) return false;
    const std::lock_guard lock(lifecycle_);
    if (running_.load(std::memory_order_relaxed) && ended_->poll() && !park_locked().ok()) return false;
    if (!running_.load(std::memory_order_relaxed)) continue;
    stays_.store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// While it stays it is not started anew, so launches_ is what it was started with.
void Executor::leave(FunctionRef<void()> told) {
  tell_to_park();
  told();
  const std::lock_guard lock(lifecycle_);
  stays_.store(false, std::memory_order_relaxed);
  stay_over_.notify_all();
  (void)park_locked();  // its failure is told by waits
}

Executor::Quiet Executor::share_quiet() {
  const std::lock_guard turn(turnstile_);
  return Quiet(quiet_);
}

Result<Executor::Quiet> Executor::quiesce() {
  Quiet quiet = share_quiet();
  std::unique_lock lock(lifecycle_);
  await_stay(lock);
  PERGOLA_TRY(park_locked());
  wake_keeper();
  return quiet;
}

Result<Executor::Quiet> Executor::quiesce_unless_abandoned() {
  constexpr std::chrono::microseconds kNap(50);
  Quiet quiet = share_quiet();
  const auto is_given_up_after_a_nap = [&] {
    std::this_thread::sleep_for(kNap);
    return is_abandoned();
  };
  const auto given_up = [] {
    return PERGOLA_ERROR(kUnavailable, "The pool of narrow tasks was given up, and its tasks go on.");
  };
  while (running_.load(std::memory_order_acquire)) {
    if (const std::unique_lock lock(lifecycle_, std::try_to_lock);
        lock && running_.load(std::memory_order_relaxed) && !stays_.load(std::memory_order_relaxed)) {
      tell_to_park();
      while (!ended_->poll())  // with the lock: nobody is to have it stay once it has been told
        if (is_given_up_after_a_nap()) return given_up();
      PERGOLA_TRY(park_locked());
      break;
    }
    if (is_given_up_after_a_nap()) return given_up();
  }
  wake_keeper();
  return quiet;
}

std::uint64_t Executor::ended() {
  std::uint64_t ended = 0;
  for (HostRing& ring : rings_) ended += ring.frontier();
  return ended;
}

std::uint64_t Executor::spawned() const {
  std::uint64_t spawned = 0;
  for (const HostRing& ring : rings_) spawned += ring.head();
  return spawned;
}

bool Executor::leaves_by(steady_clock::time_point deadline) {
  constexpr std::chrono::microseconds kNap(100);
  while (running_.load(std::memory_order_acquire)) {
    if (const std::unique_lock lock(lifecycle_, std::try_to_lock); lock && running_.load(std::memory_order_relaxed)) {
      tell_to_park();
      if (ended_->poll()) (void)park_locked();
    }
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

bool Executor::is_abandoned() {
  const std::lock_guard lock(keeper_mutex_);
  return keeper_stops_;
}

void Executor::abandon() {
  {
    const std::lock_guard lock(keeper_mutex_);
    keeper_stops_ = true;
  }
  keeper_wakes_.notify_all();
}

bool Executor::has_open_tasks() {
  return std::any_of(rings_.begin(), rings_.end(), [](HostRing& ring) { return ring.frontier() != ring.head(); });
}

Status Executor::failure() {
  if (!failed_.load(std::memory_order_acquire)) {
    const std::unique_lock lock(lifecycle_, std::try_to_lock);
    // A resident kernel ends when it is told to, or by a fault.
    if (lock && running_.load(std::memory_order_relaxed) && ended_->poll()) PERGOLA_TRY(park_locked());
    if (!failed_.load(std::memory_order_relaxed)) return {};
  }
  const std::lock_guard lock(lifecycle_);
  return failure_;
}

void Executor::wake_keeper() {
  {
    const std::lock_guard lock(keeper_mutex_);
    keeper_looks_ = true;
  }
  keeper_wakes_.notify_all();
}

// Parks where nobody has spawned for a while and all is done, and starts again what others' parks have left.
void Executor::keep() {
  constexpr std::chrono::microseconds kLongest(20000), kShortest(20);
  const auto tick = std::clamp(options_.park_after / 2, kShortest, kLongest);
  bool looks_again = false;  // at once: somebody may have spawned while it parked
  auto busy_at = steady_clock::now();
  std::unique_lock lock(keeper_mutex_);
  while (!keeper_stops_) {
    if (!looks_again)
      keeper_wakes_.wait_for(lock, running_.load(std::memory_order_acquire) ? tick : kLongest,
                             [this] { return keeper_looks_ || keeper_stops_; });
    looks_again = keeper_looks_ = false;
    if (keeper_stops_) return;
    lock.unlock();
    const bool is_open = producers_->balance() || has_open_tasks();
    if (is_open) busy_at = steady_clock::now();
    if (!running_.load(std::memory_order_acquire)) {
      if (is_open && !failed_.load(std::memory_order_relaxed)) {
        Status started = start();
        const std::lock_guard told(keeper_mutex_);
        keepers_start_ = std::move(started);  // an error is told by waits
      }
    } else if (Status status = failure(); !status.ok()) {
      PERGOLA_WARN("{}", status.message());
    } else if (stays_.load(std::memory_order_relaxed)) {
      // Whoever has it stay sees to its leaving.
    } else if (!is_open && steady_clock::now() - busy_at >= options_.park_after) {
      (void)park_unless_it_stays();
      device_->free_kept();
      looks_again = true;
    } else if (is_open && stays_too_long()) {
      leave_for_a_moment();
      looks_again = true;
    }
    lock.lock();
  }
}

bool Executor::stays_too_long() const {
  const steady_clock::time_point started(steady_clock::duration(started_at_.load(std::memory_order_relaxed)));
  return options_.longest_stay.count() != 0 && steady_clock::now() - started >= stay_;
}

void Executor::leave_for_a_moment() {
  constexpr int kStaysOfAPause = 20;
  const auto from = steady_clock::now();
  (void)park_unless_it_stays();
  stay_ = std::max<steady_clock::duration>(options_.longest_stay, kStaysOfAPause * (steady_clock::now() - from));
}

ExecutorInfo Executor::info() const {
  const std::lock_guard lock(lifecycle_);
  ExecutorInfo info;
  info.blocks = blocks_;
  info.blocks_per_sm = blocks_per_sm_;
  const device::KernelResources resources = program_.kernel->resources();
  info.registers_per_thread = resources.registers_per_thread;
  info.local_bytes_per_thread = resources.local_bytes_per_thread;
  info.most_shared_bytes = arena_bytes_;
  for (const device::BufferPtr& buffer : {rings_memory_, answers_, states_, kinds_memory_, faults_told_.memory()})
    info.memory_bytes += buffer->size_bytes();
  if (fence_table_ != nullptr) info.memory_bytes += fence_table_->size_bytes();
  if (traces_ != nullptr) info.memory_bytes += traces_->size_bytes();
  for (const auto& slab : slabs_) info.memory_bytes += slab->on_host->size_bytes() + slab->on_device->size_bytes();
  info.launches = launches_;
  if (inboxes_ != nullptr) info.memory_bytes += inboxes_->size_bytes();
  for (std::size_t n = 0; n < rings_.size(); ++n) {
    info.spawned += rings_[n].head();
    info.spawned_by_tasks += std::atomic_ref(host<abi::TaskAnswer>(answers_)[n].spawned_here).load();
  }
  info.is_running = running_.load(std::memory_order_relaxed);
  return info;
}

}  // namespace pergola::executor
