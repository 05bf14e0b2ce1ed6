#include "src/analysis/pointer_memory.h"

namespace pergola::analysis {

std::uint32_t PointerMemory::add_object() {
  objects_.emplace_back();
  return static_cast<std::uint32_t>(objects_.size() - 1);
}

Value PointerMemory::load(std::uint32_t object, std::int64_t offset, std::uint32_t bytes) const {
  const Object& from = objects_[object];
  Value result;
  const auto see = [&](const Value& value, std::uint32_t stored) {
    result.merge(stored == bytes ? value : fragment(value, stored, bytes));
  };
  if (offset == kAnyOffset) {
    for (const auto& [stored, value] : from.all) see(value, stored);
  } else {
    // offset may be anything up to the ends of its type: compare distances, which cannot overflow here.
    const std::int64_t lowest = offset < std::numeric_limits<std::int64_t>::min() + kMaxBytes
                                    ? std::numeric_limits<std::int64_t>::min()
                                    : offset - kMaxBytes;
    for (auto it = from.cells.lower_bound({lowest, 0}); it != from.cells.end(); ++it) {
      const auto& [place, stored] = it->first;
      if (place >= offset) {
        const std::uint64_t gap = static_cast<std::uint64_t>(place) - static_cast<std::uint64_t>(offset);
        if (gap >= bytes) break;
        if (gap != 0) {
          result.merge(fragment(it->second, stored, bytes));
          continue;
        }
        see(it->second, stored);
      } else if (static_cast<std::uint64_t>(offset) - static_cast<std::uint64_t>(place) < stored) {
        result.merge(fragment(it->second, stored, bytes));
      }
    }
  }
  for (const auto& [stored, value] : from.anywhere) see(value, stored);
  if (has_escaped(object)) result.merge(bytes == 8 ? wild_ : fragment(wild_, 8, bytes));
  return result;
}

bool PointerMemory::store(std::uint32_t object, std::int64_t offset, std::uint32_t bytes, const Value& value) {
  if (value.is_bottom()) return false;
  Object& to = objects_[object];
  if (offset != kAnyOffset && to.cells.size() >= kMaxCells && !to.cells.contains({offset, bytes})) offset = kAnyOffset;
  to.all[bytes].merge(value);
  return offset == kAnyOffset ? to.anywhere[bytes].merge(value) : to.cells[{offset, bytes}].merge(value);
}

bool PointerMemory::copy(std::uint32_t from, std::uint32_t to) {
  if (from == to) return false;
  bool changed = false;
  for (const auto& [place, value] : objects_[from].cells) changed |= store(to, place.first, place.second, value);
  for (const auto& [bytes, value] : objects_[from].anywhere) changed |= store(to, kAnyOffset, bytes, value);
  if (has_escaped(from)) changed |= store(to, kAnyOffset, 8, wild_);
  return changed;
}

bool PointerMemory::store_wild(std::uint32_t bytes, const Value& value) {
  return wild_.merge(bytes == 8 ? value : fragment(value, bytes, 8));
}

std::vector<std::uint32_t> PointerMemory::escape(const Value& value) {
  std::vector<std::uint32_t> marked;
  if (value.is_top() && !all_escaped_) {
    all_escaped_ = true;
    for (std::uint32_t i = 0; i < objects_.size(); ++i) marked.push_back(i);
    return marked;
  }
  const auto mark = [&](const Value& pointer) {
    for (const Contribution& part : pointer.parts()) {
      if (part.base.kind != Base::Kind::kObject || objects_[part.base.index].escaped) continue;
      objects_[part.base.index].escaped = true;
      marked.push_back(part.base.index);
    }
  };
  mark(value);
  for (std::size_t next = 0; next < marked.size(); ++next) mark(content(marked[next]));
  return marked;
}

Value PointerMemory::content(std::uint32_t object) const {
  Value all;
  for (const auto& values : objects_[object].all) all.merge(values.second);
  return all;
}

std::vector<Value> PointerMemory::words(std::uint32_t object) const {
  std::vector<Value> values;
  for (const auto& [place, value] : objects_[object].cells) {
    if (place.second == 8) values.push_back(value);
  }
  for (const auto& cell : objects_[object].anywhere) values.push_back(cell.second);
  return values;
}

void PointerMemory::clear() {
  for (Object& object : objects_) object = Object{};
  wild_ = Value();
  all_escaped_ = false;
}

}  // namespace pergola::analysis
