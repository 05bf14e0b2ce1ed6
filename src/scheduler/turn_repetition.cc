#include "src/scheduler/turn_repetition.h"

#include <algorithm>
#include <functional>

#include "src/scheduler/durations.h"

namespace pergola::scheduler {
namespace {

// Whether `vertex` has the edges of `like`, `turn` launches later, where those before `first` are no part of the turns.
bool is_alike(const DagVertex& vertex, const DagVertex& like, std::uint64_t turn, std::uint64_t first) {
  if (vertex.stream != like.stream || vertex.edge_count != like.edge_count || vertex.more_edges + like.more_edges != 0)
    return false;
  return std::ranges::all_of(vertex.kept_edges(), [&](const DagVertex::Edge& edge) {
    return std::ranges::any_of(like.kept_edges(), [&](const DagVertex::Edge& known) {
      if (known.resource != edge.resource || known.hazard != edge.hazard || known.argument != edge.argument)
        return false;
      if (known.parent >= first) return edge.parent == known.parent + turn;
      return edge.parent == known.parent && edge.order == Order::kEnded && known.order == Order::kEnded;
    });
  });
}

}  // namespace

void TurnRepetition::placed(const At& at, const std::shared_ptr<Region>& region, std::uint64_t changes,
                            std::uint64_t id, const DagLog& log) {
  if (region.get() != at.region) return forget();  // it was replaced by this launch
  const Launch& launch = region->launches[at.launch];
  const std::size_t turn = region->calls.size();
  if (launch.universal != Mode::kNone || launch.site == nullptr || turn > kMostLaunches || log.last().id != id)
    return forget();
  if (!is_of(at.region) || next_ != at.launch || changes_ != changes || last_id_ + 1 != id) {
    forget();
    region_at_ = at.region;
    region_ = region;
    changes_ = changes;
    first_id_ = id;
  }
  last_id_ = id;
  next_ = at.launch + 1 == turn ? 0 : at.launch + 1;
  if (id - first_id_ < turn) return;
  alike_ = is_alike(log.last(), log.before(turn), turn, first_id_) ? alike_ + 1 : 0;
  if (alike_ == turn) begin(*region, log);
}

// The last of the log are a turn.
void TurnRepetition::begin(const Region& region, const DagLog& log) {
  const std::size_t turn = region.calls.size();
  steps_.assign(turn, {});
  counts_.assign(counts_.size(), 0);
  for (std::size_t back = turn; back > 0; --back) {
    const DagVertex& vertex = log.before(back - 1);
    const std::size_t at = before(back);
    Step& step = steps_[at];
    step.stream = vertex.stream;
    step.position = vertex.position;
    const Launch& launch = region.launches[at];
    step.size = Durations::size_of(launch.accesses, launch.config);
    if (tails_.size() <= vertex.stream) {
      tails_.resize(vertex.stream + 1);
      counts_.resize(vertex.stream + 1);
    }
    tails_[vertex.stream] = static_cast<std::uint32_t>(at);
    ++counts_[vertex.stream];
  }
  for (std::size_t back = turn; back > 0; --back) {
    const DagVertex& vertex = log.before(back - 1);
    const std::size_t at = before(back);
    const auto step_of = [&](std::uint64_t parent) {
      return static_cast<std::uint32_t>((at + turn - (vertex.id - parent) % turn) % turn);
    };
    std::vector<std::uint64_t> parents;
    for (const DagVertex::Edge& edge : vertex.kept_edges()) {
      const bool is_of_turns = edge.parent >= first_id_;
      steps_[at].parents.push_back(is_of_turns ? step_of(edge.parent) : Step::kNone);
      if (is_of_turns && std::ranges::find(parents, edge.parent) == parents.end()) parents.push_back(edge.parent);
    }
    std::ranges::sort(parents, std::greater());
    for (const std::uint64_t parent : parents) {
      const std::uint32_t of = step_of(parent);
      if (steps_[of].stream == vertex.stream) continue;
      steps_[at].waits_for.push_back(of);
      steps_[of].has_others = true;
    }
  }
  repeats_ = true;
  repeated_ = 0;
}

void TurnRepetition::write_log(DagLog& log) {
  if (unlogged_ == 0) return;
  const std::size_t turn = steps_.size();
  std::uint64_t n = 0;
  std::size_t at = before(unlogged_ % turn);
  log.repeat_turns(turn, unlogged_, first_id_, [&] {
    const Step& step = steps_[at];
    if (++at == turn) at = 0;
    const std::uint64_t back = unlogged_ - ++n;  // how many are behind it
    return DagLog::Repeated{last_id_ - back, step.position - back / turn * counts_[step.stream],
                            orders_[(n - 1) % orders_.size()]};
  });
  unlogged_ = 0;
}

}  // namespace pergola::scheduler
