// Arrays of the C interface.
#include <cstddef>
#include <limits>
#include <memory>

#include "src/capi/guard.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

// Holds a caller's memory; lets go of it only once the caller has been told that it was taken.
struct Foreign {
  void (*release)(void*);
  void* owner;
  bool is_ours;  // written before the array can be used by anybody else
  ~Foreign() {
    if (is_ours) release(owner);
  }
};

}  // namespace

pergola_code pergola_array_create(pergola_session handle, const pergola_array_options* given, pergola_array* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(given, "options"));
    PERGOLA_TRY(check_pointer(out, "array"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const pergola_array_options options, read_struct(given, "pergola_array_options"));
    PERGOLA_ASSIGN(auto array, session->allocate(static_cast<session::ElementType>(options.type), options.element_bytes,
                                                 options.count));
    return give_handle(std::move(array), out);
  });
}

pergola_code pergola_array_adopt(pergola_session handle, const pergola_array_options* given,
                                 const pergola_foreign_memory* given_memory, pergola_array* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(given, "options"));
    PERGOLA_TRY(check_pointer(given_memory, "memory"));
    PERGOLA_TRY(check_pointer(out, "array"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const pergola_array_options options, read_struct(given, "pergola_array_options"));
    PERGOLA_ASSIGN(const pergola_foreign_memory memory, read_struct(given_memory, "pergola_foreign_memory"));
    if (memory.release == nullptr) return check_pointer(nullptr, "release");
    const auto owner = std::make_shared<Foreign>(Foreign{memory.release, memory.owner, false});
    PERGOLA_ASSIGN(auto array, session->adopt(static_cast<session::ElementType>(options.type), options.element_bytes,
                                              options.count, {memory.address, 0, memory.stream, owner}));
    PERGOLA_TRY(give_handle(std::move(array), out));
    owner->is_ours = true;
    return {};
  });
}

pergola_code pergola_array_destroy(pergola_array array) {
  return capi::destroy<session::Array>(array, "array");
}

pergola_code pergola_array_get_info(pergola_array handle, pergola_array_info* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    array->note_told();
    pergola_array_info full{};
    full.type = static_cast<pergola_type>(array->type());
    full.element_bytes = array->element_bytes();
    full.count = array->count();
    full.size_bytes = array->size_bytes();
    full.address = array->address();
    full.location = static_cast<pergola_location>(array->location());
    return write_struct(full, out, "pergola_array_info", offsetof(pergola_array_info, location));
  });
}

pergola_code pergola_array_number(pergola_array handle, uint64_t* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "number"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    *out = array->number();
    return {};
  });
}

pergola_code pergola_array_write(pergola_array handle, uint64_t offset_bytes, const void* data, uint64_t size_bytes) {
  return guarded([&]() -> Status {
    if (size_bytes != 0) PERGOLA_TRY(check_pointer(data, "data"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->write(offset_bytes, {static_cast<const std::byte*>(data), static_cast<std::size_t>(size_bytes)});
  });
}

pergola_code pergola_array_wait(pergola_array handle, uint64_t offset_bytes, uint64_t size_bytes, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->wait(offset_bytes, size_bytes, timeout_of(timeout_ns));
  });
}

pergola_code pergola_array_read(pergola_array handle, uint64_t offset_bytes, void* data, uint64_t size_bytes) {
  return guarded([&]() -> Status {
    if (size_bytes != 0) PERGOLA_TRY(check_pointer(data, "data"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->read(offset_bytes, {static_cast<std::byte*>(data), static_cast<std::size_t>(size_bytes)});
  });
}

pergola_code pergola_array_view(pergola_array handle, const void** data, uint64_t* size_bytes) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(data, "data"));
    PERGOLA_TRY(check_pointer(size_bytes, "size_bytes"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    PERGOLA_ASSIGN(const std::span<const std::byte> bytes, array->view());
    *data = bytes.data();
    *size_bytes = bytes.size();
    return {};
  });
}

pergola_code pergola_array_host(pergola_array handle, pergola_access access, int64_t timeout_ns, void** data,
                                uint64_t* size_bytes) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(data, "data"));
    PERGOLA_TRY(check_pointer(size_bytes, "size_bytes"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    PERGOLA_ASSIGN(const std::span<std::byte> bytes,
                   array->host(static_cast<session::Access>(access), timeout_of(timeout_ns)));
    *data = bytes.data();
    *size_bytes = bytes.size();
    return {};
  });
}

pergola_code pergola_array_prefetch(pergola_array handle, pergola_location to) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->prefetch(static_cast<session::Location>(to));
  });
}

pergola_code pergola_array_fill(pergola_array handle, const void* value) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(value, "value"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->fill({static_cast<const std::byte*>(value), array->element_bytes()});
  });
}

pergola_code pergola_array_fill_range(pergola_array handle, uint64_t offset_bytes, uint64_t size_bytes,
                                      const void* value, uint64_t value_bytes) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(value, "value"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    return array->fill(offset_bytes, size_bytes,
                       {static_cast<const std::byte*>(value), static_cast<std::size_t>(value_bytes)});
  });
}

pergola_code pergola_array_copy(pergola_array destination_handle, uint64_t destination_offset_bytes,
                                pergola_array source_handle, uint64_t source_offset_bytes, uint64_t size_bytes) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto destination, object_of<session::Array>(destination_handle, "destination array"));
    PERGOLA_ASSIGN(auto source, object_of<session::Array>(source_handle, "source array"));
    return destination->copy_from(destination_offset_bytes, source, source_offset_bytes, size_bytes);
  });
}
