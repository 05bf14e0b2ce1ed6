// A kernel as other ways of a graph need it: what its blocks touch, its form whose blocks wait for blocks of other
// launches (block_lowering.h), and the one that is several launches (merged_lowering.h). All are made of its PTX when
// first asked for, which takes milliseconds: where nobody waits for a launch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/analysis/footprints.h"
#include "src/base/function_ref.h"
#include "src/device/device.h"
#include "src/transform/block_signals.h"
#include "src/transform/constant_parameters.h"
#include "src/transform/entry_to_task.h"
#include "src/transform/merged_launches.h"
#include "src/transform/packed_blocks.h"

namespace pergola::runtime {

// Thread-safe. Holds the device.
class BlockKernel {
 public:
  struct Form {
    device::ModulePtr module;
    const device::Kernel* kernel = nullptr;
    // Of abi::BlockLinks in its parameters, where it has them; those of the kernel lie before it.
    std::optional<std::uint32_t> links_offset_bytes;
    // Of its grid, three words, in its parameters, where several of its blocks are one.
    std::optional<std::uint32_t> grid_offset_bytes;
  };

  // `ptx` has been loaded on the device as `source_name`; `written_variable` is one that the kernel uses and some
  // kernel writes, or "".
  BlockKernel(device::DevicePtr device, std::shared_ptr<const std::string> ptx, std::string source_name,
              std::string kernel, std::string written_variable)
      : device_(std::move(device)),
        ptx_(std::move(ptx)),
        source_name_(std::move(source_name)),
        original_(std::move(kernel)),
        kernel_(original_),
        written_variable_(std::move(written_variable)) {}

  // Valid as long as this.
  struct Analysed {
    ptx::Module module;
    std::optional<analysis::KernelFootprints> footprints;  // there
  };
  Result<const Analysed*> analysed();
  // What analysis::may_leave_blocks_out() says, the same every time.
  Status may_leave_blocks_out();
  // Whether it has forms: kUnsupported, with file and line, where it has none.
  Status can_wait_for_blocks();
  // What can_wait_for_blocks() or the device says, the same every time.
  Result<Form> form(const transform::BlockSignalOptions& options);
  // Its blocks as parts of a fused kernel (transform/fused_chain.h); kUnsupported, with file and line, where they
  // cannot be. Shared, never null.
  using Body = std::shared_ptr<const transform::TaskBody>;
  Result<Body> fused_body(bool is_one_warp, const std::vector<std::uint32_t>& constant_lines);
  // Several of its launches as one: what transform::merge_launches() or the device says, the same every time.
  Result<Form> merged(const transform::MergedShape& shape);
  // That, started early as well: `signals` without links. can_wait_for_blocks() says whether there is one.
  Result<Form> merged(const transform::MergedShape& shape, const transform::BlockSignalOptions& signals);
  // Several of its blocks as one: what transform::pack_blocks() or the device says, the same every time; started early
  // as well where there are `signals`, without links.
  Result<Form> packed(const transform::PackedShape& shape,
                      const std::optional<transform::BlockSignalOptions>& signals = std::nullopt);
  // The whole numbers among these parameters of a launch; what transform::constant_places() says where there may be
  // none, the same every time.
  using Constants = std::vector<transform::ConstantParameter>;
  Result<Constants> constants_of(std::span<const std::byte> parameters);
  // The kernel with these as constants of its code, of which all forms can be had as of this one; lines are those of
  // the same text. What transform::make_constant() or the device says, the same every time; kUnsupported where there
  // are none, or it has some already, kResourceExhausted where there are many such kernels.
  Result<std::shared_ptr<BlockKernel>> with_constants(const Constants& constants);
  // As it is, in a module of its own.
  Result<Form> unchanged();
  // Whether other launches can be stacked on one of it: what transform::can_be_followed() says, the same every time.
  Status can_be_followed();
  // The module of merged(), to be joined with others (transform/joined_kernels.h, stacked_kernels.h). Shared, never
  // null.
  using ModulePart = std::shared_ptr<const ptx::Module>;
  Result<ModulePart> merged_module(const transform::MergedShape& shape);
  const std::string& name() const { return kernel_; }

  // Kernel `name` of a module that the verifier has passed, loaded as `source_name`.
  static Result<Form> load(device::Device& device, const ptx::Module& module, const std::string& source_name,
                           std::string_view name);

 private:
  BlockKernel(const BlockKernel& original, Constants constants)
      : device_(original.device_),
        ptx_(original.ptx_),
        source_name_(original.source_name_),
        original_(original.original_),
        kernel_(transform::constant_kernel(original_)),
        written_variable_(original.written_variable_),
        constants_(std::move(constants)) {}
  Result<ptx::Module> parsed() const;
  Result<std::unique_ptr<const Analysed>> analyse() const;
  // The kernel's text after a pass, which the verifier passes; kUnsupported where the kernel uses what others write.
  Result<ptx::Module> transformed(FunctionRef<Status(ptx::Module&)> pass) const;
  Result<ptx::Module> transformed(const transform::BlockSignalOptions& options) const;
  Result<Form> compile(const transform::BlockSignalOptions& options) const;
  Result<ModulePart> make_merged(const transform::MergedShape& shape) const;
  Result<Form> make_packed(const transform::PackedShape& shape,
                           const std::optional<transform::BlockSignalOptions>& signals) const;
  Result<std::shared_ptr<BlockKernel>> make_constant(const Constants& constants) const;
  Result<Form> load(const ptx::Module& module, const std::string& kernel) const {
    return load(*device_, module, source_name_, kernel);
  }
  Result<Body> make_body(bool is_one_warp, const std::vector<std::uint32_t>& constant_lines) const;
  Status check_variables() const;

  const device::DevicePtr device_;
  const std::shared_ptr<const std::string> ptx_;
  const std::string source_name_;
  const std::string original_;  // what it is called in the text,
  const std::string kernel_;    // and with its constants
  const std::string written_variable_;
  const Constants constants_;
  std::mutex analysed_mutex_;  // guards the next: launches ask for it while the other is held over a compilation
  std::optional<Result<std::unique_ptr<const Analysed>>> analysed_;
  std::mutex mutex_;  // guards what follows
  std::optional<Status> can_wait_, may_leave_out_, can_be_followed_;
  std::map<transform::BlockSignalOptions, Result<Form>> forms_;
  std::map<transform::MergedShape, Result<Form>> merged_;
  std::map<std::pair<transform::MergedShape, transform::BlockSignalOptions>, Result<Form>> merged_early_;
  std::map<transform::MergedShape, Result<ModulePart>> merged_modules_;
  std::map<std::pair<transform::PackedShape, std::optional<transform::BlockSignalOptions>>, Result<Form>> packed_;
  std::map<std::pair<bool, std::vector<std::uint32_t>>, Result<Body>> bodies_;
  std::optional<Result<std::vector<transform::ParameterPlace>>> constant_places_;
  std::map<Constants, Result<std::shared_ptr<BlockKernel>>> constant_;
  std::optional<Result<Form>> unchanged_;
};

}  // namespace pergola::runtime
