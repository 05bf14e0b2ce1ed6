#include "src/capi/handles.h"

#include <limits>
#include <mutex>

namespace pergola::capi {
namespace {

static_assert(sizeof(void*) == 8, "A handle has 64 bits.");

void* encode(HandleKind kind, std::uint64_t slot, std::uint32_t generation) {
  const std::uint64_t bits = (std::uint64_t{generation} << (kHandleKindBits + kHandleSlotBits)) |
                             (slot << kHandleKindBits) | static_cast<std::uint64_t>(kind);
  return reinterpret_cast<void*>(bits);
}

}  // namespace

std::string_view to_string(HandleKind kind) {
  switch (kind) {
    case HandleKind::kNone: return "nothing";
    case HandleKind::kSession: return "a session";
    case HandleKind::kModule: return "a module";
    case HandleKind::kKernel: return "a kernel";
    case HandleKind::kArray: return "an array";
    case HandleKind::kEvent: return "an event";
    case HandleKind::kTexture: return "a texture";
    case HandleKind::kTaskPool: return "a task pool";
    case HandleKind::kTaskKind: return "a task kind";
  }
  return "unknown";
}

HandleTable& HandleTable::instance() {
  static auto* table = new HandleTable();
  return *table;
}

Result<void*> HandleTable::add(HandleKind kind, std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (slots_.size() > kHandleSlotMask)
      return PERGOLA_ERROR(kResourceExhausted, "{} handles are live; destroy some.", slots_.size());
    free_.reserve(slots_.size() + 1);  // so that remove() cannot run out of memory
    slots_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.object = std::move(object);
  slot.kind = kind;
  return encode(kind, index, slot.generation);
}

Result<std::size_t> HandleTable::slot_of(HandleKind kind, const void* handle, std::string_view what) const {
  if (handle == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "The {} is null; it should be the handle of {}.", what, to_string(kind));
  if (!is_live(handle))
    return PERGOLA_ERROR(kInvalidArgument, "The {} is not a live handle: it was destroyed, or Pergola never made it.",
                         what);
  if (const HandleKind given = kind_of(handle); given != kind)
    return PERGOLA_ERROR(kInvalidArgument, "The {} is the handle of {}; it should be that of {}.", what,
                         to_string(given), to_string(kind));
  return static_cast<std::size_t>(slot_index(handle));
}

Result<std::shared_ptr<void>> HandleTable::find(HandleKind kind, const void* handle, std::string_view what) const {
  return Reading(*this).find(kind, handle, what);
}

Result<std::shared_ptr<void>> HandleTable::Reading::find(HandleKind kind, const void* handle,
                                                         std::string_view what) const {
  PERGOLA_ASSIGN(const std::size_t index, table_.slot_of(kind, handle, what));
  return table_.slots_[index].object;
}

Result<std::shared_ptr<void>> HandleTable::remove(HandleKind kind, const void* handle, std::string_view what) {
  const std::lock_guard lock(mutex_);
  PERGOLA_ASSIGN(const std::size_t index, slot_of(kind, handle, what));
  Slot& slot = slots_[index];
  std::shared_ptr<void> object = std::move(slot.object);
  slot.object = nullptr;
  if (slot.generation != std::numeric_limits<std::uint32_t>::max()) {
    ++slot.generation;
    free_.push_back(static_cast<std::uint32_t>(index));
  }
  return object;
}

std::size_t HandleTable::live() const {
  const std::shared_lock lock(mutex_);
  std::size_t live = 0;
  for (const Slot& slot : slots_) live += slot.object != nullptr;
  return live;
}

}  // namespace pergola::capi
