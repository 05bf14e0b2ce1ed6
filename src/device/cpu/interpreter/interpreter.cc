// The engine: decodes a module once, makes a kernel image per entry, and starts machines.
#include "src/device/cpu/interpreter/interpreter.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/machine.h"
#include "src/device/cpu/stack_limit.h"

namespace pergola::device::cpu {
namespace interp {
namespace {

// What a kernel can reach: functions, and the stack they take on the deepest path.
class Reach {
 public:
  explicit Reach(const ModuleImage& image) : image_(image) {}

  Status visit(const FunctionCode& function) {
    if (!function.refusal.ok()) return function.refusal;
    if (!seen_.insert(&function).second) return {};
    for (const auto& site : function.calls)
      if (site->target != nullptr) PERGOLA_TRY(visit(*site->target));
    if (function.calls_indirectly)
      for (const auto& other : image_.functions)
        if (other->address_taken) PERGOLA_TRY(visit(*other));
    return {};
  }

  std::uint64_t stack_bytes(const FunctionCode& entry) {
    open_ = false;
    const std::uint64_t known = depth(entry);
    return known + (open_ ? open_stack_bytes() : 0);
  }

 private:
  std::uint64_t depth(const FunctionCode& function) {
    if (const auto known = depths_.find(&function); known != depths_.end()) return known->second;
    if (!path_.insert(&function).second) {  // recursion
      open_ = true;
      return 0;
    }
    std::uint64_t deepest = 0;
    for (const auto& site : function.calls)
      if (site->target != nullptr) deepest = std::max(deepest, depth(*site->target) + 16);
    open_ = open_ || function.calls_indirectly || function.allocates_stack;
    path_.erase(&function);
    return depths_[&function] = function.frame_bytes + deepest;
  }

  const ModuleImage& image_;
  std::set<const FunctionCode*> seen_, path_;
  std::map<const FunctionCode*, std::uint64_t> depths_;  // each function once: call graphs share what they call
  bool open_ = false;
};

class InterpretedKernel final : public KernelCode {
 public:
  explicit InterpretedKernel(std::shared_ptr<const KernelImage> image) : image_(std::move(image)) {}
  std::unique_ptr<BlockExecution> start(Block& block) const override {
    return std::make_unique<Machine>(image_, block);
  }
  std::uint32_t local_bytes_per_thread() const override { return image_->stack_bytes; }

 private:
  std::shared_ptr<const KernelImage> image_;
};

class InterpretedModule final : public ModuleCode {
 public:
  InterpretedModule(std::shared_ptr<const ModuleImage> image, const InterpreterOptions& options)
      : image_(std::move(image)), options_(options) {}

  Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) const override {
    const auto found = image_->function_index.find(std::string(entry));
    if (found == image_->function_index.end() || !image_->functions[found->second]->source->is_entry)
      return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in {}.", entry, image_->module->source_name);
    const FunctionCode& code = *image_->functions[found->second];
    Reach reach(*image_);
    PERGOLA_TRY(reach.visit(code));
    PERGOLA_ASSIGN(const SharedLayout layout, shared_layout(*image_->module, *code.source));
    auto kernel = std::make_shared<KernelImage>();
    kernel->module = image_;
    kernel->entry = &code;
    const std::uint64_t stack = reach.stack_bytes(code) + (image_->module_local_bytes + 15) / 16 * 16 + 16;
    if (stack > (std::uint64_t{1} << 30))
      return PERGOLA_ERROR(kResourceExhausted, "Kernel '{}' needs {} bytes of local memory a thread; at most 1 GiB.", entry, stack);
    kernel->stack_bytes = static_cast<std::uint32_t>(stack + 15) / 16 * 16;
    for (const auto& function : image_->functions) {
      std::vector<std::uint64_t> constants = function->constants;
      for (const auto& [index, name] : function->shared_relocations)
        for (const SharedLayout::Slot& slot : layout.slots)
          if (slot.name == name) constants[index] += slot.offset_bytes;
      kernel->constants.push_back(std::move(constants));
    }
    kernel->shared = layout;
    kernel->checked = options_.check;
    return std::shared_ptr<const KernelCode>(std::make_shared<InterpretedKernel>(std::move(kernel)));
  }

  Result<std::uint64_t> function_address(std::string_view name) const override {
    const auto found = image_->function_index.find(std::string(name));
    if (found == image_->function_index.end())
      return PERGOLA_ERROR(kNotFound, "No function '{}' with a body is in {}.", name, image_->module->source_name);
    image_->functions[found->second]->address_taken = true;
    return reinterpret_cast<std::uintptr_t>(&image_->handles[found->second]);
  }

 private:
  std::shared_ptr<const ModuleImage> image_;
  const InterpreterOptions options_;
};

class Interpreter final : public Engine {
 public:
  explicit Interpreter(const InterpreterOptions& options) : options_(options) {}
  std::string_view name() const override { return options_.check ? "interpreter, checked" : "interpreter"; }
  bool checks_races() const override { return options_.check; }
  Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module> module,
                                              std::span<const GlobalPlacement> globals) override {
    PERGOLA_ASSIGN(auto image, decode_module(std::move(module), globals));
    return std::unique_ptr<ModuleCode>(std::make_unique<InterpretedModule>(std::move(image), options_));
  }

 private:
  const InterpreterOptions options_;
};

}  // namespace

const FunctionCode* ModuleImage::function_at(std::uint64_t address) const {
  const auto first = reinterpret_cast<std::uintptr_t>(handles.get());
  const std::uint64_t offset = address - first;
  if (offset >= functions.size() * sizeof(FunctionHandle) || offset % sizeof(FunctionHandle) != 0) return nullptr;
  const FunctionCode* code = handles[offset / sizeof(FunctionHandle)].code;
  return code->source->is_entry || !code->refusal.ok() ? nullptr : code;
}

Result<std::shared_ptr<const ModuleImage>> decode_module(std::shared_ptr<const ptx::Module> module,
                                                         std::span<const GlobalPlacement> globals) {
  auto image = std::make_shared<ModuleImage>();
  image->module = std::move(module);
  for (const GlobalPlacement& global : globals) image->globals[global.name] = global;
  for (const ptx::Item& item : image->module->items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node); variable && variable->space == ptx::Space::kConst)
      if (const auto found = image->globals.find(variable->name); found != image->globals.end())
        image->constants.push_back(found->second);
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node); variable && variable->space == ptx::Space::kLocal) {
      const std::uint32_t align = std::max<std::uint32_t>(variable->alignment_bytes(), 1);
      const std::uint32_t offset = (image->module_local_bytes + align - 1) / align * align;
      image->module_locals[variable->name] = offset;
      image->module_local_bytes = offset + static_cast<std::uint32_t>(variable->size_bytes());
    }
    const auto* function = std::get_if<ptx::Function>(&item.node);
    if (function == nullptr || !function->has_body) continue;
    auto code = std::make_unique<FunctionCode>();
    code->source = function;
    code->index = static_cast<std::uint32_t>(image->functions.size());
    image->function_index[function->name] = code->index;
    image->functions.push_back(std::move(code));
  }
  image->handles = std::make_unique<FunctionHandle[]>(image->functions.size());
  for (std::size_t n = 0; n < image->functions.size(); ++n) image->handles[n].code = image->functions[n].get();
  // A function that cannot be run refuses the kernels that reach it, not the others of its module.
  for (const auto& code : image->functions) code->refusal = Decoder(*image, *code).run();
  return std::shared_ptr<const ModuleImage>(std::move(image));
}

}  // namespace interp

std::shared_ptr<Engine> create_interpreter(const InterpreterOptions& options) {
  return std::make_shared<interp::Interpreter>(options);
}

}  // namespace pergola::device::cpu
