// Pools of narrow tasks: launches of a few warps, spawned one by one as they appear, that together fill the device
// (Pagoda, sections 3 and 4; docs/tasks.md says which kernels can be tasks). Include pergola.hpp.
//
//   pergola::TaskPool pool = session.task_pool();
//   pergola::TaskKind tile = pool.prepare(kernel, pergola::grid(1, 256));   // compiles
//   for (int t = 0; t < tiles; ++t) tile(image, t, width);                  // returns at once; any thread may
//   pool.wait_all();                                                        // or image.read(): it waits for its tasks
//
// A task comes after the session's work so far on the arrays it is given; the session's later work on an array, a
// read() too, comes after all tasks that were given it. Tasks are in no order with each other: whoever wants one waits
// for one before spawning the next.
//
// All objects may be used from any thread, and copied: they are handles. They keep the session.
#ifndef PERGOLA_TASKS_HPP_
#define PERGOLA_TASKS_HPP_

#include <pergola/pergola.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pergola {
inline namespace v0_1 {

// A task of one pool; never 0.
using TaskId = std::uint64_t;

// Who runs a pool's tasks: threads on the CPU device, a resident kernel on a GPU. A resident kernel can be asked for on
// the CPU device too; threads elsewhere are kUnsupported.
enum class TaskExecutor : std::uint32_t {
  kUsual = PERGOLA_TASK_EXECUTOR_USUAL,
  kResident = PERGOLA_TASK_EXECUTOR_RESIDENT,
  kThreads = PERGOLA_TASK_EXECUTOR_THREADS
};

// Which task goes first where several wait: on the host for room, on the CPU device for a thread too. Those that run go
// on.
enum class TaskPriority : std::uint32_t { kNormal = PERGOLA_TASK_PRIORITY_NORMAL, kHigh = PERGOLA_TASK_PRIORITY_HIGH };

struct TaskPoolOptions {
  std::uint32_t blocks = 0;                // resident, or threads; 0: as many as the device holds
  std::chrono::nanoseconds park_after{0};  // without work the resident kernel ends after that; 0: 200 microseconds
  TaskExecutor executor = TaskExecutor::kUsual;
  bool fences = true;   // of a resident kernel: a task's wild access or trap is its own failure, not the device's
  bool slices = false;  // traces of the session have a slice for each task (docs/observability.md)
};

// A kernel with a shape, ready to be spawned. Made by TaskPool::prepare().
class TaskKind {
 public:
  TaskKind(pergola_task_kind handle, const Kernel& kernel)
      : state_(std::make_shared<const State>(State{Owner(handle), kernel})) {}

  // Spawns a task; the arguments are those of a launch (Kernel), and are checked like them. Waits where too many tasks
  // are under way, and for work on the arrays.
  template <typename... Args>
  TaskId spawn(const Args&... args) const {
    const Kernel& kernel = state_->kernel;
    std::size_t index = 0;
    // One more than needed, so that a kernel without parameters has an array too.
    const std::array<pergola_argument, sizeof...(Args) + 1> list{kernel.argument(index++, args)..., pergola_argument{}};
    TaskId id = 0;
    detail::check(pergola_task_spawn(handle(), list.data(), sizeof...(Args), &id));
    return id;
  }
  template <typename... Args>
  TaskId operator()(const Args&... args) const {
    return spawn(args...);
  }

  // The same with all parameters as they lie in memory, in the kernel's order: the quickest way. A struct's members are
  // aligned as the kernel's parameters are, an array is its address on the device. Nothing but the size is checked, and
  // there is no order with the session's other work: what the parameters point at must be ready, and stay until the
  // task has ended.
  template <typename T>
    requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, std::span<const std::byte>>)
  TaskId spawn_packed(const T& parameters) const {
    return spawn_bytes(&parameters, wanted_size(sizeof(T), alignof(T)));
  }
  TaskId spawn_packed(std::span<const std::byte> parameters) const {
    if (parameters.size() != state_->kernel.info().parameter_bytes) refuse_size(parameters.size());
    return spawn_bytes(parameters.data(), parameters.size());
  }

  // Many at once, in a fraction of the time: a task for each of `parameters`, which are as spawn_packed() takes them.
  // `ids` has as many, or none. Waits where too many tasks are under way; where that fails, those before go on.
  template <std::ranges::contiguous_range Rows>
    requires std::is_trivially_copyable_v<std::ranges::range_value_t<Rows>>
  void spawn_many(const Rows& parameters, std::span<TaskId> ids = {}) const {
    using Row = std::ranges::range_value_t<Rows>;
    const std::size_t wanted = wanted_size(sizeof(Row), alignof(Row)), count = std::ranges::size(parameters);
    if (!ids.empty() && ids.size() != count)
      throw Error(Code::kInvalidArgument, "There is room for " + detail::plural(ids.size(), "id") + " of " +
                                              detail::plural(count, "task") + ".");
    detail::check(pergola_task_spawn_many(handle(), std::ranges::data(parameters), wanted, sizeof(Row), count,
                                          ids.empty() ? nullptr : ids.data(), nullptr));
  }

  // `count` tasks at once, checked and ordered as spawn() does: arguments are those of a launch, and the same for all
  // tasks, but for spans and vectors of numbers, which have one for each. Their ids, in order. Where it fails midway,
  // those before go on.
  //
  //   tile.spawn_each(tiles, image, numbers, width);   // numbers: std::vector<int>
  template <typename... Args>
  std::vector<TaskId> spawn_each(std::size_t count, const Args&... args) const {
    std::array<std::vector<std::uint64_t>, sizeof...(Args) + 1> values;
    std::vector<pergola_task_column> columns;
    std::size_t index = 0;
    const std::array<pergola_argument, sizeof...(Args) + 1> list{
        argument_of_each(index++, count, args, values.data(), columns)..., pergola_argument{}};
    std::vector<TaskId> ids(count);
    detail::check(pergola_task_spawn_each(handle(), list.data(), sizeof...(Args), columns.data(), columns.size(), count,
                                          ids.data(), nullptr));
    return ids;
  }

  // Another kind, of the same kernel and shape, whose tasks have that priority; a prepared one's have the normal one.
  TaskKind with_priority(TaskPriority priority) const {
    pergola_task_kind other = nullptr;
    detail::check(pergola_task_kind_with_priority(handle(), static_cast<pergola_task_priority>(priority), &other));
    return TaskKind(other, state_->kernel);
  }

  // What stands for it on the device: the argument of a kernel that spawns tasks of this kind while it runs as a task
  // (pergola/device/tasks.h); valid for as long as the session. A task is done when all that it has spawned, and they,
  // are done. kUnsupported where the kernel has more than 48 bytes of parameters.
  std::uint64_t on_device() const {
    std::uint64_t on_device = 0;
    detail::check(pergola_task_kind_on_device(handle(), &on_device));
    return on_device;
  }

  const Kernel& kernel() const { return state_->kernel; }
  pergola_task_kind handle() const { return state_->handle.get(); }

 private:
  using Owner = detail::Handle<pergola_task_kind, pergola_task_kind_destroy>;
  struct State {
    Owner handle;
    Kernel kernel;
  };

  // How many bytes the kernel takes of an object so large, which may end in padding.
  std::size_t wanted_size(std::size_t given, std::size_t alignment) const {
    const std::size_t wanted = state_->kernel.info().parameter_bytes;
    if (given != wanted && (given < wanted || given - wanted >= alignment)) refuse_size(given);
    return wanted;
  }
  template <typename T>
  static constexpr bool kIsColumn = false;
  // An argument for all tasks; or the first of those of each, which become a column, converted as a launch's are.
  template <typename T>
  pergola_argument argument_of_each(std::size_t index, std::size_t count, const T& given,
                                    std::vector<std::uint64_t>* values,
                                    std::vector<pergola_task_column>& columns) const {
    if constexpr (!kIsColumn<T>) {
      return state_->kernel.argument(index, given);
    } else {
      if (given.size() != count)
        throw Error(Code::kInvalidArgument, "Argument " + std::to_string(index) + " has " +
                                                detail::plural(given.size(), "value") + " for " +
                                                detail::plural(count, "task") + ".");
      pergola_argument sample = state_->kernel.argument(index, typename T::value_type{});
      std::vector<std::uint64_t>& column = values[index];
      column.reserve(count + 1);
      for (const auto value : given) {
        const pergola_argument one = state_->kernel.argument(index, value);
        std::uint64_t bits = 0;
        std::memcpy(&bits, &one.value, sizeof bits);
        column.push_back(bits);
      }
      column.push_back(0);  // so that one of no tasks has an address too
      pergola_task_column added{};
      added.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_column);
      added.argument = index;
      added.values = column.data();
      added.stride_bytes = sizeof column[0];
      columns.push_back(added);
      return sample;
    }
  }

  TaskId spawn_bytes(const void* parameters, std::size_t size_bytes) const {
    TaskId id = 0;
    detail::check(pergola_task_spawn_packed(handle(), parameters, size_bytes, &id));
    return id;
  }
  [[noreturn]] void refuse_size(std::size_t given) const {
    throw Error(Code::kInvalidArgument, "The parameters of kernel '" + std::string(kernel().name()) + "' have " +
                                            detail::plural(kernel().info().parameter_bytes, "byte") + "; " +
                                            std::to_string(given) + (given == 1 ? " is given." : " are given."));
  }

  std::shared_ptr<const State> state_;
};

template <typename T>
  requires std::is_arithmetic_v<T>
inline constexpr bool TaskKind::kIsColumn<std::vector<T>> = true;
template <typename T, std::size_t kExtent>
  requires std::is_arithmetic_v<T>
inline constexpr bool TaskKind::kIsColumn<std::span<T, kExtent>> = true;

// A session's pool of tasks. Made by Session::task_pool(); every call gives the same pool.
class TaskPool {
 public:
  explicit TaskPool(pergola_task_pool handle) : state_(std::make_shared<State>()) { state_->handle = Owner(handle); }

  // Compiles while tasks run; then those under way end, and others may be spawned. Shapes are those of launches:
  // grid(1, 256), with dynamic shared memory grid(1, 256, bytes), for_each(n). kUnsupported, with the line and the
  // numbers, where the kernel cannot be a task or asks for more than the pool's shape has.
  TaskKind prepare(const Kernel& kernel, const Grid& shape) const { return prepare(kernel, kernel.config(shape)); }
  TaskKind prepare(const Kernel& kernel, const ForEach& range) const { return prepare(kernel, kernel.config(range)); }
  // With a shape of the C interface.
  TaskKind prepare(const Kernel& kernel, const pergola_launch_config& config) const {
    pergola_task_kind kind = nullptr;
    detail::check(pergola_task_pool_prepare(handle(), kernel.handle(), &config, &kind));
    return TaskKind(kind, kernel);
  }

  // Compiles what prepare() would for the first shape of each, together, in about the time of one: all, or none.
  //   pool.add_kernels({module.kernel("tile"), module.kernel("edge")});
  void add_kernels(std::span<const Kernel> kernels) const {
    std::vector<pergola_kernel> handles;
    for (const Kernel& kernel : kernels) handles.push_back(kernel.handle());
    detail::check(pergola_task_pool_add_kernels(handle(), handles.data(), handles.size()));
  }
  void add_kernels(std::initializer_list<Kernel> kernels) const {
    add_kernels(std::span<const Kernel>(kernels.begin(), kernels.size()));
  }

  // Prepares the kernel, the first time, and spawns a task. Later times look it up: a TaskKind of one's own does not.
  template <typename Shape, typename... Args>
    requires(std::is_same_v<Shape, Grid> || std::is_same_v<Shape, ForEach>)
  TaskId spawn(const Kernel& kernel, const Shape& shape, const Args&... args) const {
    return known(kernel, kernel.config(shape)).spawn(args...);
  }

  // Blocks until the task has ended; throws what it failed with.
  void wait(TaskId id) const { detail::check(pergola_task_wait(handle(), id, -1)); }
  // As wait(), for a while: false when it is over and the task goes on.
  bool wait(TaskId id, std::chrono::nanoseconds timeout) const {
    return detail::has_ended(pergola_task_wait(handle(), id, detail::wait_ns(timeout)));
  }
  // The same for all tasks that were spawned before the call. Where some have failed by themselves and nobody has been
  // told: throws the first one's error, and which they are, once.
  void wait_all() const { detail::check(pergola_task_wait_all(handle(), -1)); }
  bool wait_all(std::chrono::nanoseconds timeout) const {
    return detail::has_ended(pergola_task_wait_all(handle(), detail::wait_ns(timeout)));
  }
  // Whether the task has ended; throws what it failed with. Never blocks.
  bool check(TaskId id) const {
    std::int32_t done = 0;
    detail::check(pergola_task_check(handle(), id, &done));
    return done != 0;
  }
  // Ends the resident kernel, where there is one, once the tasks under way have ended; the next spawn starts it again.
  void park() const { detail::check(pergola_task_pool_park(handle())); }
  pergola_task_pool_info info() const {
    pergola_task_pool_info info{};
    info.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_info);
    detail::check(pergola_task_pool_get_info(handle(), &info));
    return info;
  }
  pergola_task_pool handle() const { return state_->handle.get(); }

 private:
  using Owner = detail::Handle<pergola_task_pool, pergola_task_pool_destroy>;
  struct Known {
    pergola_launch_config config;
    TaskKind kind;
  };
  struct State {
    Owner handle;
    std::mutex mutex;
    std::vector<Known> known;  // guarded by mutex; what spawn() was given
  };

  TaskKind known(const Kernel& kernel, const pergola_launch_config& config) const {
    static_assert(std::has_unique_object_representations_v<pergola_launch_config>, "memcmp() compares them");
    const auto find = [&] {
      return std::find_if(state_->known.begin(), state_->known.end(), [&](const Known& known) {
        // Each call of Module::kernel() gives a handle of its own; the name is the module's, or a signature's.
        return known.kind.kernel().info().name == kernel.info().name &&
               std::memcmp(&known.config, &config, sizeof config) == 0;
      });
    };
    {
      const std::lock_guard lock(state_->mutex);
      if (const auto at = find(); at != state_->known.end()) return at->kind;
    }
    TaskKind kind = prepare(kernel, config);  // outside the lock: it compiles, and others may spawn meanwhile
    const std::lock_guard lock(state_->mutex);
    if (find() == state_->known.end()) state_->known.push_back({config, kind});
    return kind;
  }

  std::shared_ptr<State> state_;
};

inline TaskPool Session::task_pool(const TaskPoolOptions& options) const {
  pergola_task_pool_options c{};
  c.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_options);
  c.blocks = options.blocks;
  c.executor = static_cast<std::uint32_t>(options.executor);
  c.park_after_ns = options.park_after.count();
  c.no_fences = options.fences ? 0 : 1;
  c.slices = options.slices ? 1 : 0;
  pergola_task_pool pool = nullptr;
  detail::check(pergola_session_task_pool(handle(), &c, &pool));
  return TaskPool(pool);
}
inline TaskPool Session::task_pool() const {
  return task_pool(TaskPoolOptions{});
}

}  // namespace v0_1
}  // namespace pergola

#endif  // PERGOLA_TASKS_HPP_
