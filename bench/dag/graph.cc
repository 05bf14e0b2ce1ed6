#include "graph.h"

#include <bit>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "harness.h"

namespace dag {
namespace {

// body(row, edge) of each edge, those of a row in the order given. Each thread looks at all edges, and has some rows.
template <typename Body>
void for_each_edge(int vertices, const std::vector<int>& from, const Body& body) {
  parallel_for(vertices, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = 0; e < from.size(); ++e)
      if (const auto row = static_cast<std::size_t>(from[e]); row >= begin && row < end) body(row, e);
  });
}

// Row by row, in the order given within a row.
Graph compressed(int vertices, const std::vector<int>& from, const std::vector<int>& to) {
  Graph graph;
  graph.row_begin.assign(static_cast<std::size_t>(vertices) + 1, 0);
  graph.column.resize(from.size());
  for_each_edge(vertices, from, [&](std::size_t row, std::size_t) { ++graph.row_begin[row + 1]; });
  for (int row = 0; row < vertices; ++row) graph.row_begin[row + 1] += graph.row_begin[row];
  std::vector<int> next(graph.row_begin.begin(), graph.row_begin.end() - 1);
  for_each_edge(vertices, from, [&](std::size_t row, std::size_t e) { graph.column[next[row]++] = to[e]; });
  return graph;
}

std::pair<int, int> rmat_edge(int vertices, std::uint64_t edge) {
  const int levels = std::bit_width(static_cast<unsigned>(vertices - 1));
  int from = 0, to = 0;
  for (std::uint64_t attempt = 0; attempt < 16; ++attempt) {
    from = to = 0;
    for (int level = 0; level < levels; ++level) {
      const double draw = uniform(3, (edge * 16 + attempt) * 32 + level);
      from = 2 * from + (draw >= 0.67 ? 1 : 0);
      to = 2 * to + ((draw >= 0.45 && draw < 0.67) || draw >= 0.89 ? 1 : 0);
    }
    if (from < vertices && to < vertices) return {from, to};
  }
  return {from % vertices, to % vertices};
}

}  // namespace

Graph read_matrix_market(const std::string& path) {
  std::ifstream in(path);
  std::size_t number = 0;
  std::string line;
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(path + ":" + std::to_string(number) + ": " + what);
  };
  const auto next = [&] {
    ++number;
    return static_cast<bool>(std::getline(in, line));
  };
  if (!next() || !line.starts_with("%%MatrixMarket matrix coordinate"))
    fail("is no Matrix Market file of coordinates; give another with --matrix, or none");
  const bool symmetric = line.find("symmetric") != std::string::npos;
  while (next() && line.starts_with("%")) {
  }
  long long rows = 0, columns = 0, entries = 0;
  if (!(std::istringstream(line) >> rows >> columns >> entries) || rows != columns || rows < 1 || rows > 100'000'000 ||
      entries < 1 || entries > 1'000'000'000)
    fail("should give as many rows as columns, and entries; it says '" + line + "'");
  std::vector<int> from, to;
  for (long long i = 0; i < entries; ++i) {
    long long row = 0, column = 0;
    if (!next()) fail("the file ends before its entries do");
    if (!(std::istringstream(line) >> row >> column) || row < 1 || row > rows || column < 1 || column > rows)
      fail("should give a row and a column; it says '" + line + "'");
    from.push_back(static_cast<int>(row) - 1);
    to.push_back(static_cast<int>(column) - 1);
    if (!symmetric || row == column) continue;
    from.push_back(static_cast<int>(column) - 1);
    to.push_back(static_cast<int>(row) - 1);
  }
  return compressed(static_cast<int>(rows), from, to);
}

Graph generate_rmat(int vertices, std::size_t edges) {
  std::vector<int> from(edges), to(edges);
  parallel_for(edges, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) std::tie(from[e], to[e]) = rmat_edge(vertices, e);
  });
  return compressed(vertices, from, to);
}

Graph transposed(const Graph& graph) {
  std::vector<int> from(graph.edges());
  for (int row = 0; row < graph.vertices(); ++row)
    for (int k = graph.row_begin[row]; k < graph.row_begin[row + 1]; ++k) from[k] = row;
  return compressed(graph.vertices(), graph.column, from);
}

}  // namespace dag
