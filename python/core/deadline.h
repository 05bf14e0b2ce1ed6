// Waits with a time to them: `timeout=None` of events, tasks and pools.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core.h"

namespace pergola::python {

// The end of a time to wait.
class Deadline {
 public:
  explicit Deadline(std::int64_t timeout_ns) : timeout_ns_(timeout_ns), begin_(std::chrono::steady_clock::now()) {}
  bool is_never() const { return timeout_ns_ < 0; }
  // Of it and of `most_ns`, whichever comes first; 0 where it is over.
  std::int64_t left_ns(std::int64_t most_ns) const {
    if (is_never()) return most_ns;
    const std::int64_t passed =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count();
    return std::clamp<std::int64_t>(timeout_ns_ - passed, 0, most_ns);
  }

 private:
  std::int64_t timeout_ns_;
  std::chrono::steady_clock::time_point begin_;
};

// None or seconds, as nanoseconds; negative: for ever. False with an exception set.
inline bool read_timeout(PyObject* given, std::int64_t* timeout_ns) {
  *timeout_ns = -1;
  if (given == nullptr || given == Py_None) return true;
  const double seconds = PyFloat_AsDouble(given);
  if (seconds == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
      PyErr_Format(PyExc_TypeError, "A timeout is a number of seconds or None; %R is given.", given);
    return false;
  }
  if (std::isnan(seconds)) {
    PyErr_SetString(PyExc_ValueError, "A timeout is a number of seconds or None; it is not a number.");
    return false;
  }
  if (seconds < 9e9) *timeout_ns = static_cast<std::int64_t>(std::max(seconds, 0.) * 1e9);
  return true;
}

// timeout=None of a method; false with an exception set.
inline bool read_timeout_argument(PyObject* args, PyObject* kwargs, const char* format, std::int64_t* timeout_ns) {
  static const char* names[] = {"timeout", nullptr};
  PyObject* timeout = nullptr;
  return PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &timeout) != 0 &&
         read_timeout(timeout, timeout_ns);
}

// Calls `wait(ns)`, one of the library's waits, in slices, so that Ctrl-C ends it. None, or null with an exception set:
// Timeout where the time is over.
template <typename Wait>
PyObject* wait_until(const Deadline& deadline, const char* what, const Wait& wait) {
  while (true) {
    const std::int64_t slice_ns = deadline.left_ns(kSliceNs);
    pergola_code code = PERGOLA_OK;
    {
      const WithoutGil free;
      code = wait(slice_ns);
    }
    if (code == PERGOLA_OK) Py_RETURN_NONE;
    if (code != PERGOLA_TIMEOUT) return raise(code);
    if (PyErr_CheckSignals() < 0) return nullptr;
    if (slice_ns == 0) return raise(PERGOLA_TIMEOUT, std::string("The time to wait is over, and ") + what + " on.");
  }
}

}  // namespace pergola::python
