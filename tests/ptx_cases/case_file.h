// A test case in a PTX file: one feature, its launch and the memory it should leave, in comments before the code.
//
//   // kernel: NAME                             which entry; the first one where it is not said
//   // grid: X Y Z      // block: X Y Z         1 1 1 and 32 1 1 where not said
//   // shared: BYTES                            dynamic shared memory
//   // buffer NAME: TYPE[COUNT] = zero | iota | random SEED | VALUE, VALUE, ...  (the rest is zero)
//   // arg: NAME | TYPE VALUES                  in the kernel's order; a buffer's name passes its address
//   // expect NAME: TYPE VALUES                 from the buffer's start
//   // expect NAME @INDEX: TYPE VALUES          from element INDEX on
//   // expect NAME ~TOLERANCE: TYPE VALUES      relative, for approximate instructions
//   // expect-fault: TEXT                       the launch fails, and the error contains TEXT (interpreter)
//   // needs: sm_NN                             GPUs below it do not run the case
// VALUES: VALUE, VALUE*COUNT (repeated), or iota. A VALUE of a float type is a number, nan, inf, or 0x bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/types.h"

namespace pergola::ptx_cases {

struct BufferSpec {
  std::string name;
  std::vector<std::byte> initial;
};

struct Argument {
  std::string buffer;             // empty: a value
  std::vector<std::byte> value;
};

struct Expectation {
  std::string buffer;
  std::string type;               // "u32", "f32", ...
  std::size_t first = 0;          // element
  double tolerance = 0;
  std::vector<std::byte> values;
};

struct Case {
  std::string path, text;         // the whole file is the module
  std::string kernel;
  device::LaunchConfig config;
  std::vector<BufferSpec> buffers;
  std::vector<Argument> arguments;
  std::vector<Expectation> expectations;
  std::string fault;              // empty: none is expected
  std::uint32_t needs_sm = 0;
};

std::size_t type_bytes(std::string_view type);  // 0 for an unknown type

// kParseError with path and line.
Result<Case> parse_case(std::string text, std::string path);
Result<Case> read_case(const std::string& path);

// Pseudo-random bytes (a 64-bit mix of seed and position), the same on every machine.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t index);

}  // namespace pergola::ptx_cases
