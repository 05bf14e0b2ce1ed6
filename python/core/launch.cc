// Launches: shapes, the bound on how many are in flight, and which exception a refused one raises.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

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

// For the mark before the last two. False with an exception set: Ctrl-C. What an earlier kernel failed with is told by
// the library where the host waits, until that is cleared.
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

pergola_event record_mark(pergola_session session) {
  pergola_event mark = nullptr;
  const WithoutGil free;
  return pergola_session_record(session, &mark) == PERGOLA_OK ? mark : nullptr;
}

bool make_room(SessionState* session, unsigned pieces) {
  if (is_calling()) return true;  // the library refuses what would wait for the call
  const bool has_waited = std::exchange(session->waits_at_last, false);
  if (session->pieces >= (has_waited ? SessionState::kMarkAfter : SessionState::kMarkAtLast)) {
    if (!wait_for_room(session)) return false;
    session->pieces = 0;
    if (const pergola_event mark = record_mark(session->handle)) session->marks.push_back(mark);
  }
  session->pieces += pieces;
  return true;
}

bool read_shape(PyObject* grid, PyObject* block, pergola_launch_config* config) {
  return read_extents(grid, "grid", config->grid) && read_extents(block, "block", config->block);
}

// Arguments of the wrong number or kind are TypeErrors too; what else is invalid about a launch (its shape) is not.
bool raise_refusal(pergola_code code, const std::string& message, const KernelObject* kernel, std::size_t count) {
  const bool of_arguments = count != kernel->state->parameters.size() || message.rfind("Argument ", 0) == 0;
  if (code == PERGOLA_INVALID_ARGUMENT && of_arguments)
    set_error(argument_error(), message);
  else
    raise(code, message);
  return false;
}

bool raise_refusal(pergola_code code, const KernelObject* kernel, std::size_t count) {
  return raise_refusal(code, pergola_last_error(), kernel, count);
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

namespace {

pergola_code submit(pergola_kernel kernel, const pergola_launch_config& config, const Arguments& arguments,
                    std::size_t count) {
  pergola_type of[Arguments::kFew];
  std::uint64_t values[Arguments::kFew], ticket = 0;
  return arguments.give_values(count, of, values)
             ? pergola_kernel_submit_values(kernel, &config, of, values, count, &ticket)
             : pergola_kernel_launch(kernel, &config, arguments.data(), count, nullptr);
}

// A launch that waits for its end in the library, by a thread of its own, as nothing ends such a wait.
struct WaitedLaunch {
  pergola_launch_config config{};
  Arguments arguments;
  std::size_t count = 0;
  std::vector<Ref> held;  // the kernel and what the arguments are of

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  bool is_to_end = false;  // unless it has been submitted: while it waits for another thread's call
  bool has_ended = false, is_left = false;
  Outcome outcome;
};

// Launches that were left and have ended since, to be dropped with the GIL held. Never destroyed: they may end after
// the interpreter, and after what the program's end destroys.
struct LeftLaunches {
  std::mutex mutex;
  std::vector<std::unique_ptr<WaitedLaunch>> ended;
};
LeftLaunches& left_launches() {
  static auto* const launches = new LeftLaunches;
  return *launches;
}

void run_waited(pergola_kernel kernel, WaitedLaunch* launch) {
  Outcome outcome;
  outcome.code = submit(kernel, launch->config, launch->arguments, launch->count);
  if (outcome.code != PERGOLA_OK) outcome.message = pergola_last_error();
  std::unique_lock lock(launch->mutex);
  launch->outcome = std::move(outcome);
  launch->has_ended = true;
  if (!launch->is_left) {
    launch->changed.notify_one();  // with the lock: whoever waits destroys it
    return;
  }
  lock.unlock();
  const std::scoped_lock left(left_launches().mutex);
  left_launches().ended.emplace_back(launch);
}

// The library's question, on the launch's own thread, while it waits to be submitted.
std::int32_t is_to_end(void* user) {
  auto* const launch = static_cast<WaitedLaunch*>(user);
  const std::scoped_lock lock(launch->mutex);
  return launch->is_to_end ? 1 : 0;
}

void run_on_its_thread(pergola_kernel kernel, WaitedLaunch* launch) {
  pergola_thread_set_check(is_to_end, launch);
  run_waited(kernel, launch);
}

// Ends it where there is no thread to be had, and in a call's function, as the library knows that by the thread.
void start(pergola_kernel kernel, WaitedLaunch& launch) {
  try {
    if (!is_calling()) {
      std::thread(run_on_its_thread, kernel, &launch).detach();
      return;
    }
  } catch (const std::system_error&) {  // it is run here
  }
  const WithoutGil free;
  run_waited(kernel, &launch);
}

// Whether a launch has ended within a slice; the GIL is let go meanwhile.
bool has_ended(WaitedLaunch& launch) {
  const WithoutGil free;
  std::unique_lock lock(launch.mutex);
  return launch.changed.wait_for(lock, std::chrono::nanoseconds(kSliceNs), [&] { return launch.has_ended; });
}

// One that waits for another thread's call ends, and has done nothing: the library asks every 50 ms. One that has been
// submitted goes on. False where it has ended.
bool leave(WaitedLaunch& launch) {
  constexpr std::chrono::milliseconds kIsAskedWithin(200);
  const WithoutGil free;
  std::unique_lock lock(launch.mutex);
  launch.is_to_end = true;
  launch.changed.wait_for(lock, kIsAskedWithin, [&] { return launch.has_ended; });
  launch.is_left = !launch.has_ended;
  return launch.is_left;
}

bool launch_and_wait(KernelObject* kernel, const pergola_launch_config& config, PyObject* const* objects,
                     std::size_t count) {
  drop_left_launches();
  auto launch = std::make_unique<WaitedLaunch>();
  if (!launch->arguments.convert(kernel, objects, count)) return false;
  launch->config = config;
  launch->count = count;
  launch->held.push_back(Ref::borrow(reinterpret_cast<PyObject*>(kernel)));
  for (std::size_t i = 0; i < count; ++i) launch->held.push_back(Ref::borrow(objects[i]));
  start(kernel->state->handle, *launch);
  while (!has_ended(*launch)) {
    if (PyErr_CheckSignals() == 0) continue;
    if (leave(*launch)) (void)launch.release();  // NOLINT: run_waited() hands it on
    return false;
  }
  const Outcome& outcome = launch->outcome;
  return outcome.code == PERGOLA_OK || raise_refusal(outcome.code, outcome.message, kernel, count);
}

}  // namespace

void drop_left_launches() {
  std::vector<std::unique_ptr<WaitedLaunch>> ended;  // goes once the lock has: what it holds may run code of Python
  const std::scoped_lock lock(left_launches().mutex);
  ended.swap(left_launches().ended);
}

bool launch(KernelObject* kernel, const pergola_launch_config& config, PyObject* const* objects, std::size_t count) {
  SessionState* session = kernel->session->state;
  if (session->is_synchronous) return launch_and_wait(kernel, config, objects, count);
  if (!make_room(session)) return false;
  Arguments arguments;
  if (!arguments.convert(kernel, objects, count)) return false;
  pergola_code code = PERGOLA_OK;
  {
    const MayWait others(session);
    code = submit(kernel->state->handle, config, arguments, count);
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
