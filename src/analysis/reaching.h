// Reaching definitions: for each register an instruction reads, which writes may have put its value there.
//
// PTX is close to SSA, so a register with one definition is answered at once; only registers with several take part
// in the dataflow. A write that may not happen or not be whole (guard, component, opaque) leaves earlier ones alive.
//
// A register with more than kMaxDefinitions of them has one that stands for all, as does every register where the
// dataflow would be too large (kMaxBits): still sound, and the work stays bounded.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/analysis/cfg.h"

namespace pergola::analysis {

using DefinitionId = std::uint32_t;
inline constexpr std::uint32_t kNoStatement = ~0u;

struct Definition {
  // Of the body (the first, where it stands for several); kNoStatement: a .reg parameter, defined by the caller.
  std::uint32_t statement = kNoStatement;
  ptx::RegisterId reg = ptx::kNoRegister;
};

class ReachingDefinitions {
 public:
  // `cfg` must be build_cfg(function)'s; both must outlive this object. Unreachable blocks define and use nothing.
  ReachingDefinitions(const ptx::Function& function, const Cfg& cfg);

  const std::vector<Definition>& definitions() const { return definitions_; }
  // The definition of `reg` by `statement` (kNoStatement: as a parameter), kNoStatement where there is none.
  DefinitionId definition(std::uint32_t statement, ptx::RegisterId reg) const;
  // Whether one instruction alone writes `reg`.
  bool is_single(ptx::RegisterId reg) const { return writes_[reg] == 1; }
  // All definitions of a register, wherever they are.
  std::span<const DefinitionId> all_of(ptx::RegisterId reg) const { return of_register_[reg]; }
  // Those that may reach the reading of `reg` by `statement`; empty where it reads what nobody wrote.
  std::span<const DefinitionId> reaching(std::uint32_t statement, ptx::RegisterId reg) const;
  // The statements that may read a definition, ascending.
  std::span<const std::uint32_t> users(DefinitionId id) const { return users_[id]; }

 private:
  struct Use {
    ptx::RegisterId reg;
    std::uint32_t first, count;  // into reaching_
  };
  class Solver;

  static constexpr std::uint64_t kMaxBits = std::uint64_t{1} << 27;
  static constexpr std::uint32_t kMaxDefinitions = 128;

  void count_writes(const ptx::Function& function, const Cfg& cfg);
  void define(std::uint32_t statement, ptx::RegisterId reg);

  std::vector<std::uint32_t> writes_;  // by register: how many instructions and parameters define it
  std::uint32_t most_definitions_ = kMaxDefinitions;
  std::vector<Definition> definitions_;
  std::vector<std::vector<DefinitionId>> of_register_;
  std::vector<DefinitionId> of_parameter_;  // by register; kNoStatement where it is no .reg parameter
  std::vector<std::vector<DefinitionId>> of_statement_;
  std::vector<std::vector<Use>> uses_;  // by statement: of registers with several definitions
  std::vector<DefinitionId> reaching_;
  std::vector<std::vector<std::uint32_t>> users_;
};

}  // namespace pergola::analysis
