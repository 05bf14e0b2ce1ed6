// Pools of narrow tasks of the C interface. Spawning is what they are for: pergola_task_spawn_packed() is called tens
// of millions of times a second, so it looks its handle up without the table's lock (hot_handles.h) and makes nothing.
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/plural.h"
#include "src/capi/arguments.h"
#include "src/capi/guard.h"
#include "src/capi/hot_handles.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

Result<session::TaskPoolOptions> pool_options(const pergola_task_pool_options* given) {
  PERGOLA_ASSIGN(const pergola_task_pool_options options, read_struct(given, "pergola_task_pool_options"));
  if (options.executor > PERGOLA_TASK_EXECUTOR_THREADS)
    return PERGOLA_ERROR(kUnsupported,
                         "executor of pergola_task_pool_options is {}; it should be 0 (usual), 1 (resident) or 2 "
                         "(threads).",
                         options.executor);
  if (options.park_after_ns < 0)
    return PERGOLA_ERROR(kInvalidArgument, "park_after_ns is {}; it should be 0 (the usual) or more.",
                         options.park_after_ns);
  session::TaskPoolOptions result;
  result.blocks = options.blocks;
  result.fences = options.no_fences == 0;
  result.slices = options.slices != 0;
  result.executor = static_cast<session::TaskExecutor>(options.executor);
  result.park_after = std::chrono::ceil<std::chrono::microseconds>(std::chrono::nanoseconds(options.park_after_ns));
  return result;
}

Result<std::vector<session::TaskColumn>> read_columns(const pergola_task_column* given, std::size_t count,
                                                      std::span<const session::Argument> arguments) {
  std::vector<session::TaskColumn> columns;
  if (count == 0) return columns;
  PERGOLA_TRY(check_pointer(given, "columns"));
  if (count > arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "There are {} of {}.", plural(count, "column"),
                         plural(arguments.size(), "argument"));
  for (std::size_t i = 0; i < count; ++i) {
    PERGOLA_ASSIGN(const pergola_task_column one, read_element(given, i, "column", "pergola_task_column"));
    const auto* sample =
        one.argument < arguments.size() ? std::get_if<session::Number>(&arguments[one.argument]) : nullptr;
    if (sample == nullptr)
      return PERGOLA_ERROR(kInvalidArgument, "Column {} is of argument {}, which is no number.", i, one.argument);
    for (std::size_t earlier = 0; earlier < i; ++earlier)
      if (columns[earlier].argument == one.argument)
        return PERGOLA_ERROR(kInvalidArgument, "Columns {} and {} are both of argument {}.", earlier, i, one.argument);
    PERGOLA_TRY(check_pointer(one.values, "values of a column"));
    const std::size_t size_bytes = session::size_bytes(sample->type);
    if (one.stride_bytes != 0 && one.stride_bytes < size_bytes)
      return PERGOLA_ERROR(kInvalidArgument, "stride_bytes of column {} is {}, less than its numbers' {}.", i,
                           one.stride_bytes, size_bytes);
    columns.push_back({one.argument, static_cast<const std::byte*>(one.values),
                       one.stride_bytes == 0 ? size_bytes : one.stride_bytes});
  }
  return columns;
}

Result<session::TaskId> spawn_packed(session::TaskKind& kind, const void* parameters, size_t size_bytes) {
  return kind.spawn_packed({static_cast<const std::byte*>(parameters), size_bytes});
}

// The rest of pergola_task_spawn_packed(), apart and without exceptions so that what it begins with has no frame for
// them. First: where there is something to say about the handle or the pointer, and for threads that have no note.
[[gnu::noinline]] pergola_code spawn_packed_slowly(pergola_task_kind handle, const void* parameters, size_t size_bytes,
                                                   uint64_t* id) noexcept {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto kind, object_of<session::TaskKind>(handle, "task kind"));
    if (size_bytes != 0) PERGOLA_TRY(check_pointer(parameters, "parameters"));
    PERGOLA_ASSIGN(const session::TaskId spawned, spawn_packed(*kind, parameters, size_bytes));
    if (id != nullptr) *id = spawned;
    return {};
  });
}

// Second: where the task does not go at once. guarded(), unrolled: of a forked child's threads none has a note.
[[gnu::noinline]] pergola_code spawn_packed_in_time(session::TaskKind& kind, const void* parameters, size_t size_bytes,
                                                    uint64_t* id) noexcept {
  try {
    const Result<session::TaskId> spawned = spawn_packed(kind, parameters, size_bytes);
    if (!spawned.ok()) [[unlikely]]
      return fail(spawned.code(), spawned.message());
    if (id != nullptr) *id = *spawned;
    return PERGOLA_OK;
  } catch (...) {
    return guarded([]() -> Status { throw; });
  }
}

// A handle that the hot path finds too.
Status give_kind(session::TaskKindPtr kind, pergola_task_kind* out) {
  void* made = nullptr;
  PERGOLA_TRY(HotHandles::give(std::move(kind), HandleKind::kTaskKind, "task kind", &made));
  *out = static_cast<pergola_task_kind>(made);
  return {};
}

}  // namespace

pergola_code pergola_session_task_pool(pergola_session handle, const pergola_task_pool_options* given,
                                       pergola_task_pool* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "pool"));
    PERGOLA_ASSIGN(auto session, object_of<session::Session>(handle, "session"));
    PERGOLA_ASSIGN(const session::TaskPoolOptions options, pool_options(given));
    PERGOLA_ASSIGN(auto pool, session->task_pool(options));
    return give_handle(std::move(pool), out);
  });
}

pergola_code pergola_task_pool_destroy(pergola_task_pool pool) {
  return capi::destroy<session::TaskPool>(pool, "task pool");
}

pergola_code pergola_task_pool_prepare(pergola_task_pool pool_handle, pergola_kernel kernel_handle,
                                       const pergola_launch_config* given, pergola_task_kind* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "kind"));
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(pool_handle, "task pool"));
    PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(kernel_handle, "kernel"));
    PERGOLA_ASSIGN(const LaunchConfig config, read_config(given));
    PERGOLA_ASSIGN(auto kind, pool->prepare(kernel, config.shape));
    return give_kind(std::move(kind), out);
  });
}

pergola_code pergola_task_pool_add_kernels(pergola_task_pool pool_handle, const pergola_kernel* given, size_t count) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(pool_handle, "task pool"));
    if (count != 0) PERGOLA_TRY(check_pointer(given, "kernels"));
    std::vector<session::KernelPtr> kernels;
    for (size_t i = 0; i < count; ++i) {
      PERGOLA_ASSIGN(auto kernel, object_of<session::Kernel>(given[i], "kernel"));
      kernels.push_back(std::move(kernel));
    }
    return pool->add_kernels(kernels);
  });
}

pergola_code pergola_task_kind_destroy(pergola_task_kind handle) {
  return guarded([&]() -> Status { return HotHandles::destroy(handle, HandleKind::kTaskKind, "task kind"); });
}

pergola_code pergola_task_kind_with_priority(pergola_task_kind handle, pergola_task_priority priority,
                                             pergola_task_kind* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "other"));
    PERGOLA_ASSIGN(auto kind, object_of<session::TaskKind>(handle, "task kind"));
    if (priority != PERGOLA_TASK_PRIORITY_NORMAL && priority != PERGOLA_TASK_PRIORITY_HIGH)
      return PERGOLA_ERROR(kInvalidArgument, "The priority is {}; it should be 0 (normal) or 1 (high).",
                           static_cast<int>(priority));
    PERGOLA_ASSIGN(auto other, kind->with_priority(static_cast<session::TaskPriority>(priority)));
    return give_kind(std::move(other), out);
  });
}

pergola_code pergola_task_kind_on_device(pergola_task_kind handle, uint64_t* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "handle"));
    PERGOLA_ASSIGN(auto kind, object_of<session::TaskKind>(handle, "task kind"));
    PERGOLA_ASSIGN(*out, kind->on_device());
    return {};
  });
}

pergola_code pergola_task_spawn(pergola_task_kind handle, const pergola_argument* given, size_t count, uint64_t* id) {
  return guarded([&]() -> Status {
    session::TaskKindPtr kind;
    Arguments arguments;
    {
      const HandleTable::Reading handles(HandleTable::instance());
      PERGOLA_ASSIGN(kind, object_of<session::TaskKind>(handle, "task kind", handles));
      PERGOLA_TRY(read_arguments(given, count, handles, arguments));
    }
    PERGOLA_ASSIGN(const session::TaskId spawned, kind->spawn(arguments));
    if (id != nullptr) *id = spawned;
    return {};
  });
}

pergola_code pergola_task_spawn_packed(pergola_task_kind handle, const void* parameters, size_t size_bytes,
                                       uint64_t* id) {
  const HotHandles::Use use(handle, HandleKind::kTaskKind);
  if (use.object() == nullptr || (parameters == nullptr && size_bytes != 0)) [[unlikely]]
    return spawn_packed_slowly(handle, parameters, size_bytes, id);
  session::TaskKind& kind = *static_cast<session::TaskKind*>(use.object());
  const session::TaskId at_once = kind.try_spawn_packed({static_cast<const std::byte*>(parameters), size_bytes});
  if (at_once == 0) [[unlikely]]
    return spawn_packed_in_time(kind, parameters, size_bytes, id);
  if (id != nullptr) *id = at_once;
  return PERGOLA_OK;
}

pergola_code pergola_task_spawn_many(pergola_task_kind handle, const void* parameters, size_t size_bytes,
                                     size_t stride_bytes, size_t count, uint64_t* ids, size_t* spawned) {
  std::size_t there = 0;
  const pergola_code code = guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto kind, object_of<session::TaskKind>(handle, "task kind"));
    if (size_bytes != 0 && count != 0) PERGOLA_TRY(check_pointer(parameters, "parameters"));
    if (stride_bytes != 0 && stride_bytes < size_bytes)
      return PERGOLA_ERROR(kInvalidArgument,
                           "stride_bytes is {}, less than the {} of a task's parameters; it should be 0, as many, "
                           "or more.",
                           stride_bytes, plural(size_bytes, "byte"));
    const ByteRows rows{static_cast<const std::byte*>(parameters), size_bytes,
                        stride_bytes == 0 ? size_bytes : stride_bytes, count};
    return kind->spawn_many(rows, {ids, ids == nullptr ? 0 : count}, there);
  });
  if (spawned != nullptr) *spawned = there;
  return code;
}

pergola_code pergola_task_spawn_each(pergola_task_kind handle, const pergola_argument* given, size_t argument_count,
                                     const pergola_task_column* columns, size_t column_count, size_t count,
                                     uint64_t* ids, size_t* spawned) {
  std::size_t there = 0;
  const pergola_code code = guarded([&]() -> Status {
    session::TaskKindPtr kind;
    Arguments arguments;
    {
      const HandleTable::Reading handles(HandleTable::instance());
      PERGOLA_ASSIGN(kind, object_of<session::TaskKind>(handle, "task kind", handles));
      PERGOLA_TRY(read_arguments(given, argument_count, handles, arguments));
    }
    PERGOLA_ASSIGN(const std::vector<session::TaskColumn> read, read_columns(columns, column_count, arguments));
    return kind->spawn_each(arguments, read, count, {ids, ids == nullptr ? 0 : count}, there);
  });
  if (spawned != nullptr) *spawned = there;
  return code;
}

pergola_code pergola_task_wait(pergola_task_pool handle, uint64_t id, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(handle, "task pool"));
    return pool->wait(id, timeout_of(timeout_ns));
  });
}

pergola_code pergola_task_check(pergola_task_pool handle, uint64_t id, int32_t* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(out, "done"));
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(handle, "task pool"));
    PERGOLA_ASSIGN(const bool done, pool->check(id));
    *out = done ? 1 : 0;
    return {};
  });
}

pergola_code pergola_task_wait_all(pergola_task_pool handle, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(handle, "task pool"));
    return pool->wait_all(timeout_of(timeout_ns));
  });
}

pergola_code pergola_task_pool_park(pergola_task_pool handle) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(handle, "task pool"));
    return pool->park();
  });
}

pergola_code pergola_task_pool_get_info(pergola_task_pool handle, pergola_task_pool_info* out) {
  return guarded([&]() -> Status {
    PERGOLA_ASSIGN(auto pool, object_of<session::TaskPool>(handle, "task pool"));
    const session::TaskPoolInfo info = pool->info();
    pergola_task_pool_info full{};
    full.blocks = info.blocks;
    full.registers_per_thread = info.registers_per_thread;
    full.local_bytes_per_thread = info.local_bytes_per_thread;
    full.most_threads = info.most_threads;
    full.most_shared_bytes = info.most_shared_bytes;
    full.is_running = info.is_running ? 1 : 0;
    full.memory_bytes = info.memory_bytes;
    full.launches = info.launches;
    full.spawned = info.spawned;
    full.spawned_by_tasks = info.spawned_by_tasks;
    full.held = info.held;
    full.streams_wait = info.streams_wait ? 1 : 0;
    return write_struct(full, out, "pergola_task_pool_info");
  });
}
