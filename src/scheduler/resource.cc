#include "src/scheduler/resource.h"

#include <fmt/format.h>

#include <algorithm>

namespace pergola::scheduler {

void add_dependency(Computation* parent, Hazard hazard, std::uint64_t resource, const Computation* who,
                    Dependencies& out) {
  if (parent == nullptr || parent == who || has_ended_well(*parent)) return;
  if (parent->is_left_out) {
    for (Computation* before : parent->stands_for) add_dependency(before, hazard, resource, who, out);
    return;
  }
  for (const Dependency& known : out)
    if (known.parent == parent && known.resource == resource && known.hazard == hazard) return;
  ++parent->holds;
  out.push_back({parent, hazard, resource});
}

void release(Dependencies& dependencies, ComputationPool& pool) {
  for (const Dependency& dependency : dependencies) pool.let_go(*dependency.parent);
  dependencies.clear();
}

std::string resource_name(std::uint64_t id) {
  if (id == kParameterBlocks) return "parameters";
  constexpr std::string_view kNames[] = {"array", "host side of array", "texture", "variable"};
  const std::uint64_t kind = id >> 48, number = id & ((std::uint64_t{1} << 48) - 1);
  return kind < kResourceKinds ? fmt::format("{} {}", kNames[kind], number) : fmt::format("array {}", id);
}

std::string_view to_string(Hazard hazard) {
  switch (hazard) {
    case Hazard::kReadAfterWrite: return "RAW";
    case Hazard::kWriteAfterRead: return "WAR";
    case Hazard::kWriteAfterWrite: return "WAW";
    case Hazard::kUniversal: return "any";
  }
  return "?";
}

std::size_t Resource::find(std::uint64_t byte) const {
  if (segments_.size() == 1) return 0;
  const auto after = std::upper_bound(segments_.begin(), segments_.end(), byte,
                                      [](std::uint64_t at, const Segment& segment) { return at < segment.begin; });
  return static_cast<std::size_t>(after - segments_.begin()) - 1;
}

std::size_t Resource::cut(std::uint64_t byte) {
  if (byte == size_bytes_) return segments_.size();
  const std::size_t index = find(byte);
  if (segments_[index].begin == byte) return index;
  Segment& left = segments_[index];
  Segment right = left;
  right.begin = byte;
  if (right.writer != nullptr) ++right.writer->dependency_set;
  for (Computation* reader : right.readers) ++reader->dependency_set;
  left.end = byte;
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(right));
  return index + 1;
}

void Resource::drop(Computation& computation, ComputationPool& pool) const {
  --computation.dependency_set;
  pool.release_if_unused(computation);
}

void Resource::forget_ended(Segment& segment, ComputationPool& pool) const {
  if (segment.writer != nullptr && has_ended_well(*segment.writer)) {
    segment.ended_writer = segment.writer->id;
    drop(*segment.writer, pool);
    segment.writer = nullptr;
  }
  std::size_t kept = 0;
  for (Computation* reader : segment.readers) {
    if (!has_ended_well(*reader)) {
      segment.readers[kept++] = reader;
      continue;
    }
    segment.ended_readers.add(reader->id);
    drop(*reader, pool);
  }
  segment.readers.resize(kept);
}

void Resource::depends(const Segment& segment, Mode mode, const Computation* who, Dependencies& out) const {
  if (writes(mode)) {
    bool behind_readers = !segment.ended_readers.empty();
    for (Computation* reader : segment.readers) {
      if (reader == who) continue;
      behind_readers = true;
      if (!has_ended_well(*reader)) add_dependency(reader, Hazard::kWriteAfterRead, id_, who, out);
    }
    if (behind_readers) return;  // who wait for the writer themselves, or have: that may not be known to have ended
  }
  add_dependency(segment.writer, reads(mode) ? Hazard::kReadAfterWrite : Hazard::kWriteAfterWrite, id_, who, out);
}

// As depends(), of those that this leaves out as they have ended.
void Resource::add_ended(const Segment& segment, Mode mode, const Computation& who, EndedParents& out) const {
  if (writes(mode)) {
    for (auto reader = segment.readers.rbegin(); reader != segment.readers.rend(); ++reader)
      if (*reader != &who && has_ended_well(**reader)) out.add({(*reader)->id, Hazard::kWriteAfterRead, id_});
    segment.ended_readers.add_to(out, Hazard::kWriteAfterRead, id_);
    const bool only_who = segment.readers.size() == 1 && segment.readers.front() == &who;
    if (!segment.ended_readers.empty() || (!segment.readers.empty() && !only_who)) return;
  }
  const Hazard hazard = reads(mode) ? Hazard::kReadAfterWrite : Hazard::kWriteAfterWrite;
  if (segment.writer == nullptr) {
    if (segment.ended_writer != 0) out.add({segment.ended_writer, hazard, id_});
  } else if (segment.writer != &who && segment.writer->id != 0 && has_ended_well(*segment.writer)) {
    out.add({segment.writer->id, hazard, id_});
  }
}

void Resource::read(Segment& segment, Computation& who, ComputationPool& pool, Dependencies& out,
                    EndedParents& ended) const {
  depends(segment, Mode::kRead, &who, out);
  add_ended(segment, Mode::kRead, who, ended);
  forget_ended(segment, pool);
  if (segment.writer == &who ||
      std::find(segment.readers.begin(), segment.readers.end(), &who) != segment.readers.end())
    return;
  if (segment.readers.size() >= kManyReaders) keep_last_reader_of_each_stream(segment, pool);
  segment.readers.push_back(&who);
  ++who.dependency_set;
}

void Resource::keep_last_reader_of_each_stream(Segment& segment, ComputationPool& pool) const {
  keep_last_of_each_stream(segment.readers, [&](Computation& reader) { drop(reader, pool); });
}

void Resource::write(std::size_t first, std::size_t last, Mode mode, Computation& who, ComputationPool& pool,
                     Dependencies& out, EndedParents& ended) {
  for (std::size_t i = first; i < last; ++i) {
    depends(segments_[i], mode, &who, out);
    add_ended(segments_[i], mode, who, ended);
  }
  ++who.dependency_set;
  for (std::size_t i = first; i < last; ++i) {
    Segment& segment = segments_[i];
    if (segment.writer != nullptr) drop(*segment.writer, pool);
    for (Computation* reader : segment.readers) drop(*reader, pool);
    segment.writer = nullptr;
    segment.readers.clear();
    segment.ended_writer = 0;
    segment.ended_readers.clear();
  }
  segments_[first].writer = &who;
  if (first + 1 == last) return;
  segments_[first].end = segments_[last - 1].end;
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                  segments_.begin() + static_cast<std::ptrdiff_t>(last));
}

// Neighbours that nobody is in any more become one, which forgets who was in them where they differ.
void Resource::merge(ComputationPool& pool) {
  const auto empty = [](const Segment& segment) { return segment.writer == nullptr && segment.readers.empty(); };
  std::size_t out = 0, forgotten = 0;
  for (std::size_t i = 1; i < segments_.size(); ++i) {
    if (empty(segments_[out]) && empty(segments_[i])) {
      segments_[out].end = segments_[i].end;
      if (segments_[out].ended_writer != segments_[i].ended_writer) segments_[out].ended_writer = 0, ++forgotten;
      if (segments_[out].ended_readers != segments_[i].ended_readers) segments_[out].ended_readers.clear(), ++forgotten;
      continue;
    }
    ++out;
    if (out != i) segments_[out] = std::move(segments_[i]);
  }
  segments_.resize(out + 1);
  if (forgotten != 0) pool.note_forgotten();
}

void Resource::access(Range range, Mode mode, Computation& who, ComputationPool& pool, Dependencies& out,
                      EndedParents& ended) {
  if (range.begin >= range.end || mode == Mode::kNone) return;
  if (segments_.size() >= merge_at_) {
    for (Segment& segment : segments_) forget_ended(segment, pool);
    merge(pool);
    merge_at_ = std::max(kManySegments, 2 * segments_.size());
  }
  // Nearly always all of an array is used, which is one piece then.
  const bool is_one = segments_.size() == 1 && range.begin == 0 && range.end == size_bytes_;
  const std::size_t first = is_one ? 0 : cut(range.begin);
  const std::size_t last = is_one ? 1 : cut(range.end);
  if (writes(mode)) return write(first, last, mode, who, pool, out, ended);
  for (std::size_t i = first; i < last; ++i) read(segments_[i], who, pool, out, ended);
}

void Resource::overwritten_by_host(Range range, ComputationPool& pool) {
  for (Segment& segment : segments_) {
    if (segment.begin < range.begin || segment.end > range.end) continue;
    forget_ended(segment, pool);
    segment.ended_writer = 0;
    segment.ended_readers.clear();
  }
}

void Resource::keep_last_readers(Range range, ComputationPool& pool) {
  for (Segment& segment : segments_)
    if (range.overlaps({segment.begin, segment.end})) keep_last_reader_of_each_stream(segment, pool);
}

void Resource::collect(Range range, Mode mode, Dependencies& out) const {
  if (range.begin >= range.end || mode == Mode::kNone) return;
  for (std::size_t i = find(range.begin); i < segments_.size() && segments_[i].begin < range.end; ++i)
    depends(segments_[i], mode, nullptr, out);
}

void Resource::clear(ComputationPool& pool) {
  for (Segment& segment : segments_) {
    if (segment.writer != nullptr) drop(*segment.writer, pool);
    for (Computation* reader : segment.readers) drop(*reader, pool);
  }
  segments_.assign(1, Segment{});
  segments_[0].end = size_bytes_;
}

}  // namespace pergola::scheduler
