// Choosing a handler by type when an instruction is decoded: Handler<T>::run for the C++ type of a PTX type.
#pragma once

#include <cstdint>

#include "src/device/cpu/interpreter/code.h"
#include "src/ptx/types.h"

namespace pergola::device::cpu::interp {

// 16-, 32- and 64-bit integers; null for any other type. Bit types count as unsigned.
template <template <typename> class Handler>
LaneFn pick_integer(ptx::Type type) {
  switch (type) {
    case ptx::Type::kB16:
    case ptx::Type::kU16: return Handler<std::uint16_t>::run;
    case ptx::Type::kS16: return Handler<std::int16_t>::run;
    case ptx::Type::kB32:
    case ptx::Type::kU32: return Handler<std::uint32_t>::run;
    case ptx::Type::kS32: return Handler<std::int32_t>::run;
    case ptx::Type::kB64:
    case ptx::Type::kU64: return Handler<std::uint64_t>::run;
    case ptx::Type::kS64: return Handler<std::int64_t>::run;
    default: return nullptr;
  }
}

// The unsigned type of 8 to 64 bits.
template <template <typename> class Handler>
LaneFn pick_bits(std::uint32_t bytes) {
  switch (bytes) {
    case 1: return Handler<std::uint8_t>::run;
    case 2: return Handler<std::uint16_t>::run;
    case 4: return Handler<std::uint32_t>::run;
    case 8: return Handler<std::uint64_t>::run;
    default: return nullptr;
  }
}

}  // namespace pergola::device::cpu::interp
