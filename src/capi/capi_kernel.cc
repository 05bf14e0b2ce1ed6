// Kernels and launches of the C interface.
#include <boost/container/small_vector.hpp>

#include "src/capi/guard.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

constexpr uint32_t kLaunchFlags = PERGOLA_LAUNCH_COOPERATIVE | PERGOLA_LAUNCH_MAY_BE_EMPTY;
constexpr std::size_t kMaxArguments = 4096;  // PTX ISA 5.1.6: parameters have at most 32764 bytes

using Arguments = boost::container::small_vector<session::Argument, 16>;

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

Status read_arguments(const pergola_argument* given, std::size_t count, const HandleTable::Reading& handles,
                      Arguments& out) {
  if (count == 0) return {};
  PERGOLA_TRY(check_pointer(given, "arguments"));
  if (count > kMaxArguments)
    return PERGOLA_ERROR(kInvalidArgument, "{} arguments are more than any kernel has.", count);
  const std::size_t stride = given->struct_size;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const pergola_argument*>(reinterpret_cast<const char*>(given) + i * stride);
    PERGOLA_ASSIGN(const pergola_argument one, read_struct(at, "pergola_argument"));
    if (one.struct_size != stride)
      return PERGOLA_ERROR(kInvalidArgument,
                           "struct_size of argument {} is {} and that of argument 0 is {}; they "
                           "should be equal.",
                           i, one.struct_size, stride);
    PERGOLA_ASSIGN(session::Argument argument, argument_of(one, i, handles));
    out.push_back(std::move(argument));
  }
  return {};
}

}  // namespace

pergola_code pergola_kernel_destroy(pergola_kernel kernel) {
  return capi::destroy<session::Kernel>(kernel, "kernel");
}

pergola_code pergola_kernel_get_info(pergola_kernel handle, pergola_kernel_info* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(handle, "kernel"));
    const session::KernelInfo& info = kernel->info();
    pergola_kernel_info full{};
    full.name = info.name.c_str();
    full.parameter_count = info.parameters.size();
    full.parameter_bytes = info.parameter_bytes;
    full.static_shared_bytes = info.static_shared_bytes;
    full.registers_per_thread = info.registers_per_thread;
    full.local_bytes_per_thread = info.local_bytes_per_thread;
    full.max_threads_per_block = info.max_threads_per_block;
    if (info.required_threads)
      for (std::size_t i = 0; i < 3; ++i) full.required_block[i] = (*info.required_threads)[i];
    full.universal_access = static_cast<pergola_access>(info.universal_access);
    full.universal_reason = info.universal_reason.c_str();
    return write_struct(full, out, "pergola_kernel_info");
  });
}

pergola_code pergola_kernel_parameter(pergola_kernel handle, size_t index, pergola_parameter_info* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(handle, "kernel"));
    const session::KernelInfo& info = kernel->info();
    if (index >= info.parameters.size())
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' has {} parameters; there is no parameter {}.", info.name,
                           info.parameters.size(), index);
    const session::ParameterInfo& parameter = info.parameters[index];
    pergola_parameter_info full{};
    full.name = parameter.name.c_str();
    full.type_name = parameter.type_name.c_str();
    full.kind = static_cast<pergola_parameter_kind>(parameter.kind);
    full.offset_bytes = parameter.offset_bytes;
    full.size_bytes = parameter.size_bytes;
    full.align_bytes = parameter.align_bytes;
    full.access = static_cast<pergola_access>(parameter.access);
    full.reason = parameter.reason.c_str();
    full.direction = static_cast<pergola_direction>(parameter.direction);
    full.declaration = parameter.declaration.c_str();
    return write_struct(full, out, "pergola_parameter_info", offsetof(pergola_parameter_info, direction));
  });
}

pergola_code pergola_kernel_for_each(pergola_kernel handle, uint64_t count, pergola_launch_config* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(handle, "kernel"));
    PERGOLA_ASSIGN(const auto config, session::for_each_config(kernel->info(), count));
    pergola_launch_config full{};
    full.grid[0] = config.grid.x, full.grid[1] = config.grid.y, full.grid[2] = config.grid.z;
    full.block[0] = config.block.x, full.block[1] = config.block.y, full.block[2] = config.block.z;
    if (count == 0) full.flags = PERGOLA_LAUNCH_MAY_BE_EMPTY;
    return write_struct(full, out, "pergola_launch_config");
  });
}

namespace {

// Checks everything and launches; `event` and `ticket` may be null.
Status launch(pergola_kernel handle, const pergola_launch_config* given, const pergola_argument* given_arguments,
              std::size_t argument_count, session::EventPtr* event, std::uint64_t* ticket) {
  PERGOLA_TRY(check_pointer(given, "config"));
  PERGOLA_ASSIGN(const pergola_launch_config config, read_struct(given, "pergola_launch_config"));
  if ((config.flags & ~kLaunchFlags) != 0)
    return PERGOLA_ERROR(kUnsupported, "The launch flags {:#x} are not known to version " PERGOLA_VERSION ".",
                         config.flags & ~kLaunchFlags);
  session::KernelPtr kernel;
  Arguments arguments;
  {
    const HandleTable::Reading handles(HandleTable::instance());
    PERGOLA_ASSIGN(kernel, object_of<session::Kernel>(handle, "kernel", handles));
    PERGOLA_TRY(read_arguments(given_arguments, argument_count, handles, arguments));
  }
  const auto extent = [](uint32_t given_extent) { return given_extent == 0 ? 1 : given_extent; };
  session::LaunchShape shape;
  shape.grid = {config.grid[0], extent(config.grid[1]), extent(config.grid[2])};
  shape.block = {config.block[0], extent(config.block[1]), extent(config.block[2])};
  shape.dynamic_shared_bytes = config.dynamic_shared_bytes;
  shape.cooperative = (config.flags & PERGOLA_LAUNCH_COOPERATIVE) != 0;
  if (config.grid[0] == 0 && (config.flags & PERGOLA_LAUNCH_MAY_BE_EMPTY) != 0)
    return kernel->launch_nothing(arguments, event);
  return kernel->launch(shape, arguments, event, ticket);
}

}  // namespace

pergola_code pergola_kernel_launch(pergola_kernel kernel, const pergola_launch_config* config,
                                   const pergola_argument* arguments, size_t argument_count, pergola_event* out) {
  return guarded([&]() -> Status {
    session::EventPtr event;
    PERGOLA_TRY(launch(kernel, config, arguments, argument_count, out == nullptr ? nullptr : &event, nullptr));
    if (out == nullptr) return {};
    return give_handle(std::move(event), out);
  });
}

pergola_code pergola_kernel_submit(pergola_kernel kernel, const pergola_launch_config* config,
                                   const pergola_argument* arguments, size_t argument_count, uint64_t* ticket) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(ticket, "ticket"));
    std::uint64_t given = 0;
    PERGOLA_TRY(launch(kernel, config, arguments, argument_count, nullptr, &given));
    *ticket = given;
    return {};
  });
}

pergola_code pergola_kernel_event(pergola_kernel handle, uint64_t ticket, pergola_event* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "event"));
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(handle, "kernel"));
    PERGOLA_ASSIGN(auto event, kernel->event_of(ticket));
    return give_handle(std::move(event), out);
  });
}
