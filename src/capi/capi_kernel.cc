// Kernels and launches of the C interface.
#include "src/base/plural.h"
#include "src/capi/arguments.h"
#include "src/capi/guard.h"
#include "src/capi/hot_handles.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

pergola_code pergola_kernel_destroy(pergola_kernel kernel) {
  return guarded([&]() -> Status { return HotHandles::destroy(kernel, HandleKind::kKernel, "kernel"); });
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
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' has {}; there is no parameter {}.", info.name,
                           plural(info.parameters.size(), "parameter"), index);
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
    session::KernelPtr kernel;  // of those that have no hot handle
    const HotHandles::Use use(handle, HandleKind::kKernel);
    const auto* of = static_cast<const session::Kernel*>(use.object());
    if (of == nullptr) {
      PERGOLA_ASSIGN(kernel, object_of<session::Kernel>(handle, "kernel"));
      of = kernel.get();
    }
    PERGOLA_ASSIGN(const auto config, session::for_each_config(of->info(), count));
    pergola_launch_config full{};
    full.grid[0] = config.grid.x, full.grid[1] = config.grid.y, full.grid[2] = config.grid.z;
    full.block[0] = config.block.x, full.block[1] = config.block.y, full.block[2] = config.block.z;
    if (count == 0) full.flags = PERGOLA_LAUNCH_MAY_BE_EMPTY;
    return write_struct(full, out, "pergola_launch_config");
  });
}

namespace {

constexpr std::size_t kLongestText = 64;  // arguments

// Where the structs are of this version, so that the bytes are there; else none, which has no kernel.
[[gnu::always_inline]] inline CallText text_of(pergola_kernel handle, const pergola_launch_config* config,
                                               std::span<const std::byte> arguments, std::span<const std::byte> types,
                                               std::size_t count) {
  if (config == nullptr || config->struct_size != sizeof *config || count == 0 || count > kLongestText) return {};
  return CallText{handle,
                  std::as_bytes(std::span(config, 1)),
                  arguments,
                  &dropped_arguments,
                  dropped_arguments.load(std::memory_order_acquire),
                  types};
}
CallText text_of(pergola_kernel handle, const pergola_launch_config* config, const pergola_argument* arguments,
                 std::size_t count) {
  if (arguments == nullptr || count == 0 || arguments->struct_size != sizeof *arguments) return {};
  return text_of(handle, config, std::as_bytes(std::span(arguments, count)), {}, count);
}
CallText text_of(pergola_kernel handle, const pergola_launch_config* config, const pergola_type* types,
                 const std::uint64_t* values, std::size_t count) {
  if (types == nullptr || values == nullptr) return {};
  return text_of(handle, config, std::as_bytes(std::span(values, count)), std::as_bytes(std::span(types, count)),
                 count);
}

// A caller's bytes may change where they are.
bool has_bytes(const pergola_argument* arguments, std::size_t count) {
  return std::any_of(arguments, arguments + count,
                     [](const pergola_argument& argument) { return argument.type == PERGOLA_TYPE_BYTES; });
}

// A launch that recurs, without a look at its arguments; else none.
[[gnu::always_inline]] inline std::optional<Status> launch_again(pergola_kernel handle, const CallText& text,
                                                                 std::uint64_t* ticket) {
  const HotHandles::Use use(handle, HandleKind::kKernel);
  if (use.object() == nullptr) return std::nullopt;
  return static_cast<session::Kernel*>(use.object())->launch_again(text, ticket);
}

// Checks everything and launches; `event` and `ticket` may be null. `read_all(handles, arguments)` gives the arguments;
// `text` is null where the caller's bytes do not say everything.
template <typename ReadAll>
Status launch_checked(pergola_kernel handle, const pergola_launch_config* given, const ReadAll& read_all,
                      const CallText* text, session::EventPtr* event, std::uint64_t* ticket) {
  PERGOLA_ASSIGN(const LaunchConfig config, read_config(given));
  session::KernelPtr kernel;
  Arguments arguments;
  {
    const HandleTable::Reading handles(HandleTable::instance());
    PERGOLA_ASSIGN(kernel, object_of<session::Kernel>(handle, "kernel", handles));
    PERGOLA_TRY(read_all(handles, arguments));
  }
  if (config.shape.grid.x == 0 && config.may_be_empty) return kernel->launch_nothing(arguments, event);
  return kernel->launch(config.shape, arguments, event, ticket, text);
}

[[gnu::noinline]] Status launch_arguments(pergola_kernel handle, const pergola_launch_config* config,
                                          const pergola_argument* given, std::size_t count, const CallText& text,
                                          session::EventPtr* event, std::uint64_t* ticket) {
  const auto read_all = [&](const HandleTable::Reading& handles, Arguments& out) {
    return read_arguments(given, count, handles, out);
  };
  const bool is_whole = text.kernel != nullptr && !has_bytes(given, count);
  return launch_checked(handle, config, read_all, is_whole ? &text : nullptr, event, ticket);
}

[[gnu::noinline]] Status launch_values(pergola_kernel handle, const pergola_launch_config* config,
                                       const pergola_type* types, const std::uint64_t* values, std::size_t count,
                                       const CallText& text, std::uint64_t* ticket) {
  const auto read_all = [&](const HandleTable::Reading& handles, Arguments& out) {
    return read_values(types, values, count, handles, out);
  };
  return launch_checked(handle, config, read_all, text.kernel != nullptr ? &text : nullptr, nullptr, ticket);
}

// A launch without an event. All that is left to do for one that recurs, so that it is part of its callers; the rest is
// for `otherwise`.
template <typename Otherwise>
[[gnu::always_inline]] inline Status submit(pergola_kernel handle, const CallText& text, std::uint64_t* ticket,
                                            Otherwise&& otherwise) {
  if (text.kernel != nullptr)
    if (std::optional<Status> again = launch_again(handle, text, ticket)) return *std::move(again);
  return otherwise();
}

}  // namespace

pergola_code pergola_kernel_launch(pergola_kernel kernel, const pergola_launch_config* config,
                                   const pergola_argument* arguments, size_t argument_count, pergola_event* out) {
  return guarded([&]() -> Status {
    const CallText text = text_of(kernel, config, arguments, argument_count);
    if (out == nullptr)
      return submit(kernel, text, nullptr, [&] {
        return launch_arguments(kernel, config, arguments, argument_count, text, nullptr, nullptr);
      });
    session::EventPtr event;
    PERGOLA_TRY(launch_arguments(kernel, config, arguments, argument_count, text, &event, nullptr));
    return give_handle(std::move(event), out);
  });
}

pergola_code pergola_kernel_submit(pergola_kernel kernel, const pergola_launch_config* config,
                                   const pergola_argument* arguments, size_t argument_count, uint64_t* ticket) {
  return guarded([&]() __attribute__((always_inline)) -> Status {
    PERGOLA_TRY(check_pointer(ticket, "ticket"));
    std::uint64_t given = 0;
    const CallText text = text_of(kernel, config, arguments, argument_count);
    PERGOLA_TRY(submit(kernel, text, &given, [&] {
      return launch_arguments(kernel, config, arguments, argument_count, text, nullptr, &given);
    }));
    *ticket = given;
    return {};
  });
}

pergola_code pergola_kernel_submit_values(pergola_kernel kernel, const pergola_launch_config* config,
                                          const pergola_type* types, const uint64_t* values, size_t argument_count,
                                          uint64_t* ticket) {
  return guarded([&]() __attribute__((always_inline)) -> Status {
    PERGOLA_TRY(check_pointer(ticket, "ticket"));
    std::uint64_t given = 0;
    const CallText text = text_of(kernel, config, types, values, argument_count);
    PERGOLA_TRY(submit(kernel, text, &given,
                       [&] { return launch_values(kernel, config, types, values, argument_count, text, &given); }));
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
