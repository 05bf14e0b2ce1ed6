// The way of pageable host bytes to the GPU: through page-locked memory, so that the caller may go on at once.
//
//   chunk 0        chunk 1        chunk 2        chunk 3          kChunks of one block of Context::kStagingBytes
//   [copied, in flight ][ filling ▸      ][ free       ][ free       ]
//
// Small copies are packed into the current chunk. A full chunk gets an event; it is filled again after the event has
// ended, which is the only wait: a queue holds at most kStagingBytes of host bytes on their way. One ring a queue, so
// a queue that stands still never stops another one's copies. Owned and guarded by its queue.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "src/device/cuda/context.h"

namespace pergola::device::cuda {

class StagingRing {
 public:
  explicit StagingRing(ContextPtr context) : context_(std::move(context)) {}
  StagingRing(StagingRing&& other) noexcept
      : context_(other.context_),
        memory_(std::exchange(other.memory_, nullptr)),
        in_flight_(std::exchange(other.in_flight_, {})),
        chunk_(other.chunk_),
        used_bytes_(other.used_bytes_) {}
  // The stream must be idle, or the context lost.
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Queues copies of all of `source` to `destination`; `source` has been read when it returns. The context is current.
  Status copy_to_device(CUstream stream, CUdeviceptr destination, std::span<const std::byte> source);

  static constexpr std::size_t kChunks = 4;
  static constexpr std::size_t kChunkBytes = Context::kStagingBytes / kChunks;

 private:
  Status next_chunk(CUstream stream);

  const ContextPtr context_;
  std::byte* memory_ = nullptr;  // taken at the first copy
  std::array<CUevent, kChunks> in_flight_{};  // null: the chunk is free
  std::size_t chunk_ = 0;        // the one being filled
  std::size_t used_bytes_ = 0;   // of it
};

}  // namespace pergola::device::cuda
