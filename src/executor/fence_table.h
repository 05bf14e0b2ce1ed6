// The host's side of fences (abi/task_fence.h): the table of granules that bodies look at, kept as the process's memory
// changes (device/known_memory.h).
//
//   KnownMemory ─▶ update(), by who spawns ─▶ `table_`, the host's copy ─▶ what has changed, over the bus ─▶ the
//   device's
//
// A record is written after the table has come to the device, and who places a warp has acquired what the host wrote
// before the record: so a body never misses memory that its caller had. What is freed goes with the next update().
//
// Beside each entry's tag is kept how long the memory from there on is, for bodies that ask of ranges.
//
// A granule is memory where any byte of it is: what lies in one with memory is let pass. On a GPU granules are 64 KiB,
// and the driver maps 2 MiB; on the CPU device a page, as its guards are. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/abi/task_fence.h"
#include "src/device/device.h"
#include "src/device/known_memory.h"

namespace pergola::executor {

// Of the entries of ranges, on the host alone: what the table should be. Ranges may overlap, and come several times:
// arrays may wrap what others have.
class FenceEntries {
 public:
  explicit FenceEntries(std::uint32_t granule_shift)
      : shift_(granule_shift),
        table_(std::size_t{1} << abi::kFenceIndexBits, abi::kFenceNone),
        runs_(std::size_t{1} << abi::kFenceIndexBits) {}

  struct Span {
    std::size_t first = 0, count = 0;  // entries
  };
  // What changes is added to `changed`. A range that is not there is not removed.
  void add(std::uint64_t begin, std::uint64_t size_bytes, std::vector<Span>& changed);
  void remove(std::uint64_t begin, std::uint64_t size_bytes, std::vector<Span>& changed);
  void clear();
  const std::vector<std::uint16_t>& table() const { return table_; }
  // Of each entry, how many granules from its own on are memory (abi/task_fence.h); and which of them are others since
  // the last call.
  const std::vector<std::uint16_t>& runs() const { return runs_; }
  std::vector<Span> take_changed_runs() { return std::exchange(changed_runs_, {}); }
  bool is_memory(std::uint64_t address) const;
  const std::multimap<std::uint64_t, std::uint64_t>& ranges() const { return ranges_; }  // sizes, by begin

 private:
  struct Granules {
    std::uint64_t first = 0, last = 0;
  };
  Granules granules_of(std::uint64_t begin, std::uint64_t size_bytes) const;
  template <typename Change>
  void for_each_granule(const Granules& granules, std::vector<Span>& changed, Change&& change);
  static std::uint32_t tag_of(std::uint64_t granule);
  bool is_own(std::uint64_t granule) const;
  void find_runs(const Granules& granules);

  const std::uint32_t shift_;
  std::vector<std::uint16_t> table_, runs_;
  std::vector<Span> changed_runs_;
  std::multimap<std::uint64_t, std::uint64_t> ranges_;
  std::uint64_t largest_ = 0;  // no range has been larger
};

class FenceTable {
 public:
  // `queue` outlives it; copies by it run beside the resident kernel.
  static Result<std::unique_ptr<FenceTable>> create(device::Device& device, device::Queue& queue);

  std::uint32_t granule_shift() const { return granule_shift_; }
  device::DeviceAddress address() const { return memory_->address(); }
  std::uint64_t size_bytes() const { return memory_->size_bytes(); }
  // Whether update() has anything to do; one load.
  bool is_behind() const { return known_memory_.generation() != seen_.load(std::memory_order_acquire); }
  Status update();
  // Memory that is no buffer: variables of modules, and what others have given addresses of.
  Status allow(std::uint64_t begin, std::uint64_t size_bytes);
  bool is_memory(std::uint64_t address) const;
  // ", 12 bytes past the end of an array of 4096 bytes", of the nearest range; "" where none is near;
  // ", behind a null pointer" in the first 64 KiB.
  std::string describe(std::uint64_t address) const;

 private:
  FenceTable(device::Queue& queue, std::uint32_t granule_shift)
      : queue_(queue), granule_shift_(granule_shift), entries_(granule_shift) {}
  void add(std::uint64_t begin, std::uint64_t size_bytes, std::vector<FenceEntries::Span>& changed);
  Status upload(const std::vector<FenceEntries::Span>& changed,
                const std::vector<FenceEntries::Span>& runs);  // with mutex_

  const device::KnownMemory& known_memory_ = device::KnownMemory::instance();
  device::Queue& queue_;
  const std::uint32_t granule_shift_;
  device::BufferPtr memory_;
  std::atomic<std::uint64_t> seen_{0};  // written under mutex_, release: after the table has come to the device
  mutable std::mutex mutex_;
  FenceEntries entries_;  // guarded by mutex_, as the next
  std::vector<std::pair<std::uint64_t, std::uint64_t>> allowed_;
};

}  // namespace pergola::executor
