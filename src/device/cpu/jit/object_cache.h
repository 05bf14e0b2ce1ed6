// Compiled objects on disk: what LLVM made of a kernel, found again in a later process without emitting anything.
//
// An object refers to module variables, address-taken functions and the run time by symbol, never by number, so it is
// the same in every process. The key is everything it was made from: this library's build, LLVM's version, the
// processor and its features, the module as printed, and which kernel.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/disk_cache.h"

namespace pergola::device::cpu::jit {

// Thread-safe. The folder is cache_directory() / "object" of the moment it is made.
class ObjectCache {
 public:
  // `target`: the processor, its features and what else steers code generation.
  explicit ObjectCache(std::string target);

  CacheKey key(std::string_view module_text, std::string_view unit) const;
  std::optional<std::string> get(const CacheKey& key) const { return enabled_ ? cache_.get(key) : std::nullopt; }
  void put(const CacheKey& key, std::string_view object) {
    if (enabled_) cache_.put(key, object);
  }

 private:
  std::string target_;
  std::string build_;    // this library's build id
  bool enabled_ = true;  // not where the build id is unknown: another build's objects could be taken for ours
  DiskCache cache_;
};

}  // namespace pergola::device::cpu::jit
