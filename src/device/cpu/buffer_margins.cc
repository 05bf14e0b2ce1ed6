#include "src/device/cpu/buffer_margins.h"

#include <algorithm>
#include <cstring>

#include "src/base/log.h"
#include "src/device/cpu/margin_pattern.h"

namespace pergola::device::cpu {
namespace {

std::span<std::byte> before(const BufferMargins::Buffer& b) {
  return {reinterpret_cast<std::byte*>(b.begin - b.before_bytes), b.before_bytes};
}
std::span<std::byte> after(const BufferMargins::Buffer& b) {
  return {reinterpret_cast<std::byte*>(b.begin + b.size_bytes), b.after_bytes};
}

bool is_whole(const BufferMargins::Buffer& b) { return is_whole_margin(after(b)) && is_whole_margin(before(b)); }

void paint(const BufferMargins::Buffer& b) {
  for (const std::span<std::byte> margin : {before(b), after(b)}) paint_margin(margin);
}

std::string describe_damage(const BufferMargins::Buffer& b) { return describe_margin_damage(b.what, before(b), after(b)); }

}  // namespace

void BufferMargins::add(Buffer buffer) {
  buffer.before_bytes = std::min(buffer.before_bytes, kMostBefore);
  buffer.after_bytes = std::min(buffer.after_bytes, kMostAfter);
  if (buffer.before_bytes + buffer.after_bytes == 0) return;
  const auto lock = mutex_.write();
  paint(buffer);
  Record& record = records_[buffer.begin];
  record.buffer = std::move(buffer);
  record.id = ++added_;
}

void BufferMargins::remove(std::uintptr_t begin) {
  std::string found;
  {
    const auto lock = mutex_.write();
    const auto at = records_.find(begin);
    if (at == records_.end()) return;
    const Record& record = at->second;
    if (!record.told.load(std::memory_order_relaxed) && !is_whole(record.buffer))
      found = describe_damage(record.buffer);
    records_.erase(at);
    ++removed_;
  }
  if (!found.empty()) PERGOLA_WARN("A kernel or the host wrote outside {}; it is freed now.", found);
}

BufferMargins::Watch::Watch(BufferMargins& margins, std::string_view kernel, std::span<const std::byte> parameters)
    : margins_(margins), kernel_(kernel), before_(margins.launches_.fetch_add(kOneBegun + 1)) {
  std::vector<Entry> damaged;
  {
    const auto lock = margins_.mutex_.read();
    removed_ = margins_.removed_;
    collect(parameters);
    const auto bad =
        std::partition(watched_.begin(), watched_.end(), [](const Entry& one) { return is_whole(one.record->buffer); });
    damaged.assign(bad, watched_.end());
    watched_.erase(bad, watched_.end());
  }
  if (!damaged.empty()) settle_old_damage(damaged);
}

BufferMargins::Watch::~Watch() {
  margins_.launches_.fetch_sub(1);
}

// What to watch: the buffers that an aligned word of the parameters points into, and some in turn. Under the lock.
void BufferMargins::Watch::collect(std::span<const std::byte> parameters) {
  auto& records = margins_.records_;
  if (records.empty()) return;
  watched_.reserve(2 * kInTurn + 4);
  const auto watch = [&](Record& record) { watched_.push_back({&record, record.buffer.begin, record.id}); };
  const std::uintptr_t lowest = records.begin()->first;
  const Buffer& last = records.rbegin()->second.buffer;
  const std::uintptr_t highest = last.begin + last.size_bytes + last.after_bytes;
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= parameters.size(); at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, parameters.data() + at, sizeof word);
    if (word < lowest || word > highest) continue;
    Record& candidate = std::prev(records.upper_bound(word))->second;
    const Buffer& buffer = candidate.buffer;
    if (word - buffer.begin <= buffer.size_bytes + buffer.after_bytes) watch(candidate);
  }
  auto next = records.upper_bound(margins_.turn_.load(std::memory_order_relaxed));
  for (std::size_t n = 0; n < std::min(kInTurn, records.size()); ++n, ++next) {
    if (next == records.end()) next = records.begin();
    watch(next->second);
  }
  margins_.turn_.store(watched_.back().begin, std::memory_order_relaxed);
  const auto order = [](const Entry& entry) { return entry.begin; };
  std::ranges::sort(watched_, {}, order);
  const auto twice = std::ranges::unique(watched_, {}, order);
  watched_.erase(twice.begin(), twice.end());
}

// The entry's record where it is still there. Under the lock.
BufferMargins::Record* BufferMargins::Watch::find(const Entry& entry, std::uint64_t removed) const {
  if (margins_.removed_ == removed) return entry.record;
  const auto found = margins_.records_.find(entry.begin);
  return found == margins_.records_.end() || found->second.id != entry.id ? nullptr : &found->second;
}

// Tells of margins that were changed before this launch began, and mends them where no other launch may still have to
// find the same.
void BufferMargins::Watch::settle_old_damage(const std::vector<Entry>& damaged) {
  std::vector<std::string> messages;
  {
    const auto lock = margins_.mutex_.write();
    for (const Entry& entry : damaged) {
      Record* record = find(entry, removed_);
      if (record == nullptr) continue;
      const bool whole = is_whole(record->buffer);  // another launch may have mended it meanwhile
      if (!whole && !record->told.exchange(true, std::memory_order_relaxed))
        messages.push_back(describe_damage(record->buffer));
      if (others_ran()) continue;
      paint(record->buffer);
      record->told.store(false, std::memory_order_relaxed);
      watched_.push_back(entry);
    }
  }
  for (const std::string& message : messages) {
    PERGOLA_WARN("Before kernel '{}' began, another or the host wrote outside {}.", kernel_, message);
  }
}

Status BufferMargins::Watch::end() {
  const auto lock = margins_.mutex_.read();
  Status first;
  for (const Entry& entry : watched_) {
    Record* record = find(entry, removed_);
    if (record == nullptr || is_whole(record->buffer)) continue;
    record->told.store(true, std::memory_order_relaxed);
    if (!first.ok()) continue;
    first = PERGOLA_ERROR(
        kDeviceFault,
        "Kernel '{}'{} wrote outside {}; this shows only now that it has ended. PERGOLA_CPU_CHECK=1 or "
        "`pergola run --check` names thread and line.",
        kernel_, alone() ? "" : ", or another that ran at the same time,", describe_damage(record->buffer));
  }
  return first;
}

}  // namespace pergola::device::cpu
