// PTX text -> Module.
#pragma once

#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::ptx {

// Parses a whole module. Errors are kParseError, "FILE:LINE:COLUMN: expected X, found Y", for any bytes whatever:
// the parser never crashes, recurses without bound, or reads past `text`. Instructions and directives it does not
// know are kept verbatim. Thread-safe.
Result<Module> parse(std::string_view text, std::string_view source_name = "<string>");

}  // namespace pergola::ptx
