// NumPy's .npy files, read and written: format versions 1.0, 2.0 and 3.0 (numpy.lib.format).
//
//   "\x93NUMPY" major minor  length (u16, from version 2 on u32)  {'descr': '<f4', 'fortran_order': False,
//   'shape': (2, 3), }  padding, newline  elements
//
// Read: bool, integers of 1 to 8 bytes, f2, f4, f8, c8, c16 and V (opaque) of little-endian order, C order. The rest,
// and every malformed file, is refused by name; no bytes whatever crash the reader or make it allocate beyond them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/session/types.h"

namespace pergola::tool {

struct NpyArray {
  session::ElementType type = session::ElementType::kBytes;
  std::uint32_t element_bytes = 1;
  std::vector<std::uint64_t> shape;  // empty: one element
  std::string data;                  // count() * element_bytes bytes

  std::uint64_t count() const;
};

// kParseError names `name` and the byte where it went wrong; kUnsupported the data type or order.
Result<NpyArray> parse_npy(std::string_view bytes, std::string_view name);

// Version 1.0, or 2.0 where the header is too long for it. bfloat16 becomes '<V2', as ml_dtypes writes it.
std::string print_npy(const NpyArray& array);

}  // namespace pergola::tool
