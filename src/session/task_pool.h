// Narrow tasks: launches of a few warps, spawned one by one by any thread as they appear, that together fill the device
// (Pagoda, paper 000, sections 3 and 4). They are run by a resident kernel that has these kernels in it, or on the CPU
// device by threads (docs/tasks.md).
//
//   pool.prepare(kernel, shape) ─▶ TaskKind ── spawn(arguments) ─▶ TaskId ─▶ pool.wait(id), check(id), wait_all()
//
// Order: a task comes after the session's work so far on the arrays it is given: where that goes on it is held back on
// the host. Where that work fails, the task is not run and fails as skipped.
// Tasks are in no order with each other: whoever wants one waits for one before spawning the next. The session's later
// work on an array, a read() too, comes after all tasks that were given it.
//
// Thread-safe throughout. Kinds and pools keep their session alive.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "src/base/byte_rows.h"
#include "src/base/result.h"
#include "src/session/session.h"

namespace pergola::session {

using TaskId = std::uint64_t;  // of one pool; never 0

// Which task goes first where several wait: on the host for room, on the CPU device for a thread too. Those that run
// go on.
enum class TaskPriority : std::uint8_t { kNormal, kHigh };

// An argument that is another number for each of many tasks.
struct TaskColumn {
  std::size_t argument = 0;           // its place among the arguments
  const std::byte* values = nullptr;  // as large as the parameter
  std::size_t stride_bytes = 0;
};

class TaskKind;
using TaskKindPtr = std::shared_ptr<TaskKind>;

// A kernel with a shape, ready to be spawned.
class TaskKind {
 public:
  virtual ~TaskKind() = default;
  // The same whose tasks have that priority; a kind that was prepared has the normal one.
  virtual Result<TaskKindPtr> with_priority(TaskPriority priority) = 0;
  // What stands for it on the device, as an argument (64 bits) of kernels that spawn tasks while they run as one
  // (pergola/device/tasks.h); for as long as the pool. kUnsupported, with the numbers, where its parameters or its grid
  // are too large for that. A task is done when all that it has spawned, and they, are done.
  virtual Result<std::uint64_t> on_device() = 0;
  // Checks the arguments as launch() does. Waits where too many tasks are under way, or held back; not for the work on
  // the arrays. A failure that synchronize() has not reported is an error here too.
  virtual Result<TaskId> spawn(std::span<const Argument> arguments) = 0;
  // The same with the parameters as the kernel's signature lays them out (KernelInfo), and neither checks nor order
  // with the session's other work: what they point at must stay until the task has ended.
  virtual Result<TaskId> spawn_packed(std::span<const std::byte> parameters) = 0;
  // Many at once, each row as spawn_packed() takes it: in a fraction of the time, and spread as if one came after the
  // other. `ids` has as many, or none. *spawned is how many there are, all unless there is an error.
  virtual Status spawn_many(const ByteRows& parameters, std::span<TaskId> ids, std::size_t& spawned) = 0;
  // Many at once, checked and ordered as spawn() does: they have these arguments, but for those that columns are of, in
  // place of which numbers stand as samples of the type.
  virtual Status spawn_each(std::span<const Argument> arguments, std::span<const TaskColumn> columns, std::size_t count,
                            std::span<TaskId> ids, std::size_t& spawned) = 0;
  // The same as spawn_packed() where that takes no waiting and nothing is wrong; else 0, and nothing is spawned.
  virtual TaskId try_spawn_packed(std::span<const std::byte>) noexcept { return 0; }
};

// Who runs a pool's tasks.
enum class TaskExecutor : std::uint8_t {
  kUsual,     // threads on the CPU device, a resident kernel on a GPU; or what PERGOLA_TASK_EXECUTOR names
  kResident,  // "resident": a resident kernel
  kThreads,   // "threads": threads of the CPU device; kUnsupported on others
};

struct TaskPoolOptions {
  std::uint32_t blocks = 0;                 // resident blocks, or threads; 0: as many as the device holds
  std::chrono::microseconds park_after{0};  // without work the resident kernel ends after that; 0: 200
  TaskExecutor executor = TaskExecutor::kUsual;
  // Of a resident kernel: a task's wild access or trap is its own failure and not the device's (docs/tasks.md).
  // PERGOLA_TASK_FENCES, "on" or "off", counts where it is set.
  bool fences = true;
  // Traces of the session have a slice for each task (docs/observability.md), of a resident kernel for the newest 1,024
  // of each block. PERGOLA_TASK_SLICES, "on" or "off", counts where it is set.
  bool slices = false;
};

// What the pool has done, and what it runs on. Without a resident kernel what is said of it is 0.
struct TaskPoolInfo {
  std::uint32_t blocks = 0;                  // of the resident kernel, or threads
  std::uint32_t registers_per_thread = 0;    // of it, with all kinds so far in it; 0 before the first launch
  std::uint32_t local_bytes_per_thread = 0;  // what it spills, and the kernels' own local memory
  std::uint32_t most_threads = 0;            // of a block of a task
  std::uint32_t most_shared_bytes = 0;       // of a block of a task
  std::uint64_t memory_bytes = 0;            // of the pool, on host and device
  std::uint64_t launches = 0;                // of the resident kernel: the first, after parking, for new kinds
  std::uint64_t spawned = 0;                 // by the host
  std::uint64_t spawned_by_tasks = 0;        // of a resident kernel: as it was when it last parked
  bool is_running = false;                   // the resident kernel is on the device now
  std::uint64_t held = 0;                    // tasks that wait, on the host, for ordinary work before them
  bool streams_wait = false;                 // for tasks; else the host does before it launches what comes after some
};

class TaskPool {
 public:
  virtual ~TaskPool() = default;
  // kUnsupported, with the line and the numbers, where the kernel cannot be a task (transform/entry_to_task.h) or asks
  // for more than the pool's shape has. Compiles while tasks run; then those under way end, and others may be spawned.
  // The same kernel and shape again give the same kind at once.
  virtual Result<TaskKindPtr> prepare(const KernelPtr& kernel, const LaunchShape& shape) = 0;
  // Compiles what prepare() would for the first shape of each, together, in about the time of one: all, or none.
  virtual Status add_kernels(std::span<const KernelPtr> kernels) = 0;
  // Returns how the task ended: success, or why it did not. kTimeout where it goes on. An id of another pool, or 0, is
  // kInvalidArgument.
  virtual Status wait(TaskId id, std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Whether it has ended; an error where it failed. Never blocks.
  virtual Result<bool> check(TaskId id) = 0;
  // For all that were spawned before the call. Where tasks have failed and nobody has been told: the first one's error,
  // and which they are; told once. An access of the host that waits for tasks of its array tells the same, of all that
  // have ended by then.
  virtual Status wait_all(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Ends the resident kernel, where there is one, once the tasks under way have ended; the next spawn starts it again.
  virtual Status park() = 0;
  virtual TaskPoolInfo info() const = 0;
};
using TaskPoolPtr = std::shared_ptr<TaskPool>;

}  // namespace pergola::session
