// cp.async and mbarrier (ISA 9.7.9.25, 9.7.13.15).
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {

Decoded decode_async(Decoder&, const ptx::Instruction&) { return false; }

}  // namespace pergola::device::cpu::interp
