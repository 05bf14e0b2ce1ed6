// Words that were meant: of names, the one that is nearest to what was given.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pergola::tool {

// Where at most a third of the word is wrong, or it is the beginning of the name. The word itself, if it is one.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace pergola::tool
