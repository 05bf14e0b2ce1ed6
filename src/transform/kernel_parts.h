// Kernels as parts of one kernel: what becomes of their parameters, names and shared memory, whether each block runs
// one of them (joined_kernels.h) or all of them in turn (stacked_kernels.h).
//
//   module of a: .entry a_merged(.param ... a_launches[])         .entry whole(.param ... a_launches__0[],
//   module of b: .entry b_merged(.param ... b_launches[])                      .param ... b_launches__1[])
//
// Of each part's module there is what the kernel reaches (reached_names.h), under names of its own. Parts have shared
// memory after one another, or only one of them has it: static shared memory is as much as the part with most has, and
// dynamic shared memory is behind it. Registers are those of the part with most.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"
#include "src/transform/body_editor.h"

namespace pergola::transform {

struct KernelPart {
  const ptx::Module* module = nullptr;  // by merge_launches(); borrowed for the call
  std::string_view kernel;              // its entry: merged_kernel()
};

// Thread-compatible.
class KernelOfParts {
 public:
  // `verb`, for messages: what a kernel cannot be: "joined with others".
  KernelOfParts(std::string_view name, std::string_view verb, const std::array<std::uint32_t, 3>& block);

  // kUnsupported, with file and line, where a part asks how much shared memory it has, or holds an instruction that is
  // not understood.
  Status add(const KernelPart& part);
  std::size_t count() const { return parts_.size(); }
  // The name of a part's one parameter, the array that merge_launches() makes.
  const std::string& parameter(std::size_t part) const { return parts_[part].parameter.name; }
  // A part's body, to be put into entry() once: control leaves it at its end.
  Result<Statements> body(std::size_t part);
  ptx::Function& entry() { return entry_; }
  // Takes all of it. entry().body is there.
  ptx::Module take();

 private:
  struct Part {
    ptx::Module module;
    std::string body;  // its function there
    ptx::Variable parameter;
    std::uint64_t shared_bytes = 0;
    std::uint32_t shared_align = 16;
  };
  void add_shared();
  void move(ptx::Item& item, const Part& part);

  const std::string verb_;
  ptx::Module module_;
  ptx::Function entry_;
  std::vector<Part> parts_;
  std::map<std::string, std::size_t> declared_;  // item of module_ by name
};

}  // namespace pergola::transform
