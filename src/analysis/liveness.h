// Registers whose value may still be read: at the borders of blocks and before any statement.
//
// The classical backward dataflow over the control-flow graph. What does not surely overwrite the whole register
// does not end its life: a guarded instruction, a write to one component of a vector register, and an opaque
// instruction, which reads and writes every register it names. A .func's .reg results are read by `ret`.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/cfg.h"

namespace pergola::analysis {

// A set of registers of one function, a bit each.
class RegisterSet {
 public:
  explicit RegisterSet(std::size_t register_count = 0) : words_((register_count + 63) / 64, 0) {}
  bool contains(ptx::RegisterId id) const { return (words_[id / 64] >> (id % 64) & 1) != 0; }
  void insert(ptx::RegisterId id) { words_[id / 64] |= std::uint64_t{1} << (id % 64); }
  void erase(ptx::RegisterId id) { words_[id / 64] &= ~(std::uint64_t{1} << (id % 64)); }
  // Adds what `other`, a set over the same function, holds; true where that changed this set.
  bool merge(const RegisterSet& other);
  std::vector<ptx::RegisterId> elements() const;  // ascending
  std::size_t size() const;
  bool operator==(const RegisterSet&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

struct Liveness {
  std::vector<RegisterSet> live_in, live_out;  // by block
};

// Whether what the instruction writes it overwrites for certain and as a whole: it has no guard, is not opaque and
// names no component of a vector register.
bool overwrites_whole(const ptx::Instruction& instruction);

// `cfg` must be build_cfg(function)'s. Linear in the body for each pass over it; a few passes.
Liveness compute_liveness(const ptx::Function& function, const Cfg& cfg);

// The registers live just before statement `index` of the body; before the next instruction of the same block where
// that statement is no instruction. Empty past the last one.
RegisterSet live_before(const ptx::Function& function, const Cfg& cfg, const Liveness& liveness, std::uint32_t index);

}  // namespace pergola::analysis
