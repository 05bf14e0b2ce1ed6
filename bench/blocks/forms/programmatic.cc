#include "bench/blocks/forms/programmatic.h"

#include <string_view>

namespace pergola::bench::blocks {

std::string programmatic_kernels(std::string ptx) {
  constexpr std::string_view kEntry = ".entry ",
                             kBegin = "\n  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;";
  for (std::size_t at = 0; (at = ptx.find(kEntry, at)) != std::string::npos;) {
    at = ptx.find('{', at);
    if (at == std::string::npos) break;  // declared, and defined nowhere
    ptx.insert(at + 1, kBegin);
  }
  return ptx;
}

}  // namespace pergola::bench::blocks
