// Which tier runs a kernel: PERGOLA_CPU_ENGINE=interpreter | jit | vector | auto (the default).
//
//   interpreter   the interpreter alone
//   jit           the scalar JIT alone; what it refuses is refused
//   vector        the vector JIT alone; what it refuses is refused
//   auto          the JIT where its library is there, vector where it can, else scalar; a kernel that it refuses by name (kUnsupported) runs in the
//                 interpreter, and a line in the log (info) says so and why
//
// A function's address is one tier's own. So in auto, a module that takes the address of a function runs in one tier
// as a whole: the JIT where it accepts every kernel of it, else the interpreter.
#pragma once

#include <memory>
#include <string_view>

#include "src/device/cpu/block.h"

namespace pergola::device::cpu {

enum class EngineChoice : std::uint8_t { kInterpreter, kJit, kVector, kAuto };

// kInvalidArgument for another name.
Result<EngineChoice> parse_engine_choice(std::string_view name);
// $PERGOLA_CPU_ENGINE, kAuto where it is not set.
Result<EngineChoice> engine_choice_from_environment();

// The engine for a choice, given the interpreter. kUnavailable where the JIT is asked for and is not there.
Result<std::shared_ptr<Engine>> choose_engine(EngineChoice choice, std::shared_ptr<Engine> interpreter);

// `first` where it takes a kernel, `second` where `first` refuses it as kUnsupported. Both outlive what they compile.
std::shared_ptr<Engine> make_fallback_engine(std::shared_ptr<Engine> first, std::shared_ptr<Engine> second);

// Whether a body or an initialiser of the module takes the address of a function.
bool takes_function_addresses(const ptx::Module& module);

}  // namespace pergola::device::cpu
