// A launch as text, as Python writes it: `kernel[grid, block](arguments)`.
//
//   add[4, 256](x:4096, y:4K, 1024)       blocks 2x8x1 or (2,8,1); x is an array of 4096 bytes, y of 4 KiB
//   add[8, 128](y, x+512, -3)             the same arrays again; x from its byte 512 on
//   sum[8, 128, 4K](z:1M+32K, 1024)       with 4 KiB of dynamic shared memory; a new array, from its byte 32768 on
//
// Bytes may be in K, M, G and T, each 1024 times the one before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/footprints.h"
#include "src/base/result.h"
#include "src/ptx/signature.h"

namespace pergola::tool {

struct LaunchText {
  struct Argument {
    std::string array;                   // its name; "" for a number
    std::uint64_t offset_bytes = 0;      // into the array
    std::optional<std::uint64_t> bytes;  // of the array, where they are said
    std::string number;                  // as written
  };
  std::string kernel;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint64_t shared_bytes = 0;  // dynamic, of a block
  std::vector<Argument> arguments;
};

// kInvalidArgument says what is wrong and where in the text.
Result<LaunchText> parse_launch(std::string_view text);

// Arrays by name: numbered in the order they are met, each with its size.
struct ArrayNames {
  struct Array {
    analysis::AllocationId number = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Array> arrays;
  std::string_view name(analysis::AllocationId number) const;
};

// What the analysis needs of it; `arrays` gets the new ones.
Result<analysis::LaunchValues> launch_values(const LaunchText& launch, const ptx::KernelSignature& signature,
                                             ArrayNames& arrays);

}  // namespace pergola::tool
