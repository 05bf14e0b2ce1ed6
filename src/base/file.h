// Whole files, read and written safely. All functions are thread-safe.
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

// Writes a temporary file beside `path` and renames it over: a reader sees the old bytes or the new, never a part. A
// file that was there keeps its mode; of a symbolic link the target is replaced, there or not yet. What is there and is
// no regular file (a pipe, a device, /dev/stdout) is written to as it is. kIo with the path and the system's reason.
// For files of ours, in caches and temporary folders: makes missing folders.
Status write_file_atomically(const std::filesystem::path& path, std::string_view bytes);
// The same for a file that a user names: where its folder is missing, which may be a slip, it is refused by name.
Status write_named_file(const std::filesystem::path& path, std::string_view bytes);
// The same for a file whose bytes are known only later: where there is none, or an empty one, it has `bytes` meanwhile;
// what is there stays until then, and it is found out only whether it could be replaced.
Status claim_named_file(const std::filesystem::path& path, std::string_view bytes);
// Whether `path` is no regular file, and so gets one text after the other where others have the old one replaced.
bool is_written_in_place(const std::filesystem::path& path);

// The file that `path` names, wherever it and its folders' links lead: of two names of one file the same. It need not
// be there.
std::filesystem::path place_of(const std::filesystem::path& path);

// `path` from the root on, for files that are written later: the program may have changed its folder by then.
std::filesystem::path from_root(const std::filesystem::path& path);

// $PERGOLA_CACHE_DIR, else $XDG_CACHE_HOME/pergola, else ~/.cache/pergola, else a folder of this user under /tmp.
std::filesystem::path cache_directory();

}  // namespace pergola
