// Kernels and launches of the C interface.
#include <vector>

#include "src/capi/guard.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

constexpr uint32_t kKnownFlags = PERGOLA_LAUNCH_COOPERATIVE | PERGOLA_LAUNCH_MAY_BE_EMPTY;
constexpr std::size_t kMaxArguments = 4096;  // PTX ISA 5.1.6: parameters have at most 32764 bytes

Result<session::Argument> argument_of(const pergola_argument& given, std::size_t index) {
  switch (given.type) {
    case PERGOLA_TYPE_ARRAY: {
      auto array = object_of<session::Array>(given.value.array, fmt::format("array given as argument {}", index));
      if (!array.ok()) return array.status();
      return session::Argument(session::ArrayArgument{std::move(*array), given.offset_bytes});
    }
    case PERGOLA_TYPE_ADDRESS: return session::Argument(session::AddressArgument{given.value.u64});
    case PERGOLA_TYPE_BYTES: {
      if (given.size_bytes != 0) PERGOLA_TRY(check_pointer(given.value.bytes, fmt::format("of argument {}", index)));
      return session::Argument(session::BytesArgument{
          {static_cast<const std::byte*>(given.value.bytes), given.size_bytes}});
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

Result<std::vector<session::Argument>> arguments_of(const pergola_argument* given, std::size_t count) {
  std::vector<session::Argument> arguments;
  if (count == 0) return arguments;
  PERGOLA_TRY(check_pointer(given, "arguments"));
  if (count > kMaxArguments)
    return PERGOLA_ERROR(kInvalidArgument, "{} arguments are more than any kernel has.", count);
  const std::size_t stride = given->struct_size;
  arguments.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const pergola_argument*>(reinterpret_cast<const char*>(given) + i * stride);
    PERGOLA_ASSIGN(const pergola_argument one, read_struct(at, "pergola_argument"));
    if (one.struct_size != stride)
      return PERGOLA_ERROR(kInvalidArgument, "struct_size of argument {} is {} and that of argument 0 is {}; they "
                                             "should be equal.",
                           i, one.struct_size, stride);
    PERGOLA_ASSIGN(session::Argument argument, argument_of(one, i));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

pergola_code pergola_kernel_destroy(pergola_kernel kernel) { return capi::destroy<session::Kernel>(kernel, "kernel"); }

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
    return write_struct(full, out, "pergola_parameter_info");
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

pergola_code pergola_kernel_launch(pergola_kernel handle, const pergola_launch_config* given,
                                   const pergola_argument* given_arguments, size_t argument_count, pergola_event* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(given, "config"));
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(handle, "kernel"));
    PERGOLA_ASSIGN(const pergola_launch_config config, read_struct(given, "pergola_launch_config"));
    if ((config.flags & ~kKnownFlags) != 0)
      return PERGOLA_ERROR(kUnsupported, "The launch flags {:#x} are not known to version " PERGOLA_VERSION ".",
                           config.flags & ~kKnownFlags);
    PERGOLA_ASSIGN(const auto arguments, arguments_of(given_arguments, argument_count));
    const auto extent = [](uint32_t given_extent) { return given_extent == 0 ? 1 : given_extent; };
    session::LaunchShape shape;
    shape.grid = {config.grid[0], extent(config.grid[1]), extent(config.grid[2])};
    shape.block = {config.block[0], extent(config.block[1]), extent(config.block[2])};
    shape.dynamic_shared_bytes = config.dynamic_shared_bytes;
    shape.cooperative = (config.flags & PERGOLA_LAUNCH_COOPERATIVE) != 0;
    session::EventPtr event;
    if (config.grid[0] == 0 && (config.flags & PERGOLA_LAUNCH_MAY_BE_EMPTY) != 0) {
      PERGOLA_ASSIGN(event, kernel->launch_nothing(arguments));
    } else {
      PERGOLA_ASSIGN(event, kernel->launch(shape, arguments));
    }
    if (out == nullptr) return {};
    return give_handle(std::move(event), out);
  });
}
