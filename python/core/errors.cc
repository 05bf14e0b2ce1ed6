// pergola.Error and its subclasses: one for each pergola_code, with the library's message.
#include <algorithm>

#include "core.h"

namespace pergola::python {
namespace {

struct Row {
  pergola_code code;
  const char* name;
  PyObject** builtin;  // a built-in exception that it is as well, so that `except ValueError` does
  const char* doc;
};

constexpr int kCodes = PERGOLA_CALL_FAILED + 1;
PyObject* classes[kCodes] = {};
PyObject* base_class = nullptr;
PyObject* argument_class = nullptr;
// Failures of work that were raised and that no synchronize() has cleared. Guarded by the GIL, as all here.
std::deque<std::string> told;
constexpr std::size_t kMostTold = 64;

// A skip's message quotes its cause's.
bool is_same(const std::string& a, const std::string& b) {
  return a.find(b) != std::string::npos || b.find(a) != std::string::npos;
}

// Handles are this package's own, so that an array's that is gone was freed meanwhile, by another thread for the most
// part: before the call it was looked at with the GIL.
bool is_freed_meanwhile(pergola_code code, const std::string& message, std::string* what) {
  const std::size_t end = message.find(" is not a live handle");
  if (code != PERGOLA_INVALID_ARGUMENT || end == std::string::npos) return false;
  *what = message.substr(0, end);
  return what->find("array") != std::string::npos;
}

const Row kRows[] = {
    {PERGOLA_INVALID_ARGUMENT, "InvalidArgument", &PyExc_ValueError, "A value given by the caller is wrong."},
    {PERGOLA_NOT_FOUND, "NotFound", &PyExc_LookupError, "A name or file is not there."},
    {PERGOLA_UNSUPPORTED, "Unsupported", nullptr, "Understood, and this device or version cannot do it."},
    {PERGOLA_UNAVAILABLE, "Unavailable", nullptr, "A driver, compiler or device is missing on this machine."},
    {PERGOLA_FAILED_PRECONDITION, "FailedPrecondition", nullptr, "The right call at a wrong moment."},
    {PERGOLA_RESOURCE_EXHAUSTED, "OutOfMemory", &PyExc_MemoryError, "Memory, shared memory or slots are used up."},
    {PERGOLA_PARSE_ERROR, "ParseError", &PyExc_ValueError, "PTX or other text is malformed."},
    {PERGOLA_COMPILE_ERROR, "CompileError", nullptr, "A compiler refused the source; the message has its log."},
    {PERGOLA_DEVICE_FAULT, "DeviceFault", nullptr, "A kernel trapped, asserted or accessed memory it may not."},
    {PERGOLA_DEVICE_LOST, "DeviceLost", nullptr, "The device can no longer be used by this process."},
    {PERGOLA_IO, "IoError", &PyExc_OSError, "The operating system refused a file or socket."},
    {PERGOLA_SKIPPED, "Skipped", nullptr, "Not run, because work it depends on failed."},
    {PERGOLA_TIMEOUT, "Timeout", &PyExc_TimeoutError, "The time given for a wait is over; the work goes on."},
    {PERGOLA_INTERNAL, "InternalError", nullptr, "A bug of the library, reported instead of crashing."},
    {PERGOLA_CALL_FAILED, "CallFailed", nullptr, "A function of the caller's, called by the library, failed."},
};

PyObject* make_class(PyObject* module, const char* name, const char* doc, PyObject* first_base, PyObject* second_base) {
  const Ref bases(second_base == nullptr ? PyTuple_Pack(1, first_base) : PyTuple_Pack(2, first_base, second_base));
  if (!bases) return nullptr;
  const std::string full = std::string("pergola.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.get(), nullptr);
  if (made == nullptr || PyModule_AddObjectRef(module, name, made) < 0) return nullptr;
  return made;
}

}  // namespace

int add_errors(PyObject* module) {
  base_class = make_class(module, "Error", "What every error of Pergola is.", PyExc_Exception, nullptr);
  if (base_class == nullptr) return -1;
  for (const Row& row : kRows) {
    classes[row.code] =
        make_class(module, row.name, row.doc, base_class, row.builtin == nullptr ? nullptr : *row.builtin);
    if (classes[row.code] == nullptr) return -1;
  }
  argument_class =
      make_class(module, "ArgumentError",
                 "A kernel's arguments are too many, too few, or one is of another kind than its parameter.",
                 classes[PERGOLA_INVALID_ARGUMENT], PyExc_TypeError);
  return argument_class == nullptr ? -1 : 0;
}

PyObject* error_class(pergola_code code) {
  return code > 0 && code < kCodes && classes[code] != nullptr ? classes[code] : base_class;
}
PyObject* argument_error() {
  return argument_class;
}

void set_error(PyObject* of, const std::string& message) {
  const Ref text(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  if (text) PyErr_SetObject(of, text.get());
}

PyObject* raise(pergola_code code, const std::string& message) {
  if (code == PERGOLA_CALL_FAILED && PyErr_Occurred() != nullptr) return nullptr;  // Ctrl-C, while the library waited
  if (std::string array; is_freed_meanwhile(code, message, &array)) {
    set_error(error_class(PERGOLA_FAILED_PRECONDITION),
              array + " was freed by free() meanwhile; it cannot be used any more.");
    return nullptr;
  }
  set_error(error_class(code), message);
  if (is_failure(code) && std::find(told.begin(), told.end(), message) == told.end()) told.push_back(message);
  if (told.size() > kMostTold) told.pop_front();
  return nullptr;
}

PyObject* raise(pergola_code code) {
  return raise(code, pergola_last_error());
}

bool is_failure(pergola_code code) {
  return code == PERGOLA_DEVICE_FAULT || code == PERGOLA_DEVICE_LOST || code == PERGOLA_SKIPPED;
}

bool is_told(const std::string& failure) {
  return std::any_of(told.begin(), told.end(), [&](const std::string& each) { return is_same(each, failure); });
}

void forget_told(const std::string& failure) {
  std::erase_if(told, [&](const std::string& each) { return is_same(each, failure); });
}

bool check(pergola_code code) {
  if (code == PERGOLA_OK) return true;
  raise(code);
  return false;
}

}  // namespace pergola::python
