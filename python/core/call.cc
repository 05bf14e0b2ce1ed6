// Calls of other libraries: the function of Python's that queues a library's work (pergola_session_call).
//
//   _call(name, function, accesses, synchronous)  the GIL goes ─▶ the library waits ─▶ run(): the GIL is back ─▶
//   function(stream)
//
// While a call is under way another thread's launch may have to wait for its end: then launches let the GIL go too
// (MayWait), as the function could not go on otherwise.
#include <unistd.h>

#include "core.h"

namespace pergola::python {
namespace {

unsigned under_way = 0;             // guarded by the GIL
thread_local unsigned calling = 0;  // functions of calls that this thread is in

// Counts a call from before the GIL goes until it is back.
class UnderWay {
 public:
  UnderWay() { ++under_way; }
  ~UnderWay() { --under_way; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

struct State {
  PyObject* function = nullptr;                                      // borrowed
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;  // what it raised; owned
};

std::int32_t call_function(void* stream, State& state) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  Ref argument(stream == nullptr ? Py_NewRef(Py_None) : PyLong_FromVoidPtr(stream));
  ++calling;
  Ref result(argument ? PyObject_CallFunctionObjArgs(state.function, argument.get(), nullptr) : nullptr);
  --calling;
  const bool raised = !result;
  if (raised) PyErr_Fetch(&state.type, &state.value, &state.traceback);
  result = Ref();
  argument = Ref();
  PyGILState_Release(gil);
  return raised ? -1 : 0;
}

// As WithoutGil's end: a daemon thread that wants the GIL after the interpreter's end is ended by unwinding, in which
// nothing may touch Python.
std::int32_t run(void* stream, void* user) {
  try {
    return call_function(stream, *static_cast<State*>(user));
  } catch (...) {
    while (true) pause();
  }
}

// For the tasks that were given them, first: arrays may be freed meanwhile. False with an exception set.
bool wait_for_tasks_of(PyObject* list) {
  for (Py_ssize_t i = 0, count = PyTuple_Size(list); i < count; ++i) {
    PyObject* const one = PyTuple_GetItem(list, i);
    PyObject* const memory = PyTuple_Check(one) != 0 && PyTuple_Size(one) > 0 ? PyTuple_GetItem(one, 0) : nullptr;
    if (memory == nullptr || !is_instance(memory, types.memory)) continue;  // which read_accesses() refuses
    if (!wait_for_tasks(reinterpret_cast<MemoryObject*>(memory))) return false;
  }
  return true;
}

// One (memory, is_read, is_written) a piece; false with an exception set.
bool read_accesses(PyObject* list, std::vector<pergola_call_access>* out) {
  for (Py_ssize_t i = 0, count = PyTuple_Size(list); i < count; ++i) {
    PyObject* memory = nullptr;
    int is_read = 0, is_written = 0;
    if (PyArg_ParseTuple(PyTuple_GetItem(list, i), "O!pp", types.memory, &memory, &is_read, &is_written) == 0)
      return false;
    pergola_call_access access{};
    access.struct_size = PERGOLA_STRUCT_SIZE(pergola_call_access);
    if (!resolve(reinterpret_cast<MemoryObject*>(memory), &access.array, &access.offset_bytes)) return false;
    access.size_bytes = reinterpret_cast<MemoryObject*>(memory)->size_bytes;
    access.mode = (is_read != 0 ? PERGOLA_ACCESS_READ : 0) | (is_written != 0 ? PERGOLA_ACCESS_WRITE : 0);
    if (access.size_bytes != 0) out->push_back(access);  // 0 would be the rest of the array
  }
  return true;
}

}  // namespace

bool is_calling() {
  return calling != 0;
}

MayWait::MayWait(const SessionState* session) {
  if (under_way != 0 || session->tasks != nullptr) free_.emplace();
}

PyObject* session_call(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject *given_name = nullptr, *function = nullptr, *list = nullptr;
  int synchronous = 0;
  if (PyArg_ParseTuple(args, "OOO!p:_call", &given_name, &function, &PyTuple_Type, &list, &synchronous) == 0 ||
      !read_text(given_name, "A call's name", &name))
    return nullptr;
  SessionState* const own = reinterpret_cast<SessionObject*>(self)->state;
  std::vector<pergola_call_access> accesses;
  if (!wait_for_tasks_of(list) || !make_room(own) || !read_accesses(list, &accesses)) return nullptr;
  const pergola_session session = own->handle;
  State state{function};
  pergola_code code = PERGOLA_OK;
  {
    const UnderWay counted;
    const WithoutGil free;
    code = pergola_session_call(session, name, accesses.data(), accesses.size(),
                                synchronous != 0 ? PERGOLA_CALL_SYNCHRONOUS : 0, run, &state);
  }
  if (state.type != nullptr) {
    PyErr_Restore(state.type, state.value, state.traceback);
    return nullptr;
  }
  if (!check(code)) return nullptr;
  Py_RETURN_NONE;
}

bool make_room_for_stream(SessionState* session) {
  const pergola_task_pool tasks = session->tasks;
  const auto end = [tasks](std::int64_t slice_ns) { return pergola_task_wait_all(tasks, slice_ns); };
  return (tasks == nullptr || wait_in_slices(end)) && make_room(session);
}

namespace {

template <pergola_code (*order)(pergola_session, std::uint64_t)>
PyObject* order_stream(PyObject* self, PyObject* number) {
  const unsigned long long stream = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  SessionState* const own = reinterpret_cast<SessionObject*>(self)->state;
  if (!make_room_for_stream(own)) return nullptr;
  const pergola_session session = own->handle;
  if (!without_gil([=] { return order(session, stream); })) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace

PyObject* session_wait_stream(PyObject* self, PyObject* number) {
  return order_stream<pergola_session_wait_stream>(self, number);
}

PyObject* session_make_stream_wait(PyObject* self, PyObject* number) {
  return order_stream<pergola_session_make_stream_wait>(self, number);
}

}  // namespace pergola::python
