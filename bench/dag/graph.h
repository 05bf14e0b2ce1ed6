// Graphs as sparse matrices, for HITS: read from a Matrix Market file, or generated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dag {

// Row i's columns are column[row_begin[i] ... row_begin[i + 1] - 1]; every entry counts 1.
struct Graph {
  std::vector<int> row_begin, column;
  int vertices() const { return static_cast<int>(row_begin.size()) - 1; }
  std::size_t edges() const { return column.size(); }
};

// The pattern of a square coordinate matrix, symmetric ones with both halves. Throws std::runtime_error that names the
// file and the line.
Graph read_matrix_market(const std::string& path);

// R-MAT: `edges` edges whose ends' bits are drawn with the weights 0.45, 0.22, 0.22, 0.11 of a quadrant each, the same
// on every machine. Vertices above `vertices` are drawn again.
Graph generate_rmat(int vertices, std::size_t edges);

Graph transposed(const Graph& graph);

}  // namespace dag
