// What `pergola run --arg` takes:
//
//   i32:5  u64:0xff  f32:1.5  f32:0f3FC00000  f16:nan  bool:true       a number
//   null                                                               a null pointer
//   hex:00010203   bytes:FILE                                          a struct by value
//   @x.npy   raw:f32:x.bin                                             an array from a file
//   zeros:f32:1024   fill:f32:64x64:1.5   iota:i32:1024                an array made here; COUNT or a shape AxBxC
//   same:2                                                             the array of argument 2 again
//
// An array may end in '>FILE': its contents after the run go there, as .npy where the name says so, else raw bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/result.h"
#include "src/session/types.h"
#include "tools/pergola/npy.h"

namespace pergola::tool {

struct ArraySpec {
  NpyArray contents;   // what it starts with
  std::string output;  // "": nowhere
};
struct StructSpec {
  std::string bytes;
};
struct NullSpec {};
struct SameSpec {
  std::size_t argument = 0;
};
using ArgumentSpec = std::variant<session::Number, ArraySpec, StructSpec, NullSpec, SameSpec>;

// Reads the files that it names. kInvalidArgument says what is wrong with the text, other codes what with a file.
Result<ArgumentSpec> parse_argument(std::string_view text);

// `--buffer IN[:OUT]`: raw bytes from a file, or zero:BYTES, as an array of bytes.
Result<ArgumentSpec> parse_buffer(std::string_view text);

// One number of the type: range-checked, finite floats too; 0x integers; 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX give a
// float's bits. `typed` is the argument that it is part of, for messages.
Result<session::Number> parse_number(session::ElementType type, std::string_view text, std::string_view typed);

// An element as text: "1.5", "-3".
std::string print_element(session::ElementType type, std::string_view bytes);

// Three extents "X", "X,Y" or "X,Y,Z".
Result<device::Dim3> parse_extents(std::string_view text, std::string_view what);

}  // namespace pergola::tool
