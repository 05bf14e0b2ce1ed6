// Rows of bytes in memory, each as long, which begin a stride apart.
#pragma once

#include <cstddef>
#include <span>

namespace pergola {

struct ByteRows {
  const std::byte* first = nullptr;
  std::size_t row_bytes = 0, stride_bytes = 0, count = 0;

  std::span<const std::byte> operator[](std::size_t n) const { return {first + n * stride_bytes, row_bytes}; }
};

}  // namespace pergola
