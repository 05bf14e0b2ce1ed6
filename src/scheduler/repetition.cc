#include "src/scheduler/repetition.h"

#include "src/scheduler/durations.h"

namespace pergola::scheduler {
namespace {

// Whether `vertex` comes right behind `before`, and after nothing else but what that came after as well.
bool comes_as(const DagVertex& vertex, const DagVertex& before) {
  if (vertex.id != before.id + 1 || vertex.stream != before.stream || vertex.more_edges + before.more_edges != 0)
    return false;
  bool is_behind = false;
  for (const DagVertex::Edge& edge : vertex.kept_edges()) {
    const auto is_same = [&](const DagVertex::Edge& known) {
      return known.parent == edge.parent && known.resource == edge.resource && known.hazard == edge.hazard &&
             known.argument == edge.argument && known.order == Order::kEnded;
    };
    const bool is_to_it = edge.parent == before.id && edge.order == Order::kSameStream;
    const bool is_of_both = edge.order == Order::kEnded && std::ranges::any_of(before.kept_edges(), is_same);
    if (!is_to_it && !is_of_both) return false;
    is_behind = is_behind || is_to_it;
  }
  return is_behind;
}

}  // namespace

void Repetition::placed(const Launch& launch, std::uint64_t id, const DagLog& log) {
  const bool in_a_row = last_id_ + 1 == id && hash_ == launch.hash;
  last_id_ = id;
  hash_ = launch.hash;
  repeats_ = false;
  if (!in_a_row || (site_ != nullptr && !is_like(launch))) {
    site_ = nullptr;
    accesses_.clear();
  } else if (site_ != nullptr) {
    repeats_ = launch.universal == Mode::kNone && log.last().id == id && comes_as(log.last(), log.before_last());
  } else if (launch.site != nullptr) {
    site_ = launch.site;
    size_ = Durations::size_of(launch.accesses, launch.config);
    reads_only_ = std::ranges::any_of(launch.accesses, [](const Access& access) { return !writes(access.mode); });
    accesses_.assign(launch.accesses.begin(), launch.accesses.end());
  }
}

}  // namespace pergola::scheduler
