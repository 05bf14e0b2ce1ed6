// For tests: an engine whose kernels are C++ functions that say, step by step, what a block does.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/device/cpu/block.h"

namespace pergola::device::cpu::testing {

// Called for every step of a block; `turn` counts that block's steps from 0.
using Script = std::function<Progress(const Block& block, std::uint64_t turn)>;

class ScriptedCode final : public KernelCode {
 public:
  explicit ScriptedCode(Script script, bool starts = true) : script_(std::move(script)), starts_(starts) {}
  std::unique_ptr<BlockExecution> start(Block& block) const override {
    if (!starts_) return nullptr;
    return std::make_unique<Execution>(script_, block);
  }
  std::uint32_t local_bytes_per_thread() const override { return 0; }

 private:
  class Execution final : public BlockExecution {
   public:
    Execution(const Script& script, const Block& block) : script_(script), block_(block) {}
    Progress step(std::uint64_t) override { return script_(block_, turn_++); }

   private:
    const Script& script_;
    const Block& block_;
    std::uint64_t turn_ = 0;
  };
  const Script script_;
  const bool starts_;
};

// Compiles every module to the scripts it was given, by the kernel's name. Fill it before it is used by a device.
class FakeEngine final : public Engine {
 public:
  std::string engine_name = "fake";
  std::map<std::string, Script, std::less<>> scripts;
  std::map<std::string, std::uint64_t, std::less<>> functions;
  Status compile_error;
  bool starts = true;  // else its kernels start no block

  std::string_view name() const override { return engine_name; }
  Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module>,
                                              std::span<const GlobalPlacement>) override {
    PERGOLA_TRY(compile_error);
    return std::unique_ptr<ModuleCode>(std::make_unique<Code>(*this));
  }

 private:
  class Code final : public ModuleCode {
   public:
    explicit Code(const FakeEngine& engine) : engine_(engine) {}
    Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) const override {
      const auto found = engine_.scripts.find(entry);
      if (found == engine_.scripts.end()) {
        return PERGOLA_ERROR(kUnsupported, "The {} engine has no script for '{}'.", engine_.engine_name, entry);
      }
      return std::shared_ptr<const KernelCode>(std::make_shared<ScriptedCode>(found->second, engine_.starts));
    }
    Result<std::uint64_t> function_address(std::string_view function) const override {
      const auto found = engine_.functions.find(function);
      if (found == engine_.functions.end()) return ModuleCode::function_address(function);
      return found->second;
    }

   private:
    const FakeEngine& engine_;
  };
};

}  // namespace pergola::device::cpu::testing
