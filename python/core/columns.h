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
  bool fill(const KernelObject* kernel, std::size_t index, PyObject* object, Arguments* arguments);
  bool take_buffer(const ParameterState& parameter, PyObject* object, pergola_task_column* column, bool* taken);

  std::size_t tasks_ = 0;
  std::vector<pergola_task_column> list_;
  std::vector<Ref> samples_;
  std::vector<Py_buffer> buffers_;
  std::deque<std::vector<std::uint64_t>> converted_;
};

}  // namespace pergola::python
