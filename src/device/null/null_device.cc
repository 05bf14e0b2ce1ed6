#include "src/device/null/null_device.h"

#include "src/device/null/null_buffer.h"
#include "src/device/null/null_graph.h"
#include "src/device/null/null_module.h"
#include "src/device/null/null_queue.h"
#include "src/device/validate.h"

namespace pergola::device {
namespace null {
namespace {

DeviceInfo describe(std::uint64_t memory_bytes) {
  DeviceInfo info;
  info.kind = DeviceKind::kNull;
  info.id = "null";
  info.name = "Null device (runs no kernels)";
  info.driver = PERGOLA_VERSION;
  info.compute_major = 9;
  info.sm_count = 4;
  info.max_shared_bytes_per_block = 48 << 10;
  info.max_blocks_per_sm = 2;
  info.memory_bytes = memory_bytes;
  return info;
}

class NullDevice final : public Device, public std::enable_shared_from_this<NullDevice> {
 public:
  explicit NullDevice(const NullDeviceOptions& options)
      : info_(describe(options.memory_bytes)), budget_(std::make_shared<MemoryBudget>(options.memory_bytes)) {}

  const DeviceInfo& info() const override { return info_; }

  Result<ModulePtr> load(const ModuleSource& source) override {
    PERGOLA_ASSIGN(ModulePtr module, NullModule::create(source, info_));
    if (source.when_compiled != nullptr) PERGOLA_TRY((*source.when_compiled)());
    return module;
  }

  Result<BufferPtr> allocate(std::size_t size_bytes, MemoryKind kind) override {
    if (kind == MemoryKind::kManaged) return PERGOLA_ERROR(kUnsupported, "'{}' has no managed memory.", info_.id);
    if (auto buffer = NullBuffer::create(budget_, size_bytes, kind)) return BufferPtr(std::move(buffer));
    return PERGOLA_ERROR(kResourceExhausted, "'{}' has no {} bytes free: {} of {} are left.", info_.id, size_bytes,
                         budget_->free_bytes(), info_.memory_bytes);
  }

  Result<TexturePtr> create_texture(const TextureDescription& description) override {
    PERGOLA_TRY(validate_texture(description));
    return PERGOLA_ERROR(kUnsupported, "'{}' has no textures: it runs no kernels that could read them.", info_.id);
  }

  Result<std::unique_ptr<Queue>> create_queue() override {
    return std::unique_ptr<Queue>(std::make_unique<NullQueue>(shared_from_this(), budget_));
  }

  Result<std::unique_ptr<ExecutableGraph>> instantiate(GraphSpec spec) override {
    PERGOLA_TRY(validate_graph(info_, spec));
    PERGOLA_ASSIGN(std::unique_ptr<ExecutableGraph> graph, NullGraph::create(std::move(spec), budget_.get()));
    return graph;
  }

  Status health() const override { return {}; }

 private:
  const DeviceInfo info_;
  const std::shared_ptr<MemoryBudget> budget_;
};

}  // namespace
}  // namespace null

DevicePtr create_null_device(const NullDeviceOptions& options) { return std::make_shared<null::NullDevice>(options); }

}  // namespace pergola::device
