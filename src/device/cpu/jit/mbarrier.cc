#include "src/device/cpu/jit/mbarrier.h"

#include "src/device/cpu/jit/runtime_calls.h"

namespace pergola::device::cpu::jit {
namespace {

constexpr std::uint64_t kCountMask = 0xfffff;
constexpr std::uint64_t kTxMask = 0x7fffff;
constexpr int kNeededShift = 20, kTxShift = 40, kPhaseShift = 63;

struct Fields {
  std::uint64_t pending, needed, tx, phase;
};

Fields unpack(std::uint64_t word) {
  return {word & kCountMask, word >> kNeededShift & kCountMask, word >> kTxShift & kTxMask, word >> kPhaseShift};
}

std::uint64_t pack(Fields f) {
  if (f.pending == 0 && f.tx == 0) {
    f.phase ^= 1;
    f.pending = f.needed;
  }
  return (f.pending & kCountMask) | (f.needed & kCountMask) << kNeededShift | (f.tx & kTxMask) << kTxShift |
         f.phase << kPhaseShift;
}

}  // namespace

std::uint64_t mbarrier(std::uint64_t* word, std::uint32_t operation, std::uint64_t value) {
  const std::uint64_t before = *word;
  Fields f = unpack(before);
  switch (operation) {
    case kMbarrierInit: f = {value & kCountMask, value & kCountMask, 0, 0}; break;
    case kMbarrierInval: *word = 0; return before;
    case kMbarrierExpectTx: f.tx += value; break;
    case kMbarrierCompleteTx: f.tx -= value; break;
    case kMbarrierArriveDrop: f.needed -= value; f.pending -= value; break;
    case kMbarrierArrive: f.pending -= value; break;
    case kMbarrierTest: return f.phase != value >> kPhaseShift ? 1 : 0;
    case kMbarrierTestParity: return f.phase != (value & 1) ? 1 : 0;
    default: break;
  }
  f.tx &= kTxMask;
  f.pending &= kCountMask;
  f.needed &= kCountMask;
  *word = pack(f);
  return before;
}

}  // namespace pergola::device::cpu::jit
