#include "src/analysis/block_index.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "src/analysis/affine.h"

namespace pergola::analysis {
namespace {

// Equal for shapes whose hull is at most twice as large in each dimension.
std::vector<std::uint64_t> kind_of(const ByteShape& shape) {
  std::vector<std::uint64_t> kind{static_cast<std::uint64_t>(std::bit_width(shape.width))};
  for (const ByteShape::Dimension& dimension : shape.dimensions) {
    kind.push_back(dimension.stride);
    kind.push_back(static_cast<std::uint64_t>(std::bit_width(dimension.count)));
  }
  return kind;
}

std::int64_t remainder(std::int64_t value, std::int64_t stride) {
  return stride == 0 ? 0 : value - floor_div(value, stride) * stride;
}

// Calls `visit` with at + stride * k and the first entry from there on, for each k with which an entry begins in the
// `reach` places from there on. Entries are sorted by their begin.
template <class Entries, class Visit>
void for_each_used(const Entries& entries, std::int64_t at, const ByteShape::Dimension& dimension, std::int64_t reach,
                   const Visit& visit) {
  const auto stride = static_cast<std::int64_t>(dimension.stride), count = static_cast<std::int64_t>(dimension.count);
  auto entry = entries.begin();
  for (std::int64_t k = 0; k < count;) {
    const std::int64_t begin = at + stride * k;
    entry = std::partition_point(entry, entries.end(), [&](const auto& other) { return other.first < begin; });
    if (entry == entries.end()) return;
    if (entry->first < begin + reach) {
      visit(begin, entry);
      ++k;
    } else {
      k += (entry->first - begin - reach) / stride + 1;
    }
  }
}

}  // namespace

BlockIndex::BlockIndex(const AccessFootprint& access) : access_(access), meetings_(access.shapes.size()) {
  std::map<std::vector<std::uint64_t>, std::uint32_t> groups;
  std::vector<std::uint32_t> group_of_shape;
  for (const ByteShape& shape : access.shapes) {
    const auto [found, is_new] = groups.try_emplace(kind_of(shape), static_cast<std::uint32_t>(groups_.size()));
    group_of_shape.push_back(found->second);
    if (is_new) {
      groups_.emplace_back().hull = shape;
      continue;
    }
    Group& group = groups_[found->second];
    group.is_exact &= group.hull == shape;
    group.hull.width = std::max(group.hull.width, shape.width);
    for (std::size_t i = 0; i < shape.dimensions.size(); ++i) {
      group.hull.dimensions[i].count = std::max(group.hull.dimensions[i].count, shape.dimensions[i].count);
    }
  }
  std::vector<std::vector<Entry>> entries(groups_.size());
  const std::vector<AccessFootprint::Place> places = access.places.expanded();
  for (std::uint32_t block = 0; block < places.size(); ++block) {
    const AccessFootprint::Place& place = places[block];
    if (place.shape == AccessFootprint::kNoShape) continue;
    entries[group_of_shape[place.shape]].push_back({place.first, block, place.shape});
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].by_first = ordered(std::move(entries[i]), 0);
}

BlockIndex::Order BlockIndex::ordered(std::vector<Entry> entries, std::int64_t stride) {
  Order order{.stride = stride, .entries = std::move(entries), .runs = {}, .successive_end = {}};
  std::vector<Entry>& all = order.entries;
  std::vector<std::pair<std::int64_t, Entry>> keyed;
  if (stride == 0) {
    const auto key = [](const Entry& entry) { return std::pair(entry.first, entry.block); };
    if (!std::ranges::is_sorted(all, {}, key)) std::ranges::sort(all, {}, key);
  } else {  // they come by first and block
    for (const Entry& entry : all) keyed.emplace_back(remainder(entry.first, stride), entry);
    std::ranges::sort(keyed, {}, [](const std::pair<std::int64_t, Entry>& one) {
      return std::tuple(one.first, one.second.first, one.second.block);
    });
    std::int64_t rows = 0, before = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t row = floor_div(all[i].first, stride);
      if (i == 0 || row != before) ++rows;
      before = row;
    }
    if (rows > 1)
      order.used_rows = static_cast<double>(rows) / static_cast<double>(before - floor_div(all[0].first, stride) + 1);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = keyed[i].second;
  }
  const auto count = static_cast<std::uint32_t>(all.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t of_entry = stride == 0 ? 0 : keyed[i].first;
    if (order.runs.empty() || order.runs.back().remainder != of_entry) order.runs.push_back({of_entry, i});
  }
  order.runs.push_back({0, count});
  order.successive_end.resize(count);
  for (std::uint32_t i = count; i-- > 0;) {
    const bool goes_on = i + 1 < count && all[i + 1].block == all[i].block + 1;
    order.successive_end[i] = goes_on ? order.successive_end[i + 1] : i + 1;
  }
  return order;
}

void BlockIndex::ask_for(const ByteShape& shape) {
  asked_shape_ = shape;
  ++asked_;
  for (Group& group : groups_) {
    const ByteSet distances = meeting_distances(group.hull, shape);
    group.places = {1 - distances.end(), distances.shape};
    const auto& dimensions = group.places.shape.dimensions;
    group.combinations = 1;
    group.order = &group.by_first;
    if (dimensions.empty()) continue;
    const auto longest = std::ranges::max_element(dimensions, {}, &ByteShape::Dimension::count);
    group.main = static_cast<std::size_t>(longest - dimensions.begin());
    const std::uint64_t all = group.by_first.entries.size();
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      if (i != group.main && group.combinations <= all) group.combinations *= dimensions[i].count;
    }
    if (group.combinations > all) continue;  // it is shorter to test them all
    const auto stride = static_cast<std::int64_t>(longest->stride);
    auto known = group.by_stride.find(stride);
    if (known == group.by_stride.end())
      known = group.by_stride.emplace(stride, ordered(group.by_first.entries, stride)).first;
    group.order = &known->second;
  }
}

BlockList BlockIndex::find(std::int64_t first) {
  BlockList found;
  first_ = first;
  for (const Group& group : groups_) find_in(group, first, found);
  normalize(found);
  return found;
}

void BlockIndex::find_in(const Group& group, std::int64_t first, BlockList& found) {
  const std::vector<Entry>& entries = group.by_first.entries;
  const std::int64_t begin = first + group.places.begin(), end = first + group.places.end();
  if (entries.empty() || entries.back().first < begin || entries.front().first >= end) return;
  const auto place = [](const Entry& entry) { return entry.first; };
  const auto low = std::ranges::lower_bound(entries, begin, {}, place);
  const auto high = std::ranges::lower_bound(low, entries.end(), end, {}, place);
  const auto from = static_cast<std::uint32_t>(low - entries.begin()),
             to = static_cast<std::uint32_t>(high - entries.begin());
  if (from == to) return;
  if (group.places.shape.dimensions.empty()) {
    add(group, group.by_first, from, to, found);
  } else if (group.combinations >= to - from) {
    for (std::uint32_t i = from; i < to; ++i) {
      if (meets(entries[i])) found.push_back({entries[i].block, entries[i].block + 1});
    }
  } else {
    find_places(group, 0, begin, found);
  }
}

// Each combination of the dimensions from `dimension` on but the main one; `at` is the sum of those before.
void BlockIndex::find_places(const Group& group, std::size_t dimension, std::int64_t at, BlockList& found) {
  const auto& dimensions = group.places.shape.dimensions;
  if (dimension == group.main) return find_places(group, dimension + 1, at, found);
  if (dimension == dimensions.size()) return find_rows_or_columns(group, at, found);
  // What the dimensions that are left cover.
  auto reach = static_cast<std::int64_t>(group.places.shape.width);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (i > dimension || i == group.main)
      reach += static_cast<std::int64_t>(dimensions[i].stride * (dimensions[i].count - 1));
  }
  for_each_used(group.by_first.entries, at, dimensions[dimension], reach,
                [&](std::int64_t begin, auto) { find_places(group, dimension + 1, begin, found); });
}

// Places { at + stride * k + w } of the main dimension.
void BlockIndex::find_rows_or_columns(const Group& group, std::int64_t at, BlockList& found) {
  const Order& order = *group.order;
  const ByteShape::Dimension& main = group.places.shape.dimensions[group.main];
  const auto width = static_cast<std::int64_t>(group.places.shape.width);
  // Columns are less wide than the stride, and may go round its end.
  const auto run_at = [&](std::int64_t least) {
    return std::ranges::lower_bound(order.runs.begin(), order.runs.end() - 1, least, {}, &Order::Run::remainder);
  };
  const std::int64_t low = remainder(at, order.stride), high = low + width;
  const auto first_run = run_at(low), last_run = run_at(std::min(high, order.stride));
  const auto last_wrapped = high > order.stride ? run_at(high - order.stride) : order.runs.begin();
  const auto columns = (last_run - first_run) + (last_wrapped - order.runs.begin());
  if (static_cast<double>(columns) <= static_cast<double>(main.count) * order.used_rows + 1) {
    const std::int64_t end = at + order.stride * static_cast<std::int64_t>(main.count - 1) + width;
    const auto add_runs = [&](auto run, auto last) {
      for (; run != last; ++run) {
        const auto begin = order.entries.begin() + run->begin, behind = order.entries.begin() + (run + 1)->begin;
        const auto from = std::ranges::lower_bound(begin, behind, at, {}, &Entry::first);
        const auto to = std::ranges::lower_bound(from, behind, end, {}, &Entry::first);
        add(group, order, static_cast<std::uint32_t>(from - order.entries.begin()),
            static_cast<std::uint32_t>(to - order.entries.begin()), found);
      }
    };
    add_runs(first_run, last_run);
    add_runs(order.runs.begin(), last_wrapped);
    return;
  }
  const std::vector<Entry>& entries = group.by_first.entries;
  for_each_used(entries, at, main, width, [&](std::int64_t begin, auto from) {
    const auto to = std::ranges::lower_bound(from, entries.end(), begin + width, {}, &Entry::first);
    add(group, group.by_first, static_cast<std::uint32_t>(from - entries.begin()),
        static_cast<std::uint32_t>(to - entries.begin()), found);
  });
}

void BlockIndex::add(const Group& group, const Order& order, std::uint32_t begin, std::uint32_t end, BlockList& found) {
  if (group.is_exact) {
    while (begin < end) {
      const std::uint32_t next = std::min(order.successive_end[begin], end);
      found.push_back({order.entries[begin].block, order.entries[begin].block + (next - begin)});
      begin = next;
    }
    return;
  }
  for (std::uint32_t i = begin; i < end; ++i) {
    if (meets(order.entries[i])) found.push_back({order.entries[i].block, order.entries[i].block + 1});
  }
}

bool BlockIndex::meets(const Entry& entry) {
  Meeting& meeting = meetings_[entry.shape];
  if (meeting.asked != asked_) {
    meeting = {asked_, meeting_distances(access_.shapes[entry.shape], asked_shape_)};
  }
  return meeting.distances.may_contain(first_ - entry.first);
}

}  // namespace pergola::analysis
