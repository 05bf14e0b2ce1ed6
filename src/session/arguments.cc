#include "src/session/arguments.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/plural.h"

namespace pergola::session {
namespace {

static_assert(std::endian::native == std::endian::little, "Number::bits are taken from their low end.");

enum class NumberClass { kInteger, kFloat, kOther };

NumberClass class_of(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kI16:
    case ElementType::kU16:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kI64:
    case ElementType::kU64: return NumberClass::kInteger;
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF32:
    case ElementType::kF64: return NumberClass::kFloat;
    case ElementType::kBytes:
    case ElementType::kC64:
    case ElementType::kC128: return NumberClass::kOther;
  }
  return NumberClass::kOther;
}

std::string_view describe(ElementType type) {
  switch (type) {
    case ElementType::kBool: return "a bool";
    case ElementType::kI8: return "a 1-byte signed integer";
    case ElementType::kU8: return "a 1-byte unsigned integer";
    case ElementType::kI16: return "a 2-byte signed integer";
    case ElementType::kU16: return "a 2-byte unsigned integer";
    case ElementType::kI32: return "a 4-byte signed integer";
    case ElementType::kU32: return "a 4-byte unsigned integer";
    case ElementType::kI64: return "an 8-byte signed integer";
    case ElementType::kU64: return "an 8-byte unsigned integer";
    case ElementType::kF16: return "a half";
    case ElementType::kBF16: return "a bfloat16";
    case ElementType::kF32: return "a float";
    case ElementType::kF64: return "a double";
    case ElementType::kC64: return "a complex float";
    case ElementType::kC128: return "a complex double";
    case ElementType::kBytes: return "bytes";
  }
  return "of an unknown type";
}

std::string describe(const Argument& argument) {
  if (const auto* number = std::get_if<Number>(&argument)) return std::string(describe(number->type));
  if (const auto* array = std::get_if<ArrayArgument>(&argument))
    return array->array == nullptr ? "no array" : fmt::format("an array of {}", to_string(array->array->type()));
  if (const auto* bytes = std::get_if<BytesArgument>(&argument))
    return "a struct of " + plural(bytes->bytes.size(), "byte");
  if (std::holds_alternative<TextureArgument>(argument)) return "a texture";
  return "a device address";
}

bool is_number(const ParameterInfo& parameter) {
  return parameter.kind == ParameterKind::kInteger || parameter.kind == ParameterKind::kBits;
}

// An array of other elements than the signature says. Signed and unsigned are one, as for numbers; complex elements are
// pairs of floats; of bytes nothing is known.
bool elements_fit(const ParameterInfo& parameter, ElementType given) {
  if (!parameter.declared_type || given == ElementType::kBytes) return true;
  const ElementType declared = *parameter.declared_type;
  if (given == ElementType::kC64) return declared == ElementType::kF32;
  if (given == ElementType::kC128) return declared == ElementType::kF64;
  return class_of(given) == class_of(declared) && size_bytes(given) == size_bytes(declared);
}

// Of integers, and of bytes, a kernel without a signature may make what it wants, and a workspace may be of several
// types; but where all is floats an array of doubles is a slip. The instruction that tells; "" where the elements fit.
std::string_view moves_others(const ParameterInfo& parameter, ElementType given) {
  const bool are_doubles = given == ElementType::kF64 || given == ElementType::kC128,
             are_floats = given == ElementType::kF32 || given == ElementType::kC64;
  if (!parameter.declaration.empty()) return {};
  return are_doubles ? parameter.all_f32() : are_floats ? parameter.all_f64() : std::string_view();
}

// Checks and places one argument after the other.
class Binder {
 public:
  Binder(const KernelInfo& kernel, std::uint64_t session_id, std::span<std::byte> parameters)
      : kernel_(kernel), session_id_(session_id), parameters_(parameters) {
    PERGOLA_CHECK(parameters.size() == kernel.parameter_bytes);
    std::fill(parameters.begin(), parameters.end(), std::byte{0});
  }

  Status place(std::size_t index, const Argument& argument) {
    index_ = index;
    if (const auto* number = std::get_if<Number>(&argument)) {
      if (!number_fits(parameter(), number->type)) return mismatch(argument);
      return store(&number->bits, parameter().size_bytes);
    }
    if (const auto* address = std::get_if<AddressArgument>(&argument)) {
      if (!memory_fits(parameter())) return mismatch(argument);
      return store(&address->address, sizeof address->address);
    }
    if (const auto* bytes = std::get_if<BytesArgument>(&argument)) {
      const bool sized = parameter().kind == ParameterKind::kStruct || parameter().kind == ParameterKind::kBits;
      if (!sized || bytes->bytes.size() != parameter().size_bytes) return mismatch(argument);
      return store(bytes->bytes.data(), bytes->bytes.size());
    }
    if (const auto* texture = std::get_if<TextureArgument>(&argument)) return place_texture(argument, *texture);
    return place_array(argument, std::get<ArrayArgument>(argument));
  }

 private:
  const ParameterInfo& parameter() const { return kernel_.parameters[index_]; }

  std::string which() const {
    return fmt::format("Argument {} (parameter {}) of kernel '{}'", index_, parameter().name, kernel_.name);
  }

  Status mismatch(const Argument& argument) const {
    return PERGOLA_ERROR(kInvalidArgument, "{} should be {}; it is {}.", which(), expectation(parameter()),
                         describe(argument));
  }

  Status place_array(const Argument& argument, const ArrayArgument& given) {
    if (given.array == nullptr || !memory_fits(parameter())) return mismatch(argument);
    const Array& array = *given.array;
    if (!elements_fit(parameter(), array.type())) return mismatch(argument);
    if (const std::string_view other = moves_others(parameter(), array.type()); !other.empty())
      return PERGOLA_ERROR(
          kInvalidArgument,
          "{} is an array of {}, and the kernel uses {} there alone, by {}: give an array of those, or "
          "one of bytes if bytes are meant.",
          which(), to_string(array.type()), parameter().is_all_f32 ? "floats" : "doubles", other);
    if (array.session_id() != session_id_)
      return PERGOLA_ERROR(kInvalidArgument,
                           "{} belongs to another session than the kernel: make it with the kernel's session, or copy "
                           "it there.",
                           which());
    if (given.offset_bytes > array.size_bytes())
      return PERGOLA_ERROR(kInvalidArgument, "{} starts {} into an array of {}.", which(),
                           plural(given.offset_bytes, "byte"), plural(array.size_bytes(), "byte"));
    if (given.size_bytes > array.size_bytes() - given.offset_bytes)
      return PERGOLA_ERROR(kInvalidArgument, "{} covers {} from byte {} of an array of {}.", which(),
                           plural(given.size_bytes, "byte"), given.offset_bytes, plural(array.size_bytes(), "byte"));
    if (given.offset_bytes % array.element_bytes() != 0)
      return PERGOLA_ERROR(kInvalidArgument,
                           "{} starts {} into an array whose elements are {} bytes: it should "
                           "start at an element.",
                           which(), plural(given.offset_bytes, "byte"), array.element_bytes());
    const device::DeviceAddress address = array.address() + given.offset_bytes;
    const bool is_end = given.offset_bytes == array.size_bytes();  // behind the last element: nothing is accessed
    if (!is_end && address % parameter().pointer_align_bytes != 0)
      return PERGOLA_ERROR(kInvalidArgument,
                           "{} should be aligned to {} bytes, as the kernel declares; it starts {} into its "
                           "array.",
                           which(), parameter().pointer_align_bytes, plural(given.offset_bytes, "byte"));
    return store(&address, sizeof address);
  }

  // A cudaTextureObject_t is an integer of 8 bytes.
  Status place_texture(const Argument& argument, const TextureArgument& given) {
    const bool fits = memory_fits(parameter()) || (parameter().size_bytes == 8 && is_number(parameter()));
    if (given.texture == nullptr || !fits) return mismatch(argument);
    if (given.texture->session_id() != session_id_)
      return PERGOLA_ERROR(kInvalidArgument,
                           "{} is a texture of another session than the kernel: make it of an array of "
                           "the kernel's session.",
                           which());
    const std::uint64_t handle = given.texture->handle();
    return store(&handle, sizeof handle);
  }

  Status store(const void* from, std::size_t size) {
    const std::size_t offset = parameter().offset_bytes;
    PERGOLA_CHECK(offset + size <= parameters_.size());
    if (size != 0) std::memcpy(parameters_.data() + offset, from, size);
    return {};
  }

  const KernelInfo& kernel_;
  const std::uint64_t session_id_;
  std::size_t index_ = 0;
  const std::span<std::byte> parameters_;
};

}  // namespace

bool number_fits(const ParameterInfo& parameter, ElementType type) {
  const NumberClass given = class_of(type);
  if (given == NumberClass::kOther || size_bytes(type) != parameter.size_bytes) return false;
  switch (parameter.kind) {
    case ParameterKind::kInteger: return given == NumberClass::kInteger;
    case ParameterKind::kFloat: return given == NumberClass::kFloat;
    case ParameterKind::kBits: return true;
    // CUDA's __half and __nv_bfloat16 are structs of two bytes.
    case ParameterKind::kStruct: return type == ElementType::kF16 || type == ElementType::kBF16;
    case ParameterKind::kPointer: return false;
  }
  return false;
}

bool memory_fits(const ParameterInfo& parameter) {
  if (parameter.kind == ParameterKind::kPointer) return true;
  return parameter.declaration.empty() && parameter.size_bytes == 8 && is_number(parameter);
}

std::string expectation(const ParameterInfo& parameter) {
  const std::uint32_t size = parameter.size_bytes;
  switch (parameter.kind) {
    case ParameterKind::kInteger:
      if (size != 8) return fmt::format("a {}-byte integer", size);
      return memory_fits(parameter) ? "an array or an 8-byte integer" : "an 8-byte integer";
    case ParameterKind::kFloat:
      return size == 4 ? "a float" : size == 8 ? "a double" : fmt::format("a {}-byte float", size);
    case ParameterKind::kBits:
      if (size != 8) return fmt::format("a {}-byte number", size);
      return memory_fits(parameter) ? "an array or an 8-byte number" : "an 8-byte number";
    case ParameterKind::kPointer:
      return parameter.declared_type ? fmt::format("an array of {}", to_string(*parameter.declared_type)) : "an array";
    case ParameterKind::kStruct:
      return size == 2 ? "a half, a bfloat16 or a struct of 2 bytes" : "a struct of " + plural(size, "byte");
  }
  return "something else";
}

Status bind_arguments(const KernelInfo& kernel, std::uint64_t session_id, std::span<const Argument> arguments,
                      std::span<std::byte> parameters) {
  if (arguments.size() != kernel.parameters.size()) {
    std::string list;
    for (const ParameterInfo& parameter : kernel.parameters)
      list += fmt::format("{}{} ({})", list.empty() ? ": " : ", ", parameter.name, expectation(parameter));
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' takes {}{}; {} given.", kernel.name,
                         plural(kernel.parameters.size(), "argument"), list, plural(arguments.size(), "is", "are"));
  }
  Binder binder(kernel, session_id, parameters);
  for (std::size_t i = 0; i < arguments.size(); ++i) PERGOLA_TRY(binder.place(i, arguments[i]));
  return {};
}

}  // namespace pergola::session
