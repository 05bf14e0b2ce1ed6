// Which files a source includes, found by reading its #include lines: for the cache's key, before any compiler runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::source {

// A text that differs whenever what the includes of `text` resolve to may differ: each name included, directly or by
// a file included, with the file it is found as in `dirs` (first match) and a hash of that file. Conditions are not
// evaluated, so it may name more than is used, never less. Files in a folder under `stable_dirs` (a toolkit's) count
// by size and time, and are not followed.
// Nothing where the answer cannot be known: `#include MACRO`, #embed, or more than 4,096 files.
std::optional<std::string> include_fingerprint(std::string_view text, const std::string& folder,
                                               const std::vector<std::string>& dirs,
                                               const std::vector<std::string>& stable_dirs);

}  // namespace pergola::source
