#include "src/device/cuda/cuda_device.h"

#include <array>

#include "src/base/environment.h"
#include "src/base/file.h"
#include "src/device/cuda/cuda_buffer.h"
#include "src/device/cuda/cuda_gate.h"
#include "src/device/cuda/cuda_graph.h"
#include "src/device/cuda/cuda_module.h"
#include "src/device/cuda/cuda_queue.h"
#include "src/device/cuda/cuda_texture.h"
#include "src/device/validate.h"

namespace pergola::device {
namespace cuda {
namespace {

// What the driver tells of a GPU; 0 and nothing where it does not.
class Asked {
 public:
  Asked(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
  std::string name() {
    std::array<char, 256> name{};
    note(driver_.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), device_));
    return name.data();
  }
  std::uint32_t attribute(CUdevice_attribute which) {
    int value = 0;
    note(driver_.cuDeviceGetAttribute(&value, which, device_));
    return static_cast<std::uint32_t>(value);
  }
  std::uint64_t memory_bytes() {
    std::size_t memory = 0;
    note(driver_.cuDeviceTotalMem(&memory, device_));
    return memory;
  }
  CUresult first_failure() const { return first_failure_; }

 private:
  void note(CUresult result) {
    if (first_failure_ == CUDA_SUCCESS) first_failure_ = result;
  }
  const Driver& driver_;
  const CUdevice device_;
  CUresult first_failure_ = CUDA_SUCCESS;
};

// All of it or an error: a GPU with no memory, or of sm_0, would refuse everything for a reason that is none.
Result<DeviceInfo> describe(const Context& context) {
  const Driver& driver = context.driver();
  Asked asked(driver, context.device());
  const auto get = [&](CUdevice_attribute which) { return asked.attribute(which); };
  DeviceInfo info;
  info.kind = DeviceKind::kCuda;
  info.id = context.id();
  info.name = asked.name();
  info.driver = driver.version_text();
  info.compute_major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.compute_minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.sm_count = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.warp_size_threads = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  info.max_threads_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  info.max_block = {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                    get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)};
  info.max_grid = {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                   get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)};
  info.max_shared_bytes_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.max_blocks_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  // 8 is what every GPU with clusters takes (the portable size).
  info.max_cluster_blocks = get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0 ? 8 : 0;
  if (get(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) != 0)
    info.managed = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 0 ? ManagedAccess::kConcurrent
                                                                           : ManagedAccess::kRestricted;
  info.memory_bytes = asked.memory_bytes();
  if (const CUresult failed = asked.first_failure(); failed != CUDA_SUCCESS)
    return PERGOLA_ERROR(kUnavailable, "GPU {} does not tell what it is: {}.", info.id, driver.describe(failed));
  return info;
}

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  CudaDevice(ContextPtr context, DeviceInfo info, const CudaDeviceOptions& options)
      : context_(std::move(context)),
        info_(std::move(info)),
        jit_(context_, {info_.compute_major, info_.compute_minor, options.exact_rounding, options.optimization_level}) {
  }

  const DeviceInfo& info() const override { return info_; }

  Result<ModulePtr> load(const ModuleSource& source) override {
    if (source.when_compiled != nullptr) return load_now(source);
    std::vector<std::shared_ptr<void>> away;
    const auto send_away = [&]() -> Status {
      PERGOLA_ASSIGN(away, context_->send_away().without_residents());
      return {};
    };
    const FunctionRef<Status()> when_compiled = send_away;
    ModuleSource beside_none = source;
    beside_none.when_compiled = &when_compiled;
    return load_now(beside_none);
  }

  Result<BufferPtr> adopt(const ForeignMemory& memory) override {
    if (memory.owner == nullptr || (memory.address == 0 && memory.size_bytes != 0))
      return PERGOLA_ERROR(kInvalidArgument, "Memory of another library has an address and an owner.");
    PERGOLA_TRY(context_->enter());
    if (memory.stream != 0)
      PERGOLA_TRY(context_->check(context_->driver().cuStreamSynchronize(reinterpret_cast<CUstream>(memory.stream)),
                                  "waiting for another library's stream"));
    return BufferPtr(CudaBuffer::adopt(context_, memory));
  }

  Result<BufferPtr> allocate_apart(std::size_t size_bytes, MemoryKind kind) override {
    return allocate(size_bytes, kind, false);
  }
  Result<BufferPtr> allocate(std::size_t size_bytes, MemoryKind kind) override {
    return allocate(size_bytes, kind, true);
  }
  Result<BufferPtr> allocate(std::size_t size_bytes, MemoryKind kind, bool packed) {
    if (kind == MemoryKind::kDevice && size_bytes > info_.memory_bytes)
      return PERGOLA_ERROR(kResourceExhausted, "{} bytes are more than the {} that '{}' has.", size_bytes,
                           info_.memory_bytes, info_.id);
    // More than any address space holds; the driver is not made to multiply with it.
    if (size_bytes > (std::size_t{1} << 47))
      return PERGOLA_ERROR(kResourceExhausted, "{} bytes of host memory are more than any machine has.", size_bytes);
    if (kind == MemoryKind::kManaged && info_.managed == ManagedAccess::kNone)
      return PERGOLA_ERROR(kUnsupported, "'{}' ({}) has no managed memory.", info_.id, info_.name);
    PERGOLA_ASSIGN(BufferPtr buffer, kind == MemoryKind::kManaged
                                         ? CudaBuffer::create_managed(context_, size_bytes, info_.managed)
                                         : CudaBuffer::create(context_, size_bytes, kind, packed));
    return buffer;
  }

  Result<TexturePtr> create_texture(const TextureDescription& description) override {
    PERGOLA_TRY(validate_texture(description));
    if (dynamic_cast<const CudaBuffer*>(description.buffer.get()) == nullptr)
      return PERGOLA_ERROR(kInvalidArgument, "The texture's buffer is of another device than '{}'.", info_.id);
    return cuda::create_texture(context_, description);
  }

  Result<std::unique_ptr<Queue>> create_queue() override {
    PERGOLA_ASSIGN(std::unique_ptr<Queue> queue, CudaQueue::create(context_, shared_from_this()));
    return queue;
  }

  Result<EventPtr> record_foreign(std::uint64_t stream) override {
    PERGOLA_TRY(context_->enter());
    PERGOLA_ASSIGN(const CUevent handle, context_->take_event(false));
    auto event = std::make_shared<CudaEvent>(context_, handle, false);
    PERGOLA_TRY(context_->check(context_->driver().cuEventRecord(handle, reinterpret_cast<CUstream>(stream)),
                                "recording an event on another library's stream {:#x}", stream));
    return EventPtr(std::move(event));
  }

  Status make_foreign_wait(std::uint64_t stream, const EventPtr& event) override {
    const auto* mine = dynamic_cast<const CudaEvent*>(event.get());
    if (mine == nullptr || mine->context() != context_.get())
      return PERGOLA_ERROR(kInvalidArgument, "The event is of another device than '{}'.", info_.id);
    PERGOLA_TRY(context_->enter());
    return context_->check(context_->driver().cuStreamWaitEvent(reinterpret_cast<CUstream>(stream), mine->handle(), 0),
                           "making another library's stream {:#x} wait", stream);
  }

  Result<GatePtr> create_gate() override { return CudaGate::create(context_); }

  Result<std::unique_ptr<ExecutableGraph>> instantiate(GraphSpec spec) override {
    PERGOLA_TRY(validate_graph(info_, spec));
    PERGOLA_ASSIGN(const std::vector<std::shared_ptr<void>> away, context_->send_away().without_residents());
    PERGOLA_ASSIGN(std::unique_ptr<ExecutableGraph> graph, CudaGraph::create(context_, std::move(spec)));
    return graph;
  }

  bool copy_waits(std::span<const std::byte> source) const override {
    return source.size() > Context::kStagingBytes && context_->find_host_range(source.data(), source.size()) == nullptr;
  }

  Status health() const override { return context_->health(); }
  void add_resident(const void* owner, const SendAway& send_away) override {
    context_->send_away().add(owner, send_away);
  }
  void remove_resident(const void* owner) override { context_->send_away().remove(owner); }
  void resident_begins() override { context_->resident_begins(); }
  void resident_ends() override { context_->resident_ends(); }
  void free_kept() override { context_->free_kept(); }
  void note_given_up() override { context_->note_given_up(); }

 private:
  Result<ModulePtr> load_now(const ModuleSource& source) {
    PERGOLA_ASSIGN(ModulePtr module, CudaModule::create(context_, jit_, source, info_));
    return module;
  }

  const ContextPtr context_;
  const DeviceInfo info_;
  const Jit jit_;
};

}  // namespace
}  // namespace cuda

Result<CudaDeviceOptions> CudaDeviceOptions::from_environment() {
  CudaDeviceOptions options;
  PERGOLA_ASSIGN(const auto level, number_setting("PERGOLA_CUDA_OPTIMIZATION", 0, 4));
  if (level) options.optimization_level = static_cast<unsigned>(*level);
  PERGOLA_ASSIGN(const auto rounding, choice_setting("PERGOLA_CUDA_ROUNDING", {"exact", "driver"}));
  if (rounding) options.exact_rounding = *rounding == 0;
  PERGOLA_ASSIGN(const auto memory, choice_setting("PERGOLA_CUDA_MEMORY", {"packed", "driver"}));
  if (memory) options.packs_memory = *memory == 0;
  PERGOLA_ASSIGN(options.end_grace, end_grace_from_environment());
  return options;
}

Result<DevicePtr> create_cuda_device(int ordinal, const CudaDeviceOptions& options) {
  PERGOLA_ASSIGN(const std::shared_ptr<const cuda::Driver> driver, cuda::Driver::open(options.driver_library));
  PERGOLA_ASSIGN(std::shared_ptr<cuda::Context> context, cuda::Context::create(driver, ordinal, options.end_grace));
  PERGOLA_TRY(context->enter());
  if (options.packs_memory) context->pack_memory();
  PERGOLA_ASSIGN(DeviceInfo info, cuda::describe(*context));
  return DevicePtr(std::make_shared<cuda::CudaDevice>(std::move(context), std::move(info), options));
}

CudaStatus cuda_status(const std::string& driver_library) {
  CudaStatus status;
  const Result<std::shared_ptr<const cuda::Driver>> opened = cuda::Driver::open(driver_library);
  if (!opened.ok()) {
    status.reason = opened.message();
    return status;
  }
  const cuda::Driver& driver = **opened;
  status.driver_library = driver.path();
  status.driver_version = driver.version_text();
  int count = 0;
  const cuda::CUresult result = driver.cuDeviceGetCount(&count);
  if (result != cuda::CUDA_SUCCESS || count == 0) {
    status.reason = result == cuda::CUDA_SUCCESS ? "The NVIDIA driver shows no GPU; check CUDA_VISIBLE_DEVICES."
                                                 : driver.describe(result);
    return status;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::CUdevice device = 0;
    if (driver.cuDeviceGet(&device, ordinal) != cuda::CUDA_SUCCESS) continue;
    cuda::Asked asked(driver, device);
    status.gpus.push_back({ordinal, asked.name(), asked.attribute(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                           asked.attribute(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), asked.memory_bytes()});
  }
  status.available = true;
  return status;
}

}  // namespace pergola::device
