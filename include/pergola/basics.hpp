// What pergola.hpp stands on: errors, owners of handles, types of elements, shapes of launches. Include pergola.hpp.
#ifndef PERGOLA_BASICS_HPP_
#define PERGOLA_BASICS_HPP_

#include <pergola/pergola.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace pergola {
inline namespace v0_1 {

// ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

// The values are those of pergola.h.
enum class Code : std::int32_t {
  kOk = PERGOLA_OK,
  kInvalidArgument = PERGOLA_INVALID_ARGUMENT,
  kNotFound = PERGOLA_NOT_FOUND,
  kUnsupported = PERGOLA_UNSUPPORTED,
  kUnavailable = PERGOLA_UNAVAILABLE,
  kFailedPrecondition = PERGOLA_FAILED_PRECONDITION,
  kResourceExhausted = PERGOLA_RESOURCE_EXHAUSTED,
  kParseError = PERGOLA_PARSE_ERROR,
  kCompileError = PERGOLA_COMPILE_ERROR,
  kDeviceFault = PERGOLA_DEVICE_FAULT,
  kDeviceLost = PERGOLA_DEVICE_LOST,
  kIo = PERGOLA_IO,
  kSkipped = PERGOLA_SKIPPED,
  kTimeout = PERGOLA_TIMEOUT,
  kInternal = PERGOLA_INTERNAL,
  kCallFailed = PERGOLA_CALL_FAILED,
};

// what() is a sentence that says what was wrong and what to do.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

namespace detail {

inline void check(pergola_code code) {
  if (code != PERGOLA_OK) throw Error(static_cast<Code>(code), pergola_last_error());
}
// The same of a wait: false where its time was over.
inline bool has_ended(pergola_code code) {
  if (code == PERGOLA_TIMEOUT) return false;
  check(code);
  return true;
}
// As the C interface has times to wait, where a negative one would be for ever.
inline std::int64_t wait_ns(std::chrono::nanoseconds timeout) {
  return timeout.count() < 0 ? 0 : timeout.count();
}

// A number of things in a message: "1 task", "2 tasks".
inline std::string plural(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// For the C interface, which would take the text up to its first zero character; `what` is what it is, "A path".
inline const char* text(const std::string& given, const char* what) {
  if (const std::size_t zero = given.find('\0'); zero != std::string::npos)
    throw Error(Code::kInvalidArgument,
                std::string(what) + " has no zero character in it; there is one at byte " + std::to_string(zero) + ".");
  return given.c_str();
}

// Owns one C handle.
template <typename H, pergola_code (*Destroy)(H)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(H handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle taken(std::move(other));
    std::swap(handle_, taken.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != nullptr) Destroy(handle_);
  }
  H get() const { return handle_; }

 private:
  H handle_ = nullptr;
};

template <typename T>
constexpr pergola_type type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return PERGOLA_TYPE_BOOL;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return kSigned ? PERGOLA_TYPE_I8 : PERGOLA_TYPE_U8;
    if constexpr (sizeof(T) == 2) return kSigned ? PERGOLA_TYPE_I16 : PERGOLA_TYPE_U16;
    if constexpr (sizeof(T) == 4) return kSigned ? PERGOLA_TYPE_I32 : PERGOLA_TYPE_U32;
    if constexpr (sizeof(T) == 8) return kSigned ? PERGOLA_TYPE_I64 : PERGOLA_TYPE_U64;
  } else if constexpr (std::is_same_v<T, float>) {
    return PERGOLA_TYPE_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return PERGOLA_TYPE_F64;
  }
  return PERGOLA_TYPE_BYTES;
}

}  // namespace detail

// What may be an array's element or a kernel's argument by value.
template <typename T>
concept Element = std::is_trivially_copyable_v<T> && std::is_same_v<T, std::remove_cv_t<T>> && !std::is_pointer_v<T>;

// ── Shapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace detail {
// `of` says of what, where it is none.
template <std::integral I>
std::uint32_t extent(I value, const char* of) {
  if (!std::in_range<std::uint32_t>(value) || value == 0)
    throw Error(Code::kInvalidArgument, "An extent of a " + std::string(of) + " should be 1 to 4294967295; it is " +
                                            std::to_string(value) + ".");
  return static_cast<std::uint32_t>(value);
}
}  // namespace detail

// Up to three extents; from any integers that fit.
struct Dim {
  std::uint32_t x = 1, y = 1, z = 1;

  Dim() = default;
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  Dim(X x_value, Y y_value = 1, Z z_value = 1) : x(narrow(x_value)), y(narrow(y_value)), z(narrow(z_value)) {}

 private:
  template <std::integral I>
  static std::uint32_t narrow(I value) {
    return detail::extent(value, "grid or block");
  }
};

struct Grid {
  Dim blocks, threads;
  std::uint32_t dynamic_shared_bytes = 0;
  bool is_cooperative = false;

  // All blocks resident at once, or refused: what cooperative_groups::this_grid().sync() needs.
  Grid cooperative() const {
    Grid grid = *this;
    grid.is_cooperative = true;
    return grid;
  }
};
struct ForEach {
  std::uint64_t count = 0;
};

// Blocks and threads as given: grid({gx, gy}, {bx, by}, shared_bytes).
inline Grid grid(Dim blocks, Dim threads, std::size_t dynamic_shared_bytes = 0) {
  if (!std::in_range<std::uint32_t>(dynamic_shared_bytes))
    throw Error(Code::kInvalidArgument, "Dynamic shared memory should be less than 4 GiB; it is " +
                                            std::to_string(dynamic_shared_bytes) + " bytes.");
  return {blocks, threads, static_cast<std::uint32_t>(dynamic_shared_bytes), false};
}

// At least `count` threads in one dimension, in blocks that suit the kernel; the kernel tests its index against count.
template <std::integral I>
ForEach for_each(I count) {
  if (!std::in_range<std::uint64_t>(count))
    throw Error(Code::kInvalidArgument, "for_each() takes a count of threads; it is " + std::to_string(count) + ".");
  return {static_cast<std::uint64_t>(count)};
}

}  // namespace v0_1
}  // namespace pergola

#endif  // PERGOLA_BASICS_HPP_
