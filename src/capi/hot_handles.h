// A second way from a handle to its object, for calls that are made tens of millions of times a second.
//
// HandleTable::find() takes a shared lock and copies a shared_ptr: four atomic read-modify-writes, some 25 ns, and a
// cache line that all threads fight for. pergola_task_spawn_packed() has less than that for everything. Here a thread
// writes down which handle it is using, where it alone writes, and strikes it out again; whoever destroys a handle
// looks there. Neither of the user's stores waits for its being seen: the destroyer makes every thread pass a barrier
// instead (membarrier(2)).
//
//   user                                    destroyer, under the lock
//   note = handle                           entry.handle = 0
//   entry.handle == handle ?                condemned += object
//     yes: use entry.object                 barrier in every thread
//   note = 0                                which of the condemned has no note? dropped, outside the lock
//   condemned != 0 ? look as well
//
// Without the barrier a user's load could overtake its store: it would see the handle live, and the destroyer no note.
// With it, a note that is not seen belongs to a user that sees the entry empty; and a user whose last look found
// nothing condemned has struck its note out before the destroyer reads it. So an object is dropped by whoever comes
// last, as with a shared_ptr, and nobody waits.
//
// Thread-safe. A handle is of HandleTable first, and whoever finds nothing here asks there: it has the words for a
// handle that is wrong, and serves threads that have no note (they are ending, are a forked child's, or the system has
// no such barrier).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/result.h"
#include "src/capi/handles.h"

namespace pergola::capi {

class HotHandles {
 public:
  // `object` gets a handle that both ways find.
  template <typename T>
  static Status give(std::shared_ptr<T> object, HandleKind kind, std::string_view what, void** out) {
    T* const pointer = object.get();
    PERGOLA_ASSIGN(void* const made, HandleTable::instance().add(kind, std::move(object)));
    if (Status added = add(made, pointer); !added.ok()) {
      PERGOLA_TRY(HandleTable::instance().remove(kind, made, what).status());
      return added;
    }
    *out = made;
    return {};
  }
  // The handle is dead, for both.
  static Status destroy(const void* handle, HandleKind kind, std::string_view what) {
    PERGOLA_ASSIGN(std::shared_ptr<void> object, HandleTable::instance().remove(kind, handle, what));
    remove(handle, std::move(object));
    return {};
  }
  // `handle`, just made by HandleTable::add(), stands for `object`, which that table keeps until remove().
  static Status add(const void* handle, void* object) noexcept;
  // From now on the handle finds nothing. `object`, which HandleTable::remove() gave, goes when its users are done.
  static void remove(const void* handle, std::shared_ptr<void> object) noexcept;

 private:
  // Writers: add() and remove(), under the lock. The object is written while the handle is 0.
  struct Entry {
    std::atomic<const void*> handle{nullptr};
    std::atomic<void*> object{nullptr};
  };
  struct alignas(64) Note {
    std::atomic<const void*> handle{nullptr};  // writer: the thread whose note it is
    bool is_taken = false;                     // guarded by the lock
  };

 public:
  // While it lives, object() does. A thread has one note: of a second one at a time the object is null.
  class Use {
   public:
    [[gnu::always_inline]] Use(const void* handle, HandleKind kind) : note_(own_note) {
      if (note_ == nullptr) [[unlikely]] {
        note_ = take_note();
        if (note_ == nullptr) return;
      }
      if (kind_of(handle) != kind || note_->handle.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        note_ = nullptr;
        return;
      }
      note_->handle.store(handle, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler's part; the destroyer does the machine's
      object_ = find(handle);
    }
    [[gnu::always_inline]] ~Use() {
      if (note_ == nullptr) [[unlikely]]
        return;
      note_->handle.store(nullptr, std::memory_order_release);  // release: what was done with the object comes before
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (condemned.load(std::memory_order_relaxed) != 0) [[unlikely]]
        drop_unused();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // Null where HandleTable is to be asked.
    void* object() const { return object_; }

   private:
    Note* note_;
    void* object_ = nullptr;
  };

 private:
  // Entries never move; those of 4096 slots are made together when the first is wanted.
  static constexpr std::size_t kChunkBits = 12, kChunkEntries = 1u << kChunkBits;
  static constexpr std::size_t kChunks = std::size_t{1} << (kHandleSlotBits - kChunkBits);

  // All loads are sequentially consistent, as are the destroyer's stores: an object is loaded between two looks at its
  // handle, and seen with it.
  static void* find(const void* handle) {
    const std::uint64_t slot = slot_index(handle);
    const Entry* chunk = chunks[slot >> kChunkBits].load(std::memory_order_seq_cst);
    if (handle == nullptr || chunk == nullptr) [[unlikely]]
      return nullptr;
    const Entry& entry = chunk[slot % kChunkEntries];
    if (entry.handle.load(std::memory_order_seq_cst) != handle) [[unlikely]]
      return nullptr;
    void* const object = entry.object.load(std::memory_order_seq_cst);
    // The slot may have been given to another handle in between: then the object is that one's, which no note holds.
    return entry.handle.load(std::memory_order_seq_cst) == handle ? object : nullptr;
  }
  static Note* take_note();   // null where the thread gets none
  static void drop_unused();  // of the condemned, which nobody comes for any more
  struct Lease;               // gives the thread's note back at its end
  struct Shared;              // what the lock guards

  // Constant-initialised and never destroyed: threads may use handles while the process ends.
  static constinit std::array<std::atomic<Entry*>, kChunks> chunks;  // writer: add(), under the lock
  static constinit std::atomic<std::size_t> condemned;               // writers: remove(), drop_unused(), under the lock
  // Of the executable or a library loaded with it or by dlopen(); 8 bytes fit the space that the linker keeps for
  // those. The usual model would call a function for it.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Note* own_note;
};

}  // namespace pergola::capi
