// Barrier counting and lane arithmetic of warp collectives; see warp_sync.h.
#include "src/device/cpu/warp_sync.h"

#include <bit>

namespace pergola::device::cpu {

void NamedBarrier::reset(std::uint32_t warp_count) {
  arrived_.assign(warp_count, 0);
  clear();
}

void NamedBarrier::clear() {
  for (auto& lanes : arrived_) lanes = 0;
  arrived_total_ = true_count_ = expected_ = 0;
}

bool NamedBarrier::complete(std::span<const std::uint32_t> live) const {
  if (arrived_total_ == 0) return false;
  std::uint32_t sum = 0;
  for (std::size_t w = 0; w < arrived_.size(); ++w) {
    if (expected_ == 0) {
      if ((live[w] & ~arrived_[w]) != 0) return false;
    } else if (arrived_[w] != 0) {
      sum += static_cast<std::uint32_t>(std::popcount(arrived_[w] | ~live[w]));
    }
  }
  return expected_ == 0 || sum >= expected_;
}

ShuffleSource shuffle_source(ShuffleMode mode, std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t bval = b & 31, cval = c & 31, mask = (c >> 8) & 31;
  const std::uint32_t max_lane = (lane & mask) | (cval & ~mask);
  const std::uint32_t min_lane = lane & mask;
  std::uint32_t j = lane;
  bool in_range = false;
  switch (mode) {
    case ShuffleMode::kUp:
      j = lane - bval;
      in_range = static_cast<std::int32_t>(j) >= static_cast<std::int32_t>(max_lane);
      break;
    case ShuffleMode::kDown:
      j = lane + bval;
      in_range = j <= max_lane;
      break;
    case ShuffleMode::kBfly:
      j = lane ^ bval;
      in_range = j <= max_lane;
      break;
    case ShuffleMode::kIdx:
      j = min_lane | (bval & ~mask);
      in_range = j <= max_lane;
      break;
  }
  return in_range ? ShuffleSource{j & 31, true} : ShuffleSource{lane, false};
}

std::uint32_t redux(ReduxOp op, bool is_signed, std::uint32_t members, std::span<const std::uint32_t, 32> values) {
  std::uint32_t result = 0;
  bool first = true;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if ((members >> lane & 1) == 0) continue;
    const std::uint32_t value = values[lane];
    if (first) {
      result = value;
      first = false;
      continue;
    }
    const bool less = is_signed ? static_cast<std::int32_t>(value) < static_cast<std::int32_t>(result) : value < result;
    switch (op) {
      case ReduxOp::kAdd: result += value; break;
      case ReduxOp::kMin: result = less ? value : result; break;
      case ReduxOp::kMax: result = less ? result : value; break;
      case ReduxOp::kAnd: result &= value; break;
      case ReduxOp::kOr: result |= value; break;
      case ReduxOp::kXor: result ^= value; break;
    }
  }
  return result;
}

std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  constexpr std::uint32_t kNone = 0xffffffffu;
  if (offset == INT32_MIN) return 0;  // its magnitude is no s32: what an H200 gives
  if (base > 31) return kNone;
  if (offset == 0) return (mask >> base & 1) != 0 ? base : kNone;
  const int direction = offset > 0 ? 1 : -1;
  std::int64_t remaining = offset > 0 ? offset : -std::int64_t{offset};
  for (int position = static_cast<int>(base); position >= 0 && position < 32; position += direction)
    if ((mask >> position & 1) != 0 && --remaining == 0) return static_cast<std::uint32_t>(position);
  return kNone;
}

}  // namespace pergola::device::cpu
