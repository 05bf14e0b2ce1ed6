// Whole files, read and written safely.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace pergola {

// Of what is no regular file (a pipe, a device), which may have no end.
inline constexpr std::size_t kMaxStreamBytes = std::size_t{256} << 20;

// kNotFound or kIo with the path and the system's reason. Refuses more than `max_bytes`, or than kMaxStreamBytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{1} << 30);

// Writes a temporary file beside `path` and renames it over: a reader sees the old bytes or the new, never a part.
// Makes missing folders.
Status write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// $PERGOLA_CACHE_DIR, else $XDG_CACHE_HOME/pergola, else ~/.cache/pergola, else a folder of this user under /tmp.
std::filesystem::path cache_directory();

}  // namespace pergola
