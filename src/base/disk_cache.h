// A content-addressed cache on disk: bytes that are dear to make (PTX of a source, a cubin of a PTX), found again by
// the hash of everything they were made from.
//
//   <folder>/<2 hex>/<30 hex>     one entry a file, named by its key
//     magic "PERGCACH" │ u32 format │ u32 0 │ key 16 │ u64 payload bytes │ payload checksum 16 │ payload
//
// Invariant: get() returns the bytes that put() was given under that key, or nothing: a file that is truncated,
// damaged, of another format or another key counts as absent, and the next put() replaces it. Entries appear by
// rename, so any number of threads and processes may share a folder. A folder that cannot be written or read turns
// the cache off, with one line in the log: nothing here ever fails a caller.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace pergola {

struct CacheKey {
  std::array<unsigned char, 16> bytes{};
  bool operator==(const CacheKey&) const = default;
  std::string hex() const;  // 32 lower-case digits
};

// XXH3-128 over `kind` and `inputs`, each with its length ahead of it: {"ab","c"} and {"a","bc"} differ.
CacheKey cache_key(std::string_view kind, std::span<const std::string_view> inputs);
CacheKey cache_key(std::string_view kind, std::initializer_list<std::string_view> inputs);

// Thread-safe.
class DiskCache {
 public:
  struct Options {
    std::uint64_t max_bytes = std::uint64_t{1} << 30;
    // The folder is swept down to max_bytes, least recently used first, at the first put() after this long (by the
    // time of the file `swept`, so over all processes), and whenever this process has put max_bytes / 8.
    std::chrono::seconds sweep_interval{600};
  };
  explicit DiskCache(std::filesystem::path folder) : DiskCache(std::move(folder), Options{}) {}
  DiskCache(std::filesystem::path folder, Options options);

  std::optional<std::string> get(const CacheKey& key) const;
  void put(const CacheKey& key, std::string_view payload);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path entry_path(const CacheKey& key) const;

 private:
  void sweep_if_due(std::uint64_t added_bytes);
  void sweep();

  std::filesystem::path folder_;
  Options options_;
  // Both relaxed: a counter and a once-flag that publish nothing.
  std::atomic<std::uint64_t> bytes_since_sweep_{0};
  std::atomic<bool> complained_{false};
};

}  // namespace pergola
