// Which files a source includes, found by reading its text: for the cache's key, before any compiler runs.
// A file missed here means stale code from the cache, so the scan takes in too much rather than too little: it looks
// for what may be a directive, and knows neither conditions nor comments nor which folder a compiler searches first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::source {

// A text that differs whenever what the includes of `text` resolve to may differ: each name that #include, #import or
// __has_include gives, in `text` or in a file so found, with each file it is found as (beside the includer where it is
// quoted, in `folder`, in each of `dirs`) and a hash of that file. `folder` is the source's own, empty for the current
// one. Files in a folder under `stable_dirs` (a toolkit's) count by size and time, and are not followed.
// Nothing where the answer cannot be known: a name made by a macro or with a backslash, #include_next, #embed,
// #pragma include_alias, __TIME__, __DATE__, __TIMESTAMP__, trigraphs, zero bytes, or more than 4,096 files.
std::optional<std::string> include_fingerprint(std::string_view text, const std::string& folder,
                                               const std::vector<std::string>& dirs,
                                               const std::vector<std::string>& stable_dirs);

}  // namespace pergola::source
