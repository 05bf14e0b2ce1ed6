#include "src/device/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <thread>

#include "src/base/thread_shortage.h"
#include "src/device/cpu/cpu_gate.h"
#include "src/device/cpu/cpu_graph.h"
#include "src/device/cpu/cpu_module.h"
#include "src/device/cpu/cpu_queue.h"
#include "src/device/cpu/process_exit.h"
#include "src/device/cpu/queue_worker.h"
#include "src/device/cpu/task_crew.h"
#include "src/device/memory_shortage.h"

namespace pergola::device::cpu {
namespace {

constexpr std::uint32_t kMostSms = 1024, kMostBlocksPerSm = 32;  // the product stays below 2^16 (grid_runner.cc)

std::uint64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::uint64_t{1} << 40;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

CpuOptions with_defaults(CpuOptions options) {
  if (options.sms == 0) options.sms = std::clamp(std::thread::hardware_concurrency(), 1u, kMostSms);
  if (options.memory_bytes == 0) options.memory_bytes = physical_memory_bytes();
  return options;
}

DeviceInfo describe(const CpuOptions& options, const Engine& engine) {
  DeviceInfo info;
  info.kind = DeviceKind::kCpu;
  info.id = "cpu";
  info.name = fmt::format("CPU ({})", engine.name());
  info.driver = PERGOLA_VERSION;
  info.compute_major = 9;
  info.sm_count = options.sms;
  info.max_shared_bytes_per_block = options.max_shared_bytes_per_block;
  info.max_blocks_per_sm = options.blocks_per_sm;
  info.memory_bytes = options.memory_bytes;
  info.managed = ManagedAccess::kConcurrent;
  return info;
}

RunnerOptions runner_options(const CpuOptions& options) {
  RunnerOptions out;
  out.sms = options.sms;
  out.blocks_per_sm = options.blocks_per_sm;
  out.occupancy = options.occupancy;
  out.step_budget = options.step_budget;
  out.watchdog = options.watchdog;
  out.time_limit = options.time_limit;
  return out;
}

}  // namespace

Result<DevicePtr> create_cpu_device(const CpuOptions& options, std::shared_ptr<Engine> engine) {
  if (engine == nullptr) return PERGOLA_ERROR(kInvalidArgument, "A CPU device needs an engine that runs PTX, and none is given.");
  if (options.sms > kMostSms || options.blocks_per_sm == 0 || options.blocks_per_sm > kMostBlocksPerSm) {
    return PERGOLA_ERROR(kInvalidArgument, "A CPU device has at most {} SMs with 1 to {} blocks each; {} and {} are asked for.",
                         kMostSms, kMostBlocksPerSm, options.sms, options.blocks_per_sm);
  }
  const std::uint32_t most_shared = RunnerOptions{}.shared_bytes_per_sm - kReservedSharedBytesPerBlock;
  if (options.max_shared_bytes_per_block > most_shared) {
    return PERGOLA_ERROR(kInvalidArgument, "A block of the CPU device has at most {} bytes of shared memory; {} are asked for.",
                         most_shared, options.max_shared_bytes_per_block);
  }
  if (!std::has_single_bit(options.buffer_align_bytes) || options.buffer_align_bytes < 16 || options.buffer_align_bytes > kBufferAlignBytes) {
    return PERGOLA_ERROR(kInvalidArgument, "The buffers of a CPU device are aligned to 16, 32, 64, 128 or 256 bytes; {} is asked for.",
                         options.buffer_align_bytes);
  }
  if (options.step_budget == 0) return PERGOLA_ERROR(kInvalidArgument, "The step budget of a CPU device is 0; it must be at least 1.");
  auto device = std::make_shared<CpuDevice>(with_defaults(options), std::move(engine));
  watch_for_exit();
  cancel_at_exit(device);
  return DevicePtr(std::move(device));
}

CpuDevice::CpuDevice(const CpuOptions& options, std::shared_ptr<Engine> engine)
    : options_(options), info_(describe(options, *engine)),
      memory_(std::make_shared<DeviceMemory>(options.memory_bytes, options.buffer_align_bytes)), heap_(memory_->map, options.heap_bytes),
      output_(std::make_shared<PrintOutput>(options.print_sink)), engine_(std::move(engine)),
      runner_(runner_options(options)) {}

Result<ModulePtr> CpuDevice::load(const ModuleSource& source) {
  PERGOLA_ASSIGN(ModulePtr module, CpuModule::load(shared_from_this(), source));
  if (source.when_compiled != nullptr) PERGOLA_TRY((*source.when_compiled)());
  return module;
}

Result<BufferPtr> CpuDevice::allocate(std::size_t size_bytes, MemoryKind kind) {
  if (kind == MemoryKind::kManaged) kind = MemoryKind::kDevice;  // which the host reaches
  const std::uint64_t reliefs = MemoryShortage::reliefs();
  auto buffer = CpuBuffer::create(memory_, size_bytes, kind);
  if (buffer.code() == Code::kResourceExhausted && MemoryShortage::relieve(reliefs))
    buffer = CpuBuffer::create(memory_, size_bytes, kind);
  PERGOLA_TRY(buffer.status());
  return BufferPtr(*std::move(buffer));
}

namespace {

class CpuTexture final : public Texture {
 public:
  explicit CpuTexture(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}
  ~CpuTexture() override {
    if (image_.handle != 0) memory_->map.textures.remove(image_);
  }
  CpuTexture(const CpuTexture&) = delete;
  CpuTexture& operator=(const CpuTexture&) = delete;
  std::uint64_t handle() const override { return image_.handle; }

  Status take(const TextureDescription& d) {
    image_.description = d;
    image_.description.buffer = nullptr;
    const std::size_t row_bytes = d.width * d.texel_bytes(), rows = std::size_t{d.height} * d.depth;
    image_.texels.resize(rows * row_bytes);
    const std::byte* from = d.buffer->host_pointer() + d.offset_bytes;
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(image_.texels.data() + row * row_bytes, from + row * d.row_bytes(), row_bytes);
    }
    return memory_->map.textures.add(image_);
  }

 private:
  const std::shared_ptr<DeviceMemory> memory_;
  TextureImage image_;
};

}  // namespace

Result<TexturePtr> CpuDevice::create_texture(const TextureDescription& description) {
  PERGOLA_TRY(validate_texture(description));
  const auto* buffer = dynamic_cast<const CpuBuffer*>(description.buffer.get());
  if (buffer == nullptr || buffer->memory() != memory_.get()) {
    return PERGOLA_ERROR(kInvalidArgument, "The texture's buffer is of another device than '{}'.", info_.id);
  }
  auto made = std::make_shared<CpuTexture>(memory_);
  PERGOLA_TRY(made->take(description));
  return TexturePtr(std::move(made));
}

Result<std::unique_ptr<Queue>> CpuDevice::create_queue() {
  watch_for_exit();
  std::shared_ptr<QueueWorker> worker;
  try {
    worker = QueueWorker::start(shared_from_this());
  } catch (const std::system_error& error) {
    return error_of(error);
  }
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(workers_, [](const auto& old) { return old.expired(); });
    workers_.push_back(worker);
  }
  return std::unique_ptr<Queue>(std::make_unique<CpuQueue>(std::move(worker)));
}

Result<GatePtr> CpuDevice::create_gate() {
  return GatePtr(std::make_shared<CpuGate>(memory_));
}

Result<std::unique_ptr<ExecutableGraph>> CpuDevice::instantiate(GraphSpec spec) {
  PERGOLA_ASSIGN(std::unique_ptr<ExecutableGraph> graph, CpuGraph::create(shared_from_this(), std::move(spec)));
  return graph;
}

void CpuDevice::add_crew(const std::shared_ptr<TaskCrew>& crew) {
  watch_for_exit();
  const std::scoped_lock lock(mutex_);
  std::erase_if(crews_, [](const auto& old) { return old.expired(); });
  crews_.push_back(crew);
}

// exchange, relaxed: only whether anything moved since the last look; it orders nothing.
bool CpuDevice::gets_on() { return progress_.exchange(false, std::memory_order_relaxed) && !process_is_ending(); }

void CpuDevice::note_given_up() {
  gave_up_at_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool CpuDevice::has_just_given_up() const {
  constexpr std::chrono::milliseconds kMoment(100);
  const std::chrono::steady_clock::duration at(gave_up_at_.load(std::memory_order_relaxed));
  return at.count() != 0 && std::chrono::steady_clock::now().time_since_epoch() - at < kMoment;
}

void CpuDevice::cancel_all(const Error& why) {
  std::vector<std::weak_ptr<QueueWorker>> workers;
  std::vector<std::weak_ptr<TaskCrew>> crews;
  {
    const std::scoped_lock lock(mutex_);
    workers = workers_;
    crews = crews_;
  }
  for (const auto& weak : crews) {
    if (const auto crew = weak.lock()) crew->cancel(why);
  }
  for (const auto& weak : workers) {
    if (const auto worker = weak.lock()) worker->cancel(why);
  }
}

}  // namespace pergola::device::cpu
