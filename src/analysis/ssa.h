// Static single assignment over a function as it stands: which value each instruction reads in each register, with a
// phi where several meet. The function itself is not changed.
//
// A guarded write (@%p mov ...) makes a value that is the old or the new one: its `old` is what the register held.
// Phis are placed on iterated dominance frontiers (Cytron et al. 1991), for registers that are read outside the block
// that writes them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/analysis/cfg.h"

namespace pergola::analysis {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~0u;

struct SsaValue {
  enum class Kind : std::uint8_t { kWrite, kPhi };
  Kind kind = Kind::kWrite;
  ptx::RegisterId reg = ptx::kNoRegister;
  std::uint32_t block = 0;
  std::uint32_t statement = 0;  // kWrite
  ValueId old = kNoValue;       // kWrite under a guard: the value it may leave; kNoValue: nothing was written before
  // kPhi: by predecessor of `block`; kNoValue where nothing was written on that way.
  boost::container::small_vector<ValueId, 3> operands;
};

class Ssa {
 public:
  // `cfg` must be build_cfg(function)'s; both must outlive this object.
  Ssa(const ptx::Function& function, const Cfg& cfg);

  const SsaValue& value(ValueId id) const { return values_[id]; }
  std::size_t size() const { return values_.size(); }
  // What `statement` reads in `reg`; kNoValue where it reads what nobody wrote, or nothing.
  ValueId read(std::uint32_t statement, ptx::RegisterId reg) const { return find(reads_[statement], reg); }
  ValueId written(std::uint32_t statement, ptx::RegisterId reg) const { return find(writes_[statement], reg); }
  const std::vector<ValueId>& phis(std::uint32_t block) const { return phis_[block]; }
  std::uint32_t block_of(std::uint32_t statement) const { return block_of_statement_[statement]; }

 private:
  using Uses = boost::container::small_vector<std::pair<ptx::RegisterId, ValueId>, 3>;
  class Builder;
  static ValueId find(const Uses& uses, ptx::RegisterId reg) {
    for (const auto& [name, id] : uses) {
      if (name == reg) return id;
    }
    return kNoValue;
  }

  std::vector<SsaValue> values_;
  std::vector<Uses> reads_, writes_;  // by statement
  std::vector<std::vector<ValueId>> phis_;
  std::vector<std::uint32_t> block_of_statement_;
};

}  // namespace pergola::analysis
