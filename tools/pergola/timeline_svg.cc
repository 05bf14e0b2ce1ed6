#include "tools/pergola/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "src/base/plural.h"
#include "src/scheduler/task_timeline.h"

namespace pergola::tool {
namespace {

using scheduler::HostKind;
using scheduler::HostSlice;
using scheduler::Slice;
using scheduler::TaskSlice;
using scheduler::Timeline;

constexpr double kLeft = 120, kWidth = 1000, kRow = 34, kBox = 22, kTop = 30;
constexpr std::size_t kMostTaskRows = 40;
constexpr double kLetter = 6.2;  // width of one in the boxes
// Kernels by name, apart for colour-blind readers too.
constexpr std::array<std::string_view, 8> kColours = {"#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6",
                                                      "#fb9a99", "#ffff99", "#80cdc1", "#e5d8bd"};
constexpr std::string_view kTransfer = "#8c8c8c", kWaiting = "#eeeeee";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"' || static_cast<unsigned char>(c) < ' ')
      out += '_';
    else
      out += c;
  }
  return out;
}

// As much of it as fits.
std::string fitting(const std::string& text, double width) {
  const auto most = static_cast<std::size_t>(std::max(0.0, width / kLetter - 1));
  std::size_t length = std::min(text.size(), most);
  while (length < text.size() && length != 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
    --length;  // not within a character
  return text.substr(0, length);
}

class Picture {
 public:
  Picture(const Timeline& timeline, std::size_t most)
      : timeline_(timeline), count_(std::min(most, timeline.slices.size())) {
    const std::vector<std::uint32_t> rows = scheduler::task_rows(timeline);
    for (std::size_t n = 0; n < std::min(most, rows.size()); ++n)
      tasks_[{timeline.tasks[n].place, rows[n]}].push_back(&timeline.tasks[n]);
    while (tasks_.size() > kMostTaskRows) tasks_.erase(std::prev(tasks_.end()));
    tasks_left_out_ = timeline.tasks.size();
    for (const auto& row : tasks_) tasks_left_out_ -= row.second.size();
  }

  std::string print() {
    find_span_and_rows();
    for (std::size_t i = 0; i < count_; ++i) add(timeline_.slices[i]);
    for (const HostSlice& slice : timeline_.host)
      if (is_shown(slice)) add(slice);
    for (const auto& [row, tasks] : tasks_)
      for (const TaskSlice* const task : tasks) add(row, *task);
    for (std::size_t i = 0; i < count_; ++i) add_arrows(timeline_.slices[i]);
    return finish();
  }

 private:
  using TaskRow = std::pair<std::uint32_t, std::uint32_t>;  // a place, and which of its rows
  // Rows by their place: streams first, each with its copies behind it, then tasks, then the host's threads.
  static std::uint64_t row_key(const Slice& slice) {
    return 2 * std::uint64_t{slice.stream} + (is_transfer(slice.kind) ? 1 : 0);
  }
  static std::uint64_t row_key(const TaskRow& row) {
    return (std::uint64_t{1} << 60) + (std::uint64_t{row.first} << 24) + row.second;
  }
  static std::uint64_t row_key(const HostSlice& slice) { return (std::uint64_t{1} << 61) + slice.thread; }

  bool is_shown(const HostSlice& slice) const { return count_ == timeline_.slices.size() || slice.start_ns < last_ns_; }

  void find_span_and_rows() {
    const auto span = [this](double start, double end) {
      if (rows_.empty()) first_ns_ = start, last_ns_ = end;
      first_ns_ = std::min(first_ns_, start);
      last_ns_ = std::max(last_ns_, end);
    };
    for (std::size_t i = 0; i < count_; ++i) {
      const Slice& slice = timeline_.slices[i];
      span(slice.start_ns, slice.end_ns);
      rows_[row_key(slice)] = fmt::format("stream {}{}", slice.stream, is_transfer(slice.kind) ? " copies" : "");
    }
    const char* const place = timeline_.tasks_are_resident ? "block" : "thread";
    for (const auto& [row, tasks] : tasks_) {
      for (const TaskSlice* const task : tasks) span(task->start_ns, task->end_ns);
      rows_[row_key(row)] = row.second == 0 ? fmt::format("tasks, {} {}", place, row.first) : "";
    }
    for (const HostSlice& slice : timeline_.host) {
      if (!is_shown(slice)) continue;
      span(slice.start_ns, count_ == timeline_.slices.size() ? slice.end_ns : std::min(slice.end_ns, last_ns_));
      rows_[row_key(slice)] = fmt::format("host thread {}", slice.thread);
    }
  }

  double x(double ns) const {
    const double span = std::max(1.0, last_ns_ - first_ns_);
    return kLeft + kWidth * std::clamp((ns - first_ns_) / span, 0.0, 1.0);
  }
  double y(std::uint64_t key) const {
    return kTop + kRow * static_cast<double>(std::distance(rows_.begin(), rows_.find(key)));
  }
  std::string_view colour(const Slice& slice) {
    return is_transfer(slice.kind) ? kTransfer : colour_of_kernel(slice.name);
  }
  std::string_view colour_of_kernel(const std::string& name) {
    return colours_.try_emplace(name, kColours[colours_.size() % kColours.size()]).first->second;
  }

  void box(std::uint64_t row, double start_ns, double end_ns, std::string_view fill, const std::string& label,
           const std::string& title) {
    const double left = x(start_ns), width = std::max(1.0, x(end_ns) - left);
    body_ += fmt::format(
        "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" fill=\"{}\" "
        "stroke=\"#555\" stroke-width=\"0.5\"/><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
        escaped(title), left, y(row), width, kBox, fill, left + 3, y(row) + 15, escaped(fitting(label, width)));
  }
  void add(const Slice& slice) {
    box(row_key(slice), slice.start_ns, slice.end_ns, colour(slice), slice.name,
        fmt::format("#{} {}: {:.1f} us", slice.id, slice.name, slice.duration_ns() * 1e-3));
  }
  void add(const TaskRow& row, const TaskSlice& task) {
    const std::string id = task.id == 0 ? "spawned by a task" : fmt::format("{:#x}", task.id);
    box(row_key(row), task.start_ns, task.end_ns, colour_of_kernel(task.name), task.name,
        fmt::format("{} ({}): {:.1f} us", task.name, id, task.duration_ns() * 1e-3));
  }
  void add(const HostSlice& slice) {
    const std::string what = slice.kind == HostKind::kSynchronize ? "synchronize"
                             : slice.kind == HostKind::kTasks
                                 ? "wait for tasks"
                                 : fmt::format("{} {}", to_string(slice.kind), scheduler::resource_name(slice.array));
    box(row_key(slice), slice.start_ns, slice.end_ns, is_transfer(slice.kind) ? kTransfer : kWaiting, what,
        fmt::format("{}: {:.1f} us", what, slice.duration_ns() * 1e-3));
  }
  void add_arrows(const Slice& slice) {
    for (const scheduler::DagVertex::Edge& edge : slice.parents) {
      const auto parent = std::lower_bound(timeline_.slices.begin(), timeline_.slices.end(), edge.parent,
                                           [](const Slice& a, std::uint64_t id) { return a.id < id; });
      if (parent == timeline_.slices.end() || parent->id != edge.parent || row_key(*parent) == row_key(slice)) continue;
      body_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#c00\" stroke-width=\"0.8\" "
          "marker-end=\"url(#head)\"/>\n",
          x(parent->end_ns), y(row_key(*parent)) + kBox / 2, x(slice.start_ns), y(row_key(slice)) + kBox / 2);
    }
  }

  std::string finish() const {
    const double height = kTop + kRow * static_cast<double>(rows_.size()) + 24;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n"
        "<defs><marker id=\"head\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" orient=\"auto\">"
        "<path d=\"M0,0 L6,3 L0,6 z\" fill=\"#c00\"/></marker></defs>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + 20, height);
    text += fmt::format(
        "<text x=\"4\" y=\"16\">{}: {:.1f} us{}</text>\n", escaped(timeline_.device), (last_ns_ - first_ns_) * 1e-3,
        (count_ == timeline_.slices.size()
             ? std::string()
             : "; " + plural(timeline_.slices.size() - count_, "later computation is", "later computations are") +
                   " left out") +
            (tasks_left_out_ == 0 ? "" : "; " + plural(tasks_left_out_, "task is", "tasks are") + " left out"));
    for (const auto& [key, name] : rows_)
      text += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>\n", y(key) + 15, name);
    return text + body_ + "</svg>\n";
  }

  const Timeline& timeline_;
  const std::size_t count_;
  std::map<TaskRow, std::vector<const TaskSlice*>> tasks_;
  std::size_t tasks_left_out_ = 0;
  double first_ns_ = 0, last_ns_ = 0;
  std::map<std::uint64_t, std::string> rows_;
  std::map<std::string, std::string_view> colours_;
  std::string body_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline, std::size_t most) {
  return Picture(timeline, most).print();
}

}  // namespace pergola::tool
