#include "src/scheduler/scheduler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/deadline.h"
#include "src/base/log.h"
#include "src/base/plural.h"

namespace pergola::scheduler {
namespace {

// At the bound of streams so many are asked whether they are free before the least recently used one is taken busy.
constexpr std::size_t kAskedAtBound = 4;

// So large that an event costs nothing beside it.
bool is_large_copy_from_host(const Work& work) {
  constexpr std::uint64_t kLargeBytes = 4'000'000;
  return work.kind == WorkKind::kCopyToDevice && !work.accesses.empty() &&
         work.accesses.back().range.end - work.accesses.back().range.begin >= kLargeBytes;
}

bool any_elsewhere(const Dependencies& parents, const Stream& stream) {
  return std::ranges::any_of(parents, [&](const Dependency& one) { return one.parent->stream != &stream; });
}

double least_ns(const Work& work, double expected_ns) {
  if (work.kind == WorkKind::kKernel) return at_least(expected_ns);
  return work.copy != nullptr ? least_of_copy_ns(work.copy->size_bytes) : work.least_ns;
}

// "; expected us: saxpy 1.2 8.5": by class of sizes, those that are known.
std::string durations_text(const std::map<std::string, std::unique_ptr<WorkSite>, std::less<>>& sites) {
  std::string text;
  for (const auto& [name, site] : sites) {
    bool named = false;
    for (const KernelDurations& one : site->durations) {
      const double ns = Durations::expected_ns(&one);
      if (ns == kUnknownDurationNs) continue;
      text += fmt::format("{} {:.1f}", named ? "" : (text.empty() ? "; expected us: " : ", ") + name, ns * 1e-3);
      named = true;
    }
  }
  return text;
}

}  // namespace

Scheduler::Scheduler(device::DevicePtr device, const Policy& policy, std::shared_ptr<GraphLowerer> lowerer)
    : device_(std::move(device)), policy_(policy), durations_(device_->info().name) {
  mutex_.set_write_down([this] { write_down(); });
  if (policy_.tasks != Tasks::kOff && policy_.execution == Execution::kAsync) tasks_ = std::make_unique<TaskLaunches>();
  if (policy_.graphs == Graphs::kOff || policy_.execution == Execution::kSync) return;
  held_tickets_.resize(kHeldTickets);
  const auto flush = [this] {
    const std::lock_guard lock(mutex_);
    if (lowering_ != nullptr) launch_held(lowering_->flush_overdue());  // null: the scheduler ends, and nothing is held
  };
  lowering_ = std::make_unique<GraphLowering>(device_, mutex_, policy_.graphs, blocks_, pool_, flush,
                                              policy_.dependency == DependencyPolicy::kNoConst);
  lowering_->set_lowerer(std::move(lowerer));
  lowering_->set_expected_queue([this] { return expected_queue(); });
  lowering_->set_turns(policy_.turns);
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(device::DevicePtr device, const Policy& policy,
                                                     std::shared_ptr<GraphLowerer> lowerer) {
  std::unique_ptr<Scheduler> scheduler(new Scheduler(std::move(device), policy, std::move(lowerer)));
  PERGOLA_TRY(scheduler->create_stream().status());
  scheduler->prepare();
  return scheduler;
}

// What a program's first launches would wait for: on a GPU a stream takes 0.14 ms to make, a thread 0.08.
void Scheduler::prepare() {
  if (device_->info().kind != device::DeviceKind::kCuda || policy_.execution == Execution::kSync) return;
  if (Result<std::unique_ptr<device::Queue>> spare = device_->create_queue(); spare.ok()) spare_ = std::move(*spare);
  if (lowering_ != nullptr) lowering_->start_thread();
}

Scheduler::~Scheduler() {
  // In a forked child another thread may have had the lock, and nobody runs what is launched.
  if (!is_forked_child()) {
    const std::lock_guard lock(mutex_);
    launch_held();
    retire_behind_held();
  }
  if (lowering_ != nullptr) {
    const GraphCounters& graphs = lowering_->counters();
    if (graphs.regions != 0)
      PERGOLA_DEBUG(
          "graphs: {} regions found, {} launches known by their text, {} with scalars and {} with arrays that change; "
          "{} graphs made, {} refused; {} launches of graphs stood for {} kernels; {} kernels held and launched after "
          "all, {} times for other work, {} times for the time they had been held; {} times other work went ahead",
          graphs.regions, graphs.by_text, graphs.varying, graphs.rebinding, graphs.graphs, graphs.refused,
          graphs.launches, graphs.replaced, graphs.flushed, graphs.interrupted, graphs.overdue, graphs.passed);
  }
  if (is_forked_child()) {
    lowering_.reset();
  } else {
    if (const Status tuning = end_tuning(); !tuning.ok())
      PERGOLA_WARN("what was found of graphs is lost: {}", tuning.message());
    // Its thread may be about to look for what is overdue, and joins when it goes.
    std::unique_ptr<GraphLowering> going;
    const std::lock_guard lock(mutex_);
    going = std::move(lowering_);
  }
  PERGOLA_DEBUG("{} computations on {} streams, {} events, {} waits of streams{}", counters_.computations,
                counters_.streams, counters_.events, counters_.waits, durations_text(sites_));
  if (join_ != nullptr) join_->queue.reset();
  for (const auto& stream : streams_) stream->queue.reset();  // waits for its work, each device in its way
  poll_all();
  end_recording();
  if (!failure_.ok() && !failure_told_)
    PERGOLA_WARN("a session ends with a failure that nobody asked for: {}", tell_all_failures().message());
}

std::unique_ptr<Resource> Scheduler::create_resource(std::uint64_t size_bytes, ResourceKind kind) {
  EndedMemory ended(memory_going_);
  const std::lock_guard lock(mutex_);
  reap(ended);
  return std::make_unique<Resource>(resource_id(kind, ++resource_numbers_[static_cast<std::size_t>(kind)]), size_bytes);
}

std::unique_ptr<Resource> Scheduler::create_host_side(const Resource& array) {
  return std::make_unique<Resource>(resource_id(ResourceKind::kHostSide, array.id()), array.size_bytes());
}

namespace {

// Users name their library calls; pictures, traces and terminals take text.
std::string printable(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const auto is_plain = [&](char c) { return static_cast<unsigned char>(c) < 0x80 && !is_control(c); };
  std::string text(name);
  if (std::ranges::all_of(text, is_plain)) return text;
  using nlohmann::json;  // by which what is not UTF-8 becomes U+FFFD
  text = json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  std::ranges::replace_if(text, is_control, '_');
  return text;
}

}  // namespace

WorkSite* Scheduler::site(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return site_locked(name);
}

WorkSite* Scheduler::site_locked(std::string_view name) {
  auto found = sites_.find(name);
  if (found == sites_.end()) {
    found = sites_.emplace(std::string(name), std::make_unique<WorkSite>()).first;
    found->second->name = printable(name);
  }
  return found->second.get();
}

// ── Submission ──────────────────────────────────────────────────────────────────────────────────────────────────────

Status Scheduler::submit(const Work& work, Enqueue enqueue, device::EventPtr* event, Ticket* ticket) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(await_turn(lock, work, deadline_of(work)));
  if (tasks_ != nullptr && work.kind != WorkKind::kKernel && work.held_from_tasks != nullptr) tasks_->in_a_row = 0;
  if (!durations_.is_empty() && pool_.last_id() % kSettlesEach == 0) durations_.settle();
  GraphLowering::Decision lowered;
  if (work.behind == nullptr && may_be_of_a_graph(work))
    lowered = lowering_->offer(work, event == nullptr, arriving());
  else
    launch_held_before(work);
  return carry_out(lock, work, enqueue, lowered, event, ticket);
}

Status Scheduler::carry_out(StateLock& lock, const Work& work, Enqueue enqueue, const GraphLowering::Decision& lowered,
                            device::EventPtr* event, Ticket* ticket) {
  if (!lowered.flush.empty()) launch_held(lowered.flush);
  if (lowered.held) return hold_or_run(work, lowered, ticket);

  Computation& who = *pool_.take();
  who.leads = lowered.leads;
  who.follows_lead = lowered.follows_lead;
  who.queue = lowered.queue;
  Status status = place(work, enqueue, who);
  if (status.ok() && work.host_waits && who.mark == nullptr) tell_end_of(who);
  if (lowered.ended != nullptr && who.stream != nullptr) mark_end_of(lowered.ended, *who.stream);
  // Where the caller gets an event that one tells as much. It is for the device's progress, not for what depends on
  // this.
  const bool gets_event = event != nullptr || policy_.execution == Execution::kSync;
  if (lowered.marks && !gets_event && who.stream != nullptr && who.mark == nullptr)
    who.mark_used = record_on(*who.stream).ok();
  MarkPtr mark;
  if (status.ok() && (event != nullptr || policy_.execution == Execution::kSync)) {
    // A recording has put an event there.
    Result<MarkPtr> recorded =
        who.mark != nullptr ? who.mark : record_on(*who.stream, event != nullptr ? MarkFor::kTime : MarkFor::kHost);
    who.mark_used = true;
    if (recorded.ok()) mark = *recorded;
    status = recorded.status();
  }
  if (ticket != nullptr && who.stream != nullptr) *ticket = ticket_of(who);
  pool_.let_go(who);
  if (mark == nullptr) return status;
  if (event != nullptr) *event = mark->event;
  if (policy_.execution == Execution::kAsync) return status;
  return wait_unlocked(lock, std::span(&mark, 1));
}

std::uint8_t Scheduler::prediction_slot(std::span<const Access> accesses) {
  return accesses.empty() ? 0 : static_cast<std::uint8_t>(accesses.back().resource->id() % EventPrediction::kSlots);
}

Status Scheduler::place(const Work& work, Enqueue enqueue, Computation& who) {
  const nvtx::Range range(work.site == nullptr ? nullptr : nvtx_, work.site == nullptr ? "" : work.site->name.c_str());
  ++who.holds;
  who.site = work.site;
  who.prediction_slot = prediction_slot(work.accesses);
  // Where all has ended well nothing is waited for: the device begins, and its place is written down meanwhile.
  // So it is behind leads alone: the graph comes behind them on their stream, whichever of its launches need them.
  const bool may_be = recorder_ == nullptr && work.universal == Mode::kNone;
  Stream* const leads = may_be && work.kind == WorkKind::kGraph ? behind_leads_alone() : nullptr;
  const bool at_once = leads != nullptr || (may_be && all_ended_well());
  Dependencies parents;
  EndedParents ended;
  if (!at_once) add_parents(work, who, parents, ended);
  const Status status = start(work, who, parents, ended, enqueue, leads);
  if (at_once && who.stream != nullptr) {
    add_parents(work, who, parents, ended);
    add_to_log(parents, ended);
  }
  release(parents, pool_);
  return status;
}

bool Scheduler::all_ended_well() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->idle_well(); });
}

// Where all but the uploads that a turn began with has ended well: their stream, on which its graph comes after all
// that there is. Null where all has ended, or these take long, so that a graph which does without them is to be beside
// them.
Stream* Scheduler::behind_leads_alone() const {
  Stream* const stream = leads_.stream;
  if (recorder_ != nullptr || stream == nullptr || stream->reserved || stream->idle()) return nullptr;
  if (leads_.size_bytes > Region::kSoonBytes) return nullptr;
  const bool are_leads = stream->tail_position == leads_.last && stream->well_position + 1 >= leads_.first;
  const auto is_no_matter = [&](const auto& one) { return one.get() == stream || one->idle_well(); };
  return are_leads && std::ranges::all_of(streams_, is_no_matter) ? stream : nullptr;
}

// Whether all has ended well, so that what comes now comes after nothing: programs that wait for their turns often have
// that. Not asked of so many streams that it is cheaper to look at the arrays, nor while something is recorded, of
// which nothing has ended.
bool Scheduler::comes_after_nothing() const {
  constexpr std::size_t kGlance = 16;
  return recorder_ == nullptr && streams_.size() <= kGlance && all_ended_well();
}

void Scheduler::add_parents(const Work& work, Computation& who, Dependencies& parents, EndedParents& ended) {
  for (const Access& access : work.accesses) {
    std::size_t known = parents.size();
    const std::size_t known_ended = ended.list().size();
    access.resource->access(access.range, mode_among_launches(access.mode), who, pool_, parents, ended);
    for (; known < parents.size(); ++known) parents[known].argument = access.argument;
    ended.name(known_ended, access.argument);
  }
  if (work.universal != Mode::kNone || has_universal())
    universal_dependencies(work.universal, any_writes(work.accesses), &who, parents, ended);
}

// `leads`: where it is to come behind these; null: by its parents.
Status Scheduler::start(const Work& work, Computation& who, const Dependencies& parents, const EndedParents& ended,
                        Enqueue enqueue, Stream* leads) {
  const Result<StreamChoice> chosen = leads != nullptr ? behind(*leads) : stream_for(work, parents, &who);
  if (!chosen.ok()) [[unlikely]]
    return leave_out(parents, who, chosen.status());
  const bool times = policy_.fork_cost_us != 0 || tasks_ != nullptr;
  const Placing placing{work, who, parents, ended, *chosen, times ? durations_.of(work) : nullptr};
  who.had_choice = leads != nullptr ? leads->tail->had_choice : had_choice(placing.choice, parents, who);
  Stream& stream = *placing.choice.stream;
  Status status = keep_parent_reachable(stream);
  if (!status.ok()) [[unlikely]]
    return leave_out(parents, who, status);
  const bool is_timed = placing.durations != nullptr && durations_.wants(*placing.durations);
  if (recorder_ != nullptr || work.behind != nullptr || work.prepare != nullptr || is_timed ||
      any_elsewhere(parents, stream))
    return start_apart(placing, enqueue);
  // First, where nothing is in between: what is written down about it costs the device no time.
  status = enqueue(*stream.queue);
  // From here on `who` has its place, even if it cannot be queued.
  take_place(placing, Durations::expected_ns(placing.durations), {});
  return status;
}

// Where something comes before it on its stream, or is to be known of it.
Status Scheduler::start_apart(const Placing& placing, Enqueue enqueue) {
  const Work& work = placing.work;
  Stream& stream = *placing.choice.stream;
  KernelDurations* const durations = placing.durations;
  Waits waits;
  Status status;
  if (work.behind != nullptr) status = wait_for_tasks(*work.behind, stream);
  if (status.ok()) status = wait_across(stream, placing.parents, waits);
  device::EventPtr timed_from;
  const bool waits_for_others = !waits.empty() || work.behind != nullptr;
  if (status.ok() && recorder_ == nullptr && work.behind == nullptr && durations != nullptr &&
      durations_.wants(*durations))
    status = begin_timing(stream, timed_from);
  if (!status.ok()) return leave_out(placing.parents, placing.who, status);
  const bool at_once = timed_from == nullptr && recorder_ == nullptr && work.prepare == nullptr;
  if (at_once) status = enqueue(*stream.queue);
  // The stream has waited for its parents. What waits for other streams, or tasks, may take as long as these.
  take_place(placing, waits_for_others ? kUnknownDurationNs : Durations::expected_ns(durations), waits);
  PERGOLA_TRY(status);
  if (at_once) return status;
  if (work.prepare != nullptr) PERGOLA_TRY((*work.prepare)(*stream.queue));
  if (recorder_ != nullptr) return enqueue_recorded(work, stream, enqueue, durations);
  if (timed_from != nullptr) return enqueue_timed(work, stream, enqueue, std::move(timed_from));
  return enqueue(*stream.queue);
}

void Scheduler::take_place(const Placing& placing, double expected_ns, WaitsDone waits) {
  const Work& work = placing.work;
  Computation& who = placing.who;
  Stream* const stream = placing.choice.stream;
  append(*stream, who, expected_ns, least_ns(work, expected_ns));
  if (is_large_copy_from_host(work)) last_large_copy_ = {stream, who.position};
  if (who.leads) note_lead(who, work.copy->size_bytes);
  if (!arriving_.empty() || work.kind == WorkKind::kCopyToDevice) note_arrivals(work, who);
  if (work.universal != Mode::kNone) become_universal(work.universal, who);
  write_log(placing, waits);
}

void Scheduler::note_lead(const Computation& who, std::size_t size_bytes) {
  const bool follows = leads_.stream == who.stream && leads_.last + 1 == who.position;
  if (!follows || who.stream->knows_end_of(leads_.last)) leads_ = {who.stream, who.position};
  leads_.last = who.position;
  leads_.size_bytes += size_bytes;
}

// It cannot be queued behind its parents: it is on no stream, which may not wait for them, and its arrays have it
// already.
Status Scheduler::leave_out(const Dependencies& parents, Computation& who, const Status& status) {
  who.is_left_out = true;
  for (const Dependency& dependency : parents) hold_once(*dependency.parent, who.stands_for);
  return status;
}

// The event is a mark of what is before it: a failure is told once, by the event right behind it.
Status Scheduler::begin_timing(Stream& stream, device::EventPtr& start) {
  if (stream.tail == nullptr || has_ended(*stream.tail)) {
    PERGOLA_ASSIGN(start, stream.queue->record());
    return {};
  }
  PERGOLA_ASSIGN(const MarkPtr mark, record_on(stream, MarkFor::kTime));
  stream.tail->mark_used = true;  // so that events are not thought to be of no use
  start = mark->event;
  return {};
}

Status Scheduler::enqueue_timed(const Work& work, Stream& stream, Enqueue enqueue, device::EventPtr start) {
  const auto before = std::chrono::steady_clock::now();
  PERGOLA_TRY(enqueue(*stream.queue));
  const bool was_waited_for = start->poll().has_value();
  std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;  // that question as well
  if (!was_waited_for) took = took.zero();  // it was there before the device came to it: nothing of it is in the time
  const Result<MarkPtr> end = record_on(stream, MarkFor::kTime);
  if (!end.ok()) return {};  // it has been queued, and that its time is not known is nobody's error
  stream.tail->mark_used = true;
  durations_.add(work, std::move(start), (*end)->event, took.count());
  return {};
}

void Scheduler::append(Stream& stream, Computation& who, double expected_ns, double least_ns) {
  stream.expect(expected_ns, least_ns, lowering_ != nullptr);
  who.expected_until_ns = stream.expected_ns;
  who.stream = &stream;
  who.position = ++stream.tail_position;
  become_tail(stream, who);
  ++counters_.computations;
}

void Scheduler::become_tail(Stream& stream, Computation& who) {
  Computation* const before = std::exchange(stream.tail, &who);
  ++who.holds;
  if (before != nullptr) pool_.let_go(*before);
  if (by_use_.back() != &stream) {
    by_use_.erase(std::find(by_use_.begin(), by_use_.end(), &stream));
    by_use_.push_back(&stream);
  }
}

void Scheduler::write_log(const Placing& placing, WaitsDone waits) {
  const Computation& who = placing.who;
  const auto order_after = [&](const Computation& parent) {
    if (parent.stream == who.stream) return Order::kSameStream;
    for (const auto& [id, is_late] : waits)
      if (id == parent.id) return is_late ? Order::kLateEvent : Order::kEvent;
    return Order::kImplied;
  };
  DagVertex& vertex = log_.next();
  vertex.id = who.id;
  vertex.name = who.site == nullptr ? "" : who.site->name.c_str();
  vertex.kind = placing.work.kind;
  vertex.reason = placing.choice.reason;
  vertex.stream = who.stream->index;
  vertex.position = who.position;
  for (const Dependency& parent : placing.parents)
    vertex.add({parent.parent->id, parent.resource, parent.hazard, order_after(*parent.parent), parent.argument});
  vertex.add(placing.ended);
  counters_.dependencies += placing.parents.size();
}

// The parents of what was placed before it was asked for them: all on its stream, where they have not ended.
void Scheduler::add_to_log(const Dependencies& parents, const EndedParents& ended) {
  DagVertex& vertex = log_.last();
  for (const Dependency& parent : parents)
    vertex.add({parent.parent->id, parent.resource, parent.hazard, Order::kSameStream, parent.argument});
  vertex.add(ended);
  counters_.dependencies += parents.size();
}

// ── Streams (paper 003, IV-C) ───────────────────────────────────────────────────────────────────────────────────────

// Copies on different streams would share the link, and all of them be late. Those that one graph waits for, and
// nothing else, need no streams of their own, which would have to be asked whether they are free, and waited for by
// events.
Stream* Scheduler::stream_of_copies(const Work& work, bool follows_lead) const {
  const auto behind = [](Stream* last, std::uint64_t position) {
    const bool is_last = last != nullptr && last->tail_position == position;
    return is_last && !last->reserved ? last : nullptr;
  };
  if (follows_lead) return behind(leads_.stream, leads_.last);
  const auto& [large, position] = last_large_copy_;
  Stream* const stream = is_large_copy_from_host(work) ? behind(large, position) : nullptr;
  return stream != nullptr && !stream->idle() ? stream : nullptr;
}

Result<Scheduler::StreamChoice> Scheduler::stream_for(const Work& work, const Dependencies& parents,
                                                      const Computation* who) {
  const bool is_free = parents.empty() && policy_.retrieve_new_stream == RetrieveNewStream::kReuse;
  if (is_free)
    if (Stream* stream = stream_of_copies(work, who != nullptr && who->follows_lead))
      return StreamChoice{stream, StreamReason::kCopies};
  if (Stream* stream = parent_stream(parents)) return behind(*stream);
  if (work.kind == WorkKind::kKernel)
    if (Stream* stream = stream_soon_free(parents)) return StreamChoice{stream, StreamReason::kSoonFree};
  if (is_free && who != nullptr && who->queue != nullptr)
    for (Stream* stream : by_use_)
      if (stream->queue.get() == who->queue && (stream->idle_well() || (ask_idle(*stream) && stream->idle_well())))
        return StreamChoice{stream, StreamReason::kGraph};
  return free_stream(parents);
}

Scheduler::StreamChoice Scheduler::behind(Stream& parents) const {
  const bool by_policy = policy_.retrieve_parent_stream == RetrieveParentStream::kSameAsParent;
  return {&parents, by_policy ? StreamReason::kSameAsParent : StreamReason::kFirstChild};
}

// Of a graph behind uploads that lead it: whether these had.
bool Scheduler::had_choice(const StreamChoice& choice, const Dependencies& parents, const Computation& who) {
  const Computation* const tail = choice.stream->tail;
  switch (choice.reason) {
    case StreamReason::kNew:
    case StreamReason::kIdle:
    case StreamReason::kGraph: return parents.empty();
    case StreamReason::kCopies: return who.follows_lead && tail != nullptr && tail->had_choice;
    case StreamReason::kFirstChild:
      return std::ranges::any_of(parents, [&](const Dependency& one) {
        return one.parent->stream == choice.stream && one.parent->leads && one.parent->had_choice;
      });
    default: return false;
  }
}

// One where no more than an event's cost is expected between its parent and this, or before this where it has no
// parent.
Stream* Scheduler::stream_soon_free(const Dependencies& parents) const {
  const bool may = policy_.retrieve_new_stream == RetrieveNewStream::kReuse;
  if (policy_.fork_cost_us == 0 || !may || by_use_.empty()) return nullptr;
  double least = policy_.fork_cost_us * 1e3;
  Stream* found = nullptr;
  const auto consider = [&](Stream& stream, double from) {
    if (stream.reserved || stream.expected_ns - from > least) return;
    least = stream.expected_ns - from;
    found = &stream;
  };
  for (const Dependency& dependency : parents)
    consider(*dependency.parent->stream, dependency.parent->expected_until_ns);
  if (parents.empty() && !by_use_.back()->idle()) consider(*by_use_.back(), by_use_.back()->expected_idle_ns);
  return found;
}

Stream* Scheduler::parent_stream(const Dependencies& parents) const {
  if (parents.empty()) return nullptr;
  const bool always = policy_.retrieve_parent_stream == RetrieveParentStream::kSameAsParent;
  for (const Dependency& dependency : parents) {
    Stream* stream = dependency.parent->stream;
    if (stream->reserved) continue;
    if (always || stream->tail == dependency.parent) return stream;  // no other child has followed it
  }
  return nullptr;
}

// The stream used least recently of those whose work comes before the parents'; null where there is none.
Result<Stream*> Scheduler::stream_free_by_then(const Dependencies& parents) {
  Clock before;
  for (const Dependency& dependency : parents) {
    PERGOLA_ASSIGN(const MarkPtr mark, mark_of(*dependency.parent));  // its streams differ, so it is waited for anyway
    merge_clock(before, mark->clock);
  }
  for (Stream* stream : by_use_)
    if (stream->index < before.size() && stream->tail_position <= before[stream->index]) return stream;
  return nullptr;
}

Result<Scheduler::StreamChoice> Scheduler::free_stream(const Dependencies& parents) {
  const bool at_bound = by_use_.size() >= policy_.max_streams;  // a call under way has one more
  const bool reuses = policy_.retrieve_new_stream == RetrieveNewStream::kReuse;
  if (reuses) {
    if (!parents.empty()) {
      PERGOLA_ASSIGN(Stream* const later, stream_free_by_then(parents));
      if (later != nullptr) return StreamChoice{later, StreamReason::kFreeByThen};
    }
    for (Stream* stream : by_use_)  // not one whose work has failed: it skips what comes
      if (stream->idle_well()) return StreamChoice{stream, StreamReason::kIdle};
    const std::size_t asked = at_bound ? std::min(kAskedAtBound, by_use_.size()) : by_use_.size();
    for (std::size_t i = 0; i < asked; ++i)
      if (ask_idle(*by_use_[i]) && by_use_[i]->idle_well()) return StreamChoice{by_use_[i], StreamReason::kIdle};
  }
  if (at_bound) return StreamChoice{by_use_.front(), StreamReason::kBound};
  const Result<Stream*> created = create_stream();
  if (created.ok()) return StreamChoice{*created, reuses ? StreamReason::kNew : StreamReason::kAlwaysNew};
  if (created.code() != Code::kResourceExhausted || by_use_.empty()) return created.status();
  PERGOLA_INFO("work shares {}: {}", plural(streams_.size(), "stream"), created.message());
  return StreamChoice{by_use_.front(), StreamReason::kExhausted};
}

Result<Stream*> Scheduler::create_stream() {
  if (streams_.size() >> kTicketStreamBits != 0)
    return PERGOLA_ERROR(kResourceExhausted, "There are {} streams, and no more are possible.", streams_.size());
  std::unique_ptr<device::Queue> queue = std::move(spare_);
  if (queue == nullptr) {
    PERGOLA_ASSIGN(queue, device_->create_queue());
  }
  auto stream = std::make_unique<Stream>();
  stream->queue = std::move(queue);
  stream->index = static_cast<std::uint32_t>(streams_.size());
  by_use_.push_back(stream.get());
  streams_.push_back(std::move(stream));
  ++counters_.streams;
  return streams_.back().get();
}

bool Scheduler::ask_idle(Stream& stream) {
  const std::optional<Status> outcome = stream.queue->poll();
  if (!outcome) return false;
  if (outcome->ok()) stream.well_position = stream.tail_position;
  poll(stream);  // first: older failures have older marks
  note_failure(*outcome);
  stream.ended_position = stream.tail_position;
  return true;
}

// The last computation of `stream` is about to be followed: an event behind it now, or only with what follows.
Status Scheduler::keep_parent_reachable(Stream& stream) {
  Computation* const last = stream.tail;
  if (last == nullptr || last->mark != nullptr || last->dependency_set == 0 || has_ended(*last)) return {};
  if (last->site != nullptr && !last->site->prediction.expects_use(last->prediction_slot)) return {};
  return record_on(stream).status();
}

Status Scheduler::wait_across(Stream& stream, const Dependencies& parents, Waits& waits) {
  boost::container::small_vector<Computation*, 8> others;
  for (const Dependency& dependency : parents)
    if (dependency.parent->stream != &stream) others.push_back(dependency.parent);
  // The last submitted first: what it waited for needs no wait of its own.
  std::sort(others.begin(), others.end(), [](const Computation* a, const Computation* b) { return a->id > b->id; });
  for (Computation* parent : others) {
    const std::uint32_t index = parent->stream->index;
    if (index < stream.clock.size() && stream.clock[index] >= parent->position) continue;
    PERGOLA_ASSIGN(const MarkPtr mark, mark_of(*parent));
    PERGOLA_TRY(stream.queue->wait(mark->event));
    ++counters_.waits;
    waits.emplace_back(parent->id, mark->position != parent->position);
    merge_clock(stream.clock, mark->clock);
  }
  return {};
}

// ── The host ────────────────────────────────────────────────────────────────────────────────────────────────────────

// Returns with the lock held again. The first failure; a skip only where there is nothing better; kTimeout where some
// of the work goes on and none has failed.
Status Scheduler::wait_unlocked(StateLock& lock, std::span<const MarkPtr> marks, Deadline deadline) {
  std::uint64_t number = 0;  // of the graph that it waits for, where that is asked
  if (lowering_ != nullptr && !marks.empty())
    number = lowering_->note_wait_for(marks.size() == 1 ? marks[0].get() : nullptr);
  tell_ends();
  lock.unlock();
  Status first, late;
  boost::container::small_vector<Status, 8> outcomes;
  outcomes.reserve(marks.size());
  for (const MarkPtr& mark : marks) {
    outcomes.push_back(mark->event->wait(left_until(deadline)));
  }
  lock.lock();
  if (number != 0 && outcomes[0].ok()) lowering_->note_waited(number);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (outcomes[i].code() == Code::kTimeout) {
      late = outcomes[i];
      continue;
    }
    learn_end(*marks[i], outcomes[i]);
    // No question beyond that: it would be asked of the driver while the host's work waits.
    if (outcomes[i].ok())
      marks[i]->stream->drop_known_marks();
    else
      poll(*marks[i]->stream);
    if (first.ok() || (first.code() == Code::kSkipped && !outcomes[i].ok())) first = outcomes[i];
  }
  if (!durations_.is_empty()) durations_.settle();
  if (first.ok()) return late;
  if (first.code() != Code::kSkipped) {
    failure_told_ = true;
    const bool is_lost = first.code() == Code::kDeviceLost && failure_.code() == Code::kDeviceLost;
    return is_lost ? failure_ : first;  // which names kernels
  }
  poll_all();  // its cause may lie on a stream that nobody has asked
  return tell_failure();
}

Status Scheduler::tell_failure() {
  failure_told_ = failure_told_ || !failure_.ok();
  return failure_.ok() ? skip_ : failure_;
}

Result<device::EventPtr> Scheduler::record(Status* failed_task) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(await_all_tasks(lock));
  if (failed_task != nullptr && tasks_ != nullptr) *failed_task = tasks_->failed;
  return record_streams_locked();
}

Result<device::EventPtr> Scheduler::record_streams() {
  const std::lock_guard lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  return record_streams_locked();
}

Result<device::EventPtr> Scheduler::record_streams_locked() {
  launch_held(true);
  poll_all();
  boost::container::small_vector<Stream*, 8> busy;
  for (const auto& stream : streams_)
    if (!stream->idle()) busy.push_back(stream.get());
  // "So far" counts earlier records as well: whoever sees this one ended has seen those end.
  if (last_record_ != nullptr && last_record_->poll()) last_record_ = nullptr;
  if (busy.size() <= 1) {
    Stream& stream = busy.empty() ? *streams_.front() : *busy.front();
    if (last_record_ == nullptr || last_record_stream_ == &stream) {
      PERGOLA_ASSIGN(const MarkPtr mark, record_on(stream, MarkFor::kTime));
      last_record_stream_ = &stream;
      return last_record_ = mark->event;
    }
  }
  if (join_ == nullptr) {
    PERGOLA_ASSIGN(auto queue, device_->create_queue());
    join_ = std::make_unique<Stream>();
    join_->queue = std::move(queue);
  }
  for (Stream* stream : busy) {
    PERGOLA_ASSIGN(const MarkPtr mark, mark_of(*stream->tail));
    PERGOLA_TRY(join_->queue->wait(mark->event));
  }
  if (last_record_ != nullptr && last_record_stream_ != join_.get()) PERGOLA_TRY(join_->queue->wait(last_record_));
  PERGOLA_ASSIGN(last_record_, join_->queue->record());
  last_record_stream_ = join_.get();
  return last_record_;
}

Status Scheduler::synchronize(Deadline deadline) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(await_all_tasks(lock, deadline));
  launch_held();
  boost::container::small_vector<MarkPtr, 8> marks;
  boost::container::small_vector<std::uint64_t, 32> positions;  // of all streams, as they are now
  Status status;
  for (const auto& stream : streams_) {
    positions.push_back(stream->tail_position);
    if (stream->idle() || is_behind_another(*stream)) continue;
    Result<MarkPtr> mark = mark_covering(*stream, stream->tail_position, MarkFor::kHost);
    if (mark.ok())
      marks.push_back(std::move(*mark));
    else if (status.ok())
      status = mark.status();
  }
  std::optional<HostSlice> slice;
  if (recorder_ != nullptr) slice = recorder_->open_host(HostKind::kSynchronize, 0, 0);
  const bool was_told = failure_told_;
  const Status waited = wait_unlocked(lock, marks, deadline);
  close_host_wait(std::move(slice));
  const auto goes_on = [](const MarkPtr& mark) { return !mark->stream->knows_end_of(mark->position); };
  if (deadline && std::any_of(marks.begin(), marks.end(), goes_on)) {
    failure_told_ = was_told;
    return PERGOLA_ERROR(kTimeout, "Some of the session's work has not ended within the time to wait; it goes on.");
  }
  if (status.ok() && waited.code() != Code::kTimeout) status = waited;  // all has ended since
  poll_all();
  if (!status.ok() || !failure_.ok() || !skip_.ok()) {
    const Status cleared = synchronize_queues(lock);
    if (status.ok() || (status.code() == Code::kSkipped && !cleared.ok())) status = cleared;  // what it was skipped for
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    Stream& stream = *streams_[i];
    stream.ended_position = std::max(stream.ended_position, positions[i]);
    stream.well_position = std::max(stream.well_position, positions[i]);
  }
  {
    EndedMemory ended(memory_going_);  // goes without the lock, and before what follows may wait
    reap(ended, true);
    if (!ended.is_empty()) lock.unlock();
  }
  if (!lock.owns_lock()) lock.lock();
  if (std::exchange(memory_let_go_, false)) {  // queues keep what their work used until they hear of its end
    const Status let_go = synchronize_queues(lock);
    if (status.ok()) status = let_go;
  }
  const Status failure = tell_all_failures();
  lock.unlock();
  return failure.ok() ? status : failure;
}

// Whether a busy stream waits for all that there is on this one, so that its end tells of both.
bool Scheduler::is_behind_another(const Stream& stream) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& other) {
    return other.get() != &stream && !other->idle() && stream.index < other->clock.size() &&
           other->clock[stream.index] >= stream.tail_position;
  });
}

std::vector<device::Queue*> Scheduler::all_queues() const {
  std::vector<device::Queue*> queues;
  for (const auto& stream : streams_) queues.push_back(stream->queue.get());
  if (join_ != nullptr) queues.push_back(join_->queue.get());
  return queues;
}

// After a failure queues skip what comes, until they have been synchronized. Gives the lock up meanwhile.
Status Scheduler::synchronize_queues(StateLock& lock) {
  const std::vector<device::Queue*> queues = all_queues();
  lock.unlock();
  Status first;
  for (device::Queue* queue : queues) {
    Status status = queue->synchronize();
    if (first.ok() || (first.code() == Code::kSkipped && !status.ok())) first = std::move(status);
  }
  lock.lock();
  poll_all();
  return first;
}

Status Scheduler::failure() {
  const std::lock_guard lock(mutex_);
  launch_held();
  poll_all();
  if (tasks_ != nullptr && tasks_->host != nullptr) forget_ended_tasks();
  return tell_failure();
}

// ── What is told ────────────────────────────────────────────────────────────────────────────────────────────────────

Counters Scheduler::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::size_t Scheduler::frontier_size() {
  const std::lock_guard lock(mutex_);
  return pool_.in_use();
}

std::optional<DagPicture> Scheduler::try_picture(std::chrono::milliseconds patience) {
  if (!mutex_.try_lock_for(patience)) return std::nullopt;
  const StateLock lock(mutex_, std::adopt_lock);
  return log_.picture();
}

DagPicture Scheduler::picture() {
  const std::lock_guard lock(mutex_);
  launch_held();
  return log_.picture();
}

}  // namespace pergola::scheduler
