// Arguments against a kernel's signature: checked when they are bound, before anything is queued.
//
// PTX tells each parameter's size and class and no more: signed and unsigned are one class, a bare .u64 may be a
// pointer or an integer, and of .b32 only the size is known. Nothing is converted here.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/session/session.h"
#include "src/session/types.h"

namespace pergola::session {

// kInvalidArgument names the argument (counted from 0), its parameter, what it should be and what it is:
//   Argument 3 (parameter saxpy_param_3) of kernel 'saxpy' should be a 4-byte integer; it is a double.
// `parameters` is the kernel's parameter buffer, of kernel.parameter_bytes; its padding becomes zero.
// Thread-safe. (PTX ISA 7.1: kernel parameters)
Status bind_arguments(const KernelInfo& kernel, std::uint64_t session_id, std::span<const Argument> arguments,
                      std::span<std::byte> parameters);

// "a 4-byte integer", "an array or an 8-byte integer", ...
std::string expectation(const ParameterInfo& parameter);

// Whether a number of that type, or the address of an array, may be given.
bool number_fits(const ParameterInfo& parameter, ElementType type);
bool memory_fits(const ParameterInfo& parameter);

}  // namespace pergola::session
