#include "src/capi/arguments.h"

namespace pergola::capi {
namespace {

constexpr uint32_t kLaunchFlags = PERGOLA_LAUNCH_COOPERATIVE | PERGOLA_LAUNCH_MAY_BE_EMPTY;
constexpr std::size_t kMaxArguments = 4096;  // PTX ISA 5.1.6: parameters have at most 32764 bytes

// The words for a failure are only put together for one.
template <typename T>
Result<std::shared_ptr<T>> object_at(typename HandleTraits<T>::Handle handle, std::string_view kind, std::size_t index,
                                     const HandleTable::Reading& handles) {
  Result<std::shared_ptr<T>> object = object_of<T>(handle, kind, handles);
  if (object.ok()) return object;
  return object_of<T>(handle, fmt::format("{} given as argument {}", kind, index), handles);
}

Result<session::Argument> argument_of(const pergola_argument& given, std::size_t index,
                                      const HandleTable::Reading& handles) {
  switch (given.type) {
    case PERGOLA_TYPE_ARRAY: {
      auto array = object_at<session::Array>(given.value.array, "array", index, handles);
      if (!array.ok()) return array.status();
      return session::Argument(session::ArrayArgument{std::move(*array), given.offset_bytes});
    }
    case PERGOLA_TYPE_TEXTURE: {
      auto texture = object_at<session::Texture>(given.value.texture, "texture", index, handles);
      if (!texture.ok()) return texture.status();
      return session::Argument(session::TextureArgument{std::move(*texture)});
    }
    case PERGOLA_TYPE_ADDRESS: return session::Argument(session::AddressArgument{given.value.u64});
    case PERGOLA_TYPE_BYTES: {
      if (given.size_bytes != 0 && given.value.bytes == nullptr)
        return check_pointer(nullptr, fmt::format("of argument {}", index));
      return session::Argument(
          session::BytesArgument{{static_cast<const std::byte*>(given.value.bytes), given.size_bytes}});
    }
    default: break;
  }
  const auto type = static_cast<session::ElementType>(given.type);
  if (!session::is_valid(type) || session::size_bytes(type) > sizeof(std::uint64_t) ||
      type == session::ElementType::kC64)
    return PERGOLA_ERROR(kInvalidArgument, "Argument {} has type {}, which no argument has.", index, given.type);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &given.value, session::size_bytes(type));
  return session::Argument(session::Number{type, bits});
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
  for (std::size_t i = 0; i < count; ++i) {
    PERGOLA_ASSIGN(const pergola_argument one, read_element(given, i, "argument", "pergola_argument"));
    PERGOLA_ASSIGN(session::Argument argument, argument_of(one, i, handles));
    out.push_back(std::move(argument));
  }
  return {};
}

Result<LaunchConfig> read_config(const pergola_launch_config* given) {
  PERGOLA_TRY(check_pointer(given, "config"));
  PERGOLA_ASSIGN(const pergola_launch_config config, read_struct(given, "pergola_launch_config"));
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
