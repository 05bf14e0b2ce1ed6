#include "bench/blocks/forms/dependencies.h"

#include <map>
#include <set>
#include <string>

#include "src/analysis/pointer_modes.h"

namespace pergola::bench::blocks {

std::vector<std::vector<std::size_t>> dependencies_of(const Program& program, const ptx::Module& module) {
  constexpr std::size_t kNobody = ~std::size_t{0};
  struct Use {
    std::vector<std::size_t> readers;
    std::size_t writer = kNobody;
  };
  std::vector<Use> uses(program.buffers.size());
  std::vector<std::vector<std::size_t>> after(program.launches.size());
  std::map<std::string, analysis::PointerModes> modes;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = program.launches[i];
    if (!modes.contains(launch.kernel))
      modes[launch.kernel] = analysis::pointer_modes(module, *module.find_function(launch.kernel)).value();
    std::map<std::size_t, bool> touched;  // by buffer: whether it is written
    for (const analysis::PointerParameter& parameter : modes[launch.kernel].parameters)
      if (const auto* buffer = std::get_if<BufferArgument>(&launch.arguments[parameter.parameter]))
        touched[buffer->buffer] |=
            parameter.mode == analysis::AccessMode::kWrite || parameter.mode == analysis::AccessMode::kReadWrite;
    std::set<std::size_t> found;
    for (const auto& [buffer, writes] : touched) {
      const Use& use = uses[buffer];
      if (use.writer != kNobody) found.insert(use.writer);
      if (writes) found.insert(use.readers.begin(), use.readers.end());
    }
    for (const auto& [buffer, writes] : touched) {
      if (writes)
        uses[buffer] = {{}, i};
      else
        uses[buffer].readers.push_back(i);
    }
    after[i].assign(found.begin(), found.end());
  }
  return after;
}

}  // namespace pergola::bench::blocks
