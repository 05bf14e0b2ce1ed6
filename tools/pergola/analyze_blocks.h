// `pergola analyze --launch`: what each block of a launch reads and writes, and which blocks of a second launch wait
// for which of a first.
#pragma once

#include <string>
#include <vector>

#include "src/ptx/module.h"
#include "tools/pergola/console.h"

namespace pergola::tool {

// One or two launches (launch_text.h), the later after the earlier; `svg`: a path for the picture, or "".
Status analyze_blocks(const ptx::Module& module, const std::vector<std::string>& launches, const std::string& svg,
                      const Console& console);

}  // namespace pergola::tool
