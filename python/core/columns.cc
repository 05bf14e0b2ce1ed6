#include "columns.h"

#include <cmath>
#include <cstring>
#include <string>

namespace pergola::python {
namespace {

// Whether a parameter takes a number and the object may have one for each task.
bool may_be_column(const KernelObject* kernel, std::size_t index, PyObject* object) {
  const std::vector<ParameterState>& parameters = kernel->state->parameters;
  return index < parameters.size() && parameters[index].kind != PERGOLA_PARAMETER_STRUCT &&
         !is_instance(object, types.memory) && PyBytes_Check(object) == 0 && PyUnicode_Check(object) == 0 &&
         PySequence_Check(object) != 0;
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

template <typename From>
Convert of_size(bool is_float, Py_ssize_t itemsize) {
  return std::is_floating_point_v<From> == is_float && itemsize == sizeof(From) ? convert_value<From> : nullptr;
}

// For elements of that format, of the parameter's class; null where each is to be converted as an object.
Convert conversion_of(const Py_buffer& buffer, const ParameterState& parameter) {
  const std::string format = buffer.format == nullptr ? "B" : buffer.format;
  const bool is_float = parameter.kind == PERGOLA_PARAMETER_FLOAT;
  const std::uint32_t size = parameter.size_bytes;
  if (format.size() != 1) return nullptr;
  if (is_float ? size != 4 && size != 8 : size != 1 && size != 2 && size != 4 && size != 8) return nullptr;
  switch (format[0]) {
    case 'f': return of_size<float>(is_float, buffer.itemsize);
    case 'd': return of_size<double>(is_float, buffer.itemsize);
    case 'b': return of_size<signed char>(is_float, buffer.itemsize);
    case 'B': return of_size<unsigned char>(is_float, buffer.itemsize);
    case 'h': return of_size<short>(is_float, buffer.itemsize);
    case 'H': return of_size<unsigned short>(is_float, buffer.itemsize);
    case 'i': return of_size<int>(is_float, buffer.itemsize);
    case 'I': return of_size<unsigned int>(is_float, buffer.itemsize);
    case 'l': return of_size<long>(is_float, buffer.itemsize);
    case 'L': return of_size<unsigned long>(is_float, buffer.itemsize);
    case 'q': return of_size<long long>(is_float, buffer.itemsize);
    case 'Q': return of_size<unsigned long long>(is_float, buffer.itemsize);
    default: return nullptr;
  }
}

// Whether the value for the first task is a number; false with an exception set.
bool is_number(const KernelObject* kernel, std::size_t index, const Arguments& arguments) {
  const pergola_type type = arguments.data()[index].type;
  if (type != PERGOLA_TYPE_ARRAY && type != PERGOLA_TYPE_ADDRESS && type != PERGOLA_TYPE_BYTES) return true;
  PyErr_Format(argument_error(),
               "Argument %zu (parameter %s) of kernel '%s' has a value for each task, which is no number: spawn_each() "
               "takes sequences of numbers. Give all tasks one array, or each its own by a call.",
               index, kernel->state->parameters[index].name.c_str(), kernel->state->name.c_str());
  return false;
}

}  // namespace

Columns::~Columns() {
  for (Source& source : sources_)
    if (source.convert != nullptr) PyBuffer_Release(&source.buffer);
}

bool Columns::read(const KernelObject* kernel, PyObject* const* objects, std::size_t count, Arguments* arguments) {
  std::vector<PyObject*> samples(objects, objects + count);
  std::deque<Ref> first;
  for (std::size_t i = 0; i < count; ++i) {
    bool is_one = false;
    if (!may_be_column(kernel, i, objects[i])) continue;
    if (!open(kernel, i, objects[i], &is_one)) return false;
    if (is_one) continue;
    const Source& source = sources_.back();
    if (sources_.size() > 1 && source.length != sources_.front().length) {
      PyErr_Format(PyExc_ValueError, "Argument %zu has %zd value%s and argument %zu has %zd: they should be as many.",
                   i, source.length, source.length == 1 ? "" : "s", sources_.front().argument, sources_.front().length);
      return false;
    }
    first.emplace_back(source.length == 0          ? PyLong_FromLong(0)
                       : source.convert != nullptr ? PySequence_GetItem(objects[i], 0)
                                                   : Py_NewRef(PyList_GetItem(source.items.get(), 0)));
    if (!first.back()) return false;
    samples[i] = first.back().get();
  }
  if (sources_.empty()) {
    PyErr_SetString(PyExc_TypeError,
                    "spawn_each() takes a sequence of numbers for one parameter at least: a value for each task.");
    return false;
  }
  tasks_ = static_cast<std::size_t>(sources_.front().length);
  if (!arguments->convert(kernel, samples.data(), count)) return false;
  for (const Source& source : sources_)
    if (!is_number(kernel, source.argument, *arguments)) return false;
  for (const Source& source : sources_)
    if (!fill(kernel, source, arguments)) return false;
  return true;
}

// A buffer of numbers of the parameter's class is read from where it lies, for as long as this lives; of anything else
// the values are taken now. A buffer without dimensions is one argument. False with an exception set.
bool Columns::open(const KernelObject* kernel, std::size_t index, PyObject* object, bool* is_one) {
  Source& source = sources_.emplace_back();  // where it stays: exporters may point into their Py_buffer
  source.argument = index;
  if (PyObject_CheckBuffer(object) != 0) {
    if (PyObject_GetBuffer(object, &source.buffer, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
      PyErr_Clear();
    } else {
      *is_one = source.buffer.ndim == 0;
      if (source.buffer.ndim == 1) source.convert = conversion_of(source.buffer, kernel->state->parameters[index]);
      if (source.convert == nullptr) PyBuffer_Release(&source.buffer);
      if (*is_one) {
        sources_.pop_back();
        return true;
      }
    }
  }
  if (source.convert != nullptr) {
    source.length = source.buffer.shape[0];
  } else {
    source.items = Ref(PySequence_List(object));
    if (!source.items) return false;
    source.length = PyList_Size(source.items.get());
  }
  return true;
}

bool Columns::fill(const KernelObject* kernel, const Source& source, Arguments* arguments) {
  const ParameterState& parameter = kernel->state->parameters[source.argument];
  pergola_task_column column{};
  column.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_column);
  column.argument = source.argument;
  const Py_ssize_t stride = source.convert == nullptr ? 0 : source.buffer.strides[0];
  if (source.convert != nullptr && source.buffer.itemsize == static_cast<Py_ssize_t>(parameter.size_bytes) &&
      stride >= source.buffer.itemsize && tasks_ != 0) {
    column.values = source.buffer.buf;
    column.stride_bytes = static_cast<std::size_t>(stride);
    list_.push_back(column);
    return true;
  }
  std::vector<std::uint64_t>& values = converted_.emplace_back(tasks_ + 1);  // so that one of none has an address too
  const auto* from = source.convert == nullptr ? nullptr : static_cast<const char*>(source.buffer.buf);
  for (std::size_t n = 0; n < tasks_; ++n) {
    if (source.convert == nullptr) {
      if (!arguments->convert_value(kernel, source.argument,
                                    PyList_GetItem(source.items.get(), static_cast<Py_ssize_t>(n)), &values[n]))
        return false;
    } else if (!source.convert(from + static_cast<Py_ssize_t>(n) * stride, parameter, &values[n])) {
      PyErr_Format(PyExc_OverflowError, "Value %zu of argument %zu (parameter %s) does not fit its %u byte%s.", n,
                   source.argument, parameter.name.c_str(), parameter.size_bytes, parameter.size_bytes == 1 ? "" : "s");
      return false;
    }
  }
  column.values = values.data();
  column.stride_bytes = sizeof values[0];
  list_.push_back(column);
  return true;
}

}  // namespace pergola::python
