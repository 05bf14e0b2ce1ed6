#include "src/device/cpu/jit/compile.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Coroutines/CoroCleanup.h>
#include <llvm/Transforms/Coroutines/CoroEarly.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <time.h>

#include <atomic>
#include <mutex>

#include "src/base/log.h"
#include "src/device/cpu/jit/bit_merges.h"
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/line_tables.h"
#include "src/device/cpu/jit/loop_polls.h"
#include "src/device/cpu/jit/object_cache.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/math_functions.h"
#include "src/device/cpu/jit/vector_kernel.h"
#include "src/device/cpu/jit/vector_refusal.h"

namespace pergola::device::cpu::jit {
namespace {

namespace orc = llvm::orc;

std::string text(llvm::Error error) { return llvm::toString(std::move(error)); }

// LLVM's analyses, which every run of passes needs and which the passes share.
struct Analyses {
  explicit Analyses(llvm::TargetMachine& machine) : builder(&machine) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(cgscc);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, cgscc, modules);
  }
  void clear() {
    modules.clear();
    functions.clear();
    cgscc.clear();
    loops.clear();
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
};

// Registers become values and NaN markers are lowered, then LLVM's own O2. Loops may run for ever in PTX, which is why
// no function is marked mustprogress.
void optimise_threads(llvm::Module& module, Analyses& analyses) {
  llvm::FunctionPassManager early;
  early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  early.addPass(llvm::EarlyCSEPass());
  early.addPass(llvm::InstCombinePass());
  early.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager first;
  first.addPass(llvm::AlwaysInlinerPass());
  first.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
  first.run(module, analyses.modules);
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) lower_canonical_nans(function);
  }
  analyses.clear();
  analyses.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, analyses.modules);
}

// A group's code was optimised as a thread's, is vectors already and all in one function: of O2, what turns its slots into
// values and takes what does not change out of the loops over groups. The rest took half of a compilation and gained nothing.
void optimise_groups(llvm::Module& module, Analyses& analyses) {
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  llvm::FunctionPassManager function;
  function.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  function.addPass(llvm::EarlyCSEPass(true));
  function.addPass(llvm::SimplifyCFGPass());
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), true));
  function.addPass(llvm::GVNPass());
  function.addPass(llvm::DSEPass());
  function.addPass(llvm::ADCEPass());
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::CoroEarlyPass());  // the kernel's questions about the groups that barriers suspend
  passes.addPass(llvm::CoroCleanupPass());
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(function)));
  passes.addPass(llvm::GlobalDCEPass());
  passes.run(module, analyses.modules);
}

// An access at 0 is a fault like any other. LLVM takes it for a place that is never reached, and leaves out what comes
// there, the function's end with it. Before any pass, for all functions there are then.
void keep_accesses_at_zero(llvm::Module& module) {
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) function.addFnAttr(llvm::Attribute::NullPointerIsValid);
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool is_vector) {
  Analyses analyses(machine);
  if (is_vector) {
    optimise_groups(module, analyses);
  } else {
    optimise_threads(module, analyses);
  }
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    add_loop_polls(function, analyses.functions);
    fence_bit_merges(function);
  }
}

// Instructions of a basic block beyond which code is generated without scheduling and global register allocation: both
// take the square of a block's length (an unrolled SHA-256 of 18,000 lines took half a minute).
constexpr std::size_t kLongBlock = 4000;

std::size_t largest_block(const llvm::Module& module) {
  std::size_t largest = 0;
  for (const llvm::Function& function : module) {
    for (const llvm::BasicBlock& block : function) largest = std::max(largest, block.size());
  }
  return largest;
}

// Where the processor time of one compilation goes, for PERGOLA_LOG=debug.
class StageClock {
 public:
  void stage(const char* name) {
    const double now = thread_ms();
    if (log_enabled(LogLevel::kDebug)) text_ += fmt::format("{}{} {:.1f}", text_.empty() ? "" : ", ", name, now - last_);
    last_ = now;
  }
  const std::string& text() const { return text_; }

 private:
  static double thread_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  }
  double last_ = thread_ms();
  std::string text_;
};

class Unit final : public CompiledUnit {
 public:
  Unit(std::shared_ptr<orc::LLJIT> jit, orc::JITDylib& library, std::shared_ptr<CompiledUnit> functions, std::string object)
      : jit_(std::move(jit)), library_(library), functions_(std::move(functions)), object_(std::move(object)) {}
  ~Unit() override {
    if (llvm::Error error = jit_->getExecutionSession().removeJITDylib(library_)) {
      PERGOLA_WARN("The JIT cannot free a kernel's code: {}", text(std::move(error)));
    }
  }
  Result<void*> symbol(const std::string& name) const override {
    llvm::Expected<orc::ExecutorAddr> found = jit_->lookup(library_, name);
    if (!found) return PERGOLA_ERROR(kInternal, "The JIT cannot link '{}': {}.", name, text(found.takeError()));
    return found->toPtr<void*>();
  }
  PtxPlace place_of(std::uintptr_t address) const override {
    const std::string name = lookup_symbol(object_);
    if (const Result<void*> begin = name.empty() ? nullptr : symbol(name); begin.ok() && *begin != nullptr) {
      const PtxPlace found = find_line(object_, name, address - reinterpret_cast<std::uintptr_t>(*begin));
      if (found.line != 0) return found;
    }
    return functions_ == nullptr ? PtxPlace{} : functions_->place_of(address);
  }
  orc::JITDylib& library() const { return library_; }

 private:
  std::shared_ptr<orc::LLJIT> jit_;
  orc::JITDylib& library_;
  std::shared_ptr<CompiledUnit> functions_;  // what this unit refers to
  const std::string object_;                 // for its line tables
};

class OrcCompiler final : public Compiler {
 public:
  OrcCompiler(std::shared_ptr<orc::LLJIT> jit, orc::JITDylib& runtime, orc::JITTargetMachineBuilder machine)
      : jit_(std::move(jit)), runtime_(runtime), machine_(std::move(machine)),
        objects_(fmt::format("LLVM {} {} {} {}", LLVM_VERSION_STRING, machine_.getTargetTriple().str(), machine_.getCPU(),
                             machine_.getFeatures().getString())) {}

  Result<std::shared_ptr<CompiledUnit>> compile_kernel(const Source& source, const ptx::Function& entry,
                                                       const std::shared_ptr<CompiledUnit>& functions) override {
    return build(source, "kernel " + entry.name, entry.name, functions,
                 [&](ModuleEmitter& emitter) { return emitter.emit_kernel(entry, source.shared); });
  }
  Status check_kernel(const Source& source, const ptx::Function& entry) override {
    llvm::LLVMContext context;
    try {
      ModuleEmitter(context, source.module, source.globals, source.traits, source.address_taken).emit_thread(entry, source.shared);
    } catch (const Refusal& refusal) {
      return refusal.error;
    }
    return {};
  }
  Result<std::shared_ptr<CompiledUnit>> compile_group_kernel(const Source& source, const ptx::Function& entry,
                                                             const std::shared_ptr<CompiledUnit>& functions,
                                                             const LaneLayout& layout) override {
    if (source.traits.recursive || source.traits.calls_indirectly || !source.traits.yields.empty()) {
      const char* why = source.traits.recursive ? "it calls itself"
                        : source.traits.calls_indirectly ? "it calls through a register"
                                                         : "a loop of it may spin until another thread has done something";
      return PERGOLA_ERROR(kUnsupported, "{}: the vector tier does not run '{}': {}.", source.module.source_name, entry.name, why);
    }
    return build(source, fmt::format("groups of {}, {}: {}", layout.lanes, static_cast<int>(layout.kind), entry.name), entry.name,
                 functions, [&](ModuleEmitter& emitter) { return emitter.emit_thread(entry, source.shared); }, &layout);
  }
  Result<std::shared_ptr<CompiledUnit>> compile_functions(const Source& source) override {
    return build(source, "functions", "functions", nullptr, [&](ModuleEmitter& emitter) { return emitter.emit_functions(source.shared); });
  }

 private:
  template <typename Emit>
  Result<std::shared_ptr<CompiledUnit>> build(const Source& source, const std::string& unit, const std::string& name,
                                              const std::shared_ptr<CompiledUnit>& functions, Emit emit,
                                              const LaneLayout* groups = nullptr) {
    const CacheKey key = objects_.key(source.module_text, unit);
    if (const std::optional<std::string> object = objects_.get(key)) {
      return link(llvm::MemoryBuffer::getMemBufferCopy(*object, name), source, name, functions);
    }
    StageClock clock;
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module;
    try {
      ModuleEmitter emitter(context, source.module, source.globals, source.traits, source.address_taken);
      module = emit(emitter);
    } catch (const Refusal& refusal) {
      return refusal.error;
    }
    clock.stage("LLVM code of a thread");
    llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = machine_.createTargetMachine();
    if (!machine) return PERGOLA_ERROR(kInternal, "LLVM has no target machine for this host: {}.", text(machine.takeError()));
    module->setDataLayout((*machine)->createDataLayout());
    module->setTargetTriple((*machine)->getTargetTriple().str());
    if (const std::size_t longest = largest_block(*module); groups != nullptr && longest > kLongBlock) {
      return PERGOLA_ERROR(kUnsupported, "{}: the vector tier does not run '{}': {} instructions without a branch take LLVM too long.",
                           source.module.source_name, name, longest);
    }
    keep_accesses_at_zero(*module);
    try {
      if (groups != nullptr) make_group_kernel(*module, **machine, name, *groups, source.traits.group_waits);
    } catch (const VectorRefusal& refusal) {
      return PERGOLA_ERROR(kUnsupported, "{}: the vector tier does not run '{}': {}.", source.module.source_name, name, refusal.why);
    }
    clock.stage("of a group");
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module, &stream)) {
      return PERGOLA_ERROR(kInternal, "The JIT made wrong LLVM code of '{}' in {}: {}", name, source.module.source_name, problems);
    }
    keep_accesses_at_zero(*module);
    optimise(*module, **machine, groups != nullptr);
    clock.stage("LLVM's passes");
    if (largest_block(*module) > kLongBlock) (*machine)->setOptLevel(llvm::CodeGenOptLevel::None);
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> object = orc::SimpleCompiler(**machine)(*module);
    if (!object) return PERGOLA_ERROR(kInternal, "LLVM makes no code of '{}': {}.", name, text(object.takeError()));
    clock.stage("machine code");
    PERGOLA_DEBUG("The JIT compiled '{}' in ms: {}", name, clock.text());
    objects_.put(key, {(*object)->getBufferStart(), (*object)->getBufferSize()});
    return link(std::move(*object), source, name, functions);
  }

  // Code of its own for every module that is loaded: its variables are where this module's were placed.
  Result<std::shared_ptr<CompiledUnit>> link(std::unique_ptr<llvm::MemoryBuffer> object, const Source& source,
                                             const std::string& name, const std::shared_ptr<CompiledUnit>& functions) {
    llvm::Expected<orc::JITDylib&> library = jit_->createJITDylib(fmt::format("{}.{}", name, next_++));
    if (!library) return PERGOLA_ERROR(kInternal, "The JIT cannot hold '{}': {}.", name, text(library.takeError()));
    auto unit = std::make_shared<Unit>(jit_, *library, functions, object->getBuffer().str());
    library->addToLinkOrder(runtime_);
    if (functions != nullptr) library->addToLinkOrder(static_cast<Unit&>(*functions).library());
    orc::SymbolMap variables;
    for (const GlobalPlacement& variable : source.globals) {
      variables[jit_->mangleAndIntern(variable_symbol(variable.name))] = {orc::ExecutorAddr::fromPtr(variable.address),
                                                                          llvm::JITSymbolFlags::Exported};
    }
    if (llvm::Error error = library->define(orc::absoluteSymbols(std::move(variables)))) {
      return PERGOLA_ERROR(kInternal, "The JIT cannot name the variables of '{}': {}.", name, text(std::move(error)));
    }
    if (llvm::Error error = jit_->addObjectFile(*library, std::move(object))) {
      return PERGOLA_ERROR(kInternal, "The JIT cannot take '{}': {}.", name, text(std::move(error)));
    }
    return std::shared_ptr<CompiledUnit>(std::move(unit));
  }

  std::shared_ptr<orc::LLJIT> jit_;
  orc::JITDylib& runtime_;
  orc::JITTargetMachineBuilder machine_;
  ObjectCache objects_;
  std::atomic<std::uint64_t> next_{0};  // names units; relaxed order would do
};

}  // namespace

std::string variable_symbol(const std::string& name) { return "var." + name; }

Result<std::shared_ptr<Compiler>> Compiler::create() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::Expected<orc::JITTargetMachineBuilder> machine = orc::JITTargetMachineBuilder::detectHost();
  if (!machine) return PERGOLA_ERROR(kUnavailable, "LLVM does not know this host: {}.", text(machine.takeError()));
  machine->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  // Variables and functions may lie further than 2 GiB from the code: their addresses come from a table.
  machine->setRelocationModel(llvm::Reloc::PIC_);
  machine->setCodeModel(llvm::CodeModel::Small);
  machine->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  llvm::Expected<std::unique_ptr<orc::LLJIT>> jit = orc::LLJITBuilder().setJITTargetMachineBuilder(*machine).create();
  if (!jit) return PERGOLA_ERROR(kUnavailable, "LLVM's JIT does not start: {}.", text(jit.takeError()));
  std::shared_ptr<orc::LLJIT> shared(std::move(*jit));
  llvm::Expected<orc::JITDylib&> runtime = shared->createJITDylib("pergola");
  if (!runtime) return PERGOLA_ERROR(kUnavailable, "LLVM's JIT does not start: {}.", text(runtime.takeError()));
  orc::SymbolMap symbols;
  for (const RuntimeSymbol& symbol : runtime_symbols()) {
    symbols[shared->mangleAndIntern(symbol.name)] = {orc::ExecutorAddr::fromPtr(symbol.address), llvm::JITSymbolFlags::Exported};
  }
  for (const MathFunction& function : math_functions()) {
    symbols[shared->mangleAndIntern(function.name)] = {orc::ExecutorAddr::fromPtr(function.address), llvm::JITSymbolFlags::Exported};
  }
  if (llvm::Error error = runtime->define(orc::absoluteSymbols(std::move(symbols)))) {
    return PERGOLA_ERROR(kUnavailable, "LLVM's JIT does not start: {}.", text(std::move(error)));
  }
  // For what LLVM's code generation calls of libm and libgcc.
  auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(shared->getDataLayout().getGlobalPrefix());
  if (process) runtime->addGenerator(std::move(*process));
  return std::shared_ptr<Compiler>(std::make_shared<OrcCompiler>(std::move(shared), *runtime, std::move(*machine)));
}

}  // namespace pergola::device::cpu::jit
