// Files that sessions add what they found to: histories (history.h) and tunings (tuning.h). A `Kept` has a default, a
// parse(), a merge() and a print().
#pragma once

#include <filesystem>
#include <mutex>
#include <string>

#include "src/base/file.h"
#include "src/base/result.h"

namespace pergola::scheduler {

inline constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;
inline std::mutex kept_files_mutex;  // sessions that begin and end at once have one file

// Empty where there is no file, and of a pipe or a device, which has no earlier run's and may give nothing for ever.
template <typename Kept>
Result<Kept> load_kept(const std::filesystem::path& path) {
  if (is_written_in_place(path)) return Kept();
  const Result<std::string> text = read_file(path, kMostKeptBytes);
  if (text.ok()) return Kept::parse(*text, path.string());
  if (text.code() == Code::kNotFound) return Kept();
  return text.status();
}

// `found` behind what the file has.
template <typename Kept>
Status add_to_kept(const Kept& found, const std::filesystem::path& path) {
  const std::lock_guard lock(kept_files_mutex);
  PERGOLA_ASSIGN(Kept all, load_kept<Kept>(path));
  all.merge(found);
  return write_named_file(path, all.print());
}

}  // namespace pergola::scheduler
