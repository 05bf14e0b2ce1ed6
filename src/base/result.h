// Result<T> and Status: how an error crosses a folder.
//
// Invariant: an Error always carries a code, a whole sentence that a user can act on, and the source line that
// raised it. No exception leaves a folder; bindings translate errors into their language's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "src/base/check.h"

namespace pergola {

// The values are part of the C ABI (include/pergola/pergola.h): append, never renumber.
enum class Code : std::int32_t {
  kOk = 0,
  kInvalidArgument = 1,     // the caller's value is wrong
  kNotFound = 2,            // a name or file is not there
  kUnsupported = 3,         // understood, and this device or version cannot do it
  kUnavailable = 4,         // a driver, compiler or device is missing on this machine
  kFailedPrecondition = 5,  // right call, wrong moment
  kResourceExhausted = 6,   // out of memory, slots, shared memory
  kParseError = 7,          // PTX or other text is malformed
  kCompileError = 8,        // a compiler refused the source
  kDeviceFault = 9,         // a kernel trapped, asserted or accessed memory it may not
  kDeviceLost = 10,         // the device can no longer be used by this process
  kIo = 11,                 // the operating system refused a file or socket
  kSkipped = 12,            // not run, because work it depends on failed
  kTimeout = 13,
  kInternal = 14,    // our own bug, reported instead of crashing
  kCallFailed = 15,  // a caller's function, which we called, returned an error
};

// "invalid argument", "not found", ... for messages and the command line.
std::string_view code_name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
  const char* file = "";
  int line = 0;
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(Error error) : error_(std::make_shared<const Error>(std::move(error))) {}

  bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  // Empty where ok().
  const std::string& message() const;
  const Error& error() const {
    PERGOLA_CHECK(!ok());
    return *error_;
  }

 private:
  std::shared_ptr<const Error> error_;  // shared: an event hands the same error to many waiters
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, Status(std::move(error))) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    PERGOLA_CHECK(!std::get<1>(state_).ok());
  }

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  Code code() const { return ok() ? Code::kOk : std::get<1>(state_).code(); }
  const std::string& message() const { return std::get<1>(state_).message(); }
  const Error& error() const { return std::get<1>(state_).error(); }

  T& value() & {
    PERGOLA_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    PERGOLA_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    PERGOLA_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

// An Error with its site: `return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in {}.", name, module)`.
// The message is a whole sentence with the values in it, and says what to do where something can be done.
#define PERGOLA_ERROR(code, ...) \
  ::pergola::Error { ::pergola::Code::code, ::fmt::format(__VA_ARGS__), __FILE__, __LINE__ }

#define PERGOLA_CONCAT_(a, b) a##b
#define PERGOLA_CONCAT(a, b) PERGOLA_CONCAT_(a, b)

// Returns the error of a Status expression to the caller, else goes on.
#define PERGOLA_TRY(expression)                                          \
  do {                                                                   \
    if (::pergola::Status pergola_status_ = (expression); !pergola_status_.ok()) \
      [[unlikely]] return pergola_status_;                               \
  } while (false)

// PERGOLA_ASSIGN(auto x, f()): x is f()'s value, or its error is returned.
#define PERGOLA_ASSIGN(declaration, expression)                                     \
  auto PERGOLA_CONCAT(pergola_result_, __LINE__) = (expression);                    \
  if (!PERGOLA_CONCAT(pergola_result_, __LINE__).ok())                              \
    [[unlikely]] return PERGOLA_CONCAT(pergola_result_, __LINE__).status();                      \
  declaration = std::move(PERGOLA_CONCAT(pergola_result_, __LINE__)).value()

}  // namespace pergola

#include <fmt/format.h>
