// The PTX of tests/conformance/kernels/, built into the program.
#pragma once

#include <map>
#include <string>

namespace pergola::conformance {

// By the file's name without its ending.
const std::map<std::string, std::string>& embedded_kernels();

}  // namespace pergola::conformance
