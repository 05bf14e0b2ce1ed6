// Copies over the link to the host, several as one. Each takes the device a few microseconds beside the link's own
// time, so many small ones leave it idle; but what waits for one of several waits for all of them.
//
//   up a ─▶ k ─▶ down x          up a and b ─┬▶ k ─┬▶ down x and y
//   up b ─▶ l ─▶ down y                      └▶ l ─┘
//
// (On an H200, ten times a copy up, a launch and a copy down, by how many copies are one. Of 0.5 MB: 172 us each by
// itself, 158 in twos, 166 in threes, 176 in fives, 208 all. Of 5 MB: 1170, 1236, 1400, 1500, 1940.)
#pragma once

#include <cstdint>
#include <optional>

#include "src/device/graph.h"

namespace pergola::device {

// How the copies of a node are one operation on a GPU: all lie in one piece of memory where they go to and in one where
// they come from (Buffer::piece()), in ascending order, and
struct CopiesShape {
  // are whole buffers one behind the other on both sides, with what is nobody's between them: so many bytes in a line;
  std::size_t line_bytes = 0;
  // or, where that is 0, are of the same size, each as far behind the one before it as the second behind the first.
  std::uint64_t destination_pitch_bytes = 0, source_pitch_bytes = 0;
};
// None where they can be neither. Of one copy, the line of its bytes.
std::optional<CopiesShape> copies_shape(const CopyNode& node);

struct CopiesTogether {
  GraphSpec spec;
  std::size_t before = 0, after = 0;  // copies that became fewer
};

// Those of one direction that are as deep in the graph and follow each other there as copies_shape() has it, as fewer
// nodes, so many that the link rests as little as may be and what is waited for is not much more. Of as deep ones none
// waits for another, in the new graph either. Nodes stay in the program's order as far as their dependencies allow.
// None where that is the same graph, or nodes start early.
std::optional<CopiesTogether> copies_together(const GraphSpec& spec);

}  // namespace pergola::device
