#include "bench/blocks/forms/megakernel_form.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/source/source.h"

namespace pergola::bench::blocks {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.message());
  return std::move(result).value();
}
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

class MegakernelForm : public Form {
 public:
  MegakernelForm(device::Device& device, const Program& program, const Wavefront& wavefront, ProgramOnDevice& loaded)
      : loaded_(loaded), wavefront_(wavefront) {
    name = "megakernel";
    const auto start = std::chrono::steady_clock::now();
    source::SourceRequest request = value_of(source::load_file(source_path(program)));
    request.text = megakernel_source(wavefront, request.text);
    if (device.info().kind == device::DeviceKind::kCuda) request.arch = "sm_90";
    const std::string ptx = value_of(source::compile(request)).ptx;
    const ptx::Module module = value_of(ptx::parse(ptx, "megakernel"));
    must(ptx::verify(module));
    module_ = value_of(device.load({&module, ptx, "megakernel"}));
    kernel_ = value_of(module_->kernel("megakernel"));
    const std::uint32_t resident =
        value_of(kernel_->max_resident_blocks_per_sm(wavefront.threads, 0)) * device.info().sm_count;
    // Tiles of four launches may run at once.
    config_.grid = {std::min(resident, 4 * wavefront.widest()), 1, 1};
    config_.block = {wavefront.threads, 1, 1};
    const std::vector<std::int32_t> table = wavefront_table(wavefront);
    table_ = value_of(device.allocate(table.size() * 4, device::MemoryKind::kDevice));
    state_ = value_of(device.allocate(wavefront_state_words(wavefront) * 4, device::MemoryKind::kDevice));
    must(loaded.queue().copy_to_device(table_, 0, std::as_bytes(std::span(table))));
    must(loaded.queue().fill(state_, 0, state_->size_bytes(), 0, 4));
    must(loaded.queue().synchronize());
    for (const device::BufferPtr& buffer : loaded.buffers()) addresses_.push_back(buffer->address());
    instantiate_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  void reset() override { must(loaded_.reset()); }
  std::string check() override { return value_of(loaded_.check()); }
  void run() override {
    const std::vector<std::byte> arguments =
        packed_arguments(wavefront_, addresses_, {{table_->address()}, {state_->address()}, {++runs_, false}});
    must(loaded_.queue().launch(module_, *kernel_, config_, arguments));
    must(loaded_.queue().synchronize());
  }

 private:
  ProgramOnDevice& loaded_;
  const Wavefront wavefront_;
  device::ModulePtr module_;
  const device::Kernel* kernel_ = nullptr;
  device::LaunchConfig config_;
  device::BufferPtr table_, state_;
  std::vector<std::uint64_t> addresses_;
  std::uint64_t runs_ = 0;
};

}  // namespace

std::unique_ptr<Form> megakernel_form(device::Device& device, const Program& program, const Wavefront& wavefront,
                                      ProgramOnDevice& loaded) {
  return std::make_unique<MegakernelForm>(device, program, wavefront, loaded);
}

}  // namespace pergola::bench::blocks
