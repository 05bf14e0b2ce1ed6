#include "src/capi/arguments.h"

namespace pergola::capi {
namespace {

constexpr uint32_t kLaunchFlags = PERGOLA_LAUNCH_COOPERATIVE | PERGOLA_LAUNCH_MAY_BE_EMPTY;
constexpr std::size_t kMaxArguments = 4096;  // PTX ISA 5.1.6: parameters have at most 32764 bytes

// Of an argument, what no other structure has: a type and a value, of an array also where in it the kernel begins.
struct Given {
  pergola_type type;
  std::uint64_t value, offset_bytes, size_bytes;
};

// The words for a failure are only put together for one.
template <typename T>
[[gnu::noinline]] Status refuse(const void* handle, std::string_view kind, std::size_t index,
                                const HandleTable::Reading& handles) {
  return handles.find(HandleTraits<T>::kKind, handle, fmt::format("{} given as argument {}", kind, index)).status();
}

Status add_number(const Given& given, std::size_t index, Arguments& out) {
  const auto type = static_cast<session::ElementType>(given.type);
  const std::size_t size = session::size_bytes(type);  // 0 where there is no such type
  if (size == 0 || size > sizeof given.value || type == session::ElementType::kC64)
    return PERGOLA_ERROR(kInvalidArgument, "Argument {} has type {}, which no argument has.", index, given.type);
  const std::uint64_t bits = size == 8 ? given.value : given.value & ((std::uint64_t{1} << 8 * size) - 1);
  out.emplace_back(session::Number{type, bits});
  return {};
}

[[gnu::always_inline]] inline Status add_argument(const Given& given, std::size_t index,
                                                  const HandleTable::Reading& handles, Arguments& out) {
  const auto* const handle = reinterpret_cast<const void*>(given.value);
  switch (given.type) {
    case PERGOLA_TYPE_ARRAY: {
      const std::shared_ptr<void>* const found = handles.look(HandleKind::kArray, handle);
      if (found == nullptr) return refuse<session::Array>(handle, "array", index, handles);
      out.emplace_back(session::ArrayArgument{std::static_pointer_cast<session::Array>(*found), given.offset_bytes,
                                              given.size_bytes});
      return {};
    }
    case PERGOLA_TYPE_TEXTURE: {
      const std::shared_ptr<void>* const found = handles.look(HandleKind::kTexture, handle);
      if (found == nullptr) return refuse<session::Texture>(handle, "texture", index, handles);
      out.emplace_back(session::TextureArgument{std::static_pointer_cast<session::Texture>(*found)});
      return {};
    }
    case PERGOLA_TYPE_ADDRESS: out.emplace_back(session::AddressArgument{given.value}); return {};
    default: return add_number(given, index, out);
  }
}

Status add_bytes(const pergola_argument& given, std::size_t index, Arguments& out) {
  if (given.size_bytes != 0 && given.value.bytes == nullptr)
    return check_pointer(nullptr, fmt::format("of argument {}", index));
  out.emplace_back(session::BytesArgument{{static_cast<const std::byte*>(given.value.bytes), given.size_bytes}});
  return {};
}

}  // namespace

Status check_argument_count(std::size_t count) {
  if (count <= kMaxArguments) return {};
  return PERGOLA_ERROR(kInvalidArgument, "{} arguments are more than any kernel has.", count);
}

Status read_arguments(const pergola_argument* given, std::size_t count, const HandleTable::Reading& handles,
                      Arguments& out) {
  if (count == 0) return {};
  PERGOLA_TRY(check_pointer(given, "arguments"));
  PERGOLA_TRY(check_argument_count(count));
  out.reserve(count);
  const bool are_this_versions = given->struct_size == sizeof *given;
  pergola_argument other;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_this_versions = are_this_versions && given[i].struct_size == sizeof *given;
    if (!is_this_versions) {
      PERGOLA_ASSIGN(other, read_element(given, i, "argument", "pergola_argument"));
    }
    const pergola_argument& one = is_this_versions ? given[i] : other;
    PERGOLA_TRY(one.type == PERGOLA_TYPE_BYTES
                    ? add_bytes(one, i, out)
                    : add_argument({one.type, one.value.u64, one.offset_bytes, one.size_bytes}, i, handles, out));
  }
  return {};
}

Status read_values(const pergola_type* types, const std::uint64_t* values, std::size_t count,
                   const HandleTable::Reading& handles, Arguments& out) {
  if (count == 0) return {};
  PERGOLA_TRY(check_pointer(types, "types"));
  PERGOLA_TRY(check_pointer(values, "values"));
  PERGOLA_TRY(check_argument_count(count));
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (types[i] == PERGOLA_TYPE_BYTES)
      return PERGOLA_ERROR(kInvalidArgument,
                           "Argument {} has the type BYTES, which no value of 8 bytes is: use pergola_kernel_submit().",
                           i);
    PERGOLA_TRY(add_argument({types[i], values[i], 0, 0}, i, handles, out));
  }
  return {};
}

Result<LaunchConfig> read_config(const pergola_launch_config* given) {
  PERGOLA_TRY(check_pointer(given, "config"));
  pergola_launch_config other;
  const bool is_this_versions = given->struct_size == sizeof other;
  if (!is_this_versions) {
    PERGOLA_ASSIGN(other, read_struct(given, "pergola_launch_config"));
  }
  const pergola_launch_config& config = is_this_versions ? *given : other;
  if ((config.flags & ~kLaunchFlags) != 0)
    return PERGOLA_ERROR(kUnsupported, "The launch flags {:#x} are not known to version " PERGOLA_VERSION ".",
                         config.flags & ~kLaunchFlags);
  const auto extent = [](uint32_t given_extent) { return given_extent == 0 ? 1 : given_extent; };
  LaunchConfig result;
  result.shape.grid = {config.grid[0], extent(config.grid[1]), extent(config.grid[2])};
  result.shape.block = {config.block[0], extent(config.block[1]), extent(config.block[2])};
  result.shape.dynamic_shared_bytes = config.dynamic_shared_bytes;
  result.shape.cooperative = (config.flags & PERGOLA_LAUNCH_COOPERATIVE) != 0;
  result.may_be_empty = (config.flags & PERGOLA_LAUNCH_MAY_BE_EMPTY) != 0;
  return result;
}

}  // namespace pergola::capi
