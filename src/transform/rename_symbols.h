// Bodies of several modules in one: what each defines gets a name of its own.
#pragma once

#include <string_view>

#include "src/ptx/module.h"

namespace pergola::transform {

// Appends `suffix` to the names of all functions and variables that `module` defines, where they are declared and
// wherever they are named; not to those it only declares (extern), nor to a function's own variables. Positions in
// source files (.file, .loc) go: their numbers are the module's own. Thread-compatible.
void rename_symbols(ptx::Module& module, std::string_view suffix);

}  // namespace pergola::transform
