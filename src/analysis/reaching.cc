#include "src/analysis/reaching.h"

#include <algorithm>

#include "src/analysis/liveness.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
// The dataflow over the definitions of registers that have several; each has a dense number, `slot`.
class ReachingDefinitions::Solver {
 public:
  Solver(ReachingDefinitions& out, const ptx::Function& function, const Cfg& cfg)
      : out_(out), function_(function), cfg_(cfg) {
    slot_.assign(out.definitions_.size(), kNoStatement);
    for (const auto& ids : out.of_register_) {
      if (ids.size() < 2) continue;
      for (const DefinitionId id : ids) {
        slot_[id] = static_cast<std::uint32_t>(definition_.size());
        definition_.push_back(id);
      }
    }
    words_ = (definition_.size() + 63) / 64;
  }

  void run() {
    flow();
    for (const std::uint32_t block : cfg_.reverse_post_order) {
      Bits live = in_[block];
      for (const std::uint32_t statement : cfg_.blocks[block].statements) {
        record_uses(statement, live);
        step(statement, live);
      }
    }
  }

 private:
  using Bits = std::vector<std::uint64_t>;

  void step(std::uint32_t statement, Bits& live) const {
    const bool kills = overwrites_whole(*function_.body[statement].instruction());
    for (const DefinitionId id : out_.of_statement_[statement]) {
      if (slot_[id] == kNoStatement) continue;
      if (kills) {
        for (const DefinitionId other : out_.of_register_[out_.definitions_[id].reg]) {
          live[slot_[other] / 64] &= ~(std::uint64_t{1} << (slot_[other] % 64));
        }
      }
      live[slot_[id] / 64] |= std::uint64_t{1} << (slot_[id] % 64);
    }
  }

  void flow() {
    in_.assign(cfg_.blocks.size(), Bits(words_, 0));
    for (std::size_t i = 0; i < definition_.size(); ++i) {
      if (out_.definitions_[definition_[i]].statement == kNoStatement) in_[0][i / 64] |= std::uint64_t{1} << (i % 64);
    }
    std::vector<bool> pending(cfg_.blocks.size(), true);
    for (bool again = true; again;) {
      again = false;
      for (const std::uint32_t block : cfg_.reverse_post_order) {
        if (!pending[block]) continue;
        pending[block] = false;
        Bits live = in_[block];
        for (const std::uint32_t statement : cfg_.blocks[block].statements) step(statement, live);
        for (const std::uint32_t next : cfg_.blocks[block].successors) {
          bool changed = false;
          for (std::size_t word = 0; word < words_; ++word) {
            const std::uint64_t merged = in_[next][word] | live[word];
            changed |= merged != in_[next][word];
            in_[next][word] = merged;
          }
          if (changed) pending[next] = again = true;
        }
      }
    }
  }

  void record_uses(std::uint32_t statement, const Bits& live) {
    ptx::for_each_register(*function_.body[statement].instruction(), [&](ptx::RegisterId reg, bool is_written) {
      if (is_written) return;
      const auto& ids = out_.of_register_[reg];
      auto& uses = out_.uses_[statement];
      if (std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return use.reg == reg; })) return;
      if (ids.size() == 1) return add_user(ids[0], statement);
      Use use{reg, static_cast<std::uint32_t>(out_.reaching_.size()), 0};
      for (const DefinitionId id : ids) {
        if ((live[slot_[id] / 64] >> (slot_[id] % 64) & 1) == 0) continue;
        out_.reaching_.push_back(id);
        ++use.count;
        add_user(id, statement);
      }
      if (!ids.empty()) uses.push_back(use);
    });
  }

  void add_user(DefinitionId id, std::uint32_t statement) {
    auto& users = out_.users_[id];
    if (users.empty() || users.back() != statement) users.push_back(statement);
  }

  ReachingDefinitions& out_;
  const ptx::Function& function_;
  const Cfg& cfg_;
  std::vector<std::uint32_t> slot_;
  std::vector<DefinitionId> definition_;
  std::size_t words_ = 0;
  std::vector<Bits> in_;
};

ReachingDefinitions::ReachingDefinitions(const ptx::Function& function, const Cfg& cfg) {
  of_register_.resize(function.registers.size());
  of_parameter_.assign(function.registers.size(), kNoStatement);
  of_statement_.resize(function.body.size());
  uses_.resize(function.body.size());
  std::vector<ptx::RegisterId> parameters;
  for (const ptx::Variable& parameter : function.parameters) {
    if (parameter.space != ptx::Space::kReg) continue;
    for (ptx::RegisterId reg = 0; reg < function.registers.size(); ++reg) {
      if (function.registers[reg].name != parameter.name) continue;
      if (std::find(parameters.begin(), parameters.end(), reg) == parameters.end()) parameters.push_back(reg);
      break;
    }
  }
  writes_.assign(function.registers.size(), 0);
  for (const ptx::RegisterId reg : parameters) ++writes_[reg];
  count_writes(function, cfg);
  for (const ptx::RegisterId reg : parameters) define(kNoStatement, reg);
  for (const std::uint32_t block : cfg.reverse_post_order) {
    for (const std::uint32_t statement : cfg.blocks[block].statements) {
      ptx::for_each_register(*function.body[statement].instruction(), [&](ptx::RegisterId reg, bool is_written) {
        if (is_written && definition(statement, reg) == kNoStatement) define(statement, reg);
      });
    }
  }
  users_.resize(definitions_.size());
  Solver(*this, function, cfg).run();
  for (auto& users : users_) {
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
  }
}

void ReachingDefinitions::count_writes(const ptx::Function& function, const Cfg& cfg) {
  for (const std::uint32_t block : cfg.reverse_post_order) {
    for (const std::uint32_t statement : cfg.blocks[block].statements) {
      std::vector<ptx::RegisterId> seen;
      ptx::for_each_register(*function.body[statement].instruction(), [&](ptx::RegisterId reg, bool is_written) {
        if (!is_written || std::find(seen.begin(), seen.end(), reg) != seen.end()) return;
        seen.push_back(reg);
        ++writes_[reg];
      });
    }
  }
  std::uint64_t bits = 0;
  for (const std::uint32_t count : writes_) {
    if (count > 1 && count <= kMaxDefinitions) bits += count;
  }
  if (bits * cfg.blocks.size() > kMaxBits) most_definitions_ = 1;
}

void ReachingDefinitions::define(std::uint32_t statement, ptx::RegisterId reg) {
  const bool stands_for_all = writes_[reg] > most_definitions_;
  auto& ids = of_register_[reg];
  if (ids.empty() || !stands_for_all) {
    ids.push_back(static_cast<DefinitionId>(definitions_.size()));
    definitions_.push_back({statement, reg});
  }
  if (statement == kNoStatement) {
    of_parameter_[reg] = ids.back();
  } else {
    of_statement_[statement].push_back(ids.back());
  }
}

DefinitionId ReachingDefinitions::definition(std::uint32_t statement, ptx::RegisterId reg) const {
  if (statement == kNoStatement) return of_parameter_[reg];
  for (const DefinitionId id : of_statement_[statement]) {
    if (definitions_[id].reg == reg) return id;
  }
  return kNoStatement;
}

std::span<const DefinitionId> ReachingDefinitions::reaching(std::uint32_t statement, ptx::RegisterId reg) const {
  for (const Use& use : uses_[statement]) {
    if (use.reg == reg) return std::span(reaching_).subspan(use.first, use.count);
  }
  return of_register_[reg].size() == 1 ? std::span<const DefinitionId>(of_register_[reg])
                                       : std::span<const DefinitionId>();
}

}  // namespace pergola::analysis
