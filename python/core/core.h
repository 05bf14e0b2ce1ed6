// pergola._core: the part of the Python package that is C++, over the C interface (pergola.h) and CPython's stable ABI.
//
//   Session ─┬─ Module ─▶ Kernel ─[grid, block]─▶ Launcher ─(args)─▶ pergola_kernel_launch
//            ├─ TaskPool ─(kernel, grid, block)─▶ TaskKind ─(args)─▶ Task
//            ├─ Memory      a device array's bytes, or a view of some of them
//            └─ Event
//
// What must be quick (launches) or cannot be said in Python (capsules, waiting without the GIL) is here; what an array
// means (dtype, shape, indexing) is in pergola/*.py, whose classes derive from these.
//
// Ownership: every object owns its C handle and holds its Session. Threads: all state here is guarded by the GIL. A
// launch keeps it, for it does not wait (but by execution=sync); whatever waits, copies or compiles lets it go, and
// nothing that other threads of Python may change (a Memory's handle, say) is read after that: handles are copied out
// first, and the library refuses one that was destroyed meanwhile.
#pragma once

// CPython 3.11's stable ABI: python/CMakeLists.txt defines it, so that a forgotten include cannot lose it.
#ifndef Py_LIMITED_API
#error "Py_LIMITED_API is not defined"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pergola/pergola.h>

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pergola::python {

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Lets other threads of Python run while it lives. A wait of the library's in it hears Ctrl-C, even where the library
// gives no time to it: it then ends with PERGOLA_CALL_FAILED, and the exception is set (raise()).
class WithoutGil {
 public:
  WithoutGil();  // module.cc
  ~WithoutGil();  // module.cc
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// ── Errors (errors.cc) ──────────────────────────────────────────────────────────────────────────────────────────────

// Error's subclasses, one a pergola_code; borrowed. `argument_error()` is of launches: InvalidArgument and TypeError.
PyObject* error_class(pergola_code code);
PyObject* argument_error();
// Makes the classes and adds them to the module; -1 with an exception set where that fails.
int add_errors(PyObject* module);

// Of a message with a file's name in it, perhaps, or one of PTX's, which need not be UTF-8.
void set_error(PyObject* of, const std::string& message);
// Raises what the library said last on this thread; always null.
PyObject* raise(pergola_code code);
PyObject* raise(pergola_code code, const std::string& message);
// True where `code` is PERGOLA_OK, else raises.
bool check(pergola_code code);
// The same of one of the library's functions, called without the GIL.
template <typename Call>
bool without_gil(const Call& call) {
  pergola_code code = PERGOLA_OK;
  {
    const WithoutGil free;
    code = call();
  }
  return check(code);
}
// What work may end with, by itself or for another's sake.
bool is_failure(pergola_code code);
// Whether a failure of work has been raised, since synchronize() cleared one like it.
bool is_told(const std::string& failure);
void forget_told(const std::string& failure);

// ── Waiting (session.cc) ────────────────────────────────────────────────────────────────────────────────────────────

constexpr std::int64_t kSliceNs = 50'000'000;  // how long Ctrl-C may have to wait

// What a call of the library ended with, and what it says of that.
struct Outcome {
  pergola_code code = PERGOLA_OK;
  std::string message;
};
// Calls it without the GIL.
template <typename Call>
Outcome outcome_of(const Call& call) {
  Outcome outcome;
  {
    const WithoutGil free;
    outcome.code = call();
  }
  if (outcome.code != PERGOLA_OK) outcome.message = pergola_last_error();
  return outcome;
}

// Calls `wait(kSliceNs)`, one of the library's waits, until the work has ended: for who has more to wait for before a
// failure is raised. Nothing, with an exception set, where Ctrl-C has ended the wait (the work goes on).
template <typename Wait>
std::optional<Outcome> outcome_in_slices(const Wait& wait) {
  while (true) {
    Outcome outcome = outcome_of([&] { return wait(kSliceNs); });
    if (outcome.code != PERGOLA_TIMEOUT) return outcome;
    if (PyErr_CheckSignals() < 0) return std::nullopt;
  }
}
// The same, raising what the work failed with: false with an exception set.
template <typename Wait>
bool wait_in_slices(const Wait& wait) {
  const std::optional<Outcome> ended = outcome_in_slices(wait);
  if (ended && ended->code != PERGOLA_OK) raise(ended->code, ended->message);
  return ended && ended->code == PERGOLA_OK;
}
// Raises nothing where both went well.
void raise_failures(const Outcome& launches, const Outcome& tasks);
// `_core.end()`, at the interpreter's end: gives work in flight a second, tells a failure that nobody was told of, and
// from then on nothing is destroyed.
PyObject* end(PyObject* self, PyObject* none);

// ── Handles (handle.cc) ─────────────────────────────────────────────────────────────────────────────────────────────

PyObject* handle_itself(PyObject* self, PyObject* memo);
PyObject* handle_reduce(PyObject* self, PyObject* none);
// Of each handle's table of methods.
inline constexpr PyMethodDef kCopy = {"__copy__", handle_itself, METH_NOARGS, nullptr};
inline constexpr PyMethodDef kDeepCopy = {"__deepcopy__", handle_itself, METH_O, nullptr};
inline constexpr PyMethodDef kReduce = {"__reduce__", handle_reduce, METH_NOARGS, nullptr};

// ── Objects ─────────────────────────────────────────────────────────────────────────────────────────────────────────

struct MemoryObject;

// What a session can record, each once at a time.
enum Recorded : unsigned { kTrace, kHistory, kTuning };

struct SessionState {
  pergola_session handle = nullptr;
  pid_t process = 0;            // that made it
  bool is_synchronous = false;  // by execution=sync, where each launch waits for its end
  bool host_reaches = false;    // the host's side of an array is the array: on the CPU device, and in managed memory
  std::string recordings[3];    // by Recorded, those that are on, as a message calls them: "trace to 'run.json'"
  // The memories that own an array of some bytes and whose address somebody has asked for, or which others own, by it:
  // what another library hands in may lie within one of them (memory.cc).
  std::map<std::uint64_t, MemoryObject*> memories;
  // Marks behind what is queued (launches, fills, copies, events): one waits, interruptibly and without the GIL, for
  // the mark before the last two, so that nobody waits with the GIL held in the library or in the driver, which holds
  // back who queues a 1,022nd piece in one stream (src/device/cuda/README.md). There is a mark after kMarkAfter pieces
  // since the session was last waited for or marked, where the host has just waited for an array: few launches are held
  // back then to be a graph, which a mark would have go one by one. At the latest after kMarkAtLast, which is in the
  // middle of a turn of more: four times that many, and the marks, are less than 1,022.
  static constexpr unsigned kMarkAtLast = 224, kMarkAfter = kMarkAtLast / 2;
  static constexpr std::size_t kMostMarks = 2;
  unsigned pieces = 0;         // since then
  bool waits_at_last = false;  // for an array, since the last piece
  std::deque<pergola_event> marks;
  unsigned waiting = 0;  // threads, each for a mark that is no more among these
  pergola_task_pool tasks =
      nullptr;                   // once there is a TaskPool, and then to the end: whoever waits for its tasks has it
  bool universal_tasks = false;  // some were given addresses, or use any array: all arrays wait for tasks then
};

struct ParameterState {
  std::string name;
  pergola_parameter_kind kind = PERGOLA_PARAMETER_BITS;
  std::uint32_t size_bytes = 0;
  pergola_access access = PERGOLA_ACCESS_UNKNOWN;  // of the memory that it points at
};

struct KernelState {
  pergola_kernel handle = nullptr;
  std::string name;
  pergola_access universal_access = PERGOLA_ACCESS_UNKNOWN;
  std::vector<ParameterState> parameters;
  // The constant that kernel[...] was given last, held, and the shape that it stands for; may be null. Code that
  // launches again and again gives the same object.
  PyObject* last_key = nullptr;
  pergola_launch_config last_shape{};
};

// Objects have a pointer to their C++ state, as the stable ABI knows no constructors.
struct SessionObject {
  PyObject_HEAD SessionState* state;
};
struct ModuleObject {
  PyObject_HEAD SessionObject* session;
  pergola_module handle;
};
struct KernelObject {
  PyObject_HEAD SessionObject* session;
  KernelState* state;
};
// The vectorcall protocol (PEP 590), of the stable ABI since CPython 3.12; 3.11's headers have no name for it.
using Vectorcall = PyObject* (*)(PyObject* called, PyObject* const* arguments, std::size_t count, PyObject* names);
struct LauncherObject {
  PyObject_HEAD KernelObject* kernel;
  pergola_launch_config config;
  Vectorcall vectorcall;
};
struct EventObject {
  PyObject_HEAD SessionObject* session;
  pergola_event handle;
  PyObject* weak_references;
};
// A view holds the memory that owns the handle; that one's `base` is null, and its address among its session's
// memories, or 0.
struct MemoryObject {
  PyObject_HEAD SessionObject* session;
  MemoryObject* base;
  pergola_array handle;  // of an owner; null once freed
  std::uint64_t address, offset_bytes, size_bytes;
  std::uint64_t number;   // of an owner: pergola_array_number()
  std::uint32_t exports;  // of an owner: who shares it and its views, by DLPack or host(), and keeps free() out
  // Of an owner: how often tasks were given it, and how many of those times are known to be over.
  std::uint64_t tasks_begun, tasks_ended;
};
struct TaskPoolObject {
  PyObject_HEAD SessionObject* session;
  pergola_task_pool handle;
};
// Kinds and tasks hold the session, which has a handle of its pool, and no TaskPool, which keeps kinds.
struct TaskKindObject {
  PyObject_HEAD SessionObject* session;
  KernelObject* kernel;
  PyTypeObject* task_type;  // of what it spawns: Task, or a class derived from it
  pergola_task_kind handle;
};
struct TaskObject {
  PyObject_HEAD SessionObject* session;
  std::uint64_t id;
};

// The types; set once by add_types(), never changed.
struct Types {
  PyTypeObject* session = nullptr;
  PyTypeObject* module = nullptr;
  PyTypeObject* kernel = nullptr;
  PyTypeObject* launcher = nullptr;
  PyTypeObject* event = nullptr;
  PyTypeObject* memory = nullptr;
  PyTypeObject* host_memory = nullptr;
  PyTypeObject* task_pool = nullptr;
  PyTypeObject* task_kind = nullptr;
  PyTypeObject* task = nullptr;
};
extern Types types;

extern PyType_Spec session_spec, module_spec, kernel_spec, launcher_spec, event_spec, memory_spec, host_memory_spec,
    task_pool_spec, task_kind_spec, task_spec;

// True once the interpreter is ending: from then on nothing is destroyed, as that could wait for a kernel for ever.
bool is_ending();

// Allocates an object of `type` with all its fields zero, and frees it (its last step of tp_dealloc, whose first is
// PyObject_GC_UnTrack() where the type has kCollected: others may run while it goes).
PyObject* allocate(PyTypeObject* type);
void deallocate(PyObject* object);

// Of types whose objects hold others. Python finds cycles through them: a session of a class derived from Session that
// has its own arrays as attributes. Such a cycle has a dict or slot of Python's in it, where it is broken, for what
// objects hold here makes none: no type needs tp_clear.
constexpr unsigned kCollected = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
// Py_tp_traverse: `held` are the members that own a reference, or are null.
template <typename Object, auto... held>
int traverse(PyObject* self, visitproc visit, void* visitor) {
  const auto* object = reinterpret_cast<const Object*>(self);
  for (PyObject* each : {reinterpret_cast<PyObject*>(Py_TYPE(self)), reinterpret_cast<PyObject*>(object->*held)...})
    if (const int stop = each == nullptr ? 0 : visit(each, visitor); stop != 0) return stop;
  return 0;
}
template <typename Object, auto... held>
PyType_Slot traversed() {
  return {Py_tp_traverse, reinterpret_cast<void*>(traverse<Object, held...>)};
}

inline bool is_instance(PyObject* object, PyTypeObject* type) {
  return PyObject_TypeCheck(object, type) != 0;
}

// Of text that the library takes up to its first zero byte: false with an exception set where that is not its end.
bool is_without_zero(const char* text, Py_ssize_t size, const char* what);
// The text of a str, which keeps it, or of None where that is `optional`: null then. False with an exception set.
bool read_text(PyObject* given, const char* what, const char** out, bool optional = false);
// Where the arguments of a constructor are none that this package gives, somebody else has called it: has the TypeError
// that is set say so, and what is to be called instead. Always null.
PyObject* refuse_direct(const char* what, const char* instead);

// The handle and start of a memory; false with an exception set where it was freed.
bool resolve(const MemoryObject* memory, pergola_array* handle, std::uint64_t* offset_bytes);
// Where it starts on the device, by which its owner is known from now on; false as above. The GIL is held throughout.
bool address_of(MemoryObject* memory, std::uint64_t* address);
// Waits, so that Ctrl-C works, for tasks where the memory was given to some: the library would wait for them, without
// looking, when the host uses the array. False with an exception set: what they failed with, told as the library would.
bool wait_for_tasks(MemoryObject* memory);
// A memory that tasks are about to be given, and has been.
void note_tasks(PyObject* memory);
// Makes an owner's memory known to its session by its address; it is forgotten when the handle goes.
void register_memory(MemoryObject* memory, std::uint64_t address);
// A view, of class `type`, of the session's memory in which these bytes lie: null where they lie in none, and with an
// exception set too. Of bytes that overlap a memory and do not lie in it `overlap` says how, where it is wanted.
PyObject* view_within(PyObject* type, const SessionObject* session, std::uint64_t address, std::uint64_t size_bytes,
                      std::string* overlap);
// Memory._within(session, address, size_bytes): such a view, or None.
PyObject* memory_within(PyObject* type, PyObject* args);
// Memory._host(access): a HostMemory; Memory._prefetch(to) (host_memory.cc).
PyObject* memory_host(PyObject* self, PyObject* args);
PyObject* memory_prefetch(PyObject* self, PyObject* args);

// ── Calls of other libraries (call.cc) ──────────────────────────────────────────────────────────────────────────────

// Session._call(name, function, ((memory, is read, is written), ...), synchronous): function(stream's number, or None).
PyObject* session_call(PyObject* self, PyObject* args);
// Whether this thread is in a call's function, where the library refuses what would wait for the call.
bool is_calling();
// Session._wait_stream(number) and _make_stream_wait(number): of another library's stream.
PyObject* session_wait_stream(PyObject* self, PyObject* number);
PyObject* session_make_stream_wait(PyObject* self, PyObject* number);
// Before either: waits for all tasks, as the library does and tells of them, but so that Ctrl-C is heard; then
// make_room(). False with an exception set.
bool make_room_for_stream(SessionState* session);

// Around what waits only where it conflicts with a call under way, or for tasks that run: lets other threads of Python
// run while there is a call, and where the session has a pool of tasks.
class MayWait {
 public:
  explicit MayWait(const SessionState* session);

 private:
  std::optional<WithoutGil> free_;
};

// ── Launches (launch.cc) ────────────────────────────────────────────────────────────────────────────────────────────

// Before work is queued that is as many pieces to the driver: keeps those in flight under its bound. It may let the GIL
// go, and arrays be freed meanwhile. False with an exception set: Ctrl-C.
bool make_room(SessionState* session, unsigned pieces = 1);
// At the end of what is queued so far, without the GIL, as with tasks=small it waits for tasks. Null where the library
// makes none.
pergola_event record_mark(pergola_session session);
// Fills config's grid and block from ints or tuples of up to three; false with an exception set.
bool read_shape(PyObject* grid, PyObject* block, pergola_launch_config* config);
// From an int; false with an exception set, which names it `what` and its `range`, where it does not fit.
bool to_uint32(PyObject* object, const char* what, const char* range, std::uint32_t* out);
// Shared memory of a launch, from an int; false with an exception set where it is negative, or 4 GiB or more.
bool set_shared_bytes(PyObject* shared_bytes, pergola_launch_config* config);
// What the library refused a launch or a task with, and said of that (or last, on this thread). Always false.
bool raise_refusal(pergola_code code, const std::string& message, const KernelObject* kernel,
                   std::size_t argument_count);
bool raise_refusal(pergola_code code, const KernelObject* kernel, std::size_t argument_count);
// The items of a tuple as an array, borrowed.
class Items {
 public:
  explicit Items(PyObject* tuple);
  PyObject* const* data() const { return list_; }
  std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t kFew = 24;

  std::size_t count_;
  PyObject* few_[kFew];
  std::vector<PyObject*> many_;
  PyObject** list_ = few_;
};
// Queues one grid; in a session of execution=sync waits for its end, which Ctrl-C ends. False with an exception set.
bool launch(KernelObject* kernel, const pergola_launch_config& config, PyObject* const* arguments, std::size_t count);
// Before the types are made.
void use_vectorcall_where_there_is();
// Those that Ctrl-C left and that have ended since let go of their arrays. With the GIL held.
void drop_left_launches();
// `_core.launch(kernel, grid, block, args, shared_bytes=0, cooperative=False)`.
PyObject* launch_function(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

// ── Narrow tasks (tasks.cc) ─────────────────────────────────────────────────────────────────────────────────────────

// wait_any(tasks, timeout in nanoseconds; negative: for ever): those of the tasks that have ended, well or not, as soon
// as there is one; none where the time is over.
PyObject* wait_any(PyObject* self, PyObject* args);
// timeout_ns(timeout): None or seconds, as waits take it, in nanoseconds; negative: for ever.
PyObject* timeout_ns(PyObject* self, PyObject* timeout);

// ── Interchange (interchange.cc) ────────────────────────────────────────────────────────────────────────────────────

// dlpack_export(array, shape, (code, bits), (device type, id), versioned, is_copied): a capsule.
PyObject* dlpack_export(PyObject* self, PyObject* args);
// dlpack_import(capsule): (address, shape, strides or None, (code, bits, lanes), (device type, id), readonly, owner).
PyObject* dlpack_import(PyObject* self, PyObject* capsule);
// host_view(address, size): a memoryview, which holds nothing.
PyObject* host_view(PyObject* self, PyObject* args);
// Memory._adopt(session, type, element_bytes, count, address, stream, owner): another library's memory, or a view of
// the session's in which it lies. The caller has seen to it that its size is no more than 64 bits tell.
PyObject* memory_adopt(PyObject* type, PyObject* args);

// ── Arguments (arguments.cc) ────────────────────────────────────────────────────────────────────────────────────────

// A kernel's arguments as the library takes them, with the buffers of Python objects that they borrow.
class Arguments {
 public:
  Arguments() = default;
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // False with an exception set. `count` may differ from the kernel's: the library tells that.
  bool convert(const KernelObject* kernel, PyObject* const* objects, std::size_t count);
  const pergola_argument* data() const { return list_; }
  // The first `count` as values and the types that they are `of`: shorter to read, and to compare where the launch
  // comes again. False where one of them is more than that.
  static constexpr std::size_t kFew = 24;
  bool give_values(std::size_t count, pergola_type (&of)[kFew], std::uint64_t (&values)[kFew]) const;
  // One value more for an argument that has been converted and is a number: its bits, low bytes first.
  bool convert_value(const KernelObject* kernel, std::size_t index, PyObject* object, std::uint64_t* bits);

 private:
  bool convert_one(const KernelObject* kernel, std::size_t index, PyObject* object);
  bool convert_buffer(const KernelObject* kernel, std::size_t index, PyObject* object);

  pergola_argument few_[kFew];
  std::vector<pergola_argument> many_;
  pergola_argument* list_ = few_;
  std::vector<Py_buffer> buffers_;
};

}  // namespace pergola::python
