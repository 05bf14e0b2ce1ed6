// Which parts of a run of addresses are free: the book-keeping of an allocator, apart from the memory it gives out, so
// that whoever writes past a block never meets it.
//
// The smallest free part that is large enough is taken, of several the lowest; neighbours grow together again when they
// are given back. Both cost the logarithm of the number of free parts. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace pergola::device {

class FreeRanges {
 public:
  FreeRanges() = default;
  FreeRanges(std::uint64_t begin, std::uint64_t bytes) { insert(begin, bytes); }

  // `bytes` is not 0. Empty where no free part is large enough.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  // These, which begin a free part and lie in it.
  void take_at(std::uint64_t begin, std::uint64_t bytes);
  // The free parts: bytes, by begin. No two touch.
  const std::map<std::uint64_t, std::uint64_t>& parts() const { return bytes_by_begin_; }
  // What take() gave, or a part of it.
  void give(std::uint64_t begin, std::uint64_t bytes);

 private:
  void insert(std::uint64_t begin, std::uint64_t bytes);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator at);

  std::map<std::uint64_t, std::uint64_t> bytes_by_begin_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, begin) of the same parts
};

}  // namespace pergola::device
