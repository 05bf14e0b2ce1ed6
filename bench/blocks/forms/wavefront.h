// A program whose launches are the anti-diagonals of tiles, one kernel over and over (bench/blocks, section IV-D): what
// changes from launch to launch, and CUDA C++ that a hand would write around the kernel in place of the host's
// launches.
//
//   megakernel        resident blocks take tiles in the order of the launches; a tile waits for the one above and the
//   one
//                     to its left, and for all tiles of four launches before (the paper's run-ahead of 3)
//   device_launches   one thread that launches the grids from the device, in their order
//
// Both take the kernel's arguments, those that change apart, and then a table of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/blocks/program.h"

namespace pergola::bench::blocks {

struct Wavefront {
  std::string kernel;
  std::vector<Argument> arguments;          // of all launches; those that change are the first one's
  std::size_t diagonal = 0, first_row = 0;  // which arguments these are
  std::uint32_t matrices = 1;               // the grids' y
  std::uint32_t threads = 32;
  std::vector<std::uint32_t> widths, first_rows;  // by launch
  std::uint32_t tiles = 0;

  std::uint32_t widest() const;
};

// nullopt: it is none.
std::optional<Wavefront> wavefront_of(const Program& program);

// `source` is the text of the program's kernels.
//
// __global__ void megakernel(the arguments that do not change, const int* table, int* state, int run): `table` is
// wavefront_table(), `state` of wavefront_state_words() zeros before the first run, `run` counts from 1. Of any number
// of blocks of `threads` threads: a block waits for tiles that blocks took before it, which run.
std::string megakernel_source(const Wavefront& wavefront, const std::string& source);
// __global__ void device_launches(the arguments that do not change, const int* table), of one thread.
std::string device_launches_source(const Wavefront& wavefront, const std::string& source);

// The arguments that do not change, as a launch takes them: `addresses` of the program's buffers, then `others`: of 8
// bytes where it is a pointer, else of 4.
struct TrailingArgument {
  std::uint64_t value = 0;
  bool is_pointer = true;
};
std::vector<std::byte> packed_arguments(const Wavefront& wavefront, const std::vector<std::uint64_t>& addresses,
                                        const std::vector<TrailingArgument>& others);

// By launch: the first of its tiles, its width, its first row; then one more, of which the first alone counts.
std::vector<std::int32_t> wavefront_table(const Wavefront& wavefront);
std::size_t wavefront_state_words(const Wavefront& wavefront);

}  // namespace pergola::bench::blocks
