// The table behind the C interface's handles.
//
// A handle is a number in the shape of a pointer, never an address:
//
//   63              32 31               4 3    0
//   ┌─────────────────┬──────────────────┬──────┐
//   │ generation (>0) │ slot             │ kind │
//   └─────────────────┴──────────────────┴──────┘
//
// A slot's generation grows when it is freed, so that a destroyed handle is known for what it is; a slot whose
// generations are used up is never used again. What a caller makes up is found out the same way, without touching
// memory.
//
// Thread-safe: a shared lock to look up, an exclusive one to add and remove; objects are destroyed outside the lock.
// Calls that cannot afford the lock look their handles up in hot_handles.h as well.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace pergola::capi {

enum class HandleKind : std::uint8_t {
  kNone = 0,
  kSession = 1,
  kModule = 2,
  kKernel = 3,
  kArray = 4,
  kEvent = 5,
  kTexture = 6,
  kTaskPool = 7,
  kTaskKind = 8
};
std::string_view to_string(HandleKind kind);

constexpr unsigned kHandleKindBits = 4, kHandleSlotBits = 28;
constexpr std::uint64_t kHandleKindMask = (1u << kHandleKindBits) - 1, kHandleSlotMask = (1u << kHandleSlotBits) - 1;
// Which slot a handle names, live or not.
inline std::uint64_t slot_index(const void* handle) {
  return (reinterpret_cast<std::uint64_t>(handle) >> kHandleKindBits) & kHandleSlotMask;
}

inline std::uint64_t generation_of(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle) >> (kHandleKindBits + kHandleSlotBits);
}

// What kind of handle it is, or would be.
inline HandleKind kind_of(const void* handle) {
  return static_cast<HandleKind>(reinterpret_cast<std::uint64_t>(handle) & kHandleKindMask);
}

class HandleTable {
 public:
  // The process's table. Never destroyed: threads may hold handles while the process ends.
  static HandleTable& instance();

  Result<void*> add(HandleKind kind, std::shared_ptr<void> object);
  // kInvalidArgument where `handle` is not live or of another kind; `what` is the argument's name.
  Result<std::shared_ptr<void>> find(HandleKind kind, const void* handle, std::string_view what) const;
  // As find(), and the handle is dead after it.
  Result<std::shared_ptr<void>> remove(HandleKind kind, const void* handle, std::string_view what);
  std::size_t live() const;

  // Several handles looked up under one lock. None is made or destroyed while it lives: it should be short.
  class Reading {
   public:
    explicit Reading(const HandleTable& table) : table_(table), lock_(table.mutex_) {}
    Result<std::shared_ptr<void>> find(HandleKind kind, const void* handle, std::string_view what) const;
    // The same without words: null where `handle` is not live or of another kind. Stands as long as this does.
    const std::shared_ptr<void>* look(HandleKind kind, const void* handle) const {
      return table_.is_live(handle) && kind_of(handle) == kind ? &table_.slots_[slot_index(handle)].object : nullptr;
    }

   private:
    const HandleTable& table_;
    const std::shared_lock<std::shared_mutex> lock_;
  };

 private:
  struct Slot {
    std::shared_ptr<void> object;  // null: free
    std::uint32_t generation = 1;
    HandleKind kind = HandleKind::kNone;
  };

  // Guarded by mutex_.
  bool is_live(const void* handle) const {
    const std::uint64_t index = slot_index(handle);
    if (index >= slots_.size()) return false;
    const Slot& slot = slots_[index];
    return slot.object != nullptr && slot.generation == generation_of(handle) && slot.kind == kind_of(handle);
  }
  // The slot of a live handle; guarded by mutex_.
  Result<std::size_t> slot_of(HandleKind kind, const void* handle, std::string_view what) const;

  mutable std::shared_mutex mutex_;  // guards all below
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace pergola::capi
