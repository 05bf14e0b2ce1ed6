// The DAG as a picture, without another program to lay it out.
//
//   stream 0   [square #1]────────────────▶[sum #3]────┐
//   stream 1   [square #2]──────────────────╯          │
//   the host                                           └▶[host read #4]
//
// A row a stream, as streams are in order, and one for the host; a column a step: a box stands behind the one before it
// in its row, and behind all that it comes after. So arrows lead to the right, and what is in one column may run at
// once. An arrow along a row goes straight where its end is the next box, else above those between, and one to another
// row between the rows.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <set>

#include "src/scheduler/dag_log.h"

namespace pergola::scheduler {
namespace {

constexpr int kMargin = 12, kRowNames = 70, kBoxWidth = 132, kBoxHeight = 40, kColumn = 250, kGap = 46,
              kRow = kBoxHeight + kGap;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return out;
}

// As much of a name as a box has room for.
std::string shortened(std::string_view name) {
  constexpr std::size_t kMost = 18;
  if (name.size() <= kMost) return std::string(name);
  std::size_t end = kMost - 1;
  while (end != 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // within a character of UTF-8
  return std::string(name.substr(0, end)) + "…";
}

struct Place {
  int column = 0, row = 0;
  int left() const { return kMargin + kRowNames + column * kColumn; }
  int right() const { return left() + kBoxWidth; }
  int top() const { return kMargin + 24 + row * kRow; }
  int middle() const { return top() + kBoxHeight / 2; }
};

class Picture {
 public:
  explicit Picture(const DagPicture& dag) : dag_(dag) {
    for (const DagVertex& vertex : dag.vertices) rows_.emplace(vertex.stream, 0);  // the host's number is the highest
    int row = 0;
    for (auto& [stream, number] : rows_) number = row++;
    for (const DagVertex& vertex : dag.vertices) put(vertex);
  }

  std::string svg() const {
    std::string body;
    for (const DagVertex& vertex : dag_.vertices)
      for (std::uint32_t i = 0; i < vertex.edge_count; ++i) add_edge(vertex, vertex.edges[i], body);
    for (const DagVertex& vertex : dag_.vertices) add_box(vertex, body);
    for (const auto& [stream, row] : rows_) {
      DagVertex any;
      any.stream = stream;
      body += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#555\">{}</text>\n", kMargin, Place{0, row}.middle() + 4,
                          stream_name(any));
    }
    if (dag_.forgotten != 0)
      body += fmt::format("<text x=\"{}\" y=\"16\" fill=\"#555\">{} pieces of work before these are not shown</text>\n",
                          kMargin, dag_.forgotten);
    const Place last{last_column_, static_cast<int>(rows_.size()) - 1};
    const int width = last.right() + kMargin, height = last.top() + kBoxHeight + kMargin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
               "font-family=\"sans-serif\" font-size=\"11\">\n"
               "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
               "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
               width, height) +
           body + "</svg>\n";
  }

 private:
  void put(const DagVertex& vertex) {
    Place place{next_in_row_[vertex.stream], rows_.at(vertex.stream)};
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      if (const auto parent = places_.find(vertex.edges[i].parent); parent != places_.end())
        place.column = std::max(place.column, parent->second.column + 1);
    next_in_row_[vertex.stream] = place.column + 1;
    last_column_ = std::max(last_column_, place.column);
    places_[vertex.id] = place;
    is_taken_.emplace(place.row, place.column);
  }

  void add_box(const DagVertex& vertex, std::string& body) const {
    const Place& at = places_.at(vertex.id);
    const std::string more = vertex.more_edges == 0 ? "" : fmt::format(", after {} more", vertex.more_edges);
    body += fmt::format(
        "<g><title>{} #{}, {}, {}{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{}\" "
        "stroke=\"#555\"{}/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{}\" "
        "text-anchor=\"middle\" fill=\"#555\">#{}{}</text></g>\n",
        escaped(vertex.name), vertex.id, to_string(vertex.kind), stream_name(vertex), more, at.left(), at.top(),
        kBoxWidth, kBoxHeight, colour_of(vertex), vertex.is_on_stream() ? "" : " stroke-dasharray=\"4 3\"",
        at.left() + kBoxWidth / 2, at.top() + 17, escaped(shortened(vertex.name)), at.left() + kBoxWidth / 2,
        at.top() + 32, vertex.id, more);
  }

  // Of what is not shown any more none leads here.
  void add_edge(const DagVertex& vertex, const DagVertex::Edge& edge, std::string& body) const {
    const auto parent = places_.find(edge.parent);
    if (parent == places_.end()) return;
    const Place &from = parent->second, &to = places_.at(vertex.id);
    const int right = from.right(), left = to.left(), y = from.middle(), end = to.middle();
    std::string path;
    const int label_x = (right + left) / 2;
    int label_y = (y + end) / 2 - 4;
    if (from.row == to.row && is_free_between(from, to)) {
      path = fmt::format("M{} {}H{}", right, y, left);
    } else if (from.row == to.row) {
      const int above = from.top() - 26;
      path = fmt::format("M{} {}C{} {} {} {} {} {}", right - 14, from.top(), right + 20, above, left - 20, above,
                         left + 14, to.top());
      label_y = from.top() - 22;
    } else if (to.column == from.column + 1) {
      path = fmt::format("M{} {}C{} {} {} {} {} {}", right, y, label_x, y, label_x, end, left, end);
    } else {  // between the rows, where no boxes are
      const int between = to.row > from.row ? from.top() + kBoxHeight + kGap / 2 : from.top() - kGap / 2;
      path = fmt::format("M{} {}C{} {} {} {} {} {}H{}C{} {} {} {} {} {}", right, y, right + 40, y, right + 20, between,
                         right + 60, between, left - 60, left - 20, between, left - 40, end, left, end);
      label_y = between - 3;
    }
    // Several between two boxes, as of two arguments: one line, and its labels below each other.
    label_y += 10 * above_this(vertex, edge);
    body += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"#555\"{} marker-end=\"url(#to)\"/><text x=\"{}\" y=\"{}\" "
        "text-anchor=\"middle\" font-size=\"9\" fill=\"#333\">{}</text>\n",
        path, edge.order == Order::kEnded ? " stroke-dasharray=\"2 3\"" : "", label_x, label_y,
        escaped(label_of(edge)));
  }
  static int above_this(const DagVertex& vertex, const DagVertex::Edge& edge) {
    int count = 0;
    for (const DagVertex::Edge* each = vertex.edges.data(); each != &edge; ++each)
      count += each->parent == edge.parent ? 1 : 0;
    return count;
  }

  bool is_free_between(const Place& from, const Place& to) const {
    for (int column = from.column + 1; column < to.column; ++column)
      if (is_taken_.contains({from.row, column})) return false;
    return true;
  }

  const DagPicture& dag_;
  std::map<std::uint32_t, int> rows_, next_in_row_;  // by stream
  boost::unordered_flat_map<std::uint64_t, Place> places_;
  std::set<std::pair<int, int>> is_taken_;  // row, column
  int last_column_ = 0;
};

}  // namespace

std::string DagPicture::svg() const {
  return Picture(*this).svg();
}

}  // namespace pergola::scheduler
