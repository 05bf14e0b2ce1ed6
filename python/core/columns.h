// Arguments of many tasks at once: an argument that is a sequence of numbers (a list, a range, a NumPy array of one
// dimension) has one for each task, all others are the same for all. Values are converted as a launch's are
// (arguments.cc); where a buffer has them as the kernel does, they are read from where they lie.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core.h"

namespace pergola::python {

class Columns {
 public:
  Columns() = default;
  ~Columns();
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  // False with an exception set. `arguments` become those of the first task.
  bool read(const KernelObject* kernel, PyObject* const* objects, std::size_t count, Arguments* arguments);
  std::size_t tasks() const { return tasks_; }
  const std::vector<pergola_task_column>& list() const { return list_; }

 private:
  // One of the arguments: a buffer that is held, where it has a conversion, else a list of its values.
  struct Source {
    std::size_t argument = 0;
    Py_ssize_t length = 0;
    bool (*convert)(const char*, const ParameterState&, std::uint64_t*) = nullptr;
    Py_buffer buffer{};
    Ref items{nullptr};
  };
  bool open(const KernelObject* kernel, std::size_t index, PyObject* object, bool* is_one);
  bool fill(const KernelObject* kernel, const Source& source, Arguments* arguments);

  std::size_t tasks_ = 0;
  std::vector<pergola_task_column> list_;
  std::deque<Source> sources_;
  std::deque<std::vector<std::uint64_t>> converted_;
};

}  // namespace pergola::python
