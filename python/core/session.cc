// Sessions, events, and how to wait for work without stopping the interpreter.
#include "core.h"
#include "deadline.h"

#include <structmember.h>  // after Python.h
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

namespace pergola::python {
namespace {

bool ending = false;                  // guarded by the GIL, as is the next
std::vector<SessionState*> sessions;  // that live

struct Recorder {
  const char* name;
  const char* setting;  // by which a session begins with one
  pergola_code (*record)(pergola_session, const char*);
};
constexpr Recorder kRecorders[] = {{"trace", "PERGOLA_TRACE", pergola_session_trace},
                                   {"history", "PERGOLA_HISTORY", pergola_session_history},
                                   {"tuning", "PERGOLA_TUNING", pergola_session_tuning}};

const char* setting(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Of policies that the library has taken; the last that names it counts.
bool has_policy(const char* given, std::string_view name, std::string_view choice) {
  const std::string_view policies = given != nullptr && *given != 0 ? given : setting("PERGOLA_SCHEDULER");
  const std::size_t at = policies.rfind(name);
  return at != policies.npos && policies.substr(at + name.size()).substr(0, choice.size()) == choice;
}

bool is_on_cpu(pergola_session session) {
  pergola_device_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_device_info);
  return pergola_session_device(session, &info) == PERGOLA_OK && std::string_view(info.id) == "cpu";
}

PyObject* session_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *given_device = Py_None, *given_scheduler = Py_None;
  const char *device = nullptr, *scheduler = nullptr;
  static const char* names[] = {"device", "scheduler", nullptr};
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Session", const_cast<char**>(names), &given_device,
                                  &given_scheduler) == 0 ||
      !read_text(given_device, "A session's device", &device, true) ||
      !read_text(given_scheduler, "A session's scheduler", &scheduler, true))
    return nullptr;
  Ref self(allocate(type));
  if (!self) return nullptr;
  auto* session = reinterpret_cast<SessionObject*>(self.get());
  session->state = new SessionState;
  pergola_session_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options);
  options.device = device;
  options.scheduler = scheduler;
  if (!without_gil([&] { return pergola_session_create(&options, &session->state->handle); })) return nullptr;
  session->state->process = getpid();
  session->state->is_synchronous = has_policy(scheduler, "execution=", "sync");
  session->state->host_reaches = is_on_cpu(session->state->handle) || has_policy(scheduler, "memory=", "managed");
  for (const Recorded each : {kTrace, kHistory, kTuning})
    if (const char* const file = setting(kRecorders[each].setting); *file != 0)
      session->state->recordings[each] =
          std::string(kRecorders[each].name) + " that " + kRecorders[each].setting + "=" + file + " asked for";
  sessions.push_back(session->state);
  return self.release();
}

void session_dealloc(PyObject* self) {
  SessionState* state = reinterpret_cast<SessionObject*>(self)->state;
  if (state != nullptr) {
    std::erase(sessions, state);
    if (!is_ending()) {
      for (pergola_event mark : state->marks) pergola_event_destroy(mark);
      const WithoutGil free;  // it waits for its work
      if (state->tasks != nullptr) pergola_task_pool_destroy(state->tasks);
      if (state->handle != nullptr) pergola_session_destroy(state->handle);
    }
    delete state;
  }
  deallocate(self);
}

PyObject* triple(const std::uint32_t (&values)[3]) {
  return Py_BuildValue("(III)", values[0], values[1], values[2]);
}

PyObject* session_device(PyObject* self, PyObject*) {
  pergola_device_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_device_info);
  if (!check(pergola_session_device(reinterpret_cast<SessionObject*>(self)->state->handle, &info))) return nullptr;
  return Py_BuildValue("{s:s,s:s,s:s,s:(II),s:I,s:I,s:I,s:N,s:N,s:I,s:K}", "id", info.id, "name", info.name, "driver",
                       info.driver, "compute_capability", info.compute_major, info.compute_minor, "sm_count",
                       info.sm_count, "warp_size", info.warp_size_threads, "max_threads_per_block",
                       info.max_threads_per_block, "max_block", triple(info.max_block), "max_grid",
                       triple(info.max_grid), "max_shared_bytes_per_block", info.max_shared_bytes_per_block,
                       "memory_bytes", static_cast<unsigned long long>(info.memory_bytes));
}

// _dag(format) and _graphs(format).
template <pergola_code (*tell)(pergola_session, const char*, const char**)>
PyObject* session_text(PyObject* self, PyObject* format) {
  const char *name = nullptr, *text = nullptr;
  if (!read_text(format, "A format", &name) ||
      !check(tell(reinterpret_cast<SessionObject*>(self)->state->handle, name, &text)))
    return nullptr;
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
}

// Waits, so that Ctrl-C works, for all launches and copies so far, however they end. False with an exception set. What
// refuses the event is told by the call that this is made before.
bool wait_for_launches(pergola_session session) {
  const pergola_event event = record_mark(session);
  if (event == nullptr) return true;
  const auto ended = outcome_in_slices([event](std::int64_t slice_ns) { return pergola_event_wait(event, slice_ns); });
  pergola_event_destroy(event);
  return ended.has_value();
}

// _trace(path), _history(path) and _tuning(path), of bytes, as a file's name need not be UTF-8; None waits for what was
// recorded and writes it. A path ends one that is on, too, and waits without looking: pergola/_session.py ends it
// before.
template <Recorded kind>
PyObject* session_recording(PyObject* self, PyObject* path) {
  std::string text;
  if (path != Py_None) {
    Py_ssize_t size = 0;
    char* given = nullptr;
    if (PyBytes_AsStringAndSize(path, &given, &size) < 0 || !is_without_zero(given, size, "A path")) return nullptr;
    text = given;
  }
  SessionState* const state = reinterpret_cast<SessionObject*>(self)->state;
  const pergola_session handle = state->handle;
  const Recorder& recorder = kRecorders[kind];
  // The library waits for what was recorded alone, and for a tuning for nothing.
  if (path == Py_None && kind != kTuning && !wait_for_launches(handle)) return nullptr;
  const bool is_well = without_gil([&] { return recorder.record(handle, path == Py_None ? nullptr : text.c_str()); });
  state->recordings[kind] =
      is_well && path != Py_None ? std::string(recorder.name) + " to '" + text + "'" : std::string();
  if (!is_well) return nullptr;
  Py_RETURN_NONE;
}

// _use_history(path), of bytes.
PyObject* session_use_history(PyObject* self, PyObject* path) {
  Py_ssize_t size = 0;
  char* given = nullptr;
  if (PyBytes_AsStringAndSize(path, &given, &size) < 0 || !is_without_zero(given, size, "A path")) return nullptr;
  const pergola_session handle = reinterpret_cast<SessionObject*>(self)->state->handle;
  if (!without_gil([&] { return pergola_session_use_history(handle, given); })) return nullptr;
  Py_RETURN_NONE;
}

// _is_forked(): whether this is a fork of the process that made it, where it has nothing to end.
PyObject* session_is_forked(PyObject* self, PyObject*) {
  return PyBool_FromLong(reinterpret_cast<SessionObject*>(self)->state->process != getpid() ? 1 : 0);
}

PyObject* session_record(PyObject* self, PyObject*) {
  auto* session = reinterpret_cast<SessionObject*>(self);
  if (!make_room(session->state)) return nullptr;
  Ref event(allocate(types.event));
  if (!event) return nullptr;
  auto* object = reinterpret_cast<EventObject*>(event.get());
  Py_INCREF(self);
  object->session = session;
  const pergola_session handle = session->state->handle;
  pergola_event made = nullptr;
  if (!without_gil([&] { return pergola_session_record(handle, &made); })) return nullptr;
  object->handle = made;
  return event.release();
}

}  // namespace

// Raises the failure of a launch or a task; of both the launch's, as the tasks' may come of it, with the other as its
// context. They are one where the pool itself is lost.
void raise_failures(const Outcome& launches, const Outcome& tasks) {
  if (tasks.code != PERGOLA_OK) raise(tasks.code, tasks.message);
  if (launches.code == PERGOLA_OK || launches.message == tasks.message) return;
  PyObject *type = nullptr, *context = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &context, &traceback);
  PyErr_NormalizeException(&type, &context, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  raise(launches.code, launches.message);
  if (context == nullptr) return;
  PyObject* value = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetContext(value, context);  // which it owns then
  PyErr_Restore(type, value, traceback);
}

namespace {

PyObject* session_synchronize(PyObject* self, PyObject*) {
  drop_left_launches();
  SessionState* const state = reinterpret_cast<SessionObject*>(self)->state;
  const pergola_session handle = state->handle;
  const unsigned before = state->pieces;
  Outcome tasks, launches;
  if (const pergola_task_pool pool = state->tasks; pool != nullptr) {
    // What launches failed with the library's call tells and clears, so here it is not looked at; tasks' failures are
    // told once, so that they are kept, and no Ctrl-C comes between them and their exception.
    if (!wait_for_launches(handle)) return nullptr;
    std::optional<Outcome> ended =
        outcome_in_slices([pool](std::int64_t slice_ns) { return pergola_task_wait_all(pool, slice_ns); });
    if (!ended) return nullptr;
    tasks = *std::move(ended);
    launches = outcome_of([handle] { return pergola_session_synchronize(handle); });
  } else {
    // Most waits are short. In longer ones other threads' launches that come meanwhile are not waited for.
    launches = outcome_of([handle] { return pergola_session_synchronize_for(handle, kSliceNs); });
    if (launches.code == PERGOLA_TIMEOUT) {
      if (PyErr_CheckSignals() < 0 || !wait_for_launches(handle)) return nullptr;
      launches = outcome_of([handle] { return pergola_session_synchronize(handle); });
    }
  }
  raise_failures(launches, tasks);
  if (launches.code != PERGOLA_OK) forget_told(launches.message);
  // Those are no more under way, however they ended; another thread may have taken them off meanwhile.
  if (state->pieces >= before) state->pieces -= before;
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

// _is_over(): whether end() has been called.
PyObject* session_is_over(PyObject*, PyObject*) {
  return PyBool_FromLong(ending ? 1 : 0);
}

// _finish_recording(kind): "trace", "history" or "tuning"; defined with the interpreter's end.
PyObject* session_finish_recording(PyObject* self, PyObject* kind);

PyMethodDef session_methods[] = {{"_device", session_device, METH_NOARGS, nullptr},
                                 {"_dag", session_text<pergola_session_dag>, METH_O, nullptr},
                                 {"_graphs", session_text<pergola_session_graphs>, METH_O, nullptr},
                                 {"_call", session_call, METH_VARARGS, nullptr},
                                 {"_wait_stream", session_wait_stream, METH_O, nullptr},
                                 {"_make_stream_wait", session_make_stream_wait, METH_O, nullptr},
                                 {"_trace", session_recording<kTrace>, METH_O, nullptr},
                                 {"_history", session_recording<kHistory>, METH_O, nullptr},
                                 {"_tuning", session_recording<kTuning>, METH_O, nullptr},
                                 {"_use_history", session_use_history, METH_O, nullptr},
                                 {"_finish_recording", session_finish_recording, METH_O, nullptr},
                                 {"_is_forked", session_is_forked, METH_NOARGS, nullptr},
                                 {"_is_over", session_is_over, METH_NOARGS, nullptr},
                                 {"record", session_record, METH_NOARGS,
                                  "record($self, /)\n--\n\nAn Event at the end of all launches, fills and copies so "
                                  "far. Narrow tasks are awaited by themselves."},
                                 {"synchronize", session_synchronize, METH_NOARGS,
                                  "synchronize($self, /)\n--\n\nWait for all work submitted so far; raise its first "
                                  "failure since the last time, after which work runs again."},
                                 kCopy,
                                 kDeepCopy,
                                 kReduce,
                                 {nullptr, nullptr, 0, nullptr}};

PyType_Slot session_slots[] = {{Py_tp_new, reinterpret_cast<void*>(session_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(session_dealloc)},
                               {Py_tp_methods, session_methods},
                               {0, nullptr}};

// ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

void event_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* event = reinterpret_cast<EventObject*>(self);
  if (event->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (event->handle != nullptr && !is_ending()) pergola_event_destroy(event->handle);
  Py_XDECREF(reinterpret_cast<PyObject*>(event->session));
  deallocate(self);
}

PyObject* event_wait(PyObject* self, PyObject* args, PyObject* kwargs) {
  std::int64_t timeout_ns = -1;
  if (!read_timeout_argument(args, kwargs, "|O:wait", &timeout_ns)) return nullptr;
  const pergola_event event = reinterpret_cast<EventObject*>(self)->handle;
  return wait_until(Deadline(timeout_ns), "the work goes",
                    [=](std::int64_t slice_ns) { return pergola_event_wait(event, slice_ns); });
}

PyObject* event_done(PyObject* self, void*) {
  std::int32_t done = 0;
  if (!check(pergola_event_done(reinterpret_cast<EventObject*>(self)->handle, &done))) return nullptr;
  return PyBool_FromLong(done);
}

PyObject* event_repr(PyObject* self) {
  std::int32_t done = 0;
  const pergola_code code = pergola_event_done(reinterpret_cast<EventObject*>(self)->handle, &done);
  if (code == PERGOLA_FAILED_PRECONDITION) return PyUnicode_FromString("<pergola.Event of the parent process>");
  const char* const state = code != PERGOLA_OK ? "failed" : done != 0 ? "done" : "not done yet";
  return PyUnicode_FromFormat("<pergola.Event of %R: %s>", reinterpret_cast<EventObject*>(self)->session, state);
}

PyObject* event_elapsed(PyObject* self, PyObject* start) {
  if (!is_instance(start, types.event)) {
    PyErr_SetString(PyExc_TypeError, "milliseconds_since() takes the Event at which the time starts.");
    return nullptr;
  }
  double nanoseconds = 0;
  if (!check(pergola_event_elapsed_ns(reinterpret_cast<EventObject*>(start)->handle,
                                      reinterpret_cast<EventObject*>(self)->handle, &nanoseconds)))
    return nullptr;
  return PyFloat_FromDouble(nanoseconds * 1e-6);
}

PyMethodDef event_methods[] = {
    {"wait", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(event_wait)), METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\nWait until the work has ended; raise what it failed with, Timeout after "
     "`timeout` seconds."},
    {"milliseconds_since", event_elapsed, METH_O,
     "milliseconds_since($self, start, /)\n--\n\nDevice time from the end of another Event to the end of this one."},
    kCopy,
    kDeepCopy,
    kReduce,
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef event_getset[] = {{"done", event_done, nullptr, "Whether the work has ended, well or not.", nullptr},
                              {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef event_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(EventObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot event_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(event_dealloc)},
                             traversed<EventObject, &EventObject::session>(),
                             {Py_tp_repr, reinterpret_cast<void*>(event_repr)},
                             {Py_tp_methods, event_methods},
                             {Py_tp_members, event_members},
                             {Py_tp_getset, event_getset},
                             {Py_tp_doc, const_cast<char*>("The end of the work submitted before it.")},
                             {0, nullptr}};

}  // namespace

bool is_ending() {
  return ending;
}

namespace {

// The rest of what the interpreter's end waits for, all sessions together and whoever waits; none after Ctrl-C.
struct Patience {
  int slices = static_cast<int>(1'000'000'000 / kSliceNs);
};
Patience patience_at_end;  // guarded by the GIL

void tell_at_end(const Outcome& failure) {
  PySys_FormatStderr("pergola: work failed and nobody waited for it: %s\n", failure.message.c_str());
}

// How what `wait` waits for has ended; nothing where it has not.
template <typename Wait>
std::optional<Outcome> end_of(const Wait& wait) {
  Patience& patience = patience_at_end;
  while (true) {
    Outcome outcome = outcome_of([&] { return wait(patience.slices > 0 ? kSliceNs : 0); });
    if (outcome.code != PERGOLA_TIMEOUT) return outcome;
    if (patience.slices <= 0) return std::nullopt;
    --patience.slices;
    if (PyErr_CheckSignals() == 0) continue;
    PyErr_Clear();
    patience.slices = 0;
  }
}

// The same of all launches and copies of a session. False where the library makes no event: in a forked child, and of a
// lost device.
bool end_launches(const SessionState* session, std::optional<Outcome>* ended) {
  pergola_event event = nullptr;
  if (pergola_session_record(session->handle, &event) != PERGOLA_OK) return false;
  *ended = end_of([event](std::int64_t slice_ns) { return pergola_event_wait(event, slice_ns); });
  pergola_event_destroy(event);
  return true;
}

// Of a recording that is on, if it is, once all that it records has ended.
void write_recording(SessionState* session, Recorded kind) {
  if (session->recordings[kind].empty()) return;
  session->recordings[kind].clear();
  const Outcome written = outcome_of([=] { return kRecorders[kind].record(session->handle, nullptr); });
  if (written.code != PERGOLA_OK) PySys_FormatStderr("pergola: a recording is lost: %s\n", written.message.c_str());
}

// Of work that goes on, which might never end. What has ended of what is recorded is written.
void tell_left_behind(SessionState* session) {
  std::string recorded;
  for (const Recorded kind : {kTrace, kHistory}) {
    std::string& recording = session->recordings[kind];
    if (!recording.empty()) recorded += (recorded.empty() ? "; without it is written: the " : " and the ") + recording;
    recording.clear();
  }
  PySys_FormatStderr("pergola: the program's end gave work a second, and what goes on is left behind%s.\n",
                     recorded.c_str());
  if (recorded.empty()) return;
  const Outcome written = outcome_of([=] { return pergola_session_end_recordings(session->handle, 0); });
  if (written.code != PERGOLA_OK && written.code != PERGOLA_TIMEOUT)
    PySys_FormatStderr("pergola: a recording is lost: %s\n", written.message.c_str());
}

// The library knows which tasks' own failures nobody has been told of, and tells them once; a pool's, which lost all
// its tasks, it tells each time.
bool end_tasks(pergola_task_pool pool) {
  const auto wait = [pool](std::int64_t slice_ns) { return pergola_task_wait_all(pool, slice_ns); };
  const std::optional<Outcome> ended = end_of(wait);
  if (!ended || ended->code == PERGOLA_OK) return ended.has_value();
  const std::optional<Outcome> again = end_of(wait);
  const bool is_pools = again && again->message == ended->message;
  if (!is_pools || !is_told(ended->message)) tell_at_end(*ended);
  return true;
}

// What is not written here end() writes or tells of, if that is still to come.
PyObject* session_finish_recording(PyObject* self, PyObject* name) {
  const char* text = nullptr;
  if (!read_text(name, "A recording", &text)) return nullptr;
  const auto* const recorder = std::find_if(std::begin(kRecorders), std::end(kRecorders),
                                            [&](const Recorder& each) { return std::string_view(each.name) == text; });
  if (recorder == std::end(kRecorders)) return PyErr_Format(PyExc_ValueError, "'%s' is no kind of recording.", text);
  const auto kind = static_cast<Recorded>(recorder - std::begin(kRecorders));
  SessionState* const session = reinterpret_cast<SessionObject*>(self)->state;
  std::optional<Outcome> ended;
  if (session->recordings[kind].empty()) Py_RETURN_NONE;
  const bool waits = kind != kTuning;
  if (waits && !end_launches(session, &ended)) Py_RETURN_NONE;
  if (!waits || ended)
    write_recording(session, kind);
  else if (ending)
    tell_left_behind(session);
  Py_RETURN_NONE;
}

}  // namespace

PyObject* end(PyObject*, PyObject*) {
  for (SessionState* session : std::vector<SessionState*>(sessions)) {
    write_recording(session, kTuning);  // which waits for nothing
    std::optional<Outcome> ended;
    if (!end_launches(session, &ended)) continue;
    const bool have_tasks_ended = session->tasks == nullptr || end_tasks(session->tasks);
    if (ended && ended->code != PERGOLA_OK) {
      // All that failed, where nothing is left to wait for.
      Outcome all = *ended;
      if (have_tasks_ended) all = outcome_of([=] { return pergola_session_synchronize(session->handle); });
      if (all.code == PERGOLA_OK) all = *ended;
      if (!is_told(all.message)) tell_at_end(all);
    }
    if (!ended) {
      tell_left_behind(session);
      continue;
    }
    // Sessions do not end any more, so recordings are written now.
    for (const Recorded kind : {kTrace, kHistory}) write_recording(session, kind);
    if (!have_tasks_ended) tell_left_behind(session);
  }
  ending = true;
  Py_RETURN_NONE;
}

PyType_Spec session_spec = {"pergola._core.Session", sizeof(SessionObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                            session_slots};
PyType_Spec event_spec = {"pergola.Event", sizeof(EventObject), 0, kCollected | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          event_slots};

}  // namespace pergola::python
