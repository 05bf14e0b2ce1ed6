// Pergola for C++20: RAII, spans and exceptions over the C interface (pergola.h); header-only.
//
//   pergola::Session session;                                  // GPU or CPU: PERGOLA_DEVICE
//   auto saxpy = session.load("saxpy.cu").kernel("saxpy");     // the signature comes from the compiled kernel
//   auto x = session.array<float>(n, 1.f), y = session.array<float>(n, 0.f);
//   saxpy(pergola::for_each(n), 2.f, x, y, n);                 // queued; returns at once
//   std::span<const float> h = y.read();                       // waits for y
//
// Events, arrays and textures are in arrays.hpp, pools of narrow tasks in tasks.hpp: both come with this.
//
// Ownership: every object here is a move-only handle (Kernel and Module copy cheaply); they may go in any order, work
// in flight keeps what it uses. Errors: pergola::Error, thrown by the call that is wrong, or for what a kernel did
// wrong while running by the next call that waits for it. Threads: as in pergola.h, every object may be used from any
// thread; one Array must not be read() by two threads at once, because both would be handed the same memory.
#ifndef PERGOLA_PERGOLA_HPP_
#define PERGOLA_PERGOLA_HPP_

#include <pergola/pergola.h>
#include <pergola/arrays.hpp>
#include <pergola/basics.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <locale>
#include <memory>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace pergola {
inline namespace v0_1 {

// ── Kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

enum class Access : std::int32_t {
  kNone = PERGOLA_ACCESS_NONE,
  kRead = PERGOLA_ACCESS_READ,
  kWrite = PERGOLA_ACCESS_WRITE,
  kReadWrite = PERGOLA_ACCESS_READ_WRITE,
  kUnknown = PERGOLA_ACCESS_UNKNOWN,
};
constexpr std::string_view to_string(Access access) {
  switch (access) {
    case Access::kNone: return "none";
    case Access::kRead: return "read";
    case Access::kWrite: return "write";
    case Access::kReadWrite: return "read+write";
    case Access::kUnknown: return "unknown";
  }
  return "unknown";
}

enum class ParameterKind : std::int32_t {
  kInteger = PERGOLA_PARAMETER_INTEGER,  // one of 8 bytes may as well be a pointer: PTX does not tell
  kFloat = PERGOLA_PARAMETER_FLOAT,
  kBits = PERGOLA_PARAMETER_BITS,
  kPointer = PERGOLA_PARAMETER_POINTER,
  kStruct = PERGOLA_PARAMETER_STRUCT,
};

// What a signature says of a pointer.
enum class Direction : std::int32_t {
  kNone = PERGOLA_DIRECTION_NONE,
  kIn = PERGOLA_DIRECTION_IN,
  kOut = PERGOLA_DIRECTION_OUT,
  kInOut = PERGOLA_DIRECTION_INOUT,
};

struct Parameter {
  std::string name;       // as in the PTX: "saxpy_param_2"
  std::string type_name;  // as in the PTX: "u64"
  ParameterKind kind = ParameterKind::kBits;
  std::uint32_t offset_bytes = 0, size_bytes = 0, align_bytes = 1;
  Access access = Access::kUnknown;  // of the memory it points at
  std::string reason;                // the instruction that shows it
  Direction direction = Direction::kNone;
  std::string declaration;  // of the signature, "x: in pointer float"; "" without one
};

namespace detail {
template <typename T>
inline constexpr bool kIsArray = false;
template <typename T>
inline constexpr bool kIsArray<Array<T>> = true;

struct KernelState {
  Handle<pergola_kernel, pergola_kernel_destroy> handle;
  pergola_kernel_info info{};
  std::vector<Parameter> parameters;
  std::vector<std::uint8_t> numbers;  // for each of these Kernel::code_of(); in a row, as each launch looks there
};
}  // namespace detail

// A launch that has been queued. Dropped, it costs nothing; as an Event (`Event end = kernel(...)`) it stands for the
// end of just this launch. Its own wait() and so on make the event when they are called: if work has followed the
// launch on its stream by then, they cover some of that work too. It does not keep its kernel: made an event after the
// last copy of that has gone, it throws kInvalidArgument; an Event keeps what it needs.
class Launch {
 public:
  operator Event() const {  // NOLINT(google-explicit-constructor): `Event end = kernel(...)`
    pergola_event event = nullptr;
    detail::check(pergola_kernel_event(kernel_, ticket_, &event));
    return Event(event);
  }
  void wait() const { Event(*this).wait(); }
  bool wait_for(std::chrono::nanoseconds timeout) const { return Event(*this).wait_for(timeout); }
  bool done() const { return Event(*this).done(); }
  std::uint64_t ticket() const { return ticket_; }

 private:
  friend class Kernel;
  Launch(pergola_kernel kernel, std::uint64_t ticket) : kernel_(kernel), ticket_(ticket) {}

  pergola_kernel kernel_;
  std::uint64_t ticket_;
};

// A kernel, ready to launch:
//   kernel(pergola::for_each(n), 2.f, x, y, n);
//   kernel(pergola::grid({gx, gy}, {16, 16}), in, out, width, height);
//   kernel(pergola::grid(8, 256).cooperative(), x, n);
//
// Arguments: arrays, x.from(i), textures, nullptr, Address; numbers; trivially copyable structs. A number is converted
// to the parameter's type where nothing is lost (5 to u64, 2 to f32; -1 to u32 is the bits of a signed parameter, which
// PTX does not tell from unsigned) and between floating types as C++ does; anything else is refused with
// kInvalidArgument before anything is queued. A struct is passed as it is.
class Kernel {
 public:
  // Copies are the same kernel, and so is what is left of one that was moved from.
  Kernel(const Kernel&) = default;
  Kernel& operator=(const Kernel&) = default;
  explicit Kernel(pergola_kernel handle) : state_(std::make_shared<State>()) {
    state_->handle = detail::Handle<pergola_kernel, pergola_kernel_destroy>(handle);
    state_->info.struct_size = PERGOLA_STRUCT_SIZE(pergola_kernel_info);
    detail::check(pergola_kernel_get_info(handle, &state_->info));
    for (std::size_t i = 0; i < state_->info.parameter_count; ++i) {
      pergola_parameter_info p{};
      p.struct_size = PERGOLA_STRUCT_SIZE(pergola_parameter_info);
      detail::check(pergola_kernel_parameter(handle, i, &p));
      state_->parameters.push_back({p.name, p.type_name, static_cast<ParameterKind>(p.kind), p.offset_bytes,
                                    p.size_bytes, p.align_bytes, static_cast<Access>(p.access), p.reason,
                                    static_cast<Direction>(p.direction), p.declaration});
      state_->numbers.push_back(code_of(state_->parameters.back()));
    }
  }

  std::string_view name() const { return state_->info.name; }
  const pergola_kernel_info& info() const { return state_->info; }
  const std::vector<Parameter>& parameters() const { return state_->parameters; }

  // Queues a launch. What it returns may be dropped, waited for, or kept as an Event.
  template <typename... Args>
  Launch operator()(const Grid& shape, const Args&... args) const {
    return launch(config(shape), args...);
  }
  template <typename... Args>
  Launch operator()(const ForEach& range, const Args&... args) const {
    return launch(config(range), args...);
  }
  // With a shape of the C interface.
  template <typename... Args>
  Launch launch(const pergola_launch_config& config, const Args&... args) const {
    std::size_t index = 0;
    std::uint64_t ticket = 0;
    if constexpr ((kIsValue<Args> && ...)) {
      std::array<pergola_type, sizeof...(Args)> types;
      std::array<std::uint64_t, sizeof...(Args)> values;
      ((set(argument(index, args), types[index], values[index]), ++index), ...);
      detail::check(
          pergola_kernel_submit_values(handle(), &config, types.data(), values.data(), sizeof...(Args), &ticket));
    } else {
      const std::array<pergola_argument, sizeof...(Args)> list{argument(index++, args)...};
      detail::check(pergola_kernel_submit(handle(), &config, list.data(), sizeof...(Args), &ticket));
    }
    return Launch(handle(), ticket);
  }

  // Shapes as the C interface has them.
  pergola_launch_config config(const Grid& shape) const {
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = shape.blocks.x, config.grid[1] = shape.blocks.y, config.grid[2] = shape.blocks.z;
    config.block[0] = shape.threads.x, config.block[1] = shape.threads.y, config.block[2] = shape.threads.z;
    config.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    if (shape.is_cooperative) config.flags |= PERGOLA_LAUNCH_COOPERATIVE;
    return config;
  }
  pergola_launch_config config(const ForEach& range) const {
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    detail::check(pergola_kernel_for_each(handle(), range.count, &config));
    return config;
  }

  pergola_kernel handle() const { return state_->handle.get(); }

 private:
  friend class TaskKind;
  using State = detail::KernelState;

  // Arguments that are a type and 8 bytes: all but views, which begin somewhere in an array, and structs.
  template <typename T>
  static constexpr bool kIsValue =
      std::is_arithmetic_v<T> || std::is_enum_v<T> || detail::kIsArray<T> || std::is_same_v<T, Texture> ||
      std::is_same_v<T, Address> || std::is_same_v<T, std::nullptr_t>;
  [[gnu::always_inline]] static void set(const pergola_argument& from, pergola_type& type, std::uint64_t& value) {
    static_assert(sizeof from.value == sizeof value);
    type = from.type;
    std::memcpy(&value, &from.value, sizeof value);
  }

  template <typename T>
  pergola_argument argument(std::size_t, const Array<T>& array) const {
    return pergola_arg_array(array.handle());
  }
  pergola_argument argument(std::size_t, const ArrayView& view) const {
    pergola_argument result = pergola_arg_array(view.array);
    result.offset_bytes = view.offset_bytes;
    result.size_bytes = view.size_bytes;
    return result;
  }
  pergola_argument argument(std::size_t, const Texture& texture) const { return pergola_arg_texture(texture.handle()); }
  pergola_argument argument(std::size_t, Address address) const { return pergola_arg_address(address.value); }
  pergola_argument argument(std::size_t, std::nullptr_t) const { return pergola_arg_address(0); }
  template <typename T>
    requires(!std::is_pointer_v<T> && !std::is_arithmetic_v<T>)
  pergola_argument argument(std::size_t index, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>,
                  "A kernel's arguments are arrays, numbers and trivially copyable structs.");
    if constexpr (std::is_enum_v<T>) {
      return argument(index, static_cast<std::underlying_type_t<T>>(value));
    } else {
      return pergola_arg_bytes(&value, sizeof value);
    }
  }
  template <typename T>
  pergola_argument argument(std::size_t, T* const&) const {
    static_assert(!std::is_same_v<T, T>, "A kernel cannot use a host pointer: pass a pergola::Array or an Address.");
    return {};
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  [[gnu::always_inline]] pergola_argument argument(std::size_t index, T value) const {
    if (index < state_->numbers.size() && state_->numbers[index] == kCode<T>) [[likely]]
      return as_it_is(value);
    return converted(index, value);
  }

  // What numbers a parameter takes: integers of so many bytes, or floating ones; 0: none.
  static constexpr std::uint8_t kFloating = 0x80;
  static std::uint8_t code_of(const Parameter& parameter) {
    if (parameter.size_bytes > 8) return 0;
    const auto bytes = static_cast<std::uint8_t>(parameter.size_bytes);
    switch (parameter.kind) {
      case ParameterKind::kInteger:
      case ParameterKind::kBits: return bytes;
      case ParameterKind::kFloat: return kFloating | bytes;
      default: return 0;
    }
  }
  // Of a parameter that takes every T. Floating types but float and double are converted.
  template <typename T>
  static constexpr std::uint8_t kCode =
      !std::is_floating_point_v<T>                            ? std::uint8_t{sizeof(T)}
      : std::is_same_v<T, float> || std::is_same_v<T, double> ? std::uint8_t{kFloating | sizeof(T)}
                                                              : std::uint8_t{0xff};
  // As converted() would have it.
  template <typename T>
  static pergola_argument as_it_is(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? pergola_arg_f32(static_cast<float>(value)) : pergola_arg_f64(static_cast<double>(value));
    } else if constexpr (sizeof(T) == 1) {
      return pergola_arg_u8(static_cast<std::uint8_t>(value));
    } else if constexpr (sizeof(T) == 2) {
      return pergola_arg_u16(static_cast<std::uint16_t>(value));
    } else if constexpr (sizeof(T) == 4) {
      return pergola_arg_u32(static_cast<std::uint32_t>(value));
    } else {
      return pergola_arg_u64(static_cast<std::uint64_t>(value));
    }
  }

  template <typename T>
  pergola_argument converted(std::size_t index, T value) const {
    if (index >= state_->parameters.size()) return number(value);  // the count is wrong; the launch says so
    const Parameter& parameter = state_->parameters[index];
    const bool wants_float = parameter.kind == ParameterKind::kFloat;
    const bool wants_integer = parameter.kind == ParameterKind::kInteger || parameter.kind == ParameterKind::kBits;
    if constexpr (std::is_integral_v<T>) {
      if (wants_integer) return integer(index, parameter, value);
      if (wants_float && parameter.size_bytes == 4) return exact<float>(index, parameter, value);
      if (wants_float && parameter.size_bytes == 8) return exact<double>(index, parameter, value);
    } else {
      if (wants_float && parameter.size_bytes == 4) return pergola_arg_f32(static_cast<float>(value));
      if (wants_float && parameter.size_bytes == 8) return pergola_arg_f64(static_cast<double>(value));
    }
    return number(value);  // fits or not: the launch says so
  }

  template <typename F, typename T>
  pergola_argument exact(std::size_t index, const Parameter& parameter, T value) const {
    const F converted = static_cast<F>(value);
    // 2^digits and less is exact; above, the value must come back unchanged (compared where it cannot overflow).
    const long double wide = static_cast<long double>(value);
    if (static_cast<long double>(converted) != wide)
      refuse(index, parameter, value,
             sizeof(F) == 4 ? "a 4-byte float, which cannot hold it exactly"
                            : "an 8-byte float, which cannot hold it exactly");
    return number(converted);
  }

  // An integer for a parameter of 1, 2, 4 or 8 bytes, signed or not.
  template <typename T>
  pergola_argument integer(std::size_t index, const Parameter& parameter, T value) const {
    const auto fits = [value](auto as_signed, auto as_unsigned) {
      if constexpr (std::is_signed_v<T>) {
        return static_cast<std::int64_t>(value) >= std::numeric_limits<decltype(as_signed)>::min() &&
               (value < 0 || static_cast<std::uint64_t>(value) <= std::numeric_limits<decltype(as_unsigned)>::max());
      } else {
        return static_cast<std::uint64_t>(value) <= std::numeric_limits<decltype(as_unsigned)>::max();
      }
    };
    switch (parameter.size_bytes) {
      case 1:
        if (fits(std::int8_t{}, std::uint8_t{})) return pergola_arg_u8(static_cast<std::uint8_t>(value));
        break;
      case 2:
        if (fits(std::int16_t{}, std::uint16_t{})) return pergola_arg_u16(static_cast<std::uint16_t>(value));
        break;
      case 4:
        if (fits(std::int32_t{}, std::uint32_t{})) return pergola_arg_u32(static_cast<std::uint32_t>(value));
        break;
      case 8: return pergola_arg_u64(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
      default: return number(value);
    }
    refuse(index, parameter, value,
           detail::plural(parameter.size_bytes, "byte") + " as an integer, which cannot hold it");
  }

  template <typename T>
  [[noreturn]] void refuse(std::size_t index, const Parameter& parameter, T value, const std::string& what) const {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << "Argument " << index << " (parameter " << parameter.name << ") of kernel '" << name() << "' is " << +value
         << "; the parameter is " << what << ".";
    throw Error(Code::kInvalidArgument, text.str());
  }

  // A number as it is, for the launch to judge.
  template <typename T>
  static pergola_argument number(T value) {
    pergola_argument result{};
    result.struct_size = PERGOLA_STRUCT_SIZE(pergola_argument);
    result.type = detail::type_of<T>();
    result.value.u64 = 0;  // {} need not set more than the first member
    if constexpr (std::is_same_v<T, float>) {
      result.value.f32 = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      result.type = PERGOLA_TYPE_F64;
      result.value.f64 = static_cast<double>(value);
    } else {
      result.value.u64 = static_cast<std::uint64_t>(value);  // little-endian: the low bytes are every narrower member
    }
    return result;
  }

  std::shared_ptr<State> state_;
};

// ── Calls of other libraries ────────────────────────────────────────────────────────────────────────────────────────

// What a library call does with an array, or with `count` elements of it from `first` on (0: to the end): in() reads,
// out() writes, inout() does both.
struct ArrayAccess {
  pergola_array array = nullptr;
  std::uint64_t offset_bytes = 0, size_bytes = 0;
  pergola_access mode = PERGOLA_ACCESS_READ_WRITE;
};
template <Element T>
ArrayAccess in(const Array<T>& array, std::size_t first = 0, std::size_t count = 0) {
  return {array.handle(), detail::bytes_of<T>(first), detail::bytes_of<T>(count), PERGOLA_ACCESS_READ};
}
template <Element T>
ArrayAccess out(const Array<T>& array, std::size_t first = 0, std::size_t count = 0) {
  return {array.handle(), detail::bytes_of<T>(first), detail::bytes_of<T>(count), PERGOLA_ACCESS_WRITE};
}
template <Element T>
ArrayAccess inout(const Array<T>& array, std::size_t first = 0, std::size_t count = 0) {
  return {array.handle(), detail::bytes_of<T>(first), detail::bytes_of<T>(count), PERGOLA_ACCESS_READ_WRITE};
}

// ── Modules and sessions ────────────────────────────────────────────────────────────────────────────────────────────

class Module {
 public:
  explicit Module(pergola_module handle) : handle_(std::make_shared<Owner>(handle)) {}

  // By its name in the PTX or, where only one kernel has it, its plain C++ name. kNotFound lists what is there,
  // kUnsupported names the line and the instruction that the device cannot run.
  Kernel kernel(const std::string& name) const { return kernel_as(name, nullptr); }
  // The same with a signature, which overrides what was found in the PTX where that leaves a doubt:
  //   module.kernel("gather", "const pointer uint64, out pointer float, sint32")
  // kParseError names the column, kInvalidArgument the instruction that does otherwise (docs/scheduling.md). "" is the
  // signature of a kernel without parameters.
  Kernel kernel(const std::string& name, const std::string& signature) const {
    return kernel_as(name, detail::text(signature, "A signature"));
  }
  // All, those that the device refuses included.
  std::vector<std::string> kernel_names() const {
    std::vector<std::string> names;
    for (const char* name = nullptr;; names.emplace_back(name)) {
      detail::check(pergola_module_kernel_name(handle(), names.size(), &name));
      if (name == nullptr) return names;
    }
  }
  // Why the device cannot run the kernel of that name, as kernel_names() has it: kernel() would throw it. "" where it
  // can.
  std::string refusal(std::string_view name) const {
    const std::vector<std::string> names = kernel_names();
    const char* reason = "";
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) detail::check(pergola_module_kernel_refusal(handle(), i, &reason));
    return reason;
  }
  pergola_module handle() const { return handle_->get(); }

 private:
  Kernel kernel_as(const std::string& name, const char* signature) const {
    pergola_kernel kernel = nullptr;
    detail::check(pergola_module_kernel_as(handle(), detail::text(name, "A kernel's name"), signature, &kernel));
    return Kernel(kernel);
  }

  using Owner = detail::Handle<pergola_module, pergola_module_destroy>;
  std::shared_ptr<Owner> handle_;
};

struct LoadOptions {
  pergola_language language = PERGOLA_LANGUAGE_AUTO;
  std::string name;                         // for messages
  std::vector<std::string> compiler_flags;  // "-DN=4"
};

class TaskPool;          // tasks.hpp
struct TaskPoolOptions;  // likewise

class Session {
 public:
  // The device that PERGOLA_DEVICE names, else the first GPU with a working driver, else the CPU.
  Session() { open(nullptr); }
  // "cpu", "cuda:1", "null".
  explicit Session(const std::string& device) { open(detail::text(device, "A device")); }
  // With scheduling policies: "retrieve-new-stream=always-new,max-streams=4" (pergola_session_options).
  Session(const std::string& device, const std::string& scheduler) {
    open(detail::text(device, "A device"), detail::text(scheduler, "A list of scheduling policies"));
  }

  // CUDA C++ (compiled here, or taken from the cache on disk) or PTX.
  Module load(const std::string& path, const LoadOptions& options = {}) const {
    return load_with(options, [&](const pergola_load_options* c, pergola_module* module) {
      return pergola_session_load_file(handle(), detail::text(path, "A path"), c, module);
    });
  }
  Module load_text(std::string_view text, const LoadOptions& options = {}) const {
    return load_with(options, [&](const pergola_load_options* c, pergola_module* module) {
      return pergola_session_load_text(handle(), text.data(), text.size(), c, module);
    });
  }

  // Uninitialised; filled; or a copy of a span, vector or std::array.
  template <Element T>
  Array<T> array(std::size_t count) const {
    pergola_array_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
    options.type = detail::type_of<T>();
    options.element_bytes = sizeof(T);
    options.count = count;
    pergola_array array = nullptr;
    detail::check(pergola_array_create(handle(), &options, &array));
    return Array<T>(array, count);
  }
  template <Element T>
  Array<T> array(std::size_t count, const std::type_identity_t<T>& value) const {
    Array<T> result = array<T>(count);
    result.fill(value);
    return result;
  }
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>
  Array<std::ranges::range_value_t<R>> array(const R& values) const {
    using T = std::ranges::range_value_t<R>;
    Array<T> result = array<T>(std::ranges::size(values));
    result.write(std::span<const T>(std::ranges::data(values), std::ranges::size(values)));
    return result;
  }
  template <Element T, std::ranges::contiguous_range R>
    requires std::same_as<T, std::ranges::range_value_t<R>>
  Array<T> array(const R& values) const {
    return array(values);
  }

  // A call of another library as one piece of work (pergola_session_call):
  //   session.call("sgemm", {pergola::in(a), pergola::in(b), pergola::out(c)}, [&](void* stream) { ... });
  // A function that takes a stream queues its work there; the stream is null on a device that has none. One that takes
  // nothing is a library's that takes no stream: it is called when what it depends on has ended. What it throws comes
  // out of here; what it returns is nothing, or an error code, 0 for none.
  template <typename F>
  void call(const std::string& name, std::span<const ArrayAccess> accesses, F&& function) const {
    constexpr bool kTakesStream = std::is_invocable_v<F&, void*>;
    static_assert(kTakesStream || std::is_invocable_v<F&>, "The function takes a void* (the stream), or nothing.");
    std::vector<pergola_call_access> list;
    for (const ArrayAccess& access : accesses)
      list.push_back({PERGOLA_STRUCT_SIZE(pergola_call_access), access.array, access.offset_bytes, access.size_bytes,
                      access.mode, 0});
    struct State {
      std::remove_reference_t<F>* function;
      std::exception_ptr thrown;
    } state{std::addressof(function), nullptr};
    const auto run = [](void* stream, void* user) -> std::int32_t {
      State& mine = *static_cast<State*>(user);
      const auto invoke = [&]() -> decltype(auto) {
        if constexpr (kTakesStream) {
          return (*mine.function)(stream);
        } else {
          return (*mine.function)();
        }
      };
      try {
        if constexpr (std::is_void_v<decltype(invoke())>) {
          invoke();
          return 0;
        } else {
          return static_cast<std::int32_t>(invoke());
        }
      } catch (...) {
        mine.thrown = std::current_exception();
        return -1;
      }
    };
    const pergola_code code =
        pergola_session_call(handle(), detail::text(name, "A call's name"), list.data(), list.size(),
                             kTakesStream ? 0u : static_cast<std::uint32_t>(PERGOLA_CALL_SYNCHRONOUS), run, &state);
    if (state.thrown != nullptr) std::rethrow_exception(state.thrown);
    detail::check(code);
  }
  template <typename F>
  void call(const std::string& name, std::initializer_list<ArrayAccess> accesses, F&& function) const {
    call(name, std::span<const ArrayAccess>(accesses.begin(), accesses.size()), std::forward<F>(function));
  }

  // Another library's stream (a CUstream or cudaStream_t of this device; null: the default stream). Neither waits but
  // for narrow tasks that go on. Work from now on, and reads, come after what is on the stream now:
  void wait_stream(const void* stream) const {
    detail::check(pergola_session_wait_stream(handle(), reinterpret_cast<std::uintptr_t>(stream)));
  }
  // The stream's later work comes after all that was submitted here:
  void make_stream_wait(const void* stream) const {
    detail::check(pergola_session_make_stream_wait(handle(), reinterpret_cast<std::uintptr_t>(stream)));
  }

  // The session's pool of narrow tasks; the first call makes it, and its options count:
  //   session.task_pool({.park_after = std::chrono::milliseconds(1)})
  TaskPool task_pool() const;
  TaskPool task_pool(const TaskPoolOptions& options) const;

  // Waits for everything; throws the first failure since the last time, after which work runs again.
  void synchronize() const { detail::check(pergola_session_synchronize(handle())); }
  // The same, for so long at most: false where some of it goes on then, and nothing has been told.
  bool synchronize_for(std::chrono::nanoseconds timeout) const {
    return detail::has_ended(pergola_session_synchronize_for(handle(), detail::wait_ns(timeout)));
  }
  // An event at the end of all work so far.
  Event record() const {
    pergola_event event = nullptr;
    detail::check(pergola_session_record(handle(), &event));
    return Event(event);
  }
  // The work submitted last as a graph, "svg", for Graphviz ("dot") or "mermaid": what was ordered after what, and why.
  std::string dag(const std::string& format = "dot") const {
    const char* text = nullptr;
    detail::check(pergola_session_dag(handle(), detail::text(format, "A format"), &text));
    return text;
  }
  // Which launches recurred and became graphs, in which way, and why others did not: as "text" or "json".
  std::string graphs(const std::string& format = "text") const {
    const char* text = nullptr;
    detail::check(pergola_session_graphs(handle(), detail::text(format, "A format"), &text));
    return text;
  }
  // Records what is submitted from now on, for a file that ui.perfetto.dev opens; end_trace() waits for it and writes,
  // and so does the session's end. kFailedPrecondition where another session's trace to that file is on.
  void trace(const std::string& path) const {
    detail::check(pergola_session_trace(handle(), detail::text(path, "A path")));
  }
  void end_trace() const { detail::check(pergola_session_trace(handle(), nullptr)); }
  // The same for kernels' times by size, which are added to what the file has.
  void history(const std::string& path) const {
    detail::check(pergola_session_history(handle(), detail::text(path, "A path")));
  }
  void end_history() const { detail::check(pergola_session_history(handle(), nullptr)); }
  // What an earlier run's history has of kernels is expected of them until they have been timed here; records nothing.
  void use_history(const std::string& path) const {
    detail::check(pergola_session_use_history(handle(), detail::text(path, "A path")));
  }
  // Ends both, and waits for what they record no longer than that: false where some goes on, which is in neither.
  bool end_recordings(std::chrono::nanoseconds timeout) const {
    return detail::has_ended(pergola_session_end_recordings(handle(), detail::wait_ns(timeout)));
  }
  // In which way graphs of recurring launches ran fastest: what the file has is made first, and what is found is added
  // to it by end_tuning() or the session's end. Neither waits for work.
  void tuning(const std::string& path) const {
    detail::check(pergola_session_tuning(handle(), detail::text(path, "A path")));
  }
  void end_tuning() const { detail::check(pergola_session_tuning(handle(), nullptr)); }
  // Texts in it live as long as the session.
  pergola_device_info device() const {
    pergola_device_info info{};
    info.struct_size = PERGOLA_STRUCT_SIZE(pergola_device_info);
    detail::check(pergola_session_device(handle(), &info));
    return info;
  }
  pergola_session handle() const { return handle_.get(); }

 private:
  void open(const char* device, const char* scheduler = nullptr) {
    pergola_session_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options);
    options.device = device;
    options.scheduler = scheduler;
    pergola_session session = nullptr;
    detail::check(pergola_session_create(&options, &session));
    handle_ = detail::Handle<pergola_session, pergola_session_destroy>(session);
  }

  template <typename F>
  static Module load_with(const LoadOptions& options, F load) {
    std::vector<const char*> flags;
    for (const std::string& flag : options.compiler_flags) flags.push_back(detail::text(flag, "A flag"));
    pergola_load_options c{};
    c.struct_size = PERGOLA_STRUCT_SIZE(pergola_load_options);
    c.language = options.language;
    c.name = options.name.empty() ? nullptr : detail::text(options.name, "A source's name");
    c.compiler_flags = flags.data();
    c.compiler_flag_count = flags.size();
    pergola_module module = nullptr;
    detail::check(load(&c, &module));
    return Module(module);
  }

  detail::Handle<pergola_session, pergola_session_destroy> handle_;
};

}  // namespace v0_1
}  // namespace pergola

#include <pergola/tasks.hpp>  // needs what is above; Session::task_pool() needs it

#endif  // PERGOLA_PERGOLA_HPP_
