#include "src/device/cpu/jit/engine.h"

#include <mutex>
#include <unordered_map>

#include "src/base/log.h"
#include "src/device/cpu/jit/block_run.h"
#include "src/device/cpu/jit/compile.h"
#include "src/ptx/printer.h"

namespace pergola::device::cpu::jit {
namespace {

// Frames of ordinary kernels and of the run time's own functions; what a kernel keeps in .local comes on top.
#ifdef PERGOLA_HAS_ASAN
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif
constexpr std::size_t kRecursiveStackBytes = 1024 * 1024;

class JitKernel final : public KernelCode {
 public:
  JitKernel(BlockRun::Code code, std::uint32_t local_bytes, std::shared_ptr<CompiledUnit> unit)
      : code_(code), local_bytes_(local_bytes), unit_(std::move(unit)) {}
  std::unique_ptr<BlockExecution> start(Block& block) const override { return std::make_unique<BlockRun>(block, code_); }
  std::uint32_t local_bytes_per_thread() const override { return local_bytes_; }

 private:
  const BlockRun::Code code_;
  const std::uint32_t local_bytes_;
  std::shared_ptr<CompiledUnit> unit_;
};

class JitModule final : public ModuleCode {
 public:
  JitModule(std::shared_ptr<Compiler> compiler, std::shared_ptr<const ptx::Module> module,
            std::span<const GlobalPlacement> globals)
      : compiler_(std::move(compiler)), module_(std::move(module)), text_(ptx::print(*module_)), globals_(globals.begin(), globals.end()),
        address_taken_(address_taken_functions(*module_)) {}

  // Compiles on the first call for `entry`; the answer, good or bad, is kept.
  Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) const override {
    const std::scoped_lock lock(mutex_);
    const std::string name(entry);
    if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
    Result<std::shared_ptr<const KernelCode>> made = compile(name);
    kernels_.emplace(name, made);
    return made;
  }

  Result<std::uint64_t> function_address(std::string_view function) const override {
    if (functions_ == nullptr) return PERGOLA_ERROR(kUnsupported, "Nothing takes the address of '{}'.", function);
    PERGOLA_ASSIGN(void* const address, functions_->symbol("func." + std::string(function)));
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
  }

  // Compiles the functions whose address is taken: one copy for all kernels, so that an address means the same in each.
  Status compile_functions() {
    if (address_taken_.empty()) return {};
    std::vector<const ptx::Function*> roots;
    for (const std::string& name : address_taken_) roots.push_back(module_->find_function(name));
    function_traits_ = kernel_traits(*module_, roots, address_taken_);
    const SharedLayout none;
    PERGOLA_ASSIGN(functions_, compiler_->compile_functions({*module_, text_, globals_, function_traits_, address_taken_, none}));
    return {};
  }

 private:
  Result<std::shared_ptr<const KernelCode>> compile(const std::string& name) const {
    const ptx::Function* entry = module_->find_function(name);
    if (entry == nullptr || !entry->is_entry || !entry->has_body) {
      return PERGOLA_ERROR(kNotFound, "{} has no kernel '{}'.", module_->source_name, name);
    }
    const KernelTraits traits = kernel_traits(*module_, {entry}, address_taken_);
    PERGOLA_ASSIGN(const SharedLayout shared, shared_layout(*module_, *entry));
    PERGOLA_ASSIGN(std::shared_ptr<CompiledUnit> unit,
                   compiler_->compile_kernel({*module_, text_, globals_, traits, address_taken_, shared}, *entry, functions_));
    PERGOLA_ASSIGN(void* const address, unit->symbol("kernel"));
    PERGOLA_DEBUG("The JIT runs '{}' as {}{}", name, traits.needs_fibers ? "a fiber a thread: " : "a loop over threads",
                  traits.reason);
    const bool deep = traits.recursive || traits.calls_indirectly;
    BlockRun::Code code;
    code.function = reinterpret_cast<BlockFunction>(address);
    code.fibers = traits.needs_fibers;
    code.stack_bytes = (deep ? kRecursiveStackBytes : kStackBytes) + 2 * traits.local_bytes;
    return std::shared_ptr<const KernelCode>(
        std::make_shared<JitKernel>(code, static_cast<std::uint32_t>(traits.local_bytes), std::move(unit)));
  }

  std::shared_ptr<Compiler> compiler_;
  std::shared_ptr<const ptx::Module> module_;
  const std::string text_;  // as printed
  std::vector<GlobalPlacement> globals_;
  std::vector<std::string> address_taken_;
  KernelTraits function_traits_;              // written by compile_functions() alone
  std::shared_ptr<CompiledUnit> functions_;   // as above
  mutable std::mutex mutex_;                  // guards kernels_, and makes kernels of one module compile one by one
  mutable std::unordered_map<std::string, Result<std::shared_ptr<const KernelCode>>> kernels_;
};

class JitEngine final : public Engine {
 public:
  explicit JitEngine(std::shared_ptr<Compiler> compiler) : compiler_(std::move(compiler)) {}
  std::string_view name() const override { return "jit"; }
  Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module> module,
                                              std::span<const GlobalPlacement> globals) override {
    auto code = std::make_unique<JitModule>(compiler_, std::move(module), globals);
    PERGOLA_TRY(code->compile_functions());
    return std::unique_ptr<ModuleCode>(std::move(code));
  }

 private:
  std::shared_ptr<Compiler> compiler_;
};

}  // namespace

Result<std::unique_ptr<Engine>> create_engine() {
  PERGOLA_ASSIGN(std::shared_ptr<Compiler> compiler, Compiler::create());
  return std::unique_ptr<Engine>(std::make_unique<JitEngine>(std::move(compiler)));
}

}  // namespace pergola::device::cpu::jit
