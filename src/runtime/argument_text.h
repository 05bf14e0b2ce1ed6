// A launch's arguments in words, for traces: "f32 2, array 3, array 4 + 1024 bytes, i32 1000".
#pragma once

#include <span>
#include <string>

#include "src/session/types.h"

namespace pergola::runtime {

// Arrays, which are this session's, go by the scheduler's numbers. At most some hundred characters; "..." says that
// there is more.
std::string argument_text(std::span<const session::Argument> arguments);

}  // namespace pergola::runtime
