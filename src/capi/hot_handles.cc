#include "src/capi/hot_handles.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "src/base/fork.h"

namespace pergola::capi {
namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

constinit std::array<std::atomic<HotHandles::Entry*>, HotHandles::kChunks> HotHandles::chunks{};
constinit std::atomic<std::size_t> HotHandles::condemned{0};
// The model once more: compiled together with uses of it, a definition's word counts.
[[gnu::tls_model("initial-exec")]] constinit thread_local HotHandles::Note* HotHandles::own_note = nullptr;

struct HotHandles::Shared {
  struct Condemned {
    const void* handle;
    std::shared_ptr<void> object;
  };

  // Never destroyed, as HandleTable.
  static Shared& instance() {
    static auto* shared = new Shared();
    return *shared;
  }

  // Takes one out that nobody uses, for the caller to let go outside the lock; null where there is none.
  std::shared_ptr<void> take_unused() {
    const auto is_unused = [this](const Condemned& one) {
      return std::none_of(notes.begin(), notes.end(),
                          [&](const Note& note) { return note.handle.load(std::memory_order_seq_cst) == one.handle; });
    };
    const auto found = std::find_if(list.begin(), list.end(), is_unused);
    if (found == list.end()) return nullptr;
    std::shared_ptr<void> object = std::move(found->object);
    list.erase(found);
    --kept;
    condemned.store(list.size(), std::memory_order_seq_cst);
    return object;
  }

  std::mutex mutex;  // guards all below, and every write of chunks, entries and condemned
  std::deque<Note> notes;
  std::vector<Condemned> list;
  std::size_t kept = 0;  // handles added whose objects are not dropped yet: `list` has room for them all
  const bool has_barrier = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

 private:
  Shared() {
    // A forked child's only thread finds no note, so that the way of every call is not one check longer.
    pthread_atfork(nullptr, nullptr, [] { own_note = nullptr; });
  }
};

struct HotHandles::Lease {
  ~Lease() {
    is_over = true;
    if (note == nullptr) return;
    const std::lock_guard lock(Shared::instance().mutex);
    note->is_taken = false;
    own_note = nullptr;
  }
  Note* note = nullptr;
  static constinit thread_local bool is_over;  // destructors of the thread that come after it can still see that
};
constinit thread_local bool HotHandles::Lease::is_over = false;

HotHandles::Note* HotHandles::take_note() {
  if (Lease::is_over || is_forked_child()) return nullptr;
  Shared& shared = Shared::instance();
  if (!shared.has_barrier) return nullptr;
  static thread_local Lease lease;
  const std::lock_guard lock(shared.mutex);
  auto free = std::find_if(shared.notes.begin(), shared.notes.end(), [](const Note& note) { return !note.is_taken; });
  Note& note = free != shared.notes.end() ? *free : shared.notes.emplace_back();
  note.is_taken = true;
  lease.note = own_note = &note;
  return own_note;
}

Status HotHandles::add(const void* handle, void* object) noexcept {
  const std::uint64_t slot = slot_index(handle);
  try {
    Shared& shared = Shared::instance();
    const std::lock_guard lock(shared.mutex);
    shared.list.reserve(shared.kept + 1);  // so that remove() cannot run out of memory
    Entry* chunk = chunks[slot >> kChunkBits].load(std::memory_order_relaxed);
    if (chunk == nullptr) {
      chunk = new Entry[kChunkEntries];  // never freed: users hold no lock
      chunks[slot >> kChunkBits].store(chunk, std::memory_order_seq_cst);
    }
    Entry& entry = chunk[slot % kChunkEntries];
    entry.handle.store(nullptr, std::memory_order_seq_cst);  // of one that is just being removed
    entry.object.store(object, std::memory_order_seq_cst);
    entry.handle.store(handle, std::memory_order_seq_cst);
    ++shared.kept;
    return {};
  } catch (const std::bad_alloc&) {
    return PERGOLA_ERROR(kResourceExhausted, "The host is out of memory.");
  }
}

void HotHandles::remove(const void* handle, std::shared_ptr<void> object) noexcept {
  const std::uint64_t slot = slot_index(handle);
  Shared& shared = Shared::instance();
  {
    const std::lock_guard lock(shared.mutex);
    Entry& entry = chunks[slot >> kChunkBits].load(std::memory_order_relaxed)[slot % kChunkEntries];
    if (entry.handle.load(std::memory_order_relaxed) == handle) entry.handle.store(nullptr, std::memory_order_seq_cst);
    shared.list.push_back({handle, std::move(object)});
    condemned.store(shared.list.size(), std::memory_order_seq_cst);
    if (shared.has_barrier) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  drop_unused();
}

void HotHandles::drop_unused() {
  while (true) {
    std::shared_ptr<void> unused;
    const std::lock_guard lock(Shared::instance().mutex);
    unused = Shared::instance().take_unused();
    if (unused == nullptr) return;
  }
}

}  // namespace pergola::capi
