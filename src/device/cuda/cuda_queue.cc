#include "src/device/cuda/cuda_queue.h"

#include <algorithm>
#include <thread>
#include <typeinfo>
#include <utility>

#include "src/base/end_grace.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/device/cuda/cuda_gate.h"
#include "src/device/cuda/cuda_module.h"
#include "src/device/validate.h"

namespace pergola::device::cuda {

void set_attributes(const LaunchConfig& config, LaunchAttributes& attributes) {
  const auto add = [&](CUlaunchAttributeID id) -> CUlaunchAttributeValue& {
    CUlaunchAttribute& attribute = attributes.values[attributes.count++];
    attribute = {};
    attribute.id = id;
    return attribute.value;
  };
  if (config.cooperative) add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  if (config.programmatic)
    add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1;
  if (config.cluster != Dim3{0, 0, 0})
    add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {config.cluster.x, config.cluster.y, config.cluster.z};
}

ParameterList::ParameterList(std::span<const std::byte> parameters) : bytes_(parameters.size()) {
  extra_[0] = reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
  extra_[1] = const_cast<std::byte*>(parameters.data());
  extra_[2] = reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);
  extra_[3] = &bytes_;
  extra_[4] = reinterpret_cast<void*>(CU_LAUNCH_PARAM_END_AS_INT);
}

CudaQueue::CudaQueue(ContextPtr context, std::shared_ptr<const Device> device, CUstream stream)
    : context_(std::move(context)), device_(std::move(device)), stream_(stream), staging_(context_) {
  context_->add_stream(stream_);
}

Result<std::unique_ptr<CudaQueue>> CudaQueue::create(ContextPtr context, std::shared_ptr<const Device> device) {
  PERGOLA_TRY(context->enter());
  CUstream stream = nullptr;
  PERGOLA_TRY(context->check(context->driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "creating a stream"));
  return std::unique_ptr<CudaQueue>(new CudaQueue(std::move(context), std::move(device), stream));
}

CudaQueue::~CudaQueue() {
  context_->enter_quietly();
  Retained::Ended ended;  // goes last: what is freed may wait for other streams
  if (!await_end(ended)) {
    leave();
    return;
  }
  if (context_->prints()) context_->driver().cuStreamSynchronize(stream_);
  context_->remove_stream(stream_);
  retained_.release_all(ended);
  context_->driver().cuStreamDestroy(stream_);
  context_->give_word(word_);
}

// False where nothing has been seen to end for as long as is borne; right behind a queue of which that was so it is a
// look. A device that is lost is an end.
bool CudaQueue::await_end(Retained::Ended& ended) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  constexpr microseconds kBusily(50), kShortestNap(10), kLongestNap(1000);
  const Driver& driver = context_->driver();
  const auto begun = steady_clock::now();
  const milliseconds grace = context_->end_grace();
  Stillness stillness(context_->has_just_given_up() ? grace - grace / 8 : milliseconds(0));
  microseconds nap = kShortestNap;
  std::uint32_t seen = word_ ? word_.value() : 0;
  while (may_go_on(driver.cuStreamQuery(stream_))) {
    const auto now = steady_clock::now();
    if (now - begun < kBusily) continue;
    const std::size_t batches = retained_.batches();
    retained_.release_ended(ended);
    const std::uint32_t word = word_ ? word_.value() : 0;
    const bool word_moved = std::exchange(seen, word) != word;
    if (stillness.after_look(word_moved || retained_.batches() != batches) >= grace) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  return true;
}

void CudaQueue::leave() {
  const std::shared_ptr<const Module> module = last_module_.lock();
  const std::string last = last_kernel_ == nullptr ? "a graph"
                           : module == nullptr     ? "a kernel of a module that has gone"
                                                   : fmt::format("kernel '{}'", last_kernel_->signature().name);
  const std::string what = launches_ == 0 ? "with no launch among it"
                           : launches_ == 1
                               ? last
                               : fmt::format("{} launches since it was last seen idle, the last {}", launches_, last);
  PERGOLA_WARN(
      "A queue of {} is destroyed while its work goes on: {}. None of it has ended for {} ms (PERGOLA_END_GRACE_MS), "
      "so the stream and the memory it uses are left to it, and what is freed on this GPU is kept, until it ends or "
      "the process does.",
      context_->id(), what, context_->end_grace().count());
  struct Used {
    Used(const ContextPtr& of, HostWord its_word, Retained&& handles, StagingRing&& ring)
        : context(of), word(its_word), retained(std::move(handles)), staging(std::move(ring)) {}
    Used(const Used&) = delete;
    Used& operator=(const Used&) = delete;
    ~Used() { context->give_word(word); }
    const ContextPtr context;
    const HostWord word;
    const Retained retained;
    const StagingRing staging;
  };
  context_->leave(context_, stream_,
                  std::make_shared<Used>(context_, word_, std::move(retained_), std::move(staging_)));
}

void CudaQueue::note_launch(const Kernel* kernel, const ModulePtr& module) {
  ++launches_;
  if (kernel == last_kernel_) return;
  last_kernel_ = kernel;
  // Most kernels are of one module: to compare owners is cheaper than to count them.
  if (last_module_.owner_before(module) || module.owner_before(last_module_)) last_module_ = module;
}

Result<const CudaBuffer*> CudaQueue::own(const BufferPtr& buffer) const {
  const auto* mine = dynamic_cast<const CudaBuffer*>(buffer.get());
  if (mine != nullptr && mine->context() == context_.get()) return mine;
  return PERGOLA_ERROR(kInvalidArgument, "The buffer is {}.",
                       buffer == nullptr ? "null" : "of another device; a queue takes buffers of its own device");
}

void CudaQueue::seal_kept(Retained::Ended& ended) {
  (void)record_locked(false, ended);
}

Result<std::shared_ptr<CudaEvent>> CudaQueue::record_locked(bool timed, Retained::Ended& ended, bool for_host) {
  if (context_->is_lost()) [[unlikely]]
    return context_->health();
  PERGOLA_ASSIGN(const CUevent handle, context_->take_event(timed));
  const Driver& driver = context_->driver();
  // The word first: the host, which waits, need not wait for the event's own record as well.
  const HostWord word = for_host ? tell_host() : HostWord();
  const CUresult result = on_stream([&] { return driver.cuEventRecord(handle, stream_); });
  if (result != CUDA_SUCCESS) [[unlikely]] {
    context_->give_event(handle, timed);
    return context_->check(result, "recording an event");
  }
  auto event = std::make_shared<CudaEvent>(context_, handle, timed, word, word_number_);
  if (retained_.seal(event, timed)) {
    context_->enter_quietly();
    retained_.release_ended(ended);
  }
  return event;
}

// `event` stands for all work so far from now on: recorded again where nobody else has it, as waits have taken what it
// stood for when they were queued; else it is a new one. A new one now and then all the same, for the handles that are
// kept. Null where none can be recorded.
void CudaQueue::record_again(EventPtr& event, Retained::Ended& ended) {
  Event* const given = event.get();
  const bool is_own = given != nullptr && event.use_count() == 1 && typeid(*given) == typeid(CudaEvent);
  auto* const mine = is_own ? static_cast<CudaEvent*>(given) : nullptr;
  if (mine == nullptr || mine->context() != context_.get() || !mine->may_be_recorded_again() ||
      retained_.wants_event()) {
    Result<std::shared_ptr<CudaEvent>> made = record_locked(false, ended);
    event = made.ok() ? *std::move(made) : nullptr;
    return;
  }
  const CUresult result = on_stream([&] { return context_->driver().cuEventRecord(mine->handle(), stream_); });
  if (result == CUDA_SUCCESS) [[likely]]
    return mine->was_recorded_again();
  (void)context_->check(result, "recording an event");
  event = nullptr;
}

// The word, which the stream will bring to word_number_; none where it cannot: the event is enough.
HostWord CudaQueue::tell_host() {
  if (has_no_word_) return {};
  if (!word_) {
    if (context_->driver().cuStreamWriteValue32 != nullptr)
      if (const Result<HostWord> taken = context_->take_word(); taken.ok()) word_ = *taken;
    if (word_) word_number_ = word_.value();
  }
  const auto write = [&] {
    return context_->check(context_->driver().cuStreamWriteValue32(stream_, word_.address, word_number_ + 1, 0),
                           "making a stream write a value");
  };
  has_no_word_ = !word_ || !write().ok();
  if (has_no_word_) return {};
  ++word_number_;
  return word_;
}

// The kernel as one of this device's, which may be launched so.
Result<const CudaKernel*> CudaQueue::check_launch(const ModulePtr& module, const Kernel& kernel,
                                                  const LaunchConfig& config, std::size_t parameter_bytes) {
  if (const CudaKernel* known = known_.find(module, kernel, config, parameter_bytes)) return known;
  const auto* owner = dynamic_cast<const CudaModule*>(module.get());
  const CudaKernel* mine = owner != nullptr && owner->context() == context_.get() ? owner->own(&kernel) : nullptr;
  if (mine == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "The kernel is not one of a module of this device that is given with it.");
  PERGOLA_TRY(validate_launch(device_->info(), kernel, config, parameter_bytes));
  known_.keep(module, kernel, config, parameter_bytes, *mine);
  return mine;
}

Status CudaQueue::launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                         std::span<const std::byte> parameters) {
  if (context_->is_lost()) [[unlikely]]
    return context_->health();
  Retained::Ended ended;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  PERGOLA_ASSIGN(const CudaKernel* mine, check_launch(module, kernel, config, parameters.size()));
  return launch_locked(*mine, module, config, parameters, ended);
}

Status CudaQueue::launch_between(Between& between, const ModulePtr& module, const Kernel& kernel,
                                 const LaunchConfig& config, std::span<const std::byte> parameters) {
  if (context_->is_lost()) [[unlikely]]
    return context_->health();
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  const auto* mine = static_cast<const CudaKernel*>(between.known != nullptr ? *between.known : nullptr);
  if (mine == nullptr) {
    PERGOLA_ASSIGN(mine, check_launch(module, kernel, config, parameters.size()));
    if (between.known != nullptr) *between.known = mine;
  }
  for (const EventPtr* const event : between.after) PERGOLA_TRY(wait(*event));
  between.has_waited = true;
  PERGOLA_TRY(launch_locked(*mine, module, config, parameters, ended));
  if (between.behind != nullptr) record_again(*between.behind, ended);
  return {};
}

Status CudaQueue::launch_locked(const CudaKernel& kernel, const ModulePtr& module, const LaunchConfig& config,
                                std::span<const std::byte> parameters, Retained::Ended& ended) {
  LaunchAttributes attributes;
  set_attributes(config, attributes);
  ParameterList list(parameters);
  const CUlaunchConfig launch{.gridDimX = config.grid.x,
                              .gridDimY = config.grid.y,
                              .gridDimZ = config.grid.z,
                              .blockDimX = config.block.x,
                              .blockDimY = config.block.y,
                              .blockDimZ = config.block.z,
                              .sharedMemBytes = config.dynamic_shared_bytes,
                              .hStream = stream_,
                              .attrs = attributes.values,
                              .numAttrs = attributes.count};
  const CUresult result =
      on_stream([&] { return context_->driver().cuLaunchKernelEx(&launch, kernel.function(), nullptr, list.extra()); });
  if (result != CUDA_SUCCESS) [[unlikely]]
    return context_->check(result, "launching kernel '{}' with a grid of {} and blocks of {}", kernel.signature().name,
                           to_string(config.grid), to_string(config.block));
  note_launch(&kernel, module);
  keep(ended, module);
  return {};
}

Status CudaQueue::copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                                 std::span<const std::byte> source) {
  PERGOLA_ASSIGN(const CudaBuffer* to, own(destination));
  PERGOLA_TRY(validate_range("destination", to, offset_bytes, source.size()));
  PERGOLA_TRY(context_->enter());
  if (source.empty()) return {};
  const CUdeviceptr address = to->address() + offset_bytes;
  const BufferPtr pinned = context_->find_host_range(source.data(), source.size());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  if (pinned == nullptr) {
    retained_.keep(destination);  // first: of several pieces the later ones may fail
    PERGOLA_TRY(staging_.copy_to_device(stream_, address, source));
  } else {
    PERGOLA_TRY(context_->check(context_->driver().cuMemcpyHtoDAsync(address, source.data(), source.size(), stream_),
                                "copying {} to the device", Plural{source.size(), "byte"}));
    retained_.keep(pinned);
  }
  keep(ended, destination);
  return {};
}

Status CudaQueue::copy_to_host(std::span<std::byte> destination, const BufferPtr& source, std::size_t offset_bytes) {
  PERGOLA_ASSIGN(const CudaBuffer* from, own(source));
  PERGOLA_TRY(validate_range("source", from, offset_bytes, destination.size()));
  PERGOLA_TRY(context_->enter());
  if (destination.empty()) return {};
  const BufferPtr pinned = context_->find_host_range(destination.data(), destination.size());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  // To pageable memory the driver stages by itself, and returns when the bytes are there.
  PERGOLA_TRY(context_->check(context_->driver().cuMemcpyDtoHAsync(destination.data(), from->address() + offset_bytes,
                                                                   destination.size(), stream_),
                              "copying {} to the host", Plural{destination.size(), "byte"}));
  if (pinned != nullptr) retained_.keep(pinned);
  keep(ended, source);
  return {};
}

Status CudaQueue::copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
                       std::size_t source_offset_bytes, std::size_t size_bytes) {
  PERGOLA_ASSIGN(const CudaBuffer* to, own(destination));
  PERGOLA_ASSIGN(const CudaBuffer* from, own(source));
  PERGOLA_TRY(validate_copy(to, destination_offset_bytes, from, source_offset_bytes, size_bytes));
  PERGOLA_TRY(context_->enter());
  if (size_bytes == 0) return {};
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_TRY(
      context_->check(context_->driver().cuMemcpyAsync(to->address() + destination_offset_bytes,
                                                       from->address() + source_offset_bytes, size_bytes, stream_),
                      "copying {} on the device", Plural{size_bytes, "byte"}));
  keep(ended, destination, source);
  return {};
}

Status CudaQueue::fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
                       std::uint32_t pattern, std::uint32_t pattern_bytes) {
  PERGOLA_ASSIGN(const CudaBuffer* to, own(destination));
  PERGOLA_TRY(validate_fill(to, offset_bytes, size_bytes, pattern, pattern_bytes));
  PERGOLA_TRY(context_->enter());
  if (size_bytes == 0) return {};
  const Driver& driver = context_->driver();
  const CUdeviceptr address = to->address() + offset_bytes;
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  CUresult result = CUDA_SUCCESS;
  if (pattern_bytes == 1)
    result = driver.cuMemsetD8Async(address, static_cast<unsigned char>(pattern), size_bytes, stream_);
  else if (pattern_bytes == 2)
    result = driver.cuMemsetD16Async(address, static_cast<unsigned short>(pattern), size_bytes / 2, stream_);
  else
    result = driver.cuMemsetD32Async(address, pattern, size_bytes / 4, stream_);
  PERGOLA_TRY(context_->check(result, "filling {}", Plural{size_bytes, "byte"}));
  keep(ended, destination);
  return {};
}

Status CudaQueue::take_managed(const BufferPtr& buffer) {
  return move_managed(buffer, false);
}

Status CudaQueue::give_managed_to_host(const BufferPtr& buffer) {
  return move_managed(buffer, true);
}

Status CudaQueue::move_managed(const BufferPtr& buffer, bool to_host) {
  PERGOLA_ASSIGN(const CudaBuffer* mine, own(buffer));
  if (mine->kind() != MemoryKind::kManaged)
    return PERGOLA_ERROR(kInvalidArgument, "The buffer is no managed memory, and stays where it is.");
  PERGOLA_TRY(context_->enter());
  if (mine->size_bytes() == 0) return {};
  const Driver& driver = context_->driver();
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  if (device_->info().managed == ManagedAccess::kConcurrent)
    PERGOLA_TRY(context_->check(driver.cuMemPrefetchAsync(mine->address(), mine->size_bytes(),
                                                          to_host ? CU_DEVICE_CPU_AS_INT : context_->device(), stream_),
                                "moving {} bytes of managed memory to the {}", mine->size_bytes(),
                                to_host ? "host" : "device"));
  else  // a length of 0 is all of it
    PERGOLA_TRY(context_->check(
        driver.cuStreamAttachMemAsync(stream_, mine->address(), 0, to_host ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_SINGLE),
        "making managed memory visible to {}", to_host ? "the host" : "one stream"));
  keep(ended, buffer);
  return {};
}

Status CudaQueue::wait(const EventPtr& event) {
  // Nothing is derived from it.
  const Event* const given = event.get();
  const auto* const mine =
      given != nullptr && typeid(*given) == typeid(CudaEvent) ? static_cast<const CudaEvent*>(given) : nullptr;
  if (mine == nullptr || mine->context() != context_.get())
    return PERGOLA_ERROR(kInvalidArgument, "The event is {}.",
                         event == nullptr ? "null" : "of another device; a queue waits for events of its own device");
  if (context_->is_lost()) [[unlikely]]
    return context_->health();
  // The driver takes what the event stands for at this call: it may go, or be recorded again, before the wait is over.
  return context_->check(on_stream([&] { return context_->driver().cuStreamWaitEvent(stream_, mine->handle(), 0); }),
                         "making a stream wait for an event");
}

Status CudaQueue::wait_for_gate(const GatePtr& gate, std::uint32_t number) {
  const auto* mine = dynamic_cast<const CudaGate*>(gate.get());
  if (mine == nullptr || mine->context() != context_.get())
    return PERGOLA_ERROR(kInvalidArgument, "The gate is {}.",
                         gate == nullptr ? "null" : "of another device; a queue waits for gates of its own device");
  PERGOLA_TRY(context_->enter());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_TRY(context_->check(context_->driver().cuStreamWaitValue32(stream_, mine->address(), mine->value_of(number),
                                                                     CU_STREAM_WAIT_VALUE_GEQ),
                              "making a stream wait for a value"));
  keep(ended, gate);
  return {};
}

Result<EventPtr> CudaQueue::record() {
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_ASSIGN(EventPtr event, record_locked(true, ended));
  return event;
}

Result<EventPtr> CudaQueue::record_untimed() {
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_ASSIGN(EventPtr event, record_locked(false, ended));
  return event;
}

Result<EventPtr> CudaQueue::record_for_host() {
  PERGOLA_TRY(context_->enter());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_ASSIGN(EventPtr event, record_locked(false, ended, true));
  return event;
}

std::optional<Status> CudaQueue::poll() {
  if (Status entered = context_->enter(); !entered.ok()) return entered;
  const CUresult result = context_->driver().cuStreamQuery(stream_);
  if (result == CUDA_ERROR_NOT_READY) return std::nullopt;
  if (result == CUDA_SUCCESS && context_->prints()) (void)context_->driver().cuStreamSynchronize(stream_);
  return context_->check(result, "asking a stream whether it is idle");
}

Status CudaQueue::synchronize() {
  std::uint64_t launches = 0;
  {
    const std::lock_guard lock(mutex_);
    launches = launches_;
  }
  // An event, not the stream: other threads may queue more while this one waits.
  PERGOLA_ASSIGN(const EventPtr event, record());
  PERGOLA_TRY(event->wait());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  retained_.release_ended(ended);
  if (launches_ == launches) launches_ = 0;
  return {};
}

void CudaQueue::let_go_if_idle() {
  if (!context_->enter().ok()) return;
  Retained::Ended ended;  // go after the lock, under which all is queued
  const std::lock_guard lock(mutex_);
  if (context_->driver().cuStreamQuery(stream_) == CUDA_SUCCESS) retained_.release_all(ended);
}

Result<void*> CudaQueue::native_handle() {
  PERGOLA_TRY(context_->enter());
  return static_cast<void*>(stream_);
}

Status CudaQueue::launch_graph(CUgraphExec executable, const std::shared_ptr<const void>& state) {
  PERGOLA_TRY(context_->enter());
  Retained::Ended ended;
  const std::lock_guard lock(mutex_);
  PERGOLA_TRY(context_->check(context_->driver().cuGraphLaunch(executable, stream_), "launching a graph"));
  note_launch(nullptr, nullptr);
  keep(ended, state);
  return {};
}

}  // namespace pergola::device::cuda
