#include "src/device/cuda/arena_places.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"

namespace pergola::device::cuda {

ArenaPlaces::ArenaPlaces(std::uint64_t page_bytes, std::uint64_t pages)
    : page_bytes_(page_bytes), free_(0, pages * page_bytes) {}

ArenaPlaces::Mappings::iterator ArenaPlaces::mapping_of(std::uint64_t page) {
  auto after = mappings_.upper_bound(page);
  if (after == mappings_.begin()) return mappings_.end();
  const auto found = std::prev(after);
  return found->first + found->second.count > page ? found : mappings_.end();
}

// They are in a row: what is free has other blocks' pages at its ends alone.
ArenaPlaces::Pages ArenaPlaces::missing_in(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t first = offset / page_bytes_, end = (offset + bytes - 1) / page_bytes_ + 1;
  if (mapping_of(first) != mappings_.end()) ++first;
  if (end > first && mapping_of(end - 1) != mappings_.end()) --end;
  return {first, end - first};
}

std::optional<ArenaPlaces::Place> ArenaPlaces::take(std::uint64_t bytes) {
  bytes = (std::max<std::uint64_t>(bytes, 1) + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  std::optional<std::uint64_t> best;
  Pages missing;
  for (const auto& [begin, free_bytes] : free_.parts()) {
    if (free_bytes < bytes) continue;
    const Pages its = missing_in(begin, bytes);
    if (best && its.count >= missing.count) continue;
    best = begin;
    missing = its;
    if (missing.count == 0) break;
  }
  if (!best) return std::nullopt;

  Place place{*best, {missing, Pages()}};
  const std::uint64_t end = place.offset_bytes + bytes, last = (end - 1) / page_bytes_;
  const bool shares_last = end % page_bytes_ != 0 && missing.count > 1 && missing.first + missing.count - 1 == last;
  if (shares_last) place.missing = {Pages{missing.first, missing.count - 1}, Pages{last, 1}};
  for (const Pages& each : place.missing)
    if (each.count != 0) mappings_[each.first] = {each.count, 0};
  mapped_pages_ += missing.count;
  for (std::uint64_t page = place.offset_bytes / page_bytes_; page <= last;) {
    const auto mapping = mapping_of(page);
    PERGOLA_CHECK(mapping != mappings_.end());
    ++mapping->second.blocks;
    page = mapping->first + mapping->second.count;
  }
  free_.take_at(place.offset_bytes, bytes);
  taken_[place.offset_bytes] = bytes;
  return place;
}

std::vector<ArenaPlaces::Pages> ArenaPlaces::give(std::uint64_t offset_bytes) {
  const auto block = taken_.find(offset_bytes);
  PERGOLA_CHECK(block != taken_.end());
  const std::uint64_t bytes = block->second, last = (offset_bytes + bytes - 1) / page_bytes_;
  taken_.erase(block);
  free_.give(offset_bytes, bytes);
  std::vector<Pages> gone;
  for (std::uint64_t page = offset_bytes / page_bytes_; page <= last;) {
    const auto mapping = mapping_of(page);
    PERGOLA_CHECK(mapping != mappings_.end());
    page = mapping->first + mapping->second.count;
    if (--mapping->second.blocks != 0) continue;
    gone.push_back({mapping->first, mapping->second.count});
    mapped_pages_ -= mapping->second.count;
    mappings_.erase(mapping);
  }
  return gone;
}

}  // namespace pergola::device::cuda
