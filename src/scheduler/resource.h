// What computations conflict about: the bytes of an array (or of a module's variable), cut where accesses differ.
//
//   bytes   0 ─────────────── 4096 ─────── 6000 ────────────── size
//           │ writer K1        │ writer K4  │ writer K1          │
//           │ readers K2, K3   │            │ readers K3         │
//
// An access that reads depends on the writer (RAW). One that writes depends on the readers since (WAR), which depend on
// the writer themselves, or where there are none, on the writer (WAW); it then is the writer, and those before it lose
// these bytes from their dependency sets (paper 003, IV-A and Figure 3). Of one stream only the last reader counts, as
// streams are in order: readers are never more than streams.
//
// Invariant: segments are sorted, cover [0, size) without gaps, and every computation in one is counted in its
// dependency_set. Guarded by the scheduler's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/device/queue.h"
#include "src/scheduler/stream.h"

namespace pergola::scheduler {

enum class Mode : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };
constexpr bool reads(Mode mode) {
  return (static_cast<std::uint8_t>(mode) & 1) != 0;
}
constexpr bool writes(Mode mode) {
  return (static_cast<std::uint8_t>(mode) & 2) != 0;
}

constexpr Mode operator|(Mode a, Mode b) {
  return static_cast<Mode>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

enum class Hazard : std::uint8_t { kReadAfterWrite, kWriteAfterRead, kWriteAfterWrite, kUniversal };
std::string_view to_string(Hazard hazard);  // "RAW" "WAR" "WAW" "any"

struct Range {
  std::uint64_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Range&) const = default;
};

// What computations conflict about. Numbers of each kind count from 1, but a host side's, which is its array's.
enum class ResourceKind : std::uint8_t { kArray, kHostSide, kTexture, kVariable };
inline constexpr std::size_t kResourceKinds = 4;
// Resource::id: the kind above 48 bits of the number, and so one that JSON's readers take as it is. An array's is its
// number.
constexpr std::uint64_t resource_id(ResourceKind kind, std::uint64_t number) {
  return static_cast<std::uint64_t>(kind) << 48 | number;
}
// The id of what is none of them but the parameters of graphs.
inline constexpr std::uint64_t kParameterBlocks = ~std::uint64_t{0};
// "array 3", "host side of array 3", "texture 1", "variable 1", "parameters".
std::string resource_name(std::uint64_t id);

// Holds its parent (Computation::holds) until release() below.
struct Dependency {
  Computation* parent = nullptr;
  Hazard hazard = Hazard::kReadAfterWrite;
  std::uint64_t resource = 0;  // Resource::id()
  std::uint16_t argument = 0;  // the child's by which it was found, as Access::argument
};
using Dependencies = boost::container::small_vector<Dependency, 8>;
void release(Dependencies& dependencies, ComputationPool& pool);
// Adds a dependency on `parent` unless it has ended well or the same one is there.
void add_dependency(Computation* parent, Hazard hazard, std::uint64_t resource, const Computation* who,
                    Dependencies& out);

// What would have been a dependency, had the parent not ended: for pictures and timelines, whose edges do not depend on
// how fast the device is. Nothing waits for it, and it holds nothing.
struct EndedParent {
  std::uint64_t parent = 0;  // Computation::id
  Hazard hazard = Hazard::kReadAfterWrite;
  std::uint64_t resource = 0;  // Resource::id(); 0: a universal access
  std::uint16_t argument = 0;  // as Dependency's
};
// Of more than so many the rest is counted.
inline constexpr std::size_t kMostEndedParents = 6;
class EndedParents {
 public:
  void add(const EndedParent& parent) {
    for (const EndedParent& known : list_)
      if (known.parent == parent.parent && known.resource == parent.resource && known.hazard == parent.hazard) return;
    if (list_.size() < kMostEndedParents)
      list_.push_back(parent);
    else
      ++more_;
  }
  void add_more(std::uint32_t count) { more_ += count; }
  // Those behind the first `known` were found by this argument.
  void name(std::size_t known, std::uint16_t argument) {
    for (; known < list_.size(); ++known) list_[known].argument = argument;
  }
  // All that came before this work does.
  void drop_older_than(std::uint64_t id) {
    const auto is_older = [id](const EndedParent& parent) { return parent.parent <= id; };
    list_.erase(std::remove_if(list_.begin(), list_.end(), is_older), list_.end());
    if (list_.empty()) more_ = 0;
  }
  const auto& list() const { return list_; }
  std::uint32_t more() const { return more_; }

 private:
  boost::container::static_vector<EndedParent, kMostEndedParents> list_;
  std::uint32_t more_ = 0;
};

// Work that has ended and been forgotten, by its id: the last so many, and how many before those.
struct EndedIds {
  boost::container::static_vector<std::uint64_t, kMostEndedParents> last;
  std::uint32_t more = 0;
  bool empty() const { return last.empty(); }
  void add(std::uint64_t id) {
    if (last.size() == kMostEndedParents) {
      last.erase(last.begin());
      ++more;
    }
    last.push_back(id);
  }
  // Those younger than `than`, the latest first.
  void add_to(EndedParents& out, Hazard hazard, std::uint64_t resource, std::uint64_t than = 0) const {
    for (auto id = last.rbegin(); id != last.rend(); ++id) {
      if (*id < than) return;
      out.add({*id, hazard, resource});
    }
    out.add_more(more);
  }
  void clear() {
    last.clear();
    more = 0;
  }
  bool operator==(const EndedIds&) const = default;
};

// Launches that run as tasks (task_launches.h) and use an array. One that writes comes after all before it, so either
// there is a writer or there are readers that have not ended; of those that have, some are still here.
struct TaskUses {
  std::uint64_t writer = 0;  // TaskId; 0: none
  std::vector<std::uint64_t> readers;
  std::size_t prune_at = 64;  // so many readers are asked whether they have ended
};

// The memory of a resource that moves between the two sides as it is used (managed memory).
class MovingMemory {
 public:
  virtual ~MovingMemory() = default;
  // Before work that comes next on `queue`: moves there what is elsewhere, and is nothing where it is there. Called
  // under the scheduler's lock.
  virtual Status take(device::Queue& queue) = 0;
};

// Where the newest contents of an array are that the host may have a side of (runtime/host_mirror.h, which draws it).
enum class HostState : std::uint8_t {
  kNone,        // it has none
  kDevice,      // on the device alone
  kHost,        // on the host alone: an upload comes before work that uses the array
  kDownloaded,  // on both sides
  kUploaded,    // on both, and came from the host
};

// Grows after each change of any array's HostState, of whichever session: who has read it before a look at some states,
// and finds it as it was, finds these as they were. After, not before: else a look in between would pass for a later
// one.
inline std::atomic<std::uint64_t> host_state_changes{0};
inline void change(std::atomic<HostState>& state, HostState to) {
  state.store(to, std::memory_order_release);
  host_state_changes.fetch_add(1, std::memory_order_acq_rel);
}

// The host's side of an array, for whoever brings it to the device without asking the array. Both under the scheduler's
// lock, and without waiting.
class HostSide {
 public:
  virtual ~HostSide() = default;
  // Whether the newest contents are on the host alone, and nobody is at them. If so they stay there until
  // end_upload(), which says whether their upload has been queued.
  virtual bool begin_upload() = 0;
  virtual void end_upload(bool is_queued) = 0;
};

// The device's contents change: what the host has is older from now on.
inline void device_changes(std::atomic<HostState>& state) {
  HostState was = state.load(std::memory_order_relaxed);
  while (was == HostState::kDownloaded || was == HostState::kUploaded) {
    if (!state.compare_exchange_weak(was, HostState::kDevice, std::memory_order_acq_rel)) continue;
    host_state_changes.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
}

// So many readers are looked through for those that a later one of their stream stands for.
inline constexpr std::size_t kManyReaders = 8;
// Readers come in order of submission, and so in the order of each stream: a later one of the same stream stands for an
// earlier one, which `let_go(Computation&)` gets.
template <typename LetGo>
void keep_last_of_each_stream(std::vector<Computation*>& readers, const LetGo& let_go) {
  const auto followed = [&](std::size_t i) {
    for (std::size_t later = i + 1; later < readers.size(); ++later)
      if (readers[i]->stream != nullptr && readers[later]->stream == readers[i]->stream) return true;
    return false;
  };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (followed(i))
      let_go(*readers[i]);
    else
      readers[kept++] = readers[i];
  }
  readers.resize(kept);
}

class Resource {
 public:
  Resource(std::uint64_t id, std::uint64_t size_bytes) : id_(id), size_bytes_(size_bytes), segments_(1) {
    segments_[0].end = size_bytes;
  }
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

  std::uint64_t id() const { return id_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // Where its bytes are on the device for as long as it lives: said once by whoever makes it, before its first access.
  // 0: nobody has.
  std::uint64_t address() const { return address_; }
  void set_address(std::uint64_t address) { address_ = address; }
  // Its memory is another library's: it may come again in another resource. Said likewise.
  bool is_foreign() const { return is_foreign_; }
  void set_foreign() { is_foreign_ = true; }
  // What must be taken before launches whose submitter is not asked any more, as they were held; said as the address
  // is, and stands until retire() has been called. Null: its memory does not move, as with any policy but
  // memory=managed.
  MovingMemory* moving() const { return moving_; }
  void set_moving(MovingMemory* memory) { moving_ = memory; }
  // Said likewise. Null: the host has no side.
  void set_host_side(std::atomic<HostState>* state, HostSide* side = nullptr) {
    host_state_ = state;
    host_side_ = side;
    host_state_changes.fetch_add(1, std::memory_order_acq_rel);
  }
  HostSide* host_side() const { return host_side_; }
  const void* host_state_at() const { return host_state_; }
  // For launches that come again and whose submitter is not asked (Scheduler::submit_again), under the scheduler's
  // lock: where the newest contents are, and that a launch changes what the device has.
  HostState host_state() const {
    return host_state_ == nullptr ? HostState::kNone : host_state_->load(std::memory_order_acquire);
  }
  void changed_on_device() const {
    if (host_state_ != nullptr) device_changes(*host_state_);
  }

  // `who` accesses `range`: adds its parents to `out`, each once a hazard, those that have ended to `ended`, and takes
  // its place. `range` lies in [0, size]; an empty one does nothing.
  void access(Range range, Mode mode, Computation& who, ComputationPool& pool, Dependencies& out, EndedParents& ended);
  // All of it counts as written by that. Before its first access.
  void begin_behind(Computation& work) {
    if (size_bytes_ == 0) return;
    segments_[0].writer = &work;
    ++work.dependency_set;
  }
  // The host has overwritten `range`, for which it has waited: what comes next there comes after nothing that has
  // ended.
  void overwritten_by_host(Range range, ComputationPool& pool);
  // Of the readers of these bytes, those that a later one of the same stream stands for are forgotten.
  void keep_last_readers(Range range, ComputationPool& pool);
  // What an access of the host would have to wait for. Changes nothing.
  void collect(Range range, Mode mode, Dependencies& out) const;
  // Calls `visit(Computation&)` for every computation that has not ended, some of them repeatedly; each is on a stream.
  template <typename Visit>
  void for_each_user(Visit visit) const {
    const auto look = [&](Computation& user) {
      if (has_ended(user)) return;
      if (user.stream != nullptr) return visit(user);
      for (Computation* parent : user.stands_for) visit(*parent);
    };
    for (const Segment& segment : segments_) {
      if (segment.writer != nullptr) look(*segment.writer);
      for (Computation* reader : segment.readers) look(*reader);
    }
  }
  // Nobody is in it any more: before it goes.
  void clear(ComputationPool& pool);
  std::size_t segment_count() const { return segments_.size(); }
  TaskUses& tasks() { return tasks_; }
  // The last of the launches that were asked about (pattern_of()) that used it; none: 0.
  struct LastUse {
    std::uint64_t launch = 0;
    Range range;
  };
  LastUse& last_use() { return last_use_; }

 private:
  struct Segment {
    std::uint64_t begin = 0, end = 0;
    Computation* writer = nullptr;
    std::vector<Computation*> readers;
    std::uint64_t ended_writer = 0;  // Computation::id of one that has ended and is forgotten, or 0
    EndedIds ended_readers;          // the same of the readers since
  };

  std::size_t find(std::uint64_t byte) const;  // the segment that holds it
  std::size_t cut(std::uint64_t byte);         // a segment begins at `byte`; its index
  void drop(Computation& computation, ComputationPool& pool) const;
  void forget_ended(Segment& segment, ComputationPool& pool) const;
  void keep_last_reader_of_each_stream(Segment& segment, ComputationPool& pool) const;
  void read(Segment& segment, Computation& who, ComputationPool& pool, Dependencies& out, EndedParents& ended) const;
  void write(std::size_t first, std::size_t last, Mode mode, Computation& who, ComputationPool& pool, Dependencies& out,
             EndedParents& ended);
  void merge(ComputationPool& pool);
  void depends(const Segment& segment, Mode mode, const Computation* who, Dependencies& out) const;
  void add_ended(const Segment& segment, Mode mode, const Computation& who, EndedParents& out) const;

  static constexpr std::size_t kManySegments = 64;

  const std::uint64_t id_, size_bytes_;
  std::uint64_t address_ = 0;
  bool is_foreign_ = false;
  MovingMemory* moving_ = nullptr;
  std::atomic<HostState>* host_state_ = nullptr;
  HostSide* host_side_ = nullptr;
  TaskUses tasks_;
  LastUse last_use_;
  std::vector<Segment> segments_;
  std::size_t merge_at_ = kManySegments;  // so many segments are looked through for neighbours that are alike
};

}  // namespace pergola::scheduler
