// What GraphLowering keeps of the ways of graphs from one session to the next (tuning.h), and makes of it:
//
//   nothing known     way 0, 1, 2 ... finer ones, more instances                            as ever
//   some were tried   the one that was kept, instances of it, the ways that were not tried, finer ones
//   all were          the one that was kept, instances of it; all others after kTunedFor launches of the graph
//
// Where what was kept is not the fastest of what has been tried then, the others follow at once.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/scheduler/graph_key.h"
#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::string_view kPlainWay = "plain", kOtherWays = "all others";

}  // namespace

void GraphLowering::begin_tuning(Tuning known) {
  tuning_ = std::make_shared<const Tuning>(std::move(known));
  tuned_ = Tuning();
  for (const auto& chunk : made_) chunk->key.clear();  // as they began without it
}

Tuning GraphLowering::end_tuning() {
  for (const auto& chunk : made_) note_ways(*chunk);
  tuning_ = nullptr;
  return std::exchange(tuned_, Tuning());
}

// Where one way is forced, or there is but one, nothing is found.
bool GraphLowering::tunes() const {
  return tuning_ != nullptr && lowerer_ != nullptr && lowerer_->keeps_plain() && lowerer_->count() != 0;
}

// Without the lock.
std::string GraphLowering::key_of(const Job& job, const device::GraphSpec& plain) const {
  const Chunk& chunk = *job.chunk;
  const std::vector<std::size_t> its = chunk.in_graph();
  const std::unique_ptr<bool[]> varies(new bool[its.size()]());
  for (std::size_t i = 0; chunk.block != nullptr && i < its.size(); ++i)
    varies[i] =
        std::ranges::find(chunk.block->slots, its[i], &ParameterBlock::Slot::launch) != chunk.block->slots.end();
  return graph_key(plain, job.region->in_graph(chunk), {varies.get(), its.size()});
}

// With the lock, as all that follow.
GraphLowering::Improvement GraphLowering::with_tuning(Improvement next) const {
  const TunedGraph* const known = tunes() ? tuning_->find(tuning_device_, next.job.chunk->key) : nullptr;
  if (known == nullptr) return next;
  next.tuned = std::shared_ptr<const TunedGraph>(tuning_, known);
  if (!known->kept.empty() && known->kept != kPlainWay) next.ahead = 1 + draws();
  tell_of_tuning(next);
  return next;
}

// Whether the others wait for kTunedFor.
bool GraphLowering::holds(const Improvement& each) const {
  if (each.tuned == nullptr || !each.tuned->is_finished || each.ahead != 0 || each.way != 0) return false;
  const GraphWays::Way* const chosen = each.job.chunk->ways.chosen();
  return chosen == nullptr || GraphWays::name_without_instance(chosen->name) == each.tuned->kept;
}

// Among the ways that the graph has not, while it waits for its time.
void GraphLowering::tell_of_tuning(const Improvement& next) const {
  Chunk& chunk = *next.job.chunk;
  const auto erased = std::erase_if(chunk.refused_ways, [](const WayReport& each) { return each.name == kOtherWays; });
  if (holds(next))
    chunk.refused_ways.push_back(
        {std::string(kOtherWays),
         fmt::format("an earlier session tried them and kept '{}'; they are tried again after {} launches of the graph",
                     next.tuned->kept, kTunedFor),
         0, 0, WayReport::State::kRefused});
  else if (erased == 0)
    return;
  chunk.ways.touch();
}

// Whether it need not be made: the graph has it, or it was slower in a session that had not the time to try all.
bool GraphLowering::is_known(const Improvement& next, std::string_view way) const {
  if (std::ranges::find(next.made, way) != next.made.end()) return true;
  return next.tuned != nullptr && !next.tuned->is_finished && next.tuned->ways_ns.contains(std::string(way));
}

// The fastest first: of this session's times, and where another tried some of the ways, of its times of those.
std::vector<std::string> GraphLowering::fastest_of(const Improvement& next) const {
  const GraphWays& ways = next.job.chunk->ways;
  if (next.tuned == nullptr || next.tuned->is_finished) return ways.by_time();
  std::map<std::string, double> times = ways.times_ns();
  times.insert(next.tuned->ways_ns.begin(), next.tuned->ways_ns.end());
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, ns] : times) order.emplace_back(ns, name);
  std::ranges::sort(order);
  std::vector<std::string> names;
  for (auto& [ns, name] : order) names.push_back(std::move(name));
  return names;
}

// To the next step; false where there is none. Instances of a way that cannot be made are none.
bool GraphLowering::advance(Improvement& next, bool was_made) const {
  if (next.ahead == 0)
    ++next.way;
  else if (next.ahead == 1 + draws() && !was_made)
    next.ahead = 0;
  else
    --next.ahead;
  return next.ahead != 0 || next.way < other_ways() + draws();
}

void GraphLowering::note_ways(const Chunk& chunk) {
  if (!tunes() || chunk.key.empty()) return;
  const auto known = tuned_.devices().find(tuning_device_);
  if (known != tuned_.devices().end() && known->second.size() >= Tuning::kMostGraphs) return;
  TunedGraph graph;
  constexpr std::size_t kLongest = 200;
  graph.graph = chunk.name.substr(0, kLongest);
  GraphWays::Found found = chunk.ways.found();
  graph.ways_ns = std::move(found.times_ns);
  graph.is_finished = chunk.has_tried_ways && (chunk.ways.has_tried_all() || chunk.ways.is_trying_again());
  if (chunk.ways.all().size() == 1) {
    if (!graph.is_finished) return;
    graph.ways_ns.emplace(kPlainWay, std::max(chunk.device_ns, 1.0));  // which alone is not timed by itself
  }
  if (graph.ways_ns.contains(found.kept))
    graph.kept = std::move(found.kept);
  else if (const auto fastest =
               std::ranges::min_element(graph.ways_ns, {}, [](const auto& each) { return each.second; });
           fastest != graph.ways_ns.end())
    graph.kept = fastest->first;
  tuned_.add(tuning_device_, chunk.key, std::move(graph));
}

}  // namespace pergola::scheduler
