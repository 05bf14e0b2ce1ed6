// Results and versions of the C interface.
#include <string>

#include "src/base/wait_check.h"
#include "src/capi/guard.h"

namespace pergola::capi {
namespace {

std::string& last_error() {
  static thread_local std::string message;
  return message;
}

// The C enumerators are the library's own.
static_assert(PERGOLA_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(PERGOLA_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(PERGOLA_CALL_FAILED == static_cast<int>(Code::kCallFailed));
static_assert(PERGOLA_TYPE_BOOL == static_cast<int>(session::ElementType::kBool));
static_assert(PERGOLA_TYPE_F32 == static_cast<int>(session::ElementType::kF32));
static_assert(PERGOLA_TYPE_C128 == static_cast<int>(session::ElementType::kC128));
static_assert(PERGOLA_ACCESS_UNKNOWN == static_cast<int>(session::Access::kUnknown));
static_assert(PERGOLA_DIRECTION_INOUT == static_cast<int>(session::Direction::kInOut));
static_assert(PERGOLA_PARAMETER_STRUCT == static_cast<int>(session::ParameterKind::kStruct));
static_assert(PERGOLA_LANGUAGE_PTX == static_cast<int>(session::Language::kPtx));

}  // namespace

pergola_code fail(Code code, std::string_view message) noexcept {
  try {
    last_error().assign(message);
  } catch (...) {
    last_error().clear();  // no memory even for the message; the code tells
  }
  return static_cast<pergola_code>(code);
}

}  // namespace pergola::capi

uint32_t pergola_api_version(void) {
  return PERGOLA_API_VERSION;
}
const char* pergola_version(void) {
  return PERGOLA_VERSION;
}
const char* pergola_last_error(void) {
  return pergola::capi::last_error().c_str();
}

void pergola_thread_set_check(pergola_wait_check check, void* user) {
  pergola::wait_check = {check, user};
}

const char* pergola_code_name(pergola_code code) {
  return pergola::code_name(static_cast<pergola::Code>(code)).data();  // of literals, which end with a zero
}
