// Sessions, modules and events of the C interface.
#include <string>
#include <vector>

#include "src/capi/guard.h"
#include "src/capi/hot_handles.h"
#include "src/runtime/runtime.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

Result<session::LoadOptions> load_options(const pergola_load_options* given) {
  PERGOLA_ASSIGN(const pergola_load_options options, read_struct(given, "pergola_load_options"));
  session::LoadOptions result;
  if (options.language < PERGOLA_LANGUAGE_AUTO || options.language > PERGOLA_LANGUAGE_PTX)
    return PERGOLA_ERROR(kInvalidArgument, "{} is no pergola_language.", options.language);
  result.language = static_cast<session::Language>(options.language);
  if (options.name != nullptr) result.name = options.name;
  if (options.compiler_flag_count != 0) PERGOLA_TRY(check_pointer(options.compiler_flags, "compiler_flags"));
  for (std::size_t i = 0; i < options.compiler_flag_count; ++i) {
    PERGOLA_TRY(check_pointer(options.compiler_flags[i], "in compiler_flags"));
    result.compiler_flags.emplace_back(options.compiler_flags[i]);
  }
  return result;
}

}  // namespace

pergola_code pergola_session_create(const pergola_session_options* given, pergola_session* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "session"));
    PERGOLA_ASSIGN(const pergola_session_options options, read_struct(given, "pergola_session_options"));
    PERGOLA_ASSIGN(auto session, runtime::create_session(options.device == nullptr ? "" : options.device,
                                                         options.scheduler == nullptr ? "" : options.scheduler));
    return give_handle(std::move(session), out);
  });
}

pergola_code pergola_session_destroy(pergola_session session) {
  return capi::destroy<session::Session>(session, "session");
}

pergola_code pergola_session_device(pergola_session handle, pergola_device_info* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    const device::DeviceInfo& info = session->device();
    pergola_device_info full{};
    full.id = info.id.c_str();
    full.name = info.name.c_str();
    full.driver = info.driver.c_str();
    full.compute_major = info.compute_major;
    full.compute_minor = info.compute_minor;
    full.sm_count = info.sm_count;
    full.warp_size_threads = info.warp_size_threads;
    full.max_threads_per_block = info.max_threads_per_block;
    full.max_block[0] = info.max_block.x, full.max_block[1] = info.max_block.y, full.max_block[2] = info.max_block.z;
    full.max_grid[0] = info.max_grid.x, full.max_grid[1] = info.max_grid.y, full.max_grid[2] = info.max_grid.z;
    full.max_shared_bytes_per_block = info.max_shared_bytes_per_block;
    full.memory_bytes = info.memory_bytes;
    return write_struct(full, out, "pergola_device_info");
  });
}

pergola_code pergola_session_synchronize(pergola_session handle) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->synchronize();
  });
}

pergola_code pergola_session_synchronize_for(pergola_session handle, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->synchronize(timeout_of(timeout_ns));
  });
}

pergola_code pergola_session_record(pergola_session handle, pergola_event* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "event"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(auto event, session->record());
    return give_handle(std::move(event), out);
  });
}

pergola_code pergola_session_dag(pergola_session handle, const char* format, const char** out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(format, "format"));
    PERGOLA_TRY(check_pointer(out, "text"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    static thread_local std::string text;  // as pergola_last_error()'s
    PERGOLA_ASSIGN(text, session->dag(format));
    *out = text.c_str();
    return {};
  });
}

pergola_code pergola_session_graphs(pergola_session handle, const char* format, const char** out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(format, "format"));
    PERGOLA_TRY(check_pointer(out, "text"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    static thread_local std::string text;  // as pergola_last_error()'s
    PERGOLA_ASSIGN(text, session->graphs(format));
    *out = text.c_str();
    return {};
  });
}

pergola_code pergola_session_trace(pergola_session handle, const char* path) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->trace(path == nullptr ? std::nullopt : std::optional<std::string>(path));
  });
}

pergola_code pergola_session_history(pergola_session handle, const char* path) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->history(path == nullptr ? std::nullopt : std::optional<std::string>(path));
  });
}

pergola_code pergola_session_use_history(pergola_session handle, const char* path) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(path, "path"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->use_history(path);
  });
}

pergola_code pergola_session_end_recordings(pergola_session handle, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->end_recordings(timeout_of(timeout_ns));
  });
}

pergola_code pergola_session_tuning(pergola_session handle, const char* path) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    return session->tuning(path == nullptr ? std::nullopt : std::optional<std::string>(path));
  });
}

pergola_code pergola_session_load_file(pergola_session handle, const char* path, const pergola_load_options* given,
                                       pergola_module* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(path, "path"));
    PERGOLA_TRY(check_pointer(out, "module"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const session::LoadOptions options, load_options(given));
    PERGOLA_ASSIGN(auto module, session->load_file(path, options));
    return give_handle(std::move(module), out);
  });
}

pergola_code pergola_session_load_text(pergola_session handle, const char* text, size_t size_bytes,
                                       const pergola_load_options* given, pergola_module* out) {
  return guarded([&]() -> Status {
    if (size_bytes != 0) PERGOLA_TRY(check_pointer(text, "text"));
    PERGOLA_TRY(check_pointer(out, "module"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const session::LoadOptions options, load_options(given));
    PERGOLA_ASSIGN(auto module, session->load_text(std::string_view(size_bytes == 0 ? "" : text, size_bytes), options));
    return give_handle(std::move(module), out);
  });
}

pergola_code pergola_module_destroy(pergola_module module) {
  return capi::destroy<session::Module>(module, "module");
}

pergola_code pergola_module_kernel_name(pergola_module handle, size_t index, const char** out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "name"));
    PERGOLA_ASSIGN(auto module, object_of<session::Module>(handle, "module"));
    const std::vector<std::string>& names = module->kernel_names();
    *out = index < names.size() ? names[index].c_str() : nullptr;
    return {};
  });
}

pergola_code pergola_module_kernel_refusal(pergola_module handle, size_t index, const char** out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "reason"));
    PERGOLA_ASSIGN(auto module, object_of<session::Module>(handle, "module"));
    *out = index < module->kernel_names().size() ? module->refusal(index).c_str() : "";
    return {};
  });
}

pergola_code pergola_module_kernel(pergola_module handle, const char* name, pergola_kernel* out) {
  return pergola_module_kernel_as(handle, name, nullptr, out);
}

pergola_code pergola_module_kernel_as(pergola_module handle, const char* name, const char* signature,
                                      pergola_kernel* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(name, "name"));
    PERGOLA_TRY(check_pointer(out, "kernel"));
    PERGOLA_ASSIGN(auto module, object_of<session::Module>(handle, "module"));
    PERGOLA_ASSIGN(
        auto kernel,
        module->kernel(name, signature == nullptr ? std::nullopt : std::optional<std::string_view>(signature)));
    void* made = nullptr;
    PERGOLA_TRY(HotHandles::give(std::move(kernel), HandleKind::kKernel, "kernel", &made));
    *out = static_cast<pergola_kernel>(made);
    return {};
  });
}

pergola_code pergola_event_destroy(pergola_event event) {
  return capi::destroy<session::Event>(event, "event");
}

pergola_code pergola_event_wait(pergola_event handle, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto event, object_of<session::Event>(handle, "event"));
    return event->wait(timeout_of(timeout_ns));
  });
}

pergola_code pergola_event_done(pergola_event handle, int32_t* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "done"));
    PERGOLA_ASSIGN(auto event, object_of<session::Event>(handle, "event"));
    *out = event->poll().has_value() ? 1 : 0;
    return {};
  });
}

pergola_code pergola_event_elapsed_ns(pergola_event start_handle, pergola_event end_handle, double* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "nanoseconds"));
    PERGOLA_ASSIGN(auto start, object_of<session::Event>(start_handle, "start event"));
    PERGOLA_ASSIGN(auto end, object_of<session::Event>(end_handle, "end event"));
    PERGOLA_ASSIGN(*out, end->elapsed_ns(*start));
    return {};
  });
}
