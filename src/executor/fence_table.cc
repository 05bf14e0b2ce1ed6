#include "src/executor/fence_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "src/base/plural.h"

namespace pergola::executor {

using abi::kFenceNone;
using abi::kFenceSeveral;

namespace {

constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << abi::kFenceIndexBits) - 1;
constexpr std::uint32_t kPageShift = 12, kGpuGranuleShift = 16;

}  // namespace

// ── Entries ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// Of addresses too high for a tag every one of that index is let pass.
std::uint32_t FenceEntries::tag_of(std::uint64_t granule) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(granule >> abi::kFenceIndexBits, kFenceSeveral));
}

FenceEntries::Granules FenceEntries::granules_of(std::uint64_t begin, std::uint64_t size_bytes) const {
  return {begin >> shift_, (begin + size_bytes - 1) >> shift_};
}

template <typename Change>
void FenceEntries::for_each_granule(const Granules& granules, std::vector<Span>& changed, Change&& change) {
  for (std::uint64_t granule = granules.first; granule <= granules.last; ++granule) {
    const std::size_t index = granule & kIndexMask;
    if (!change(granule, table_[index])) continue;
    if (!changed.empty() && changed.back().first + changed.back().count == index)
      ++changed.back().count;
    else
      changed.push_back({index, 1});
  }
}

// From the last granule down: a run is one longer than that of the next granule. Those before the first change until
// one stays as it is, at the begin of its run at the latest.
void FenceEntries::find_runs(const Granules& granules) {
  const auto run_of = [&](std::uint64_t granule) -> std::uint16_t {
    if (!is_own(granule)) return 0;
    const std::uint32_t next = is_own(granule + 1) ? runs_[(granule + 1) & kIndexMask] : 0;
    return static_cast<std::uint16_t>(std::min(next + 1, abi::kFenceLongestRun));
  };
  std::uint64_t granule = granules.last;
  for (;; --granule) {
    std::uint16_t& run = runs_[granule & kIndexMask];
    const bool is_inside = granule >= granules.first;
    const std::uint16_t entry = table_[granule & kIndexMask];
    // Another's entry has the run of the other.
    if (is_own(granule) || entry == kFenceNone || entry == kFenceSeveral) {
      const std::uint16_t found = run_of(granule);
      if (found == run && !is_inside) break;
      run = found;
    } else if (!is_inside) {
      break;
    }
    const std::size_t index = granule & kIndexMask;
    if (!changed_runs_.empty() && changed_runs_.back().first == index + 1) {
      --changed_runs_.back().first;
      ++changed_runs_.back().count;
    } else {
      changed_runs_.push_back({index, 1});
    }
    if (granule == 0) break;
  }
}

bool FenceEntries::is_own(std::uint64_t granule) const {
  const std::uint16_t entry = table_[granule & kIndexMask];
  return entry == tag_of(granule) && entry != kFenceSeveral;
}

void FenceEntries::add(std::uint64_t begin, std::uint64_t size_bytes, std::vector<Span>& changed) {
  if (size_bytes == 0) return;
  ranges_.emplace(begin, size_bytes);
  largest_ = std::max(largest_, size_bytes);
  std::vector<std::uint64_t> shared;  // granules that have had an entry alone
  for_each_granule(granules_of(begin, size_bytes), changed, [&](std::uint64_t granule, std::uint16_t& entry) {
    const auto tag = static_cast<std::uint16_t>(tag_of(granule));
    const std::uint16_t before = entry;
    entry = entry == kFenceNone || entry == tag ? tag : static_cast<std::uint16_t>(kFenceSeveral);
    if (entry == kFenceSeveral && before < kFenceSeveral)
      shared.push_back((std::uint64_t{before} << abi::kFenceIndexBits) | (granule & kIndexMask));
    return entry != before;
  });
  find_runs(granules_of(begin, size_bytes));
  for (const std::uint64_t granule : shared) find_runs({granule, granule});
}

// Entries of several stay as they are: who is left of them is not known.
void FenceEntries::remove(std::uint64_t begin, std::uint64_t size_bytes, std::vector<Span>& changed) {
  const auto [first, last] = ranges_.equal_range(begin);
  const auto found = std::find_if(first, last, [&](const auto& one) { return one.second == size_bytes; });
  if (found == last) return;
  ranges_.erase(found);
  const Granules gone = granules_of(begin, size_bytes);
  std::vector<Granules> others;  // that have some of these granules
  const std::uint64_t from = gone.first << shift_;
  for (auto at = ranges_.lower_bound(from < largest_ ? 0 : from - largest_);
       at != ranges_.end() && at->first >> shift_ <= gone.last; ++at)
    if (const Granules other = granules_of(at->first, at->second); other.last >= gone.first) others.push_back(other);
  for_each_granule(gone, changed, [&](std::uint64_t granule, std::uint16_t& entry) {
    if (entry != tag_of(granule) || entry == kFenceSeveral) return false;
    for (const Granules& other : others)
      if (other.first <= granule && granule <= other.last) return false;
    entry = kFenceNone;
    return true;
  });
  find_runs(gone);
}

void FenceEntries::clear() {
  std::fill(table_.begin(), table_.end(), static_cast<std::uint16_t>(kFenceNone));
  std::fill(runs_.begin(), runs_.end(), std::uint16_t{0});
  changed_runs_.clear();
  ranges_.clear();
  largest_ = 0;
}

bool FenceEntries::is_memory(std::uint64_t address) const {
  const std::uint64_t granule = address >> shift_;
  const std::uint16_t entry = table_[granule & kIndexMask];
  return entry == kFenceSeveral || (entry != kFenceNone && entry == granule >> abi::kFenceIndexBits);
}

// ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────────

Result<std::unique_ptr<FenceTable>> FenceTable::create(device::Device& device, device::Queue& queue) {
  const bool is_cpu = device.info().kind == device::DeviceKind::kCpu;
  std::unique_ptr<FenceTable> table(new FenceTable(queue, is_cpu ? kPageShift : kGpuGranuleShift));
  PERGOLA_ASSIGN(table->memory_, device.allocate_apart(abi::kFenceMemoryBytes, device::MemoryKind::kDevice));
  PERGOLA_TRY(queue.fill(table->memory_, 0, abi::kFenceTableBytes, kFenceNone, 2));
  PERGOLA_TRY(queue.fill(table->memory_, abi::kFenceTableBytes, abi::kFenceMemoryBytes - abi::kFenceTableBytes, 0, 4));
  PERGOLA_TRY(queue.synchronize());
  table->seen_.store(~std::uint64_t{0} - device::KnownMemory::kMostChanges, std::memory_order_release);  // all is new
  PERGOLA_TRY(table->update());
  return table;
}

void FenceTable::add(std::uint64_t begin, std::uint64_t size_bytes, std::vector<FenceEntries::Span>& changed) {
  // Of the table itself bodies have the scratch alone.
  if (begin == memory_->address()) {
    begin += abi::kFenceTableBytes;
    size_bytes = 2 * std::uint64_t{abi::kFenceScratchBytes};
  }
  entries_.add(begin, size_bytes, changed);
}

Status FenceTable::update() {
  const std::lock_guard lock(mutex_);
  std::uint64_t seen = seen_.load(std::memory_order_relaxed);
  bool all = false;
  const std::vector<device::KnownMemory::Change> changes = known_memory_.changes_since(seen, all);
  std::vector<FenceEntries::Span> changed;
  if (all) {
    entries_.clear();
    for (const auto& [begin, size_bytes] : allowed_) add(begin, size_bytes, changed);
  }
  for (const device::KnownMemory::Change& change : changes) {
    if (change.is_gone)
      entries_.remove(change.begin, change.size_bytes, changed);
    else
      add(change.begin, change.size_bytes, changed);
  }
  std::vector<FenceEntries::Span> runs = entries_.take_changed_runs();
  if (all) changed = runs = {{0, entries_.table().size()}};
  PERGOLA_TRY(upload(changed, runs));
  seen_.store(seen, std::memory_order_release);
  return {};
}

Status FenceTable::upload(const std::vector<FenceEntries::Span>& changed, const std::vector<FenceEntries::Span>& runs) {
  const auto copy = [&](const std::vector<std::uint16_t>& from, const FenceEntries::Span& span, std::size_t offset) {
    return queue_.copy_to_device(memory_, offset + span.first * 2,
                                 std::as_bytes(std::span(from).subspan(span.first, span.count)));
  };
  for (const FenceEntries::Span& span : changed) PERGOLA_TRY(copy(entries_.table(), span, 0));
  for (const FenceEntries::Span& span : runs) PERGOLA_TRY(copy(entries_.runs(), span, abi::kFenceRunsOffset));
  return changed.empty() && runs.empty() ? Status() : queue_.synchronize();
}

Status FenceTable::allow(std::uint64_t begin, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  allowed_.emplace_back(begin, size_bytes);
  std::vector<FenceEntries::Span> changed;
  add(begin, size_bytes, changed);
  return upload(changed, entries_.take_changed_runs());
}

bool FenceTable::is_memory(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  return entries_.is_memory(address);
}

std::string FenceTable::describe(std::uint64_t address) const {
  constexpr std::uint64_t kNear = std::uint64_t{1} << 40;  // beyond, no index has gone astray
  // Where memory is nowhere, though a GPU's lies not far behind: 12 GB were seen.
  constexpr std::uint64_t kOfNull = std::uint64_t{1} << 16;
  if (address < kOfNull) return ", behind a null pointer";
  const std::lock_guard lock(mutex_);
  std::string nearest;
  std::uint64_t least = ~std::uint64_t{0};
  const auto& ranges = entries_.ranges();
  const auto after = ranges.lower_bound(address);
  if (after != ranges.end()) {
    least = after->first - address;
    nearest = fmt::format(", {} before an array of {}", plural(least, "byte"), plural(after->second, "byte"));
  }
  if (after != ranges.begin()) {
    const auto [begin, size_bytes] = *std::prev(after);
    const std::uint64_t end = begin + size_bytes;
    if (address < end)
      return fmt::format(", at byte {} of an array of {}", address - begin, plural(size_bytes, "byte"));
    if (address - end < least)
      nearest =
          fmt::format(", {} past the end of an array of {}", plural(address - end, "byte"), plural(size_bytes, "byte"));
    least = std::min(least, address - end);
  }
  return least <= kNear ? nearest : "";
}

}  // namespace pergola::executor
