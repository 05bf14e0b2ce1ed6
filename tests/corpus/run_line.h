// How a kernel of the corpus is run: the `//! run` lines of tests/corpus/cuda/*.cu.
//
//   //! run NAME [tol=T] grid=X[,Y[,Z]] block=X[,Y[,Z]] [smem=BYTES] [cooperative] : ARGUMENT ...
//
// An argument is an array in device memory or a value:
//   f32[64]        64 elements, drawn from NAME and the argument's place: the same each time. Types: i8 u8 i16 u16 i32
//                  u32 i64 u64 f32 f64; integers of any bits, floats in [-2, 2)
//   i32[64]<10     in [0, 10)       i32[64]=7   all 7       i32[64]=iota   0 1 2 ...      i32[64]=iota8   0 8 16 ...
//   12  12u  12L  1.5f  1.5         a value of type int, unsigned, long long, float, double
//   struct{i32:1,f64:2.5}           a structure of values, laid out as C does
// tol: two results may differ by T, relative to max(1, |value|); without it each bit must agree, NaNs apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/types.h"

namespace pergola::corpus {

struct RunArgument {
  bool is_array = false;
  std::string type;              // of an array's elements
  std::vector<std::byte> bytes;  // an array's first contents, or the value
};

struct RunLine {
  std::string kernel;
  device::LaunchConfig config;
  double tolerance = 0;
  std::vector<RunArgument> arguments;
};

std::size_t element_bytes(std::string_view type);  // 0 for a name that is no type

// Every run line of a source, in order. kParseError names the line.
Result<std::vector<RunLine>> parse_run_lines(std::string_view source, std::string_view name);

// Why `a` and `b`, two contents of one array, do not agree; empty where they do.
std::string difference(std::string_view type, const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                       double tolerance);

}  // namespace pergola::corpus
