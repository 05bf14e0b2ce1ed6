// The tracked memory of one thread: stack objects and the .param variables of calls, cell by cell.
//
//   object ── cells: (offset, bytes) ─▶ Value     stores to a constant offset, joined (never replaced)
//          ── anywhere: bytes ─▶ Value            stores to an offset that is not constant
//          ── escaped: a pointer to it went where it is not followed; then `wild` is in it too
//
// A load joins every cell that overlaps it: an equal one as it is, others as fragments of what was stored. Nothing is
// ever removed, so the order of stores and loads does not matter: sound for any interleaving, and monotone.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/analysis/pointer_value.h"

namespace pergola::analysis {

class PointerMemory {
 public:
  std::uint32_t add_object();
  std::size_t object_count() const { return objects_.size(); }

  // Reads and writes of `bytes` at `offset` (kAnyOffset: somewhere). store() is true where it changed anything.
  Value load(std::uint32_t object, std::int64_t offset, std::uint32_t bytes) const;
  bool store(std::uint32_t object, std::int64_t offset, std::uint32_t bytes, const Value& value);
  // Everything `from` holds is put into `to` at the same offsets.
  bool copy(std::uint32_t from, std::uint32_t to);
  // A store through a pointer that may point to any object that escaped.
  bool store_wild(std::uint32_t bytes, const Value& value);

  // Marks the objects that `value` may be based on, and those their content is based on; the ones newly marked.
  std::vector<std::uint32_t> escape(const Value& value);
  bool has_escaped(std::uint32_t object) const { return all_escaped_ || objects_[object].escaped; }
  // All values in an object, joined: what someone who gets its address may read.
  Value content(std::uint32_t object) const;

  // The values in an object's 8-byte cells, each on its own.
  std::vector<Value> words(std::uint32_t object) const;

  void clear();  // forgets all content, keeps the objects

 private:
  struct Object {
    std::map<std::pair<std::int64_t, std::uint32_t>, Value> cells;
    std::map<std::uint32_t, Value> anywhere;
    std::map<std::uint32_t, Value> all;  // of cells and anywhere, joined by size: for loads from no constant offset
    bool escaped = false;
  };
  static constexpr std::size_t kMaxCells = 4096;
  static constexpr std::int64_t kMaxBytes = 16;  // of one access

  std::vector<Object> objects_;
  Value wild_;
  bool all_escaped_ = false;
};

}  // namespace pergola::analysis
