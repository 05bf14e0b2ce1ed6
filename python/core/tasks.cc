// Narrow tasks: a session's pool, kernels ready to be spawned, and tasks. What asyncio makes of them is
// pergola/_tasks.py's.
//
// Spawning lets the GIL go, for it waits where too many tasks are under way and for work on the arrays.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <vector>

#include "columns.h"
#include "core.h"
#include "deadline.h"

namespace pergola::python {
namespace {

TaskPoolObject* as_pool(PyObject* object) {
  return reinterpret_cast<TaskPoolObject*>(object);
}
TaskObject* as_task(PyObject* object) {
  return reinterpret_cast<TaskObject*>(object);
}

// ── Pools ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// For "O&": how many blocks, where "I" would drop what is above 32 bits.
int to_blocks(PyObject* object, void* out) {
  constexpr const char* kRange = "0 (as many as the device holds) to 4294967295";
  return to_uint32(object, "blocks", kRange, static_cast<std::uint32_t*>(out)) ? 1 : 0;
}

// TaskPool(session, blocks, park_after_ns, executor, fences, slices)
PyObject* pool_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* session = nullptr;
  std::uint32_t blocks = 0;
  unsigned int executor = 0;
  long long park_after_ns = 0;
  int fences = 1, slices = 0;
  if (PyTuple_Size(args) < 6 || !is_instance(PyTuple_GetItem(args, 0), types.session)) {
    PyErr_SetNone(PyExc_TypeError);
    return refuse_direct("A TaskPool", "pergola.task_pool() or session.task_pool()");
  }
  if (PyArg_ParseTuple(args, "O!O&LIpp:TaskPool", types.session, &session, to_blocks, &blocks, &park_after_ns,
                       &executor, &fences, &slices) == 0)
    return nullptr;
  Ref self(allocate(type));
  if (!self) return nullptr;
  TaskPoolObject* pool = as_pool(self.get());
  Py_INCREF(session);
  pool->session = reinterpret_cast<SessionObject*>(session);
  pergola_task_pool_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_options);
  options.blocks = blocks;
  options.executor = executor;
  options.park_after_ns = park_after_ns;
  options.no_fences = fences == 0 ? 1 : 0;
  options.slices = slices == 0 ? 0 : 1;
  SessionState* state = pool->session->state;
  const pergola_session handle = state->handle;
  pergola_task_pool second = nullptr;  // of the same pool, for the session
  const bool made = without_gil([&] {
    const pergola_code code = pergola_session_task_pool(handle, &options, &pool->handle);
    return code != PERGOLA_OK ? code : pergola_session_task_pool(handle, nullptr, &second);
  });
  if (!made) return nullptr;
  // The first stays: another thread may be waiting by it.
  if (state->tasks == nullptr) std::swap(state->tasks, second);
  if (second != nullptr) pergola_task_pool_destroy(second);
  return self.release();
}

void pool_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  TaskPoolObject* pool = as_pool(self);
  if (pool->handle != nullptr && !is_ending()) {
    const WithoutGil free;
    pergola_task_pool_destroy(pool->handle);
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(pool->session));
  deallocate(self);
}

PyObject* pool_wait_all(PyObject* self, PyObject* args, PyObject* kwargs) {
  std::int64_t timeout_ns = -1;
  if (!read_timeout_argument(args, kwargs, "|O:wait_all", &timeout_ns)) return nullptr;
  const pergola_task_pool pool = as_pool(self)->handle;
  return wait_until(Deadline(timeout_ns), "tasks go",
                    [pool](std::int64_t slice_ns) { return pergola_task_wait_all(pool, slice_ns); });
}

PyObject* pool_park(PyObject* self, PyObject*) {
  const pergola_task_pool pool = as_pool(self)->handle;
  // Tasks under way end first: this waits for them so that Ctrl-C works. What they failed with has been told then, so
  // that nobody else would.
  const auto ended = outcome_in_slices([pool](std::int64_t slice_ns) { return pergola_task_wait_all(pool, slice_ns); });
  if (!ended) return nullptr;
  raise_failures(outcome_of([pool] { return pergola_task_pool_park(pool); }), *ended);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

PyObject* pool_info(PyObject* self, PyObject*) {
  pergola_task_pool_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_info);
  const pergola_task_pool pool = as_pool(self)->handle;
  if (!without_gil([&] { return pergola_task_pool_get_info(pool, &info); })) return nullptr;
  return Py_BuildValue(
      "{s:I,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:N,s:K,s:N}", "blocks", info.blocks, "registers_per_thread",
      info.registers_per_thread, "local_bytes_per_thread", info.local_bytes_per_thread, "most_threads",
      info.most_threads, "most_shared_bytes", info.most_shared_bytes, "memory_bytes",
      static_cast<unsigned long long>(info.memory_bytes), "launches", static_cast<unsigned long long>(info.launches),
      "spawned", static_cast<unsigned long long>(info.spawned), "spawned_by_tasks",
      static_cast<unsigned long long>(info.spawned_by_tasks), "is_running", PyBool_FromLong(info.is_running), "held",
      static_cast<unsigned long long>(info.held), "streams_wait", PyBool_FromLong(info.streams_wait));
}

PyObject* pool_session(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(as_pool(self)->session));
}

PyObject* pool_add_kernels(PyObject* self, PyObject* args) {
  const pergola_task_pool pool = as_pool(self)->handle;
  std::vector<pergola_kernel> kernels;
  for (Py_ssize_t i = 0; i < PyTuple_Size(args); ++i) {
    PyObject* const one = PyTuple_GetItem(args, i);  // borrowed; `args` keeps it
    if (PyObject_TypeCheck(one, types.kernel) == 0) {
      PyErr_SetString(PyExc_TypeError, "add_kernels() takes kernels.");
      return nullptr;
    }
    kernels.push_back(reinterpret_cast<KernelObject*>(one)->state->handle);
  }
  if (!without_gil([&] { return pergola_task_pool_add_kernels(pool, kernels.data(), kernels.size()); })) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef pool_methods[] = {{"wait_all", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pool_wait_all)),
                               METH_VARARGS | METH_KEYWORDS,
                               "wait_all($self, /, timeout=None)\n--\n\nWait until all tasks spawned so far have "
                               "ended; raise what one failed with, Timeout after `timeout` seconds."},
                              {"_add_kernels", pool_add_kernels, METH_VARARGS, nullptr},
                              {"park", pool_park, METH_NOARGS,
                               "park($self, /)\n--\n\nEnd the resident kernel, once the tasks under way have ended; "
                               "the next spawn starts it again. Raises what one "
                               "failed with, as wait_all() does."},
                              {"_info", pool_info, METH_NOARGS, nullptr},
                              kCopy,
                              kDeepCopy,
                              kReduce,
                              {nullptr, nullptr, 0, nullptr}};
PyGetSetDef pool_getset[] = {{"session", pool_session, nullptr, "The session whose pool it is.", nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot pool_slots[] = {{Py_tp_new, reinterpret_cast<void*>(pool_new)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(pool_dealloc)},
                            traversed<TaskPoolObject, &TaskPoolObject::session>(),
                            {Py_tp_methods, pool_methods},
                            {Py_tp_getset, pool_getset},
                            {0, nullptr}};

// ── Kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// TaskKind(pool, kernel, grid, block, shared_bytes, is_high, class of tasks)
PyObject* kind_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *pool = nullptr, *kernel = nullptr, *grid = nullptr, *block = nullptr, *task_type = nullptr;
  PyObject* shared_bytes = nullptr;
  int is_high = 0;
  pergola_launch_config config{};
  config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
  if (PyArg_ParseTuple(args, "O!O!OOOpO!:TaskKind", types.task_pool, &pool, types.kernel, &kernel, &grid, &block,
                       &shared_bytes, &is_high, &PyType_Type, &task_type) == 0)
    return refuse_direct("A TaskKind", "pool.prepare(kernel, grid, block)");
  if (!read_shape(grid, block, &config) || !set_shared_bytes(shared_bytes, &config)) return nullptr;
  if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(task_type), types.task) == 0) {
    PyErr_SetString(PyExc_TypeError, "The class of tasks is to be derived from Task.");
    return nullptr;
  }
  Ref self(allocate(type));
  if (!self) return nullptr;
  auto* kind = reinterpret_cast<TaskKindObject*>(self.get());
  const pergola_task_pool pool_handle = as_pool(pool)->handle;
  kind->session = reinterpret_cast<SessionObject*>(Py_NewRef(reinterpret_cast<PyObject*>(as_pool(pool)->session)));
  kind->kernel = reinterpret_cast<KernelObject*>(Py_NewRef(kernel));
  kind->task_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(task_type));
  const bool made = without_gil([&] {
    const pergola_code code =
        pergola_task_pool_prepare(pool_handle, kind->kernel->state->handle, &config, &kind->handle);
    if (code != PERGOLA_OK || is_high == 0) return code;
    pergola_task_kind normal = kind->handle;
    kind->handle = nullptr;
    const pergola_code made_high = pergola_task_kind_with_priority(normal, PERGOLA_TASK_PRIORITY_HIGH, &kind->handle);
    if (made_high == PERGOLA_OK)
      pergola_task_kind_destroy(normal);
    else
      kind->handle = normal;
    return made_high;
  });
  return made ? self.release() : nullptr;
}

void kind_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* kind = reinterpret_cast<TaskKindObject*>(self);
  if (kind->handle != nullptr && !is_ending()) {
    const WithoutGil free;
    pergola_task_kind_destroy(kind->handle);
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(kind->session));
  Py_XDECREF(reinterpret_cast<PyObject*>(kind->kernel));
  Py_XDECREF(reinterpret_cast<PyObject*>(kind->task_type));
  deallocate(self);
}

// Notes what tasks are about to be given, and then have been: the host's next use of it waits for them
// (wait_for_tasks). An address may be of anything. What a column has differs from the first task's, which `arguments`
// has.
void note_uses(const KernelObject* kernel, const Items& objects, const Arguments& arguments) {
  const KernelState& state = *kernel->state;
  bool universal = state.universal_access != PERGOLA_ACCESS_NONE;
  for (std::size_t i = 0; i < std::min(objects.size(), state.parameters.size()); ++i) {
    if (is_instance(objects.data()[i], types.memory)) {
      note_tasks(objects.data()[i]);
      continue;
    }
    const pergola_argument& argument = arguments.data()[i];
    if (state.parameters[i].access == PERGOLA_ACCESS_NONE) continue;
    const bool is_column = PyLong_Check(objects.data()[i]) == 0 && objects.data()[i] != Py_None;
    const bool is_number = argument.type == PERGOLA_TYPE_U64 && (is_column || argument.value.u64 != 0);
    universal = universal || argument.type == PERGOLA_TYPE_BYTES || is_number;
  }
  if (universal) kernel->session->state->universal_tasks = true;
}

// Owned.
SessionObject* of_session(TaskKindObject* kind) {
  return reinterpret_cast<SessionObject*>(Py_NewRef(reinterpret_cast<PyObject*>(kind->session)));
}

PyObject* kind_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  auto* kind = reinterpret_cast<TaskKindObject*>(self);
  if (kwargs != nullptr && PyDict_Size(kwargs) != 0) {
    PyErr_SetString(PyExc_TypeError, "A task kind takes the kernel's arguments alone; shared_bytes is prepare()'s.");
    return nullptr;
  }
  const Items objects(args);
  Arguments arguments;
  if (!arguments.convert(kind->kernel, objects.data(), objects.size())) return nullptr;
  Ref made(allocate(kind->task_type));
  if (!made) return nullptr;
  TaskObject* task = as_task(made.get());
  task->session = of_session(kind);
  note_uses(kind->kernel, objects, arguments);
  pergola_code code = PERGOLA_OK;
  {
    const WithoutGil free;
    code = pergola_task_spawn(kind->handle, arguments.data(), objects.size(), &task->id);
  }
  note_uses(kind->kernel, objects, arguments);
  if (code == PERGOLA_OK) return made.release();
  raise_refusal(code, kind->kernel, objects.size());
  return nullptr;
}

// So many tasks of one call are spawned before signals are looked at.
constexpr std::size_t kTasksOfALook = 4096;

// spawn_each(arguments...): a list of tasks, one for each value of those that are sequences.
PyObject* spawn_each(TaskKindObject* kind, PyObject* args) {
  const Items objects(args);
  Arguments arguments;
  Columns columns;
  if (!columns.read(kind->kernel, objects.data(), objects.size(), &arguments)) return nullptr;
  const auto count = static_cast<Py_ssize_t>(columns.tasks());
  Ref tasks(PyList_New(count));
  if (!tasks) return nullptr;
  for (Py_ssize_t n = 0; n < count; ++n) {
    PyObject* task = allocate(kind->task_type);
    if (task == nullptr) return nullptr;
    as_task(task)->session = of_session(kind);
    PyList_SetItem(tasks.get(), n, task);
  }
  std::vector<std::uint64_t> ids(columns.tasks() + 1);
  std::vector<pergola_task_column> list = columns.list();
  std::size_t spawned = 0;
  do {
    const std::size_t some = std::min(columns.tasks() - spawned, kTasksOfALook);
    note_uses(kind->kernel, objects, arguments);
    pergola_code code = PERGOLA_OK;
    {
      const WithoutGil free;
      code = pergola_task_spawn_each(kind->handle, arguments.data(), objects.size(), list.data(), list.size(), some,
                                     ids.data() + spawned, nullptr);
    }
    note_uses(kind->kernel, objects, arguments);
    if (code != PERGOLA_OK) {
      raise_refusal(code, kind->kernel, objects.size());
      return nullptr;
    }
    for (pergola_task_column& column : list)
      column.values = static_cast<const char*>(column.values) + some * column.stride_bytes;
    spawned += some;
    if (PyErr_CheckSignals() < 0) return nullptr;
  } while (spawned < columns.tasks());
  for (Py_ssize_t n = 0; n < count; ++n) as_task(PyList_GetItem(tasks.get(), n))->id = ids[static_cast<std::size_t>(n)];
  return tasks.release();
}

PyObject* kind_spawn_each(PyObject* self, PyObject* args) {
  try {
    return spawn_each(reinterpret_cast<TaskKindObject*>(self), args);
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error
    return PyErr_NoMemory();
  }
}

template <auto member>
PyObject* kind_part(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(reinterpret_cast<TaskKindObject*>(self)->*member));
}

PyObject* kind_on_device(PyObject* self, PyObject*) {
  std::uint64_t handle = 0;
  const pergola_task_kind kind = reinterpret_cast<TaskKindObject*>(self)->handle;
  if (!without_gil([&] { return pergola_task_kind_on_device(kind, &handle); })) return nullptr;
  return PyLong_FromUnsignedLongLong(handle);
}

PyMethodDef kind_methods[] = {{"_on_device", kind_on_device, METH_NOARGS, nullptr},
                              {"_spawn_each", kind_spawn_each, METH_VARARGS, nullptr},
                              kCopy,
                              kDeepCopy,
                              kReduce,
                              {nullptr, nullptr, 0, nullptr}};
PyGetSetDef kind_getset[] = {
    {"session", kind_part<&TaskKindObject::session>, nullptr, "The session that it spawns to.", nullptr},
    {"kernel", kind_part<&TaskKindObject::kernel>, nullptr, "The kernel that its tasks run.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot kind_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(kind_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(kind_dealloc)},
    traversed<TaskKindObject, &TaskKindObject::session, &TaskKindObject::kernel, &TaskKindObject::task_type>(),
    {Py_tp_call, reinterpret_cast<void*>(kind_call)},
    {Py_tp_methods, kind_methods},
    {Py_tp_getset, kind_getset},
    {0, nullptr}};

// ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

pergola_task_pool pool_of(PyObject* task) {
  return as_task(task)->session->state->tasks;
}

void task_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_XDECREF(reinterpret_cast<PyObject*>(as_task(self)->session));
  deallocate(self);
}

PyObject* task_wait(PyObject* self, PyObject* args, PyObject* kwargs) {
  std::int64_t timeout_ns = -1;
  if (!read_timeout_argument(args, kwargs, "|O:wait", &timeout_ns)) return nullptr;
  const pergola_task_pool pool = pool_of(self);
  const std::uint64_t id = as_task(self)->id;
  return wait_until(Deadline(timeout_ns), "the task goes",
                    [=](std::int64_t slice_ns) { return pergola_task_wait(pool, id, slice_ns); });
}

PyObject* task_done(PyObject* self, PyObject*) {
  std::int32_t done = 0;
  const pergola_code code = pergola_task_check(pool_of(self), as_task(self)->id, &done);
  if (is_failure(code)) Py_RETURN_TRUE;
  return check(code) ? PyBool_FromLong(done) : nullptr;
}

PyObject* task_id(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(as_task(self)->id);
}
PyObject* task_session(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(as_task(self)->session));
}

PyMethodDef task_methods[] = {
    {"wait", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(task_wait)), METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\nWait until the task has ended; raise what it failed with, Timeout after "
     "`timeout` seconds."},
    {"done", task_done, METH_NOARGS, "done($self, /)\n--\n\nWhether the task has ended, well or not. Never waits."},
    kCopy,
    kDeepCopy,
    kReduce,
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef task_getset[] = {{"id", task_id, nullptr, "Its number in its pool, never 0.", nullptr},
                             {"session", task_session, nullptr, "The session that it was spawned to.", nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot task_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(task_dealloc)},
                            traversed<TaskObject, &TaskObject::session>(),
                            {Py_tp_methods, task_methods},
                            {Py_tp_getset, task_getset},
                            {0, nullptr}};

struct Waited {
  pergola_task_pool pool;
  std::uint64_t id;
};

// The places in `tasks` of those that have ended: well, or with an error that waiting for them tells. Where nothing can
// be known of them (in a forked child), `refusal` says why.
std::vector<Py_ssize_t> ended_of(const std::vector<Waited>& tasks, Outcome* refusal) {
  std::vector<Py_ssize_t> ended;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::int32_t done = 0;
    const pergola_code code = pergola_task_check(tasks[i].pool, tasks[i].id, &done);
    if (code != PERGOLA_OK || done != 0) ended.push_back(static_cast<Py_ssize_t>(i));
    if (code == PERGOLA_FAILED_PRECONDITION) *refusal = {code, pergola_last_error()};
  }
  return ended;
}

}  // namespace

// The library waits for one task at a time: this waits for the first, which was spawned before the others as a rule,
// and looks at all whenever that wait returns, every 5 ms at the latest.
PyObject* wait_any(PyObject*, PyObject* args) {
  PyObject* given = nullptr;
  long long timeout_ns = -1;
  if (PyArg_ParseTuple(args, "OL:wait_any", &given, &timeout_ns) == 0) return nullptr;
  const Ref tuple(PySequence_Tuple(given));  // which keeps the tasks, and they their session
  if (!tuple) return nullptr;
  std::vector<Waited> tasks;
  const Items items(tuple.get());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!is_instance(items.data()[i], types.task)) {
      PyErr_Format(PyExc_TypeError, "What is waited for are tasks; %R is none.", items.data()[i]);
      return nullptr;
    }
    tasks.push_back({pool_of(items.data()[i]), as_task(items.data()[i])->id});
  }
  constexpr std::int64_t kShortestNs = 100'000, kLongestNs = 5'000'000;
  const Deadline deadline(timeout_ns);
  std::vector<Py_ssize_t> ended;
  Outcome refusal;
  for (std::int64_t slice_ns = kShortestNs; !tasks.empty(); slice_ns = std::min(2 * slice_ns, kLongestNs)) {
    const std::int64_t left_ns = deadline.left_ns(slice_ns);
    {
      const WithoutGil free;
      ended = ended_of(tasks, &refusal);
      if (ended.empty() && left_ns > 0) {
        pergola_task_wait(tasks[0].pool, tasks[0].id, left_ns);  // however it ends, all are looked at
        ended = ended_of(tasks, &refusal);
      }
    }
    if (PyErr_CheckSignals() < 0) return nullptr;
    if (refusal.code != PERGOLA_OK) return raise(refusal.code, refusal.message);
    if (!ended.empty() || left_ns == 0) break;
  }
  Ref list(PyList_New(0));
  for (const Py_ssize_t i : ended)
    if (!list || PyList_Append(list.get(), items.data()[i]) < 0) return nullptr;
  return list.release();
}

PyObject* timeout_ns(PyObject*, PyObject* timeout) {
  std::int64_t ns = -1;
  return read_timeout(timeout, &ns) ? PyLong_FromLongLong(ns) : nullptr;
}

PyType_Spec task_pool_spec = {"pergola._core.TaskPool", sizeof(TaskPoolObject), 0, kCollected | Py_TPFLAGS_BASETYPE,
                              pool_slots};
PyType_Spec task_kind_spec = {"pergola._core.TaskKind", sizeof(TaskKindObject), 0, kCollected | Py_TPFLAGS_BASETYPE,
                              kind_slots};
PyType_Spec task_spec = {"pergola._core.Task", sizeof(TaskObject), 0,
                         kCollected | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, task_slots};

}  // namespace pergola::python
