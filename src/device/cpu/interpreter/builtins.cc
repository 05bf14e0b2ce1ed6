// Functions that a module may call without defining them: vprintf, malloc, free, __assertfail, what spawns tasks, and
// the math functions of the host.
#include <cstring>

#include "src/abi/task_inbox.h"
#include "src/device/cpu/heap.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/math_functions.h"
#include "src/device/cpu/print.h"

namespace pergola::device::cpu::interp {
namespace {

std::uint64_t argument(const Thread& t, const CallSite& site, std::size_t n) {
  const CallSite::Value& value = site.arguments[n];
  if (!value.in_frame) return cell(t, value.cell);
  std::uint64_t bits = 0;
  std::memcpy(&bits, t.stack + t.frame + value.offset, std::min(value.size, 8u));
  return bits;
}

void give_result(Thread& t, const CallSite& site, std::uint64_t bits) {
  if (site.results.empty()) return;
  const CallSite::Value& value = site.results[0];
  if (value.in_frame)
    std::memcpy(t.stack + t.frame + value.offset, &bits, std::min(value.size, 8u));
  else
    t.regs[value.cell] = bits;
}

// Reads what this thread may read through generic addresses, without raising a fault.
MemoryReader reader_of(Machine& m, Thread& t) {
  return [&m, &t](std::uint64_t address, std::span<std::byte> destination) {
    const std::byte* from = m.readable(t, address, static_cast<std::uint32_t>(destination.size()));
    if (from == nullptr) return false;
    for (std::size_t n = 0; n < destination.size(); ++n)
      destination[n] = static_cast<std::byte>(__atomic_load_n(reinterpret_cast<const unsigned char*>(from) + n, __ATOMIC_RELAXED));
    return true;
  };
}

void print_formatted(Machine& m, Thread& t, const Inst&, const CallSite& site) {
  const int result = m.launch().print->vprintf(reader_of(m, t), argument(t, site, 0), argument(t, site, 1));
  give_result(t, site, static_cast<std::uint32_t>(result));
}

void allocate(Machine& m, Thread& t, const Inst&, const CallSite& site) {
  give_result(t, site, m.launch().heap->allocate(argument(t, site, 0)));
}

void release(Machine& m, Thread& t, const Inst& i, const CallSite& site) {
  const Status status = m.launch().heap->free(argument(t, site, 0));
  if (!status.ok()) m.fault(t, i, status.message());
}

// __assertfail(message, file, line, function, character size)
void assert_failed(Machine& m, Thread& t, const Inst& i, const CallSite& site) {
  const MemoryReader reader = reader_of(m, t);
  auto text = [&](std::size_t n) { return read_c_string(reader, argument(t, site, n)).value_or("?"); };
  m.fault(t, i, fmt::format("fails the assertion `{}` at {}:{}, in {}", text(0), text(1),
                            static_cast<std::uint32_t>(argument(t, site, 2)), text(3)));
}

// pergola_task_spawn(handle, bytes, six words)
void spawn_task(Machine& m, Thread& t, const Inst& i, const CallSite& site) {
  TaskSpawner* const spawner = m.launch().spawner;
  std::uint64_t words[TaskSpawner::kWords];
  for (std::size_t n = 0; n < TaskSpawner::kWords; ++n) words[n] = argument(t, site, 2 + n);
  const auto spawned = spawner == nullptr
                           ? Result<bool>(false)
                           : spawner->spawn(argument(t, site, 0), static_cast<std::uint32_t>(argument(t, site, 1)), words);
  if (!spawned.ok()) return m.fault(t, i, spawned.message());
  give_result(t, site, *spawned ? 1 : 0);
}

float as_float(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
double as_double(std::uint64_t bits) { return std::bit_cast<double>(bits); }

void call_math(Machine&, Thread& t, const Inst&, const CallSite& site) {
  const std::string& s = site.signature;
  const std::uint64_t a = argument(t, site, 0), b = site.arguments.size() > 1 ? argument(t, site, 1) : 0;
  std::uint64_t result = 0;
  if (s == "ff")
    result = to_cell(canonical(reinterpret_cast<float (*)(float)>(site.native)(as_float(a))));
  else if (s == "fff")
    result = to_cell(canonical(reinterpret_cast<float (*)(float, float)>(site.native)(as_float(a), as_float(b))));
  else if (s == "ffi")
    result = to_cell(canonical(reinterpret_cast<float (*)(float, int)>(site.native)(as_float(a), static_cast<std::int32_t>(b))));
  else if (s == "if")
    result = to_cell(reinterpret_cast<int (*)(float)>(site.native)(as_float(a)));
  else if (s == "dd")
    result = to_cell(reinterpret_cast<double (*)(double)>(site.native)(as_double(a)));
  else if (s == "ddd")
    result = to_cell(reinterpret_cast<double (*)(double, double)>(site.native)(as_double(a), as_double(b)));
  else if (s == "ddi")
    result = to_cell(reinterpret_cast<double (*)(double, int)>(site.native)(as_double(a), static_cast<std::int32_t>(b)));
  else if (s == "id")
    result = to_cell(reinterpret_cast<int (*)(double)>(site.native)(as_double(a)));
  give_result(t, site, result);
}

}  // namespace

std::optional<BuiltinFunction> find_builtin(const std::string& name) {
  if (name == "vprintf") return BuiltinFunction{print_formatted, nullptr, "ipp"};
  if (name == "malloc") return BuiltinFunction{allocate, nullptr, "pl"};
  if (name == "free") return BuiltinFunction{release, nullptr, "vp"};
  if (name == "__assertfail") return BuiltinFunction{assert_failed, nullptr, "vppipl"};
  if (name == abi::kTaskSpawnFunction) return BuiltinFunction{spawn_task, nullptr, "ilillllll"};
  if (const MathFunction* function = find_math_function(name))
    return BuiltinFunction{call_math, function->address, function->signature};
  return std::nullopt;
}

}  // namespace pergola::device::cpu::interp
