#include "columns.h"

#include <cmath>
#include <cstring>
#include <string>

namespace pergola::python {
namespace {

// How many numbers it has for a parameter that takes one; -1: it is one argument for all.
Py_ssize_t length_of(const KernelObject* kernel, std::size_t index, PyObject* object) {
  const std::vector<ParameterState>& parameters = kernel->state->parameters;
  if (index >= parameters.size() || parameters[index].kind == PERGOLA_PARAMETER_STRUCT ||
      is_instance(object, types.memory) || PyBytes_Check(object) != 0 || PyUnicode_Check(object) != 0 ||
      PySequence_Check(object) == 0)
    return -1;
  const Py_ssize_t length = PySequence_Size(object);  // an array without dimensions has none
  if (length < 0) PyErr_Clear();
  return length;
}

// The element of a buffer as the parameter has it, in the low bytes; false where it does not hold it.
template <typename From>
bool convert_value(const char* from, const ParameterState& parameter, std::uint64_t* to) {
  From value{};
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::is_floating_point_v<From>) {
    if (parameter.size_bytes == 8) {
      const auto wide = static_cast<double>(value);
      std::memcpy(to, &wide, sizeof wide);
      return true;
    }
    const auto narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof narrow);
    return !std::isinf(narrow) || std::isinf(value);
  } else {
    *to = static_cast<std::uint64_t>(value);
    const unsigned bits = 8 * parameter.size_bytes;
    if (bits == 64) return true;
    if (std::is_unsigned_v<From> || value >= 0) return *to >> bits == 0;
    return static_cast<std::int64_t>(value) >= -(std::int64_t{1} << (bits - 1));
  }
}

using Convert = bool (*)(const char*, const ParameterState&, std::uint64_t*);

// For elements of that format, of the parameter's class; null where each is to be converted as an object.
Convert conversion_of(char format, const ParameterState& parameter) {
  const bool is_float = parameter.kind == PERGOLA_PARAMETER_FLOAT;
  const std::uint32_t size = parameter.size_bytes;
  if (is_float ? size != 4 && size != 8 : size != 1 && size != 2 && size != 4 && size != 8) return nullptr;
  switch (format) {
    case 'f': return is_float ? convert_value<float> : nullptr;
    case 'd': return is_float ? convert_value<double> : nullptr;
    case 'b': return is_float ? nullptr : convert_value<signed char>;
    case 'B': return is_float ? nullptr : convert_value<unsigned char>;
    case 'h': return is_float ? nullptr : convert_value<short>;
    case 'H': return is_float ? nullptr : convert_value<unsigned short>;
    case 'i': return is_float ? nullptr : convert_value<int>;
    case 'I': return is_float ? nullptr : convert_value<unsigned int>;
    case 'l': return is_float ? nullptr : convert_value<long>;
    case 'L': return is_float ? nullptr : convert_value<unsigned long>;
    case 'q': return is_float ? nullptr : convert_value<long long>;
    case 'Q': return is_float ? nullptr : convert_value<unsigned long long>;
    default: return nullptr;
  }
}

}  // namespace

Columns::~Columns() {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
}

bool Columns::read(const KernelObject* kernel, PyObject* const* objects, std::size_t count, Arguments* arguments) {
  std::vector<PyObject*> samples(objects, objects + count);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < count; ++i) {
    const Py_ssize_t length = length_of(kernel, i, objects[i]);
    if (length < 0) continue;
    if (!columns.empty() && tasks_ != static_cast<std::size_t>(length)) {
      PyErr_Format(PyExc_ValueError, "Argument %zu has %zd values and argument %zu has %zu: they should be as many.", i,
                   length, columns[0], tasks_);
      return false;
    }
    tasks_ = static_cast<std::size_t>(length);
    columns.push_back(i);
    samples_.emplace_back(length == 0 ? PyLong_FromLong(0) : PySequence_GetItem(objects[i], 0));
    if (!samples_.back()) return false;
    samples[i] = samples_.back().get();
  }
  if (columns.empty()) {
    PyErr_SetString(PyExc_TypeError,
                    "spawn_each() takes a sequence of numbers for one parameter at least: a value for each task.");
    return false;
  }
  if (!arguments->convert(kernel, samples.data(), count)) return false;
  for (const std::size_t i : columns)
    if (!fill(kernel, i, objects[i], arguments)) return false;
  return true;
}

bool Columns::fill(const KernelObject* kernel, std::size_t index, PyObject* object, Arguments* arguments) {
  pergola_task_column column{};
  column.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_column);
  column.argument = index;
  bool taken = false;
  if (!take_buffer(kernel->state->parameters[index], object, &column, &taken)) return false;
  if (!taken) {
    std::vector<std::uint64_t>& values = converted_.emplace_back(tasks_ + 1);
    for (std::size_t n = 0; n < tasks_; ++n) {
      const Ref value(PySequence_GetItem(object, static_cast<Py_ssize_t>(n)));
      if (!value || !arguments->convert_value(kernel, index, value.get(), &values[n])) return false;
    }
    column.values = values.data();
    column.stride_bytes = sizeof values[0];
  }
  list_.push_back(column);
  return true;
}

// Where the elements are numbers of the parameter's class. False with an exception set.
bool Columns::take_buffer(const ParameterState& parameter, PyObject* object, pergola_task_column* column, bool* taken) {
  if (PyObject_CheckBuffer(object) == 0) return true;
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
    PyErr_Clear();
    return true;
  }
  buffers_.push_back(buffer);
  const std::string format = buffer.format == nullptr ? "B" : buffer.format;
  const Convert convert = buffer.ndim == 1 && format.size() == 1 ? conversion_of(format[0], parameter) : nullptr;
  if (convert == nullptr) return true;
  *taken = true;
  const auto* from = static_cast<const char*>(buffer.buf);
  const Py_ssize_t stride = buffer.strides[0];
  if (buffer.itemsize == static_cast<Py_ssize_t>(parameter.size_bytes) && stride >= buffer.itemsize) {
    column->values = from;
    column->stride_bytes = static_cast<std::size_t>(stride);
    return true;
  }
  std::vector<std::uint64_t>& values = converted_.emplace_back(tasks_ + 1);
  for (std::size_t n = 0; n < tasks_; ++n, from += stride) {
    if (convert(from, parameter, &values[n])) continue;
    PyErr_Format(PyExc_OverflowError, "Value %zu of argument %zu (parameter %s) does not fit its %u bytes.", n,
                 column->argument, parameter.name.c_str(), parameter.size_bytes);
    return false;
  }
  column->values = values.data();
  column->stride_bytes = sizeof values[0];
  return true;
}

}  // namespace pergola::python
