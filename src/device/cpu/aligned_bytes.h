// A run of bytes with an alignment chosen at run time: buffers, shared memory, module variables, parameters.
//
// Uninitialised. Move-only, owns its bytes. make() returns an empty one (data() null) where memory is short, so that
// callers can say how much was asked for.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace pergola::device::cpu {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  AlignedBytes(AlignedBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)),
        alignment_(other.alignment_) {}
  AlignedBytes& operator=(AlignedBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(alignment_, other.alignment_);
    return *this;
  }
  ~AlignedBytes() { ::operator delete(bytes_, alignment_); }

  // `align_bytes` is a power of two.
  static AlignedBytes make(std::size_t size_bytes, std::size_t align_bytes) {
    AlignedBytes made;
    made.alignment_ = std::align_val_t{align_bytes};
    made.bytes_ = static_cast<std::byte*>(::operator new(size_bytes, made.alignment_, std::nothrow));
    made.size_bytes_ = made.bytes_ == nullptr ? 0 : size_bytes;
    return made;
  }

  std::byte* data() const { return bytes_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* bytes_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::align_val_t alignment_{16};
};

}  // namespace pergola::device::cpu
