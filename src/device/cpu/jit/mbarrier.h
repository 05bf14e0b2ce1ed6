// The inside of an mbarrier object (PTX ISA 9.7.13.15), one word of a block's shared memory:
//
//   63 phase │ 62..40 bytes still to come (two's complement) │ 39..20 arrivals a phase needs │ 19..0 arrivals it still needs
//
// A phase ends when no arrival and no byte is missing; the phase bit turns and the arrivals are needed anew. Only the
// block's own OS thread touches the word. A state that `arrive` gives is the word before the arrival.
#pragma once

#include <cstdint>

namespace pergola::device::cpu::jit {

std::uint64_t mbarrier(std::uint64_t* word, std::uint32_t operation, std::uint64_t value);

}  // namespace pergola::device::cpu::jit
