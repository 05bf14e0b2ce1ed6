#include "src/device/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace pergola::device::cuda {
namespace {
constexpr std::size_t kAlignment = 64;  // a host cache line
}

StagingRing::~StagingRing() {
  for (CUevent event : in_flight_)
    if (event != nullptr) context_->give_event(event, false);
  if (memory_ != nullptr) context_->give_staging(memory_);
}

// Where that fails the chunk stays the full one, so that the next copy tries again: nothing is written over.
Status StagingRing::next_chunk(CUstream stream) {
  const Driver& driver = context_->driver();
  if (in_flight_[chunk_] == nullptr) {
    PERGOLA_ASSIGN(const CUevent filled, context_->take_event(false));
    if (const CUresult result = driver.cuEventRecord(filled, stream); result != CUDA_SUCCESS) {
      context_->give_event(filled, false);
      return context_->check(result, "marking a staging chunk");
    }
    in_flight_[chunk_] = filled;
  }
  const std::size_t next = (chunk_ + 1) % kChunks;
  if (in_flight_[next] != nullptr) {
    PERGOLA_TRY(context_->check(driver.cuEventSynchronize(in_flight_[next]), "waiting for a staging chunk"));
    context_->give_event(std::exchange(in_flight_[next], nullptr), false);
  }
  chunk_ = next;
  used_bytes_ = 0;
  return {};
}

Status StagingRing::copy_to_device(CUstream stream, CUdeviceptr destination, std::span<const std::byte> source) {
  if (memory_ == nullptr) {
    PERGOLA_ASSIGN(memory_, context_->take_staging());
  }
  while (!source.empty()) {
    if (used_bytes_ == kChunkBytes) PERGOLA_TRY(next_chunk(stream));
    const std::size_t bytes = std::min(source.size(), kChunkBytes - used_bytes_);
    std::byte* staged = memory_ + chunk_ * kChunkBytes + used_bytes_;
    std::memcpy(staged, source.data(), bytes);
    PERGOLA_TRY(context_->check(context_->driver().cuMemcpyHtoDAsync(destination, staged, bytes, stream),
                                "copying {} bytes to the device", bytes));
    used_bytes_ = std::min(kChunkBytes, (used_bytes_ + bytes + kAlignment - 1) / kAlignment * kAlignment);
    destination += bytes;
    source = source.subspan(bytes);
  }
  return {};
}

}  // namespace pergola::device::cuda
