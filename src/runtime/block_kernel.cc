#include "src/runtime/block_kernel.h"

#include "src/analysis/idle_blocks.h"
#include "src/base/check.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/transform/block_signals.h"
#include "src/transform/fused_chain.h"
#include "src/transform/stacked_kernels.h"

namespace pergola::runtime {

Result<const BlockKernel::Analysed*> BlockKernel::analysed() {
  const std::lock_guard lock(analysed_mutex_);
  if (!analysed_) analysed_ = analyse();
  if (!analysed_->ok()) return analysed_->status();
  return (*analysed_)->get();
}

Status BlockKernel::may_leave_blocks_out() {
  PERGOLA_ASSIGN(const Analysed* const known, analysed());
  const std::lock_guard lock(mutex_);
  if (!may_leave_out_)
    may_leave_out_ = analysis::may_leave_blocks_out(known->module, *known->module.find_function(kernel_));
  return *may_leave_out_;
}

Status BlockKernel::can_be_followed() {
  PERGOLA_ASSIGN(const Analysed* const known, analysed());
  const std::lock_guard lock(mutex_);
  if (!can_be_followed_) can_be_followed_ = transform::can_be_followed(known->module, kernel_);
  return *can_be_followed_;
}

Status BlockKernel::can_wait_for_blocks() {
  const std::lock_guard lock(mutex_);
  if (!can_wait_)
    can_wait_ =
        transformed({.waits_for_all = false, .has_parents = true, .signals = true, .starts_early = true}).status();
  return *can_wait_;
}

Result<BlockKernel::Form> BlockKernel::form(const transform::BlockSignalOptions& options) {
  const std::lock_guard lock(mutex_);
  const auto known = forms_.find(options);
  if (known != forms_.end()) return known->second;
  return forms_.emplace(options, compile(options)).first->second;
}

Result<BlockKernel::Form> BlockKernel::merged(const transform::MergedShape& shape) {
  PERGOLA_ASSIGN(const ModulePart module, merged_module(shape));
  const std::lock_guard lock(mutex_);
  const auto known = merged_.find(shape);
  if (known != merged_.end()) return known->second;
  return merged_.emplace(shape, load(*module, transform::merged_kernel(kernel_))).first->second;
}

Result<BlockKernel::Form> BlockKernel::merged(const transform::MergedShape& shape,
                                              const transform::BlockSignalOptions& signals) {
  PERGOLA_CHECK(!signals.has_links());
  PERGOLA_ASSIGN(const ModulePart merged, merged_module(shape));
  const std::lock_guard lock(mutex_);
  const auto known = merged_early_.find({shape, signals});
  if (known != merged_early_.end()) return known->second;
  const auto make = [&]() -> Result<Form> {
    ptx::Module module = *merged;  // lines are still those of the kernel's text
    PERGOLA_TRY(transform::add_block_signals(module, transform::merged_kernel(kernel_), signals));
    PERGOLA_TRY(ptx::verify(module));
    return load(module, transform::merged_kernel(kernel_));
  };
  return merged_early_.emplace(std::pair(shape, signals), make()).first->second;
}

Result<BlockKernel::Form> BlockKernel::packed(const transform::PackedShape& shape,
                                              const std::optional<transform::BlockSignalOptions>& signals) {
  PERGOLA_CHECK(!signals || !signals->has_links());
  const std::lock_guard lock(mutex_);
  const auto known = packed_.find({shape, signals});
  if (known != packed_.end()) return known->second;
  return packed_.emplace(std::pair(shape, signals), make_packed(shape, signals)).first->second;
}

Result<BlockKernel::Form> BlockKernel::make_packed(const transform::PackedShape& shape,
                                                   const std::optional<transform::BlockSignalOptions>& signals) const {
  const std::string name = transform::packed_kernel(kernel_);
  PERGOLA_ASSIGN(const ptx::Module module, transformed([&](ptx::Module& of) -> Status {
                   PERGOLA_TRY(transform::pack_blocks(of, kernel_, shape));
                   // Lines are those of the kernel's text.
                   return signals ? transform::add_block_signals(of, name, *signals) : Status();
                 }));
  PERGOLA_ASSIGN(Form form, load(module, name));
  form.grid_offset_bytes = form.kernel->signature().parameters.back().offset_bytes;
  return form;
}

Result<BlockKernel::Constants> BlockKernel::constants_of(std::span<const std::byte> parameters) {
  PERGOLA_ASSIGN(const Analysed* const known, analysed());
  const std::lock_guard lock(mutex_);
  if (!constant_places_) constant_places_ = transform::constant_places(known->module, kernel_);
  if (!constant_places_->ok()) return constant_places_->status();
  return transform::constants_at(**constant_places_, parameters);
}

Result<std::shared_ptr<BlockKernel>> BlockKernel::with_constants(const Constants& constants) {
  constexpr std::size_t kMostKernels = 64;
  if (!constants_.empty()) return PERGOLA_ERROR(kUnsupported, "Kernel '{}' has constants already.", kernel_);
  if (constants.empty())
    return PERGOLA_ERROR(kUnsupported, "Kernel '{}' has no whole number that all of its launches have.", kernel_);
  const std::lock_guard lock(mutex_);
  if (const auto made = constant_.find(constants); made != constant_.end()) return made->second;
  if (constant_.size() >= kMostKernels)
    return PERGOLA_ERROR(kResourceExhausted, "Kernel '{}' has forms of {} sets of numbers already.", kernel_,
                         kMostKernels);
  return constant_.emplace(constants, make_constant(constants)).first->second;
}

Result<std::shared_ptr<BlockKernel>> BlockKernel::make_constant(const Constants& constants) const {
  std::shared_ptr<BlockKernel> made(new BlockKernel(*this, constants));
  PERGOLA_TRY(made->unchanged().status());
  return made;
}

Result<BlockKernel::Form> BlockKernel::unchanged() {
  const std::lock_guard lock(mutex_);
  const auto make = [&]() -> Result<Form> {
    PERGOLA_ASSIGN(const ptx::Module module, transformed([](ptx::Module&) { return Status(); }));
    return load(module, kernel_);
  };
  if (!unchanged_) unchanged_ = make();
  return *unchanged_;
}

Result<ptx::Module> BlockKernel::parsed() const {
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(*ptx_, source_name_));
  if (!constants_.empty()) PERGOLA_TRY(transform::make_constant(module, original_, constants_));
  return module;
}

Result<BlockKernel::ModulePart> BlockKernel::merged_module(const transform::MergedShape& shape) {
  const std::lock_guard lock(mutex_);
  const auto known = merged_modules_.find(shape);
  if (known != merged_modules_.end()) return known->second;
  return merged_modules_.emplace(shape, make_merged(shape)).first->second;
}

Result<std::unique_ptr<const BlockKernel::Analysed>> BlockKernel::analyse() const {
  auto analysed = std::make_unique<Analysed>();
  PERGOLA_ASSIGN(analysed->module, parsed());
  const ptx::Function* const entry = analysed->module.find_function(kernel_);
  if (entry == nullptr) return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in '{}'.", kernel_, source_name_);
  PERGOLA_ASSIGN(analysis::KernelFootprints footprints, analysis::KernelFootprints::of(analysed->module, *entry));
  analysed->footprints = std::move(footprints);
  return std::unique_ptr<const Analysed>(std::move(analysed));
}

Status BlockKernel::check_variables() const {
  if (written_variable_.empty()) return {};
  return PERGOLA_ERROR(kUnsupported,
                       "Kernel '{}' uses variable '{}', which kernels of its module write: another form of it would be "
                       "another module's, with a variable of its own.",
                       kernel_, written_variable_);
}

Result<BlockKernel::Body> BlockKernel::fused_body(bool is_one_warp, const std::vector<std::uint32_t>& constant_lines) {
  const std::lock_guard lock(mutex_);
  std::pair key(is_one_warp, constant_lines);
  const auto known = bodies_.find(key);
  if (known != bodies_.end()) return known->second;
  return bodies_.emplace(std::move(key), make_body(is_one_warp, constant_lines)).first->second;
}

Result<BlockKernel::Body> BlockKernel::make_body(bool is_one_warp,
                                                 const std::vector<std::uint32_t>& constant_lines) const {
  PERGOLA_TRY(check_variables());
  PERGOLA_ASSIGN(const ptx::Module module, parsed());
  PERGOLA_ASSIGN(transform::TaskBody body,
                 transform::entry_to_task(module, kernel_, transform::fused_config(is_one_warp, constant_lines)));
  PERGOLA_TRY(transform::can_be_fused(body, is_one_warp));
  return std::make_shared<const transform::TaskBody>(std::move(body));
}

Result<ptx::Module> BlockKernel::transformed(FunctionRef<Status(ptx::Module&)> pass) const {
  PERGOLA_TRY(check_variables());
  PERGOLA_ASSIGN(ptx::Module module, parsed());
  PERGOLA_TRY(pass(module));
  PERGOLA_TRY(ptx::verify(module));
  return module;
}

Result<ptx::Module> BlockKernel::transformed(const transform::BlockSignalOptions& options) const {
  return transformed([&](ptx::Module& of) { return transform::add_block_signals(of, kernel_, options); });
}

Result<BlockKernel::Form> BlockKernel::load(device::Device& device, const ptx::Module& module,
                                            const std::string& source_name, std::string_view name) {
  const std::string text = ptx::print(module);
  PERGOLA_ASSIGN(device::ModulePtr loaded, device.load({&module, text, source_name}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, loaded->kernel(name));
  return Form{std::move(loaded), kernel, std::nullopt, std::nullopt};
}

Result<BlockKernel::Form> BlockKernel::compile(const transform::BlockSignalOptions& options) const {
  PERGOLA_ASSIGN(const ptx::Module module, transformed(options));
  PERGOLA_ASSIGN(Form form, load(module, kernel_));
  if (options.has_links()) form.links_offset_bytes = form.kernel->signature().parameters.back().offset_bytes;
  return form;
}

Result<BlockKernel::ModulePart> BlockKernel::make_merged(const transform::MergedShape& shape) const {
  PERGOLA_ASSIGN(ptx::Module module,
                 transformed([&](ptx::Module& of) { return transform::merge_launches(of, kernel_, shape); }));
  return std::make_shared<const ptx::Module>(std::move(module));
}

}  // namespace pergola::runtime
