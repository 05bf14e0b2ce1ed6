// What every C function stands in: nothing is done in a forked child (base/fork.h), nothing thrown leaves it, a
// failure's message is kept for its thread, and structs of callers built against other versions are read and written as
// far as both sides know them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <pergola/pergola.h>

#include "src/base/fork.h"
#include "src/base/result.h"
#include "src/base/thread_shortage.h"
#include "src/capi/handles.h"
#include "src/session/session.h"
#include "src/session/task_pool.h"

namespace pergola::capi {

// As the interface has times to wait: a negative one is for ever.
inline std::optional<std::chrono::nanoseconds> timeout_of(std::int64_t timeout_ns) {
  return timeout_ns < 0 ? std::nullopt : std::optional(std::chrono::nanoseconds(timeout_ns));
}

// Keeps the message for pergola_last_error() and returns the code.
pergola_code fail(Code code, std::string_view message) noexcept;

template <typename F>
pergola_code guarded(F&& body) noexcept {
  if (is_forked_child()) return fail(Code::kFailedPrecondition, forked_child_message());
  try {
    const Status status = body();
    return status.ok() ? PERGOLA_OK : fail(status.code(), status.message());
  } catch (const std::bad_alloc&) {
    return fail(Code::kResourceExhausted, "The host is out of memory.");
  } catch (const std::system_error& error) {
    const Error told = error_of(error);
    return fail(told.code, told.message);
  } catch (const std::exception& error) {
    return fail(Code::kInternal, error.what());
  } catch (...) {
    return fail(Code::kInternal, "An exception of an unknown kind was thrown.");
  }
}

template <typename T>
struct HandleTraits;
template <>
struct HandleTraits<session::Session> {
  using Handle = pergola_session;
  static constexpr HandleKind kKind = HandleKind::kSession;
};
template <>
struct HandleTraits<session::Module> {
  using Handle = pergola_module;
  static constexpr HandleKind kKind = HandleKind::kModule;
};
template <>
struct HandleTraits<session::Kernel> {
  using Handle = pergola_kernel;
  static constexpr HandleKind kKind = HandleKind::kKernel;
};
template <>
struct HandleTraits<session::Array> {
  using Handle = pergola_array;
  static constexpr HandleKind kKind = HandleKind::kArray;
};
template <>
struct HandleTraits<session::Event> {
  using Handle = pergola_event;
  static constexpr HandleKind kKind = HandleKind::kEvent;
};

template <>
struct HandleTraits<session::Texture> {
  using Handle = pergola_texture;
  static constexpr HandleKind kKind = HandleKind::kTexture;
};
template <>
struct HandleTraits<session::TaskPool> {
  using Handle = pergola_task_pool;
  static constexpr HandleKind kKind = HandleKind::kTaskPool;
};
template <>
struct HandleTraits<session::TaskKind> {
  using Handle = pergola_task_kind;
  static constexpr HandleKind kKind = HandleKind::kTaskKind;
};

// The object of a handle in the table or in a reading of it; `what` is its argument's name, for the message.
template <typename T, typename Table = HandleTable>
Result<std::shared_ptr<T>> object_of(typename HandleTraits<T>::Handle handle, std::string_view what,
                                     const Table& table = HandleTable::instance()) {
  PERGOLA_ASSIGN(std::shared_ptr<void> object, table.find(HandleTraits<T>::kKind, handle, what));
  return std::static_pointer_cast<T>(std::move(object));
}

template <typename T>
Status give_handle(std::shared_ptr<T> object, typename HandleTraits<T>::Handle* out) {
  PERGOLA_ASSIGN(void* handle, HandleTable::instance().add(HandleTraits<T>::kKind, std::move(object)));
  *out = static_cast<typename HandleTraits<T>::Handle>(handle);
  return {};
}

// How many handles that arguments of launches may name have been destroyed (base/call_text.h).
inline std::atomic<std::uint64_t> dropped_arguments{0};

template <typename T>
pergola_code destroy(typename HandleTraits<T>::Handle handle, std::string_view what) noexcept {
  return guarded([&]() -> Status {
    const Result<std::shared_ptr<void>> object = HandleTable::instance().remove(HandleTraits<T>::kKind, handle, what);
    if constexpr (std::is_same_v<T, session::Array> || std::is_same_v<T, session::Texture>)
      dropped_arguments.fetch_add(1, std::memory_order_acq_rel);
    return object.status();  // the object, when this was its last owner, goes now: outside the table's lock
  });
}

[[gnu::noinline]] inline Status null_pointer(std::string_view what) {
  return PERGOLA_ERROR(kInvalidArgument, "The pointer {} is null.", what);
}
[[gnu::always_inline]] inline Status check_pointer(const void* pointer, std::string_view what) {
  return pointer != nullptr ? Status() : null_pointer(what);
}

// A caller's struct as this version's: null is all defaults; a shorter one has defaults at its end; a longer one is
// taken where what this version does not know is zero. `first_size` is the struct's size when it was introduced.
template <typename T>
Result<T> read_struct(const T* given, std::string_view name, std::size_t first_size = sizeof(T)) {
  T result{};
  if (given == nullptr) return result;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first_size || size > 4096)
    return PERGOLA_ERROR(kInvalidArgument, "struct_size of {} is {}; set it to sizeof({}), {} here.", name, size, name,
                         sizeof(T));
  std::memcpy(&result, given, std::min(size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    return PERGOLA_ERROR(kUnsupported, "{} sets a field that version " PERGOLA_VERSION " of the library does not know.",
                         name);
  return result;
}

// Element i of a list of such structs, each as long as the first says; `what` is the element's name in messages.
template <typename T>
Result<T> read_element(const T* list, std::size_t i, std::string_view what, std::string_view name) {
  const std::size_t stride = list->struct_size;
  const auto* at = reinterpret_cast<const T*>(reinterpret_cast<const char*>(list) + i * stride);
  PERGOLA_ASSIGN(const T one, read_struct(at, name));
  if (one.struct_size != stride)
    return PERGOLA_ERROR(kInvalidArgument, "struct_size of {} {} is {} and that of {} 0 is {}; they should be equal.",
                         what, i, one.struct_size, what, stride);
  return one;
}

// Writes `full` over as much of the caller's struct as it has; its struct_size stays.
template <typename T>
Status write_struct(const T& full, T* out, std::string_view name, std::size_t first_size = sizeof(T)) {
  PERGOLA_TRY(check_pointer(out, name));
  std::size_t size = 0;
  std::memcpy(&size, out, sizeof size);
  if (size < first_size)
    return PERGOLA_ERROR(kInvalidArgument, "struct_size of {} is {}; set it to sizeof({}), {} here.", name, size, name,
                         sizeof(T));
  std::memcpy(reinterpret_cast<char*>(out) + sizeof size, reinterpret_cast<const char*>(&full) + sizeof size,
              std::min(size, sizeof(T)) - sizeof size);
  return {};
}

}  // namespace pergola::capi
