#include "src/analysis/block_lists.h"

#include <algorithm>

namespace pergola::analysis {
namespace {

std::uint64_t hash_of(const BlockList& list) {
  std::uint64_t result = list.size();
  for (const BlockInterval& range : list) {
    result = (result ^ ((std::uint64_t{range.begin} << 32) | range.end)) * 0x9E3779B97F4A7C15u;
    result ^= result >> 32;
  }
  return result;
}

}  // namespace

void normalize(BlockList& ranges) {
  if (ranges.size() < 2) return;
  if (!std::ranges::is_sorted(ranges, {}, &BlockInterval::begin)) std::ranges::sort(ranges, {}, &BlockInterval::begin);
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin <= ranges[last].end) {
      ranges[last].end = std::max(ranges[last].end, ranges[i].end);
    } else {
      ranges[++last] = ranges[i];
    }
  }
  ranges.resize(last + 1);
}

BlockList united(const BlockList& a, const BlockList& b) {
  BlockList result;
  result.resize(a.size() + b.size());
  std::ranges::merge(a, b, result.begin(), {}, &BlockInterval::begin, &BlockInterval::begin);
  normalize(result);
  return result;
}

std::uint32_t size(const BlockList& ranges) {
  std::uint32_t result = 0;
  for (const BlockInterval& range : ranges) result += range.end - range.begin;
  return result;
}

std::uint32_t BlockListPool::number_of(BlockList list) {
  hashes_.push_back(hash_of(list));
  lists_.push_back(std::move(list));
  const auto [found, is_new] = known_.insert(lists() - 1);
  if (is_new) {
    ranges_ += lists_.back().size();
  } else {
    hashes_.pop_back();
    lists_.pop_back();
  }
  return *found;
}

}  // namespace pergola::analysis
