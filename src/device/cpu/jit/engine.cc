#include "src/device/cpu/jit/engine.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "src/base/log.h"
#include "src/device/cpu/jit/block_run.h"
#include "src/device/cpu/jit/compile.h"
#include "src/device/cpu/jit/compile_gate.h"
#include "src/device/cpu/stack_limit.h"
#include "src/ptx/printer.h"

namespace pergola::device::cpu::jit {
namespace {

// Frames of ordinary kernels and of the run time's own functions; what a kernel keeps in .local comes on top.
#ifdef PERGOLA_ASAN
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif
constexpr std::size_t kGroupStackBytes = 4 * kStackBytes;  // a group's values are vectors
constexpr std::size_t kLongCode = 2000, kBytesPerStatement = 32;  // statements; and what each may keep on a thread's stack
constexpr std::size_t kMostThreads = 1024;     // of a block

// What the kernels of a module compile from, for as long as any of them may still have to.
struct Source {
  std::shared_ptr<Compiler> compiler;
  VectorUse vector = VectorUse::kWhereItCan;
  std::shared_ptr<const ptx::Module> module;
  std::string text;                           // of the module, as printed, and its lines: what the object cache goes by
  std::vector<GlobalPlacement> globals;
  std::vector<std::string> address_taken;
  KernelTraits function_traits;               // written by compile_functions() alone
  std::shared_ptr<CompiledUnit> functions;    // as above
};

// The lines of a module's instructions, which compiled code holds for messages and the printed module does not.
std::string lines_of(const ptx::Module& module) {
  std::string lines = "// lines";
  for (const ptx::Function* function : module.functions()) {
    for (const ptx::Statement& statement : function->body) {
      if (statement.instruction() != nullptr) lines += fmt::format(" {}", statement.instruction()->location.line);
    }
  }
  return lines;
}

// Of what would have to be compiled.
Error no_more_code() { return PERGOLA_ERROR(kUnsupported, "The process ends, and the JIT compiles no more."); }

// One kernel in the forms that its launches need: for groups of lanes, one form a block shape, or a thread at a time.
class JitKernel final : public KernelCode {
 public:
  JitKernel(std::shared_ptr<const Source> source, const ptx::Function& entry, SharedLayout shared)
      : source_(std::move(source)), entry_(entry), shared_(std::move(shared)),
        traits_(kernel_traits(*source_->module, {&entry}, source_->address_taken)) {}

  // What can be refused is refused here. Where each shape of block has a form of its own, the first launch of a shape
  // compiles it.
  Status prepare() {
    const std::scoped_lock lock(mutex_);
    if (source_->vector == VectorUse::kWhereItCan) return source_->compiler->check_kernel(compiler_source(), entry_);
    const auto made = form(LaneLayout{});
    return made ? made->status() : no_more_code();
  }
  std::unique_ptr<BlockExecution> start(Block& block) const override {
    const LaneLayout layout = lane_layout(block.launch->config.block, traits_.needs_warps);
    const Forms::value_type* recent = recent_.load(std::memory_order_acquire);
    if (recent == nullptr || recent->first != layout) {
      const std::scoped_lock lock(mutex_);
      if (!form(layout)) {
        if (source_->vector == VectorUse::kWhereItCan) return nullptr;
        block.launch->fault->raise(no_more_code());
        return std::make_unique<BlockRun>(block, BlockRun::Code{});
      }
      recent = &*forms_.find(layout);
      recent_.store(recent, std::memory_order_release);
    }
    if (recent->second.ok()) return std::make_unique<BlockRun>(block, *recent->second);
    block.launch->fault->raise(recent->second.error());
    return std::make_unique<BlockRun>(block, BlockRun::Code{});
  }
  std::uint32_t local_bytes_per_thread() const override { return static_cast<std::uint32_t>(traits_.local_bytes); }

 private:
  using Forms = std::map<LaneLayout, Result<BlockRun::Code>>;

  // What runs blocks of this layout; none where it would have to be compiled while the process ends. Needs mutex_.
  std::optional<Result<BlockRun::Code>> form(const LaneLayout& layout) const {
    if (const auto known = forms_.find(layout); known != forms_.end()) return known->second;
    const CompileGate::Inside inside;
    if (!inside) return std::nullopt;
    Result<BlockRun::Code> made = source_->vector == VectorUse::kNever ? scalar_form() : group_form(layout);
    if (made.code() == Code::kUnsupported && source_->vector == VectorUse::kWhereItCan) {
      PERGOLA_INFO("Kernel '{}' runs a thread at a time, because: {}", entry_.name, made.message());
      made = scalar_form();
    }
    forms_.emplace(layout, made);
    return made;
  }

  Result<BlockRun::Code> group_form(const LaneLayout& layout) const {
    PERGOLA_ASSIGN(std::shared_ptr<CompiledUnit> unit,
                   source_->compiler->compile_group_kernel(compiler_source(), entry_, source_->functions, layout));
    const char* const how = traits_.group_waits == GroupWaits::kNever     ? ""
                            : traits_.group_waits == GroupWaits::kResumed ? ", which barriers suspend"
                                                                          : ", a fiber each";
    PERGOLA_DEBUG("The JIT runs '{}' in groups of {} threads{}", entry_.name, layout.lanes, how);
    return code_of(std::move(unit), layout.lanes);
  }
  Result<BlockRun::Code> scalar_form() const {
    if (scalar_ != nullptr) return code_of(scalar_, 1);
    PERGOLA_ASSIGN(scalar_, source_->compiler->compile_kernel(compiler_source(), entry_, source_->functions));
    PERGOLA_DEBUG("The JIT runs '{}' as {}{}", entry_.name, traits_.needs_fibers ? "a fiber a thread: " : "a loop over threads",
                  traits_.reason);
    return code_of(scalar_, 1);
  }
  Result<BlockRun::Code> code_of(std::shared_ptr<CompiledUnit> unit, std::uint32_t lanes) const {
    PERGOLA_ASSIGN(void* const address, unit->symbol("kernel"));
    const bool deep = traits_.recursive || traits_.calls_indirectly;
    BlockRun::Code code;
    code.function = reinterpret_cast<BlockFunction>(address);
    code.fibers = lanes == 1 ? traits_.needs_fibers : traits_.group_waits == GroupWaits::kFibers;
    code.stack_bytes = (deep ? kStackBytes + open_stack_bytes() : lanes > 1 ? kGroupStackBytes : kStackBytes) + 2 * lanes * traits_.local_bytes;
    // Long code keeps more alive, and where it is not optimised (compile.cc) each value has a place of its own.
    std::size_t statements = 0;
    for (const ptx::Function* function : traits_.reachable) statements += function->body.size();
    if (statements > kLongCode) code.stack_bytes += statements * lanes * kBytesPerStatement;
    if (lanes > 1 && traits_.group_waits == GroupWaits::kResumed) code.stack_bytes *= kMostThreads / lanes;  // all groups' frames
    code.bounded_stack = !deep;
    code.lanes = code.fibers ? lanes : 1;
    code.group = lanes;
    code.module = source_->module.get();
    code.unit = unit.get();
    units_.push_back(std::move(unit));
    return code;
  }
  Compiler::Source compiler_source() const {
    return {*source_->module, source_->text, source_->globals, traits_, source_->address_taken, shared_};
  }

  const std::shared_ptr<const Source> source_;
  const ptx::Function& entry_;
  const SharedLayout shared_;
  const KernelTraits traits_;
  // The entry of forms_ that the last block used: release by whoever found it, acquire by every start() without a lock.
  mutable std::atomic<const Forms::value_type*> recent_{nullptr};
  mutable std::mutex mutex_;  // guards all below
  mutable Forms forms_;       // entries stay as they are once made
  mutable std::shared_ptr<CompiledUnit> scalar_;  // null until it is needed
  mutable std::vector<std::shared_ptr<CompiledUnit>> units_;
};

class JitModule final : public ModuleCode {
 public:
  explicit JitModule(std::shared_ptr<Source> source) : source_(std::move(source)) {}

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
    if (source_->functions == nullptr) return PERGOLA_ERROR(kUnsupported, "The JIT has no address of '{}', which is no device function; the interpreter has (PERGOLA_CPU_ENGINE=interpreter).", function);
    PERGOLA_ASSIGN(void* const address, source_->functions->symbol("func." + std::string(function)));
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
  }

  // Compiles the functions whose address is taken: one copy for all kernels, so that an address means the same in each.
  Status compile_functions() {
    Source& source = *source_;
    if (source.address_taken.empty()) return {};
    std::vector<const ptx::Function*> roots;
    for (const std::string& name : source.address_taken) roots.push_back(source.module->find_function(name));
    source.function_traits = kernel_traits(*source.module, roots, source.address_taken);
    const SharedLayout none;
    PERGOLA_ASSIGN(source.functions, source.compiler->compile_functions(
        {*source.module, source.text, source.globals, source.function_traits, source.address_taken, none}));
    return {};
  }

 private:
  Result<std::shared_ptr<const KernelCode>> compile(const std::string& name) const {
    const ptx::Function* entry = source_->module->find_function(name);
    if (entry == nullptr || !entry->is_entry || !entry->has_body) {
      return PERGOLA_ERROR(kNotFound, "{} has no kernel '{}'.", source_->module->source_name, name);
    }
    PERGOLA_ASSIGN(SharedLayout shared, shared_layout(*source_->module, *entry));
    const CompileGate::Inside inside;
    if (!inside) return no_more_code();
    auto kernel = std::make_shared<JitKernel>(source_, *entry, std::move(shared));
    PERGOLA_TRY(kernel->prepare());
    return std::shared_ptr<const KernelCode>(std::move(kernel));
  }

  const std::shared_ptr<Source> source_;
  mutable std::mutex mutex_;  // guards kernels_, and makes kernels of one module compile one by one
  mutable std::unordered_map<std::string, Result<std::shared_ptr<const KernelCode>>> kernels_;
};

class JitEngine final : public Engine {
 public:
  JitEngine(std::shared_ptr<Compiler> compiler, VectorUse vector) : compiler_(std::move(compiler)), vector_(vector) {}
  std::string_view name() const override { return vector_ == VectorUse::kAlways ? "vector" : "jit"; }
  Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module> module,
                                              std::span<const GlobalPlacement> globals) override {
    CompileGate::watch_for_exit();
    const CompileGate::Inside inside;
    if (!inside) return no_more_code();
    auto source = std::make_shared<Source>();
    source->compiler = compiler_;
    source->vector = vector_;
    source->address_taken = address_taken_functions(*module);
    source->text = ptx::print(*module) + lines_of(*module);
    source->module = std::move(module);
    source->globals.assign(globals.begin(), globals.end());
    auto code = std::make_unique<JitModule>(std::move(source));
    PERGOLA_TRY(code->compile_functions());
    return std::unique_ptr<ModuleCode>(std::move(code));
  }

 private:
  std::shared_ptr<Compiler> compiler_;
  const VectorUse vector_;
};

}  // namespace

Result<std::unique_ptr<Engine>> create_engine(VectorUse vector) {
  CompileGate::watch_for_exit();
  const CompileGate::Inside inside;
  if (!inside) return Error{Code::kUnavailable, no_more_code().message, __FILE__, __LINE__};
  PERGOLA_ASSIGN(std::shared_ptr<Compiler> compiler, Compiler::create());
  return std::unique_ptr<Engine>(std::make_unique<JitEngine>(std::move(compiler), vector));
}

}  // namespace pergola::device::cpu::jit
