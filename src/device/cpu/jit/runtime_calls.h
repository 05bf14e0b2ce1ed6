// What generated code calls: the numbers that both sides know, and the table from name to address.
#pragma once

#include <cstdint>
#include <span>

namespace pergola::device::cpu::jit {

inline constexpr int kFormatF16 = 0, kFormatBf16 = 1, kFormatTf32 = 2, kFormatF32 = 3, kFormatF64 = 4;

// pergola_jit_collective(thread, kind, mask or site, value, b, c) -> result in the low half, flag in bit 32.
inline constexpr std::uint32_t kShuffle = 1, kBallot = 2, kAll = 3, kAny = 4, kUniform = 5, kMatchAny = 6, kMatchAll = 7,
                               kRedux = 8, kActiveMask = 9, kElect = 10, kSyncWarp = 11;
// The lanes converged at this site instead of a mask; bits 8.. hold a shuffle's mode or a reduction's operation.
inline constexpr std::uint32_t kConverged = 0x80;

inline constexpr std::uint32_t kBarrierSync = 0, kBarrierArrive = 1,
                               kBarrierAligned = 2;  // all lanes of a warp wait at the same instruction
// pergola_jit_mbarrier(word, operation, value) -> the word before, or whether the phase has ended.
inline constexpr std::uint32_t kMbarrierInit = 0, kMbarrierInval = 1, kMbarrierExpectTx = 2, kMbarrierCompleteTx = 3,
                               kMbarrierArrive = 4, kMbarrierArriveDrop = 5, kMbarrierTest = 6,
                               kMbarrierTestParity = 7;
inline constexpr std::uint32_t kHalfAdd = 0, kHalfMin = 1, kHalfMax = 2;
inline constexpr std::uint32_t kTrapInstruction = 0, kTrapBranchTable = 1, kTrapBreakpoint = 2, kTrapStack = 3,
                               kTrapMisaligned = 4;

inline constexpr std::uint32_t kTrapTexture = 5;
// pergola_jit_texture(thread, handle, form, coordinates, texel, line): the form is the number of dimensions, with
// kTextureInteger for .s32 coordinates, and 1 + the component of tld4 above kTextureGatherShift.
inline constexpr std::uint32_t kTextureInteger = 4, kTextureGatherShift = 4;

struct RuntimeSymbol {
  const char* name;
  void* address;
};
template <typename F>
RuntimeSymbol symbol(const char* name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}
// Every name that emitted code may refer to. Immutable.
std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace pergola::device::cpu::jit
