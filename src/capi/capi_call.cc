// Calls of other libraries and their streams, of the C interface.
#include <vector>

#include "src/capi/guard.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

constexpr uint32_t kCallFlags = PERGOLA_CALL_SYNCHRONOUS;

Result<std::vector<session::CallAccess>> read_accesses(const pergola_call_access* given, std::size_t count) {
  std::vector<session::CallAccess> accesses;
  if (count == 0) return accesses;
  PERGOLA_TRY(check_pointer(given, "accesses"));
  const auto* element = reinterpret_cast<const std::byte*>(given);
  const std::size_t stride = given->struct_size;  // the same in every element
  for (std::size_t i = 0; i < count; ++i, element += stride) {
    PERGOLA_ASSIGN(const pergola_call_access access,
                   read_struct(reinterpret_cast<const pergola_call_access*>(element), "pergola_call_access"));
    if (access.struct_size != stride)
      return PERGOLA_ERROR(kInvalidArgument, "struct_size of access {} is {} and that of the first {}.", i,
                           access.struct_size, stride);
    if (access.mode < PERGOLA_ACCESS_NONE || access.mode > PERGOLA_ACCESS_UNKNOWN)
      return PERGOLA_ERROR(kInvalidArgument, "The mode of access {} is {}, which is no pergola_access.", i,
                           access.mode);
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(access.array, "array of an access"));
    accesses.push_back(
        {std::move(array), access.offset_bytes, access.size_bytes, static_cast<session::Access>(access.mode)});
  }
  return accesses;
}

}  // namespace

pergola_code pergola_session_call(pergola_session handle, const char* name, const pergola_call_access* given,
                                  size_t access_count, uint32_t flags, pergola_call_function function, void* user) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(name, "name"));
    if (function == nullptr) return check_pointer(nullptr, "function");
    if ((flags & ~kCallFlags) != 0)
      return PERGOLA_ERROR(kUnsupported, "The call flags {:#x} are not known to version " PERGOLA_VERSION ".",
                           flags & ~kCallFlags);
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const auto accesses, read_accesses(given, access_count));
    return session->call(name, accesses, (flags & PERGOLA_CALL_SYNCHRONOUS) != 0,
                         [&](void* stream) { return function(stream, user); });
  });
}

pergola_code pergola_session_wait_stream(pergola_session handle, uint64_t stream) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->wait_stream(stream);
  });
}

pergola_code pergola_session_make_stream_wait(pergola_session handle, uint64_t stream) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->make_stream_wait(stream);
  });
}
