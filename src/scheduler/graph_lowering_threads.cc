// The threads of GraphLowering: one makes graphs and looks after what is held, one makes their other ways.
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/device/graph_order.h"
#include "src/scheduler/durations.h"
#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::chrono::microseconds kLookEvery{4};
constexpr std::chrono::milliseconds kWatchFor{2};  // after the last that was held
constexpr std::chrono::seconds kLookAtLeast{1};    // at improvements that wait

std::int64_t ns(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Of a chunk that is the graph, whose launches are expected to take so long.
double longest_path_ns(const device::GraphSpec& spec, std::span<const Launch* const> launches,
                       std::span<const double> expected_ns) {
  std::vector<double> end_ns(spec.nodes.size());
  for (std::size_t i = 0; i < end_ns.size(); ++i) {
    for (const device::NodeId earlier : spec.nodes[i].after) end_ns[i] = std::max(end_ns[i], end_ns[earlier]);
    const std::optional<KeptCopy>& copy = launches[i]->copy;
    end_ns[i] += copy ? least_of_copy_ns(copy->size_bytes) : at_least(expected_ns[i]);
  }
  return end_ns.empty() ? 0 : *std::ranges::max_element(end_ns);
}

// GraphWays::Way::is_loose. While what it copies is held: it keeps nothing of that (Region::copied_by()).
bool is_loose(const device::GraphSpec& spec) {
  return device::uploads_side_by_side(spec) > GraphWays::kMostSideBySide;
}

// `may_come_again`: it is made of its spec once more when it has been put back.
GraphWays::Way way_of(std::string name, std::string why, std::shared_ptr<device::ExecutableGraph> graph,
                      std::shared_ptr<const device::GraphSpec> spec, bool is_loose, bool may_come_again) {
  GraphWays::Way way{std::move(name), std::move(why), std::move(graph), may_come_again ? std::move(spec) : nullptr};
  way.is_loose = is_loose;
  return way;
}

}  // namespace

void GraphLowering::settle(StateLock& lock) {
  ++settling_;
  improve_.notify_all();
  wake_.notify_all();  // for what was forgotten while something was held
  settled_.wait(lock, [&] {
    return !building_ && jobs_.empty() && !improving_ && improvements_.empty() && put_back_.empty() &&
           (held_ != 0 || !has_forgotten());
  });
  --settling_;
}

bool GraphLowering::has_forgotten() const {
  return std::any_of(made_.begin(), made_.end(), [](const auto& chunk) { return chunk.use_count() == 1; });
}

void GraphLowering::run_thread() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // sleep as short as asked; refused, launches are held a little longer
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (drop_forgotten(lock)) continue;  // without the lock meanwhile: what it was woken for is looked at again
    if (!jobs_.empty())
      build(lock);
    else if (watching_)
      watch(lock);
    else
      wake_.wait(lock);
  }
}

// False where there is nothing to drop, and the lock was not given up.
bool GraphLowering::drop_forgotten(StateLock& lock) {
  if (held_ != 0) return false;  // somebody must look after them
  const auto forgotten = std::partition(made_.begin(), made_.end(),
                                        [](const std::shared_ptr<Chunk>& chunk) { return chunk.use_count() > 1; });
  if (forgotten == made_.end()) return false;
  std::vector<std::shared_ptr<Chunk>> going(std::make_move_iterator(forgotten), std::make_move_iterator(made_.end()));
  for (const auto& chunk : going) note_ways(*chunk);
  made_.erase(forgotten, made_.end());
  timed_.chunk.reset();  // which may be one of them
  building_ = true;      // and nothing is held meanwhile
  lock.unlock();
  going.clear();
  lock.lock();
  building_ = false;
  if (jobs_.empty()) settled_.notify_all();
  return true;
}

void GraphLowering::build(StateLock& lock) {
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (job.chunk.use_count() == 1) {  // cut anew in the meantime
    if (jobs_.empty()) settled_.notify_all();
    return;
  }
  building_ = true;
  const bool is_tuned = tunes();
  lock.unlock();
  const auto start = Clock::now();
  Built built = make_graph(job);
  if (is_tuned && built.graph != nullptr) built.key = key_of(job, *built.spec);
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  lock.lock();
  if (job.chunk->state != Chunk::State::kBuilding) {  // refused in the meantime
    lock.unlock();
    built = Built();
    lock.lock();
    building_ = false;
  } else if (building_ = false; built.graph == nullptr) {
    refuse(job, built);
  } else {
    Chunk& chunk = *job.chunk;
    if (chunk.block != nullptr) {
      chunk.block->memory = std::move(built.block);
      const std::uint64_t byte = next_block_++;
      chunk.accesses.insert(chunk.accesses.begin(), {&blocks_, {byte, byte + 1}, Mode::kReadWrite});
    }
    std::vector<double> expected_ns;
    const std::vector<const Launch*> launches = job.region->in_graph(chunk);
    for (const Launch* const launch : launches)
      expected_ns.push_back(Durations::expected_ns_of(launch->work(), launch->config));
    chunk.launches_ns = longest_path_ns(*built.spec, launches, expected_ns);
    const bool may_come_again = lowerer_ != nullptr && lowerer_->keeps_plain();
    chunk.ways = GraphWays({way_of("plain", "an edge wherever two launches conflict", std::move(built.graph),
                                   built.spec, built.is_loose, may_come_again)},
                           turn_clock_);
    if (lowerer_ != nullptr && lowerer_->count() != 0 && chunk.slots == nullptr && !stopping_) {
      const auto now = Clock::now();
      chunk.key = std::move(built.key);
      improvements_.push_back(with_tuning({.job = job,
                                           .plain = std::move(built.spec),
                                           .expected_ns = std::move(expected_ns),
                                           .since = now,
                                           .not_before = now + kWorthAfter}));
      improve_.notify_all();
    }
    chunk.state = Chunk::State::kReady;
    if (chunk.report != nullptr) {
      if (chunk.report->state == GraphReport::State::kMaking) chunk.report->state = GraphReport::State::kReady;
      chunk.report->made_after = computations_.last_id();
      chunk.report->making_ns = took.count();
      if (chunk.slots != nullptr)
        chunk.refused_ways = {{"any other",
                               "its arrays change from turn to turn, and other ways are made for those "
                               "that it is made with",
                               0, 0, WayReport::State::kRefused}};
      else if (lowerer_ != nullptr && lowerer_->count() == 0)
        if (std::string why = lowerer_->why_none(); !why.empty())
          chunk.refused_ways = {{"any other", std::move(why), 0, 0, WayReport::State::kRefused}};
      chunk.report_ways();
    }
    made_.push_back(job.chunk);
    ++counters_.graphs;
  }
  if (jobs_.empty()) settled_.notify_all();
  if (improvements_.empty() || improver_.joinable()) return;
  lock.unlock();
  improver_ = std::thread([this] { run_improver(); });
  lock.lock();
}

// Without the lock.
GraphLowering::Built GraphLowering::make_graph(const Job& job) const {
  Built built;
  std::vector<BlockForm::Kernel> forms;
  if (job.chunk->block != nullptr) {
    for (const ParameterBlock::Slot& slot : job.chunk->block->slots) {
      const Launch& launch = job.region->launches[slot.launch];
      Result<BlockForm::Kernel> form = launch.form->make();
      if (form.ok()) {
        const std::uint32_t most = form->kernel->resources().max_threads_per_block;
        if (most != 0 && launch.config.block.count() > most)
          form =
              PERGOLA_ERROR(kResourceExhausted,
                            "Kernel '{}' with its parameters in memory runs in blocks of {} threads at most, not {}.",
                            launch.kernel->signature().name, most, launch.config.block.count());
      }
      if (!form.ok()) {
        built.status = form.status();
        built.refused_form = launch.form.get();
        return built;
      }
      forms.push_back(std::move(*form));
    }
    auto memory = device_->allocate(job.chunk->block->staged.size(), device::MemoryKind::kDevice);
    built.status = memory.status();
    if (!memory.ok()) return built;
    built.block = std::move(*memory);
  }
  const auto copied = job.region->copied_by(*job.chunk);
  built.status = copied.status();
  if (!copied.ok()) return built;
  built.spec = std::make_shared<const device::GraphSpec>(job.region->spec_of(*job.chunk, forms, built.block));
  auto made = device_->instantiate(*built.spec);
  built.status = made.status();
  if (made.ok()) built.graph = std::move(*made);
  built.is_loose = is_loose(*built.spec);
  return built;
}

bool GraphLowering::is_wanted(const Improvement& each) const {
  const Region* const region = each.job.region.get();
  return each.job.chunk->state == Chunk::State::kReady &&
         std::ranges::any_of(known_, [&](const auto& known) { return known.get() == region; }) &&
         region->has(each.job.chunk);
}

// The first that is worth its time by now; waits for one. False when all ends.
bool GraphLowering::next_improvement(StateLock& lock, Improvement& next) {
  while (!stopping_) {
    std::deque<Improvement> going, staying;  // those of what has been forgotten, cut anew or refused, and the others
    for (Improvement& each : improvements_) {
      const bool stays = is_wanted(each);
      if (!stays && each.again != GraphWays::kNone) each.job.chunk->ways.make_later();
      (stays ? staying : going).push_back(std::move(each));
    }
    improvements_.swap(staying);
    auto put_back = std::exchange(put_back_, {});
    if (!going.empty() || !put_back.empty()) {
      improving_ = true;
      lock.unlock();
      going.clear();  // what goes may wait for the device
      put_back.clear();
      lock.lock();
      improving_ = false;
      if (improvements_.empty()) settled_.notify_all();
      wake_.notify_all();
      continue;
    }
    const auto now = Clock::now();
    const bool rests = settling_ == 0 && now < improver_rests_until_;
    auto soonest = rests && !improvements_.empty() ? improver_rests_until_ : Clock::time_point::max();
    for (auto i = improvements_.begin(); !rests && i != improvements_.end(); ++i) {
      if (settling_ != 0 || is_worth_now(*i, now)) {
        next = std::move(*i);
        improvements_.erase(i);
        const GraphWays& ways = next.job.chunk->ways;
        next.made = ways.by_time();
        if (next.way == lowerer_->count()) next.fastest = fastest_of(next);
        if (is_draw(next)) next.draw = ways.draw();
        return true;
      }
      // Seldom launched: it is looked at less and less, but often enough that what has been forgotten goes. While it is
      // launched, what waits for times of others has them soon, and is told (ways_ask()).
      const Chunk& chunk = *i->job.chunk;
      const bool soon = std::exchange(i->launched, chunk.launched) != chunk.launched && chunk.ways.all().size() > 1;
      const auto longest = soon ? Clock::duration(kWorthAfter) : Clock::duration(kLookAtLeast);
      if (i->not_before <= now) i->not_before = now + std::clamp<Clock::duration>(now - i->since, kWorthAfter, longest);
      soonest = std::min(soonest, i->not_before);
    }
    if (soonest == Clock::time_point::max())
      improve_.wait(lock);
    else
      improve_.wait_until(lock, soonest);
  }
  return false;
}

// The next way is made once the others have been tried, so that few have a graph at a time.
bool GraphLowering::is_worth_now(const Improvement& each, Clock::time_point now) const {
  // A trial of forms waits for it: turns in which ways are tried do not count.
  if (each.again != GraphWays::kNone) return true;
  if (is_trying(*each.job.region)) return false;
  const Chunk& chunk = *each.job.chunk;
  if (!chunk.ways.has_tried_all()) return false;
  if (each.ahead != 0) return chunk.launched != 0;  // an earlier session found that it was worth its time
  return each.not_before <= now && chunk.launched >= (holds(each) ? kTunedFor : kWorthLaunches);
}

void GraphLowering::ways_ask(const std::shared_ptr<Chunk>& chunk) {
  for (auto& graph : chunk->ways.take_put_back()) put_back_.push_back(std::move(graph));
  if (const std::size_t way = chunk->ways.to_make(); way != GraphWays::kNone) {
    const auto region = std::ranges::find_if(known_, [&](const auto& known) { return known->has(chunk); });
    if (region == known_.end()) return chunk->ways.make_later();
    improvements_.push_back({.job = {*region, chunk}, .plain = chunk->ways.all()[way].spec, .again = way});
  }
  if (chunk->ways.has_tried_all())
    for (Improvement& each : improvements_)
      if (each.job.chunk == chunk) each.not_before = {};
  improve_.notify_all();
}

// One way of one chunk at a time, the first of all chunks first: what can be had soon is.
void GraphLowering::run_improver() {
  std::unique_lock lock(mutex_);
  for (Improvement next; next_improvement(lock, next);) improve(lock, std::move(next));
}

void GraphLowering::improve(StateLock& lock, Improvement next) {
  improving_ = true;
  lock.unlock();
  const auto start = Clock::now();
  const bool is_again = next.again != GraphWays::kNone;
  auto again = is_again ? make_again(next) : nullptr;
  Made made = is_again ? Made() : make_way(next);
  GraphWays before;
  lock.lock();
  // Half of the time at the most is spent on this, so that launches that wait for it get on.
  const auto end = Clock::now();
  improver_rests_until_ = end + (end - start);
  Chunk& chunk = *next.job.chunk;
  if (is_again) chunk.ways.made(next.again, std::move(again));
  if (!made.refused.name.empty()) {
    chunk.refused_ways.push_back(std::move(made.refused));
    chunk.ways.touch();
  }
  const bool is_made = made.way && chunk.state == Chunk::State::kReady;
  if (is_made) {
    if (!lowerer_->keeps_plain() && !next.has_other) before = std::exchange(chunk.ways, GraphWays());
    next.has_other = true;
    chunk.ways.add(std::move(*made.way));
  }
  if (!is_again) {
    const bool goes_on = advance(next, is_made);
    chunk.has_tried_ways = !goes_on;
    tell_of_tuning(next);
    chunk.report_ways();
    if (goes_on && is_wanted(next) && !stopping_) improvements_.push_back(std::move(next));
  }
  lock.unlock();
  before = GraphWays();  // what goes may wait for the device
  made.way.reset();
  next = Improvement();
  lock.lock();
  improving_ = false;
  if (improvements_.empty()) settled_.notify_all();
  wake_.notify_all();  // the chunk may have been forgotten meanwhile
}

// Without the lock. Null where it cannot be now.
std::shared_ptr<device::ExecutableGraph> GraphLowering::make_again(const Improvement& next) const {
  const auto copied = next.job.region->copied_by(*next.job.chunk);
  if (!copied.ok()) return nullptr;  // nobody will launch it any more
  auto graph = device_->instantiate(*next.plain);
  if (graph.ok()) return std::move(*graph);
  PERGOLA_INFO("a way of a graph that was put back cannot be made again: {}", graph.message());
  return nullptr;
}

// Without the lock. Neither where it is nothing for this graph.
GraphLowering::Made GraphLowering::make_way(const Improvement& next) const {
  const Chunk& chunk = *next.job.chunk;
  const auto copied = next.job.region->copied_by(chunk);
  if (!copied.ok()) return {};  // nobody will launch it any more
  if (is_draw(next)) {
    if (next.draw.spec == nullptr) return {};  // it would be no other
    return instantiated(next.job, next.draw.name, "another instance of that graph", next.draw.spec);
  }
  std::vector<LaunchToLower> launches;
  for (const std::size_t i : chunk.in_graph()) {
    const Launch& launch = next.job.region->launches[i];
    const auto is_its = [&](const ParameterBlock::Slot& slot) { return slot.launch == i; };
    const bool varies =
        chunk.block != nullptr && std::any_of(chunk.block->slots.begin(), chunk.block->slots.end(), is_its);
    launches.push_back({launch.form.get(), varies, launch.memory, next.expected_ns[launches.size()]});
  }
  const std::size_t count = lowerer_->count();
  const bool was_kept = next.ahead != 0;
  Made made;
  if (!was_kept && next.way < count && is_known(next, lowerer_->name(next.way))) return made;
  std::optional<GraphWay> way = was_kept ? lowerer_->way_named(next.tuned->kept, *next.plain, launches)
                                : next.way < count
                                    ? lowerer_->way(next.way, *next.plain, launches)
                                    : lowerer_->finer_way(next.way - count, *next.plain, launches, next.fastest);
  if (!way || (!was_kept && is_known(next, way->name))) return made;
  if (was_kept)
    way->why = fmt::format("an earlier session kept it at {:.1f} us; {}",
                           next.tuned->ways_ns.at(next.tuned->kept) * 1e-3, way->why);
  if (!way->refusal.empty()) {
    made.refused = {std::move(way->name), std::move(way->refusal), 0, 0, WayReport::State::kRefused};
    return made;
  }
  return instantiated(next.job, std::move(way->name), std::move(way->why),
                      std::make_shared<const device::GraphSpec>(std::move(way->spec)));
}

// Without the lock, and while what it copies is held.
GraphLowering::Made GraphLowering::instantiated(const Job& job, std::string name, std::string why,
                                                std::shared_ptr<const device::GraphSpec> spec) const {
  Made made;
  auto graph = device_->instantiate(*spec);
  if (!graph.ok()) {
    PERGOLA_INFO("there is no graph of {} in the way '{}': {}", plural(job.chunk->end - job.chunk->begin, "launch"),
                 name, graph.message());
    made.refused = {std::move(name), graph.message(), 0, 0, WayReport::State::kRefused};
    return made;
  }
  const bool loose = is_loose(*spec);
  made.way =
      way_of(std::move(name), std::move(why), std::move(*graph), std::move(spec), loose, lowerer_->keeps_plain());
  return made;
}

void GraphLowering::refuse(const Job& job, const Built& built) {
  Chunk& chunk = *job.chunk;
  chunk.state = Chunk::State::kRefused;
  chunk.refusal = built.status.message();
  if (chunk.report != nullptr) {
    chunk.report->state = GraphReport::State::kRefused;
    chunk.report->refusal = chunk.refusal;
  }
  ++counters_.refused;
  counters_.refusal = chunk.refusal;
  PERGOLA_INFO("{} recurring launches stay launches: {}", chunk.end - chunk.begin, chunk.refusal);
  if (built.refused_form == nullptr) return;
  // With that kernel's scalars it recurs no more, or as another region.
  built.refused_form->refused = true;
  forget(job.region);
}

// Would be when the thread looks next.
bool GraphLowering::is_overdue(std::int64_t since_ns) const {
  if (since_ns == kJustNow) return false;
  const std::int64_t patience = patience_ns_.load(std::memory_order_relaxed);
  return ns(Clock::now()) - since_ns + std::chrono::nanoseconds(kLookEvery).count() >= patience;
}

void GraphLowering::watch(StateLock& lock) {
  lock.unlock();
  auto last_held = Clock::now();
  while (true) {
    std::this_thread::sleep_for(kLookEvery);
    const auto now = Clock::now();
    std::int64_t since = held_since_.load(std::memory_order_relaxed);
    if (since != 0) last_held = now;
    // Where others are held by now, these have just been.
    if (since == kJustNow) held_since_.compare_exchange_strong(since, ns(now), std::memory_order_relaxed);
    if (since != 0 && is_overdue(since)) overdue_();
    if (now - last_held > kWatchFor) break;
  }
  lock.lock();
  if (held_ == 0) watching_ = false;
}

}  // namespace pergola::scheduler
