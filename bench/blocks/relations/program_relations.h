// What the block-level analysis says of a program: the footprint of each launch, and the relation of each launch to the
// one before it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/blocks/program.h"
#include "src/analysis/block_dependencies.h"
#include "src/analysis/footprints.h"
#include "src/analysis/relation_cache.h"
#include "src/base/result.h"
#include "src/ptx/module.h"
#include "src/source/source.h"

namespace pergola::bench::blocks {

class ProgramRelations {
 public:
  // Compiles the program's kernels. `program` must outlive the object.
  static Result<ProgramRelations> of(const Program& program, source::Compiler compiler = source::Compiler::kAuto);
  // Of a program whose kernels are compiled.
  static Result<ProgramRelations> of(const Program& program, source::CompiledSource compiled);

  // Each buffer is an allocation of its own, numbered as in the program; variables of the module come behind them.
  Result<analysis::LaunchFootprint> footprint(std::size_t launch) const;

  // What a launch gives the analysis.
  using Kernel = std::shared_ptr<const analysis::KernelFootprints>;
  struct Call {
    Kernel kernel;
    analysis::LaunchValues values;
  };
  Result<Call> call(std::size_t launch) const;

  struct Pair {
    analysis::BlockRelation relation;
    analysis::BlockPattern read_pattern{};  // of what is read of what was written alone, as the paper has it
    std::chrono::duration<double, std::milli> footprint_time{};  // of the later launch's
    std::chrono::duration<double, std::milli> relation_time{};
    std::chrono::duration<double, std::milli> first_time{};  // of both footprints and the relation
    // Of the later launch's footprint and the relation together, where both have been worked out before.
    std::chrono::duration<double, std::milli> cached_time{};
    // agrees_with_bytes() of it, and footprint and relation are what they are block by block.
    bool agrees = false;
  };
  // One for each launch but the first.
  Result<std::vector<Pair>> pairs() const;

  const std::string& ptx() const { return compiled_.ptx; }
  const source::CompiledSource& compiled() const { return compiled_; }

 private:
  const Program* program_ = nullptr;
  source::CompiledSource compiled_;
  std::unique_ptr<ptx::Module> module_;
  std::map<std::string, Kernel> kernels_;
};

// Whether the parents of a child are those that a comparison of every access with every access gives: of all children
// of small pairs, of some of large ones.
bool agrees_with_bytes(const analysis::BlockRelation& relation, const analysis::LaunchFootprint& parent,
                       const analysis::LaunchFootprint& child);

// The number of the pattern in Table I.
int table_one(analysis::BlockPattern pattern);

}  // namespace pergola::bench::blocks
