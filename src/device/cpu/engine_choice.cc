#include "src/device/cpu/engine_choice.h"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/device/cpu/jit_loader.h"

namespace pergola::device::cpu {
namespace {

bool names_function(const ptx::Operand& operand, const std::set<std::string, std::less<>>& functions) {
  if (operand.kind == ptx::Operand::Kind::kSymbol && functions.contains(operand.name)) return true;
  for (const ptx::Operand& element : operand.elements) {
    if (names_function(element, functions)) return true;
  }
  return false;
}

// A call names its callee without taking its address; the callee stands at the top, arguments inside tuples.
bool takes_address(const ptx::Instruction& instruction, const std::set<std::string, std::less<>>& functions) {
  if (instruction.op == ptx::Op::kOpaque) return true;  // it may
  for (const ptx::Operand& operand : instruction.operands) {
    const bool is_callee = instruction.op == ptx::Op::kCall && operand.kind == ptx::Operand::Kind::kSymbol;
    if (!is_callee && names_function(operand, functions)) return true;
  }
  return false;
}

// A module in the second tier, which is made where it is needed. Thread-safe.
class SecondTier {
 public:
  SecondTier(std::shared_ptr<Engine> engine, std::shared_ptr<const ptx::Module> module,
             std::span<const GlobalPlacement> globals)
      : engine_(std::move(engine)), module_(std::move(module)), globals_(globals.begin(), globals.end()) {}
  std::string_view name() const { return engine_->name(); }
  Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) {
    const std::scoped_lock lock(mutex_);
    if (code_ == nullptr) {
      PERGOLA_ASSIGN(code_, engine_->compile(module_, globals_));
    }
    return code_->kernel(entry);
  }

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<const ptx::Module> module_;
  const std::vector<GlobalPlacement> globals_;
  std::mutex mutex_;  // guards code_
  std::unique_ptr<ModuleCode> code_;
};

// A kernel of the first tier, whose blocks are the second's where the first does not start them.
class FallbackKernel final : public KernelCode {
 public:
  FallbackKernel(std::shared_ptr<const KernelCode> first, std::shared_ptr<SecondTier> second, std::string_view entry)
      : first_(std::move(first)), second_(std::move(second)), entry_(entry) {}

  std::unique_ptr<BlockExecution> start(Block& block) const override {
    if (auto started = first_->start(block)) return started;
    const Result<std::shared_ptr<const KernelCode>> second = second_->kernel(entry_);
    if (second.ok()) return std::make_unique<Kept>(*second, block);
    block.launch->fault->raise(second.error());
    return std::make_unique<Refused>();
  }
  std::uint32_t local_bytes_per_thread() const override { return first_->local_bytes_per_thread(); }

 private:
  // Holds its code.
  class Kept final : public BlockExecution {
   public:
    Kept(std::shared_ptr<const KernelCode> code, Block& block) : code_(std::move(code)), run_(code_->start(block)) {}
    Progress step(std::uint64_t budget) override { return run_->step(budget); }
    std::vector<Stand> stands() const override { return run_->stands(); }

   private:
    const std::shared_ptr<const KernelCode> code_;
    const std::unique_ptr<BlockExecution> run_;
  };
  struct Refused final : BlockExecution {
    Progress step(std::uint64_t) override { return Progress::kFinished; }
  };
  const std::shared_ptr<const KernelCode> first_;
  const std::shared_ptr<SecondTier> second_;
  const std::string entry_;
};

class FallbackCode final : public ModuleCode {
 public:
  FallbackCode(std::unique_ptr<ModuleCode> first, std::shared_ptr<SecondTier> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) const override {
    Result<std::shared_ptr<const KernelCode>> code = first_->kernel(entry);
    if (code.ok()) return std::shared_ptr<const KernelCode>(std::make_shared<FallbackKernel>(*code, second_, entry));
    if (code.code() != Code::kUnsupported) return code;
    PERGOLA_INFO("Kernel '{}' runs in the {}, because: {}", entry, second_->name(), code.message());
    return second_->kernel(entry);
  }
  Result<std::uint64_t> function_address(std::string_view function) const override {
    return first_->function_address(function);
  }

 private:
  const std::unique_ptr<ModuleCode> first_;
  const std::shared_ptr<SecondTier> second_;
};

class FallbackEngine final : public Engine {
 public:
  FallbackEngine(std::shared_ptr<Engine> first, std::shared_ptr<Engine> second)
      : first_(std::move(first)), second_(std::move(second)),
        name_(fmt::format("{}, else {}", first_->name(), second_->name())) {}

  std::string_view name() const override { return name_; }

  Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module> module,
                                              std::span<const GlobalPlacement> globals) override {
    Result<std::unique_ptr<ModuleCode>> code = first_->compile(module, globals);
    Status refusal = code.status();
    if (refusal.ok()) {
      if (!takes_function_addresses(*module)) {
        return std::unique_ptr<ModuleCode>(
            std::make_unique<FallbackCode>(std::move(code).value(), std::make_shared<SecondTier>(second_, std::move(module), globals)));
      }
      for (const ptx::Function* entry : module->entries()) {
        if (refusal.ok() && entry->has_body) refusal = (*code)->kernel(entry->name).status();
      }
      if (refusal.ok()) return code;
    }
    if (refusal.code() != Code::kUnsupported) return refusal;
    PERGOLA_INFO("Module '{}' runs in the {}, because: {}", module->source_name, second_->name(), refusal.message());
    return second_->compile(std::move(module), globals);
  }

 private:
  const std::shared_ptr<Engine> first_, second_;
  const std::string name_;
};

}  // namespace

bool takes_function_addresses(const ptx::Module& module) {
  std::set<std::string, std::less<>> functions;
  for (const ptx::Function* function : module.functions()) functions.insert(function->name);
  for (const ptx::Item& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      for (const ptx::Initializer& initializer : variable->initializers) {
        if (functions.contains(initializer.symbol)) return true;
      }
    } else if (const auto* function = std::get_if<ptx::Function>(&item.node)) {
      for (const ptx::Statement& statement : function->body) {
        const ptx::Instruction* instruction = statement.instruction();
        if (instruction != nullptr && takes_address(*instruction, functions)) return true;
      }
    }
  }
  return false;
}

Result<EngineChoice> parse_engine_choice(std::string_view name) {
  if (name == "interpreter") return EngineChoice::kInterpreter;
  if (name == "jit") return EngineChoice::kJit;
  if (name == "vector") return EngineChoice::kVector;
  if (name == "auto") return EngineChoice::kAuto;
  return PERGOLA_ERROR(kInvalidArgument, "The CPU engine '{}' is none of 'interpreter', 'jit', 'vector' and 'auto' "
                       "(PERGOLA_CPU_ENGINE).", name);
}

Result<EngineChoice> engine_choice_from_environment() {
  const auto name = setting("PERGOLA_CPU_ENGINE");
  return name ? parse_engine_choice(*name) : EngineChoice::kAuto;
}

Result<std::shared_ptr<Engine>> choose_engine(EngineChoice choice, std::shared_ptr<Engine> interpreter) {
  if (choice == EngineChoice::kInterpreter) return interpreter;
  const VectorUse vector = choice == EngineChoice::kJit      ? VectorUse::kNever
                           : choice == EngineChoice::kVector ? VectorUse::kAlways
                                                             : VectorUse::kWhereItCan;
  Result<std::shared_ptr<Engine>> jit = load_jit_engine(vector);
  if (choice != EngineChoice::kAuto) return jit;
  if (jit.ok()) return make_fallback_engine(std::move(jit).value(), std::move(interpreter));
  if (jit.code() != Code::kUnavailable) return jit;
  static std::once_flag said;  // once a process, not for every session
  std::call_once(said, [&] { PERGOLA_WARN("The CPU device interprets, which is slow: {}", jit.message()); });
  return interpreter;
}

std::shared_ptr<Engine> make_fallback_engine(std::shared_ptr<Engine> first, std::shared_ptr<Engine> second) {
  return std::make_shared<FallbackEngine>(std::move(first), std::move(second));
}

}  // namespace pergola::device::cpu
