// Kernels that are made of several, by what they are made of: the graphs of a region ask for the same again and again.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "src/runtime/block_kernel.h"

namespace pergola::runtime {

// Keeps the forms, and what is in `Parts`, which are compared. Thread-safe.
template <typename Parts>
class KnownForms {
 public:
  using Threads = std::array<std::uint32_t, 3>;

  // What `make(Parts, Threads)` says of kernels of these parts in such blocks, the same every time.
  template <typename Make>
  Result<BlockKernel::Form> form(const Parts& parts, const device::Dim3& block, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::pair<Parts, Threads> key(parts, {block.x, block.y, block.z});
    const auto known = forms_.find(key);
    if (known != forms_.end()) return known->second;
    if (forms_.size() >= kMost) forms_.clear();
    Result<BlockKernel::Form> made = make(parts, key.second);
    return forms_.emplace(std::move(key), std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t kMost = 128;  // then all are made anew
  std::mutex mutex_;                         // guards what follows
  std::map<std::pair<Parts, Threads>, Result<BlockKernel::Form>> forms_;
};

}  // namespace pergola::runtime
