// Launches: shapes, the bound on how many are in flight, and which exception a refused one raises.
#include "core.h"

namespace pergola::python {
namespace {

bool read_extents(PyObject* given, const char* what, std::uint32_t (&extents)[3]) {
  const bool is_tuple = PyTuple_Check(given) != 0 || PyList_Check(given) != 0;
  const Py_ssize_t count = is_tuple ? PySequence_Size(given) : 1;
  if (count < 1 || count > 3) {
    PyErr_Format(PyExc_ValueError, "A %s has one to three extents; %zd are given.", what, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < 3; ++i) {
    extents[i] = 1;
    if (i >= count) continue;
    const Ref item = is_tuple ? Ref(PySequence_GetItem(given, i)) : Ref::borrow(given);
    const Ref number(item ? PyNumber_Index(item.get()) : nullptr);
    if (!number) {
      if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
        PyErr_Format(PyExc_TypeError, "A %s is an int or a tuple of up to three; %R is given.", what, given);
      return false;
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
    if (overflow != 0 || value < 1 || value > UINT32_MAX) {
      PyErr_Format(PyExc_ValueError, "An extent of a %s should be 1 to 4294967295; it is %R.", what, item.get());
      return false;
    }
    extents[i] = static_cast<std::uint32_t>(value);
  }
  return true;
}

// Keeps the number of launches in flight under the library's bound. False with an exception set: Ctrl-C. What an
// earlier kernel failed with is told by the library where the host waits, until that is cleared.
bool wait_for_room(SessionState* session) {
  if (session->marks.size() + session->waiting <= SessionState::kMostMarks || session->marks.empty()) return true;
  const pergola_event oldest = session->marks.front();
  session->marks.pop_front();
  // Other threads may come by here meanwhile: they wait for the next.
  ++session->waiting;
  const auto ended =
      outcome_in_slices([oldest](std::int64_t slice_ns) { return pergola_event_wait(oldest, slice_ns); });
  --session->waiting;
  if (ended)
    pergola_event_destroy(oldest);
  else
    session->marks.push_front(oldest);
  return ended.has_value();
}

}  // namespace

bool read_shape(PyObject* grid, PyObject* block, pergola_launch_config* config) {
  return read_extents(grid, "grid", config->grid) && read_extents(block, "block", config->block);
}

// Arguments of the wrong number or kind are TypeErrors too; what else is invalid about a launch (its shape) is not.
bool raise_refusal(pergola_code code, const KernelObject* kernel, std::size_t count) {
  const std::string message = pergola_last_error();
  const bool of_arguments = count != kernel->state->parameters.size() || message.rfind("Argument ", 0) == 0;
  set_error(code == PERGOLA_INVALID_ARGUMENT && of_arguments ? argument_error() : error_class(code), message);
  return false;
}

bool to_uint32(PyObject* object, const char* what, const char* range, std::uint32_t* out) {
  const Ref number(PyNumber_Index(object));
  if (!number) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
      PyErr_Format(PyExc_TypeError, "%s is an int; %R is given.", what, object);
    return false;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (overflow != 0 || value < 0 || value > UINT32_MAX) {
    PyErr_Format(PyExc_OverflowError, "%s should be %s; it is %R.", what, range, object);
    return false;
  }
  *out = static_cast<std::uint32_t>(value);
  return true;
}

bool set_shared_bytes(PyObject* shared_bytes, pergola_launch_config* config) {
  return to_uint32(shared_bytes, "shared_bytes", "0 or more, and less than 4 GiB", &config->dynamic_shared_bytes);
}

Items::Items(PyObject* tuple) : count_(static_cast<std::size_t>(PyTuple_Size(tuple))) {
  if (count_ > kFew) {
    many_.resize(count_);
    list_ = many_.data();
  }
  for (std::size_t i = 0; i < count_; ++i) list_[i] = PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
}

bool launch(KernelObject* kernel, const pergola_launch_config& config, PyObject* const* objects, std::size_t count) {
  SessionState* session = kernel->session->state;
  const bool has_waited = std::exchange(session->waits_at_last, false);
  const bool marked = session->launches >= (has_waited ? SessionState::kMarkAfter : SessionState::kMarkAtLast);
  if (marked) {  // first: it lets the GIL go, and arrays may be freed meanwhile
    if (!wait_for_room(session)) return false;
    session->launches = 0;
    pergola_event mark = nullptr;  // behind all streams, not just this launch's
    if (pergola_session_record(session->handle, &mark) == PERGOLA_OK) session->marks.push_back(mark);
  }
  ++session->launches;
  Arguments arguments;
  if (!arguments.convert(kernel, objects, count)) return false;
  pergola_type of[Arguments::kFew];
  std::uint64_t values[Arguments::kFew], ticket = 0;
  const bool are_values = arguments.give_values(count, of, values);
  pergola_code code = PERGOLA_OK;
  {
    const MayWait others(session);
    code = are_values ? pergola_kernel_submit_values(kernel->state->handle, &config, of, values, count, &ticket)
                      : pergola_kernel_launch(kernel->state->handle, &config, arguments.data(), count, nullptr);
  }
  if (code != PERGOLA_OK) return raise_refusal(code, kernel, count);
  return true;
}

PyObject* launch_function(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  if (count != 6 || names != nullptr || !is_instance(arguments[0], types.kernel)) {
    PyErr_SetString(PyExc_TypeError, "launch() takes a kernel, a grid, a block and a tuple of arguments.");
    return nullptr;
  }
  pergola_launch_config config{};
  config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
  if (!read_shape(arguments[1], arguments[2], &config)) return nullptr;
  const Ref list(PySequence_Tuple(arguments[3]));
  if (!list) return nullptr;
  if (!set_shared_bytes(arguments[4], &config)) return nullptr;
  const int is_cooperative = PyObject_IsTrue(arguments[5]);
  if (is_cooperative < 0) return nullptr;
  if (is_cooperative == 1) config.flags |= PERGOLA_LAUNCH_COOPERATIVE;
  const Items objects(list.get());
  if (!launch(reinterpret_cast<KernelObject*>(arguments[0]), config, objects.data(), objects.size())) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace pergola::python
