// What GraphLowering tells of itself (graph_report.h). All of it under the scheduler's lock.
#include <algorithm>

#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::size_t kMostStories = 64;

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

GraphReport::State told(Chunk::State state) {
  switch (state) {
    case Chunk::State::kNone: return GraphReport::State::kWaiting;
    case Chunk::State::kBuilding: return GraphReport::State::kMaking;
    case Chunk::State::kReady: return GraphReport::State::kReady;
    case Chunk::State::kRefused: return GraphReport::State::kRefused;
  }
  return GraphReport::State::kWaiting;
}

}  // namespace

void GraphLowering::tell_of_region(Region& region) {
  region.story = std::make_shared<RegionStory>();
  RegionReport& report = region.story->report;
  report.number = counters_.regions;
  report.period = region.turn;
  std::vector<const Launch*> turn;
  for (std::size_t i = 0; i < region.turn; ++i) turn.push_back(&region.launches[i]);
  report.kernels = count_kernels(turn);
  report.found_after = computations_.last_id();
  for (const Launch& launch : region.launches)
    if (launch.rebinds())
      tell_of_rebinding(*region.story, launch);
    else if (launch.varies())
      tell_of_variation(*region.story, launch);
  stories_.push_back(region.story);
  if (stories_.size() <= kMostStories) return;
  stories_.pop_front();
  ++forgotten_stories_;
}

void GraphLowering::tell_of_variation(RegionStory& story, const Launch& launch) {
  add_once(story.report.varying, launch.site == nullptr ? std::string("?") : launch.site->name);
}

void GraphLowering::tell_of_rebinding(RegionStory& story, const Launch& launch) {
  add_once(story.report.rebinding, launch.site == nullptr ? std::string("?") : launch.site->name);
}

// The region's chunks have been cut anew, or one of them has.
void GraphLowering::tell_of_chunks() {
  RegionStory& story = *region_->story;
  for (const std::shared_ptr<GraphReport>& graph : story.graphs) {
    const auto is_among = [&](const auto& chunks) {
      return std::any_of(chunks.begin(), chunks.end(), [&](const auto& chunk) { return chunk->report == graph; });
    };
    const bool is_there =
        is_among(region_->chunks) || std::any_of(region_->aside.begin(), region_->aside.end(), is_among);
    if (!is_there && graph->state != GraphReport::State::kPutBack) graph->state = GraphReport::State::kReplaced;
  }
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
    chunk->region = story.report.number;
    // While turns are tried launch by launch, their graphs are told of.
    if (region_->trial != nullptr && region_->form == TurnForm::kLaunches) continue;
    if (chunk->report == nullptr) {
      chunk->report = std::make_shared<GraphReport>();
      chunk->report->first = chunk->begin;
      chunk->report->launches = chunk->end - chunk->begin;
      chunk->report->ahead.assign(chunk->ahead.begin(), chunk->ahead.end());
      story.graphs.push_back(chunk->report);
    }
    chunk->report->state = told(chunk->state);
    chunk->report->refusal = chunk->refusal;
  }
  // Those that are no more and never were a graph say nothing; of the others the oldest go where there are many, first
  // those that are no more.
  const auto is_gone = [](const auto& graph) {
    return graph->state == GraphReport::State::kReplaced || graph->state == GraphReport::State::kPutBack;
  };
  std::erase_if(story.graphs, [&](const auto& graph) { return is_gone(graph) && graph->made_after == 0; });
  while (story.graphs.size() > RegionStory::kMostGraphs) {
    const auto gone = std::find_if(story.graphs.begin(), story.graphs.end(), is_gone);
    story.graphs.erase(gone == story.graphs.end() ? story.graphs.begin() : gone);
    ++story.report.forgotten_graphs;
  }
}

void GraphLowering::tell_of_forms() {
  const TurnForms* const trial = region_->trial.get();
  if (trial != nullptr && trial->is_again() && !trial->was_compared()) return;  // what the trial before has told stands
  region_->story->report.forms = trial == nullptr ? std::vector<WayReport>() : trial->report();
}

GraphsReport GraphLowering::report() const {
  GraphsReport all;
  all.launches = offered_;
  all.forgotten = forgotten_stories_;
  for (const std::shared_ptr<RegionStory>& story : stories_) {
    all.regions.push_back(story->report);
    for (const std::shared_ptr<GraphReport>& graph : story->graphs) all.regions.back().graphs.push_back(*graph);
  }
  return all;
}

}  // namespace pergola::scheduler
