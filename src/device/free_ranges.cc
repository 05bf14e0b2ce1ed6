#include "src/device/free_ranges.h"

#include <iterator>

namespace pergola::device {

void FreeRanges::insert(std::uint64_t begin, std::uint64_t bytes) {
  if (bytes == 0) return;
  bytes_by_begin_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
}

void FreeRanges::erase(std::map<std::uint64_t, std::uint64_t>::iterator at) {
  by_size_.erase({at->second, at->first});
  bytes_by_begin_.erase(at);
}

std::optional<std::uint64_t> FreeRanges::take(std::uint64_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  const std::uint64_t begin = found->second;
  take_at(begin, bytes);
  return begin;
}

void FreeRanges::take_at(std::uint64_t begin, std::uint64_t bytes) {
  const auto part = bytes_by_begin_.find(begin);
  const std::uint64_t left = part->second - bytes;
  erase(part);
  insert(begin + bytes, left);
}

void FreeRanges::give(std::uint64_t begin, std::uint64_t bytes) {
  auto after = bytes_by_begin_.lower_bound(begin);
  if (after != bytes_by_begin_.end() && after->first == begin + bytes) {
    bytes += after->second;
    erase(after);
    after = bytes_by_begin_.lower_bound(begin);
  }
  if (after != bytes_by_begin_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  insert(begin, bytes);
}

}  // namespace pergola::device
