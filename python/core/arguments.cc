// Python objects as kernel arguments, by the kernel's signature.
//
// Converted is what loses nothing: an int to an integer of any size that holds it (signed or not: PTX does not tell),
// an int to a float that has it exactly, a float to float or double. What is of another kind goes to the library as it
// is, whose refusal names the parameter.
//
//   pergola.Array             its address                      None          the null address
//   int, bool, __index__      by the parameter                 bytes, np.void, ctypes.Structure: a struct's bytes
//   float, np.float32         float or double                  np.float16    its bits, or the float that it is
#include <cmath>
#include <cstring>

#include "core.h"

namespace pergola::python {
namespace {

const ParameterState* parameter_of(const KernelObject* kernel, std::size_t index) {
  const std::vector<ParameterState>& parameters = kernel->state->parameters;
  return index < parameters.size() ? &parameters[index] : nullptr;
}

std::string which(const KernelObject* kernel, std::size_t index) {
  const ParameterState* const parameter = parameter_of(kernel, index);  // there may be too many arguments
  return "Argument " + std::to_string(index) + (parameter == nullptr ? "" : " (parameter " + parameter->name + ")") +
         " of kernel '" + kernel->state->name + "'";
}

bool raise_range(const KernelObject* kernel, std::size_t index, PyObject* value, const char* what) {
  const std::uint32_t size_bytes = kernel->state->parameters[index].size_bytes;
  PyErr_Format(PyExc_OverflowError, "%s is %R; the parameter is %u byte%s as %s.", which(kernel, index).c_str(), value,
               size_bytes, size_bytes == 1 ? "" : "s", what);
  return false;
}

std::string type_name(PyObject* object) {
  const Ref type(PyObject_Type(object));
  const Ref name(type ? PyObject_GetAttrString(type.get(), "__name__") : nullptr);
  const char* text = name ? PyUnicode_AsUTF8AndSize(name.get(), nullptr) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "object" : text;
}

bool raise_kind(const KernelObject* kernel, std::size_t index, PyObject* object, const char* mend) {
  PyErr_Format(argument_error(), "%s is of type %s%s", which(kernel, index).c_str(), type_name(object).c_str(), mend);
  return false;
}

bool convert_float(const KernelObject* kernel, std::size_t index, PyObject* object, double value,
                   pergola_argument* out) {
  const ParameterState* parameter = parameter_of(kernel, index);
  if (parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_STRUCT && parameter->size_bytes == 2)
    return raise_kind(kernel, index, object,
                      ", and the parameter is a __half, a __nv_bfloat16 or another struct of 2 bytes: give "
                      "numpy.float16(x) to the first, bytes to the others.");
  if (parameter == nullptr || parameter->kind != PERGOLA_PARAMETER_FLOAT || parameter->size_bytes != 4) {
    *out = pergola_arg_f64(value);
    return true;
  }
  const auto narrow = static_cast<float>(value);
  if (std::isinf(narrow) && !std::isinf(value))
    return raise_range(kernel, index, object, "a float, which cannot hold it");
  *out = pergola_arg_f32(narrow);
  return true;
}

constexpr const char* kComplex = ", and the parameter has no imaginary part: give x.real.";

// Of one value that is no number of a parameter's, what is not to be taken for a struct's bytes: false with an
// exception set. `format` is the buffer protocol's.
bool is_for_bytes(const KernelObject* kernel, std::size_t index, PyObject* object, const std::string& format) {
  const ParameterState* parameter = parameter_of(kernel, index);
  const bool takes_bytes = parameter == nullptr || parameter->kind == PERGOLA_PARAMETER_STRUCT ||
                           parameter->kind == PERGOLA_PARAMETER_BITS;
  if (format == "g") return raise_kind(kernel, index, object, ", a long double, which no kernel has: give float(x).");
  if (format == "Zg")
    return raise_kind(kernel, index, object, ", of long doubles, which no kernel has: give numpy.complex128(x).");
  if (takes_bytes) return true;
  if (format[0] == 'Z') return raise_kind(kernel, index, object, kComplex);
  const bool is_ctypes_number = format.size() == 2 && format[0] == '<';
  return !is_ctypes_number || raise_kind(kernel, index, object, ", which is no number to Python: give x.value.");
}

constexpr const char* kOnHost =
    ", which lies in the host's memory: pass pergola.array(x), made once, and read it with .numpy().";

// Of what has the buffer protocol and gives no contiguous bytes.
bool raise_no_buffer(const KernelObject* kernel, std::size_t index, PyObject* object) {
  const ParameterState* parameter = parameter_of(kernel, index);
  const bool is_struct = parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_STRUCT;
  Py_buffer strided;
  if (PyObject_GetBuffer(object, &strided, PyBUF_FORMAT | PyBUF_STRIDES) == 0) {
    PyBuffer_Release(&strided);
    return raise_kind(kernel, index, object, is_struct ? ", whose bytes are not contiguous: copy it first." : kOnHost);
  }
  PyErr_Clear();
  return raise_kind(kernel, index, object,
                    is_struct ? ", whose bytes Python cannot see: give bytes (x.tobytes())."
                              : ", whose elements are none that kernels have.");
}

// An integer that a float parameter is to have exactly.
bool convert_exact(const KernelObject* kernel, std::size_t index, PyObject* object, PyObject* number,
                   std::uint32_t size_bytes, pergola_argument* out) {
  const double value = PyLong_AsDouble(number);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) return false;
    PyErr_Clear();
    return raise_range(kernel, index, object, "a float, which cannot hold it exactly");
  }
  const double kept = size_bytes == 4 ? static_cast<double>(static_cast<float>(value)) : value;
  const Ref back(std::isfinite(kept) ? PyLong_FromDouble(kept) : Py_NewRef(Py_None));
  const int same = back ? PyObject_RichCompareBool(back.get(), number, Py_EQ) : -1;
  if (same < 0) return false;
  if (same == 0) return raise_range(kernel, index, object, "a float, which cannot hold it exactly");
  *out = size_bytes == 4 ? pergola_arg_f32(static_cast<float>(value)) : pergola_arg_f64(value);
  return true;
}

bool convert_integer(const KernelObject* kernel, std::size_t index, PyObject* object, PyObject* number,
                     pergola_argument* out) {
  const ParameterState* parameter = parameter_of(kernel, index);
  if (parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_FLOAT)
    return convert_exact(kernel, index, object, number, parameter->size_bytes, out);
  const std::uint32_t size = parameter == nullptr ? 8 : parameter->size_bytes;
  const bool sized = parameter != nullptr && (size == 1 || size == 2 || size == 4 || size == 8);
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() == nullptr && (!sized || size == 8)) {
      *out = pergola_arg_u64(large);
      return true;
    }
    PyErr_Clear();
  }
  if (overflow != 0) {
    if (parameter != nullptr) return raise_range(kernel, index, object, "an integer, which cannot hold it");
    value = 0;  // there is no such parameter, which the library is about to say
  }
  if (sized && size < 8) {
    const long long lowest = -(1LL << (8 * size - 1)), highest = (1LL << (8 * size)) - 1;
    if (value < lowest || value > highest)
      return raise_range(kernel, index, object, "an integer, which cannot hold it");
  }
  switch (sized ? size : 8) {
    case 1: *out = pergola_arg_u8(static_cast<std::uint8_t>(value)); break;
    case 2: *out = pergola_arg_u16(static_cast<std::uint16_t>(value)); break;
    case 4: *out = pergola_arg_u32(static_cast<std::uint32_t>(value)); break;
    default: *out = pergola_arg_u64(static_cast<std::uint64_t>(value)); break;
  }
  return true;
}

}  // namespace

Arguments::~Arguments() {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
}

bool Arguments::convert(const KernelObject* kernel, PyObject* const* objects, std::size_t count) {
  if (count > kFew) {
    many_.resize(count);
    list_ = many_.data();
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!convert_one(kernel, i, objects[i])) return false;
  return true;
}

bool Arguments::give_values(std::size_t count, pergola_type (&of)[kFew], std::uint64_t (&values)[kFew]) const {
  if (count > kFew) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (list_[i].type == PERGOLA_TYPE_BYTES || list_[i].offset_bytes != 0 || list_[i].size_bytes != 0) return false;
    of[i] = list_[i].type;
    std::memcpy(&values[i], &list_[i].value, sizeof values[i]);
  }
  return true;
}

bool Arguments::convert_value(const KernelObject* kernel, std::size_t index, PyObject* object, std::uint64_t* bits) {
  const pergola_argument sample = list_[index];
  const std::size_t buffers = buffers_.size();
  if (!convert_one(kernel, index, object)) return false;
  const pergola_argument value = list_[index];
  list_[index] = sample;
  for (; buffers_.size() > buffers; buffers_.pop_back()) PyBuffer_Release(&buffers_.back());
  if (value.type != sample.type)
    return raise_kind(kernel, index, object,
                      ", and the value for the first task is of another: give numbers of one kind.");
  std::memcpy(bits, &value.value, sizeof *bits);
  return true;
}

bool Arguments::convert_one(const KernelObject* kernel, std::size_t index, PyObject* object) {
  pergola_argument* out = &list_[index];
  if (PyFloat_CheckExact(object) != 0) return convert_float(kernel, index, object, PyFloat_AsDouble(object), out);
  if (PyLong_CheckExact(object) != 0) return convert_integer(kernel, index, object, object, out);
  if (is_instance(object, types.memory)) {
    pergola_array handle = nullptr;
    std::uint64_t offset_bytes = 0;
    if (!resolve(reinterpret_cast<MemoryObject*>(object), &handle, &offset_bytes)) {
      raise(PERGOLA_FAILED_PRECONDITION,
            which(kernel, index) + " is an array that was freed by free(); it cannot be used any more.");
      return false;
    }
    *out = pergola_arg_array(handle);
    out->offset_bytes = offset_bytes;
    const auto* const memory = reinterpret_cast<MemoryObject*>(object);
    if (memory->base != nullptr) out->size_bytes = memory->size_bytes;
    return true;
  }
  if (PyLong_Check(object) != 0) return convert_integer(kernel, index, object, object, out);
  if (PyFloat_Check(object) != 0) return convert_float(kernel, index, object, PyFloat_AsDouble(object), out);
  if (object == Py_None) {
    *out = pergola_arg_address(0);
    return true;
  }
  if (PyObject_CheckBuffer(object) != 0) return convert_buffer(kernel, index, object);
  if (PyIndex_Check(object) != 0) {
    const Ref number(PyNumber_Index(object));
    return number && convert_integer(kernel, index, object, number.get(), out);
  }
  if (PyComplex_Check(object) != 0) {
    const ParameterState* parameter = parameter_of(kernel, index);
    const bool is_struct = parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_STRUCT;
    return raise_kind(kernel, index, object,
                      is_struct ? ", which is no struct's bytes: numpy.complex64(x) is two floats, numpy.complex128(x) two "
                                  "doubles."
                                : kComplex);
  }
  return raise_kind(kernel, index, object,
                    ", which is no kernel argument: give a pergola array, a number, or a struct's bytes. Arrays of "
                    "other libraries go through pergola.from_dlpack(x).");
}

bool Arguments::convert_buffer(const KernelObject* kernel, std::size_t index, PyObject* object) {
  pergola_argument* out = &list_[index];
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
    PyErr_Clear();
    return raise_no_buffer(kernel, index, object);
  }
  buffers_.push_back(buffer);  // released once the launch has copied them
  const std::string format = buffer.format == nullptr ? "B" : buffer.format;
  const ParameterState* parameter = parameter_of(kernel, index);
  const bool is_struct = parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_STRUCT;
  if (buffer.ndim == 0 && format == "f") {
    float value = 0;
    std::memcpy(&value, buffer.buf, sizeof value);
    return convert_float(kernel, index, object, static_cast<double>(value), out);
  }
  if (buffer.ndim == 0 && format == "d") {
    double value = 0;
    std::memcpy(&value, buffer.buf, sizeof value);
    return convert_float(kernel, index, object, value, out);
  }
  const bool is_float =
      parameter != nullptr && parameter->kind == PERGOLA_PARAMETER_FLOAT && parameter->size_bytes >= 4;
  if (buffer.ndim == 0 && format == "e" && is_float) {
    const double value = PyFloat_AsDouble(object);  // nothing is lost
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    return convert_float(kernel, index, object, value, out);
  }
  if (buffer.ndim == 0 && format == "e") {
    *out = pergola_arg_u16(0);
    out->type = PERGOLA_TYPE_F16;
    std::memcpy(&out->value.u16, buffer.buf, sizeof out->value.u16);
    return true;
  }
  if (buffer.ndim == 0 && format == "?") {
    const Ref number(PyLong_FromLong(*static_cast<const char*>(buffer.buf) != 0 ? 1 : 0));
    return number && convert_integer(kernel, index, object, number.get(), out);
  }
  if (buffer.ndim == 0 && format.size() == 1 && std::strchr("bBhHiIlLqQ", format[0]) != nullptr) {
    const Ref number(PyNumber_Index(object));
    return number && convert_integer(kernel, index, object, number.get(), out);
  }
  if (is_struct && format.find_first_of(">!") != std::string::npos)
    return raise_kind(kernel, index, object,
                      ", whose fields are in the other byte order: x.astype(x.dtype.newbyteorder(\"=\")) has them in "
                      "this machine's.");
  // A number of bytes that fits says nothing of an array: its elements would be taken for the fields.
  const bool is_bytes = PyBytes_Check(object) != 0 || PyByteArray_Check(object) != 0 ||
                        (PyMemoryView_Check(object) != 0 && buffer.itemsize == 1);
  if (!is_bytes && buffer.ndim == 0 && !is_for_bytes(kernel, index, object, format)) return false;
  if (is_bytes || buffer.ndim == 0) {
    *out = pergola_arg_bytes(buffer.buf, static_cast<std::size_t>(buffer.len));
    return true;
  }
  return raise_kind(kernel, index, object,
                    is_struct ? ", and the parameter is a struct: give bytes (x.tobytes()), a ctypes.Structure or NumPy's "
                                "structured scalar (x[()])."
                              : kOnHost);
}

}  // namespace pergola::python
