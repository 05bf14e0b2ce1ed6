// Launches that recur, as graphs (graph_lowering.h): the scheduler's side.
#include <algorithm>

#include "src/scheduler/scheduler.h"
#include "src/scheduler/take_moving.h"

namespace pergola::scheduler {
namespace {

constexpr std::size_t kMostArriving = 32;  // copies from the host that are remembered

}  // namespace

bool Scheduler::may_be_of_a_graph(const Work& work) {
  if (lowering_ == nullptr) return false;
  if (work.call == nullptr && work.kind == WorkKind::kKernel) ++launches_apart_;
  const bool may_recur = work.call != nullptr || (work.copy != nullptr && lowering_->takes_copies());
  return may_recur && !(recorder_ != nullptr && recorder_->wants_each_kernel());
}

Status Scheduler::hold_or_run(const Work& work, const GraphLowering::Decision& decision, Ticket* ticket) {
  const std::uint64_t number = take_held_ticket(ticket);
  if (decision.run != nullptr) return launch_graph(decision.run, decision.ended, work.host_waits);
  if (recorder_ != nullptr) {
    WorkDetail detail = work.detail == nullptr ? WorkDetail() : (*work.detail)();
    detail.thread = recorder_->this_thread();
    held_details_.emplace_back(number, std::move(detail));
  }
  return {};
}

// All of its launches have come, so what they use lives. Their callers but the last one's have been told that they are
// queued: a failure is told to those as well, later, as that of running work.
Status Scheduler::launch_graph(const std::shared_ptr<Chunk>& run, const std::shared_ptr<Chunk>& ended,
                               bool host_waits) {
  Chunk& chunk = *run;
  held_details_.clear();
  const bool is_delayed = delays_copies(chunk);
  if (chunk.site == nullptr) chunk.site = site_locked(chunk.name);
  Computation& who = *pool_.take();
  who.queue = chunk.ways.choose();
  const auto tell = [&] {
    WorkDetail detail;
    detail.graph = {chunk.region, chunk.ways.launched().name, chunk.kernels};
    return detail;
  };
  const FunctionRef<WorkDetail()> detail = tell;
  const TakeMoving take(policy_, chunk.accesses);
  const FunctionRef<Status(device::Queue&)> prepare = take;
  Status status = place(
      {.kind = WorkKind::kGraph,
       .site = chunk.site,
       .accesses = chunk.accesses,
       .universal = chunk.universal,
       .detail = &detail,
       .prepare = take.is_needed() ? &prepare : nullptr,
       .least_ns = chunk.takes_at_least_ns()},
      [&](device::Queue& queue) {
        if (const ParameterBlock* const block = chunk.block.get(); block != nullptr)
          PERGOLA_TRY(queue.copy_to_device(block->memory, 0, block->staged));
        return chunk.ways.launch(queue, who.had_choice);
      },
      who);
  if (chunk.ways.asks()) lowering_->ways_ask(run);
  chunk.report_ways();
  note_failure(status);
  if (status.ok()) lowering_->note_launched(run, *who.stream);
  if (status.ok() && host_waits && who.mark == nullptr) who.mark_used = record_on(*who.stream, MarkFor::kHost).ok();
  if (!chunk.free_copies.empty()) lowering_->copies_went(run, is_delayed);
  resolve_held_tickets(chunk.end - chunk.begin - chunk.ahead.size(), who);
  if (ended != nullptr && who.stream != nullptr) mark_end_of(ended, *who.stream);
  pool_.let_go(who);
  return status;
}

// What work that uses these would come after; to be released.
Dependencies Scheduler::not_ended_parents(std::span<const Access> accesses, Mode universal) {
  Dependencies parents;
  bool any_write = false;
  for (const Access& access : accesses) {
    const Mode mode = mode_among_launches(access.mode);
    any_write = any_write || writes(mode);
    access.resource->collect(access.range, mode, parents);
  }
  universal_dependencies(universal, any_write, parents);
  for (const Dependency& dependency : parents) poll(*dependency.parent->stream);
  return parents;
}

// Whether the graph waits for something that one of its copies, by itself, would not. Behind the uploads that have gone
// before the graph it would come on the link by itself, too.
bool Scheduler::delays_copies(const Chunk& chunk) {
  if (chunk.free_copies.empty() || comes_after_nothing() || behind_leads_alone() != nullptr) return false;
  Dependencies all = not_ended_parents(chunk.accesses, chunk.universal);
  const auto may_delay = [&](const Dependency& one) { return !has_ended(*one.parent) && !one.parent->leads; };
  bool delays = false;
  if (std::ranges::any_of(all, may_delay)) {  // where the host has waited for the turn before there is nothing
    for (const std::vector<Access>& copy : chunk.free_copies) {
      Dependencies its = not_ended_parents(copy, Mode::kNone);
      for (const Dependency& one : all) {
        const auto same = [&](const Dependency& other) { return other.parent == one.parent; };
        delays = delays || (may_delay(one) && std::none_of(its.begin(), its.end(), same));
      }
      release(its, pool_);
    }
  }
  release(all, pool_);
  return delays;
}

// One by one. Their callers have been told that they are queued: failures are told later, as those of running work.
void Scheduler::launch_held(std::span<const Launch> launches) {
  for (const Launch& launch : launches) {
    if (launch.went_ahead) continue;
    Computation& who = *pool_.take();
    Work work = launch.work();
    std::optional<KernelCall> call;
    if (!launch.copy) call.emplace(launch.module, *launch.kernel, launch.config, launch.latest_parameters());
    if (call) work.call = &*call;
    const TakeMoving take(policy_, work.accesses);
    const FunctionRef<Status(device::Queue&)> prepare = take;
    if (take.is_needed()) work.prepare = &prepare;
    const auto tell = [&] { return std::exchange(held_details_.front().second, WorkDetail()); };
    const FunctionRef<WorkDetail()> detail = tell;
    const bool is_known = !held_details_.empty() && held_details_.front().first == held_resolved_;
    if (is_known) work.detail = &detail;
    note_failure(place(work, [&](device::Queue& queue) { return launch.enqueue(queue); }, who));
    if (is_known) held_details_.pop_front();
    resolve_held_tickets(1, who);
    pool_.let_go(who);
  }
}

// Work that is part of no graph: copies and fills may go ahead of what is held, all else comes behind it.
void Scheduler::launch_held_before(const Work& work) {
  const bool over_the_link = work.kind == WorkKind::kCopyToDevice || work.kind == WorkKind::kCopyToHost;
  const bool may_pass = over_the_link || work.kind == WorkKind::kCopy || work.kind == WorkKind::kFill;
  if (may_pass && work.universal == Mode::kNone)
    launch_held_before(work.accesses, over_the_link);
  else
    launch_held();
}

void Scheduler::mark_end_of(const std::shared_ptr<Chunk>& chunk, Stream& stream) {
  Result<MarkPtr> mark = record_on(stream, MarkFor::kTime);
  if (mark.ok()) lowering_->ended(chunk, std::move(*mark));
}

// Launches that need different ones of these are better launched one by one, each when its own is there.
void Scheduler::note_arrivals(const Work& work, const Computation& who) {
  if (lowering_ == nullptr) return;
  const auto forget = [&](std::size_t i) {
    arrivals_.erase(arrivals_.begin() + static_cast<std::ptrdiff_t>(i));
    arriving_.erase(arriving_.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (const Access& access : work.accesses) {  // what comes after `work` comes after the copies that it waits for
    const auto used = std::find(arriving_.begin(), arriving_.end(), access.resource->id());
    if (used != arriving_.end()) forget(static_cast<std::size_t>(used - arriving_.begin()));
  }
  if (work.kind != WorkKind::kCopyToDevice) return;
  for (const Access& access : work.accesses) {
    if (!writes(access.mode)) continue;
    if (arrivals_.size() == kMostArriving) forget(0);
    arrivals_.push_back({who.stream, who.position});
    arriving_.push_back(access.resource->id());
  }
}

std::span<const std::uint64_t> Scheduler::arriving() {
  if (arrivals_.empty()) return {};
  std::size_t left = 0;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    if (arrivals_[i].stream->knows_end_of(arrivals_[i].position)) continue;
    arrivals_[left] = arrivals_[i];
    arriving_[left++] = arriving_[i];
  }
  arrivals_.resize(left);
  arriving_.resize(left);
  return arriving_;
}

void Scheduler::resolve_held_tickets(std::size_t count, const Computation& who) {
  const Ticket ticket = who.stream == nullptr ? 0 : ticket_of(who);
  for (std::size_t i = 0; i < count; ++i) held_tickets_[held_resolved_++ % kHeldTickets] = ticket;
}

GraphCounters Scheduler::graph_counters() {
  const std::lock_guard lock(mutex_);
  return lowering_ == nullptr ? GraphCounters() : lowering_->counters();
}

GraphsReport Scheduler::graphs() {
  const std::lock_guard lock(mutex_);
  return graphs_locked();
}

GraphsReport Scheduler::graphs_locked() const {
  GraphsReport report;
  if (lowering_ != nullptr) report = lowering_->report();
  report.apart = launches_apart_;
  report.tasks = tasks_locked();
  if (policy_.graphs == Graphs::kOff)
    report.off = "the policy is graphs=off";
  else if (policy_.execution == Execution::kSync)
    report.off = "the policy is execution=sync, by which each launch is waited for";
  else if (policy_.memory == Memory::kManaged && device_->info().managed == device::ManagedAccess::kRestricted)
    report.off =
        "with memory=managed this device shows an array to one stream at a time, to which each launch attaches it";
  else if (recorder_ != nullptr && recorder_->wants_each_kernel() && report.regions.empty())
    report.off = "a history is recorded, which has the time of each launch by itself";
  return report;
}

std::chrono::nanoseconds Scheduler::graph_patience() {
  const std::lock_guard lock(mutex_);
  return lowering_ == nullptr ? std::chrono::nanoseconds(0) : lowering_->patience();
}
void Scheduler::set_graph_patience(std::chrono::nanoseconds patience) {
  const std::lock_guard lock(mutex_);
  if (lowering_ != nullptr) lowering_->set_patience(patience);
  queue_trusted_ = std::max(queue_trusted_, patience);
}

void Scheduler::set_queue_trust(std::chrono::nanoseconds trust) {
  const std::lock_guard lock(mutex_);
  queue_trusted_ = trust;
}

void Scheduler::set_turn_clock(std::function<double()> clock_ns) {
  const std::lock_guard lock(mutex_);
  if (lowering_ != nullptr) lowering_->set_turn_clock(std::move(clock_ns));
}

bool Scheduler::holds_launches() {
  const std::lock_guard lock(mutex_);
  return lowering_ != nullptr && lowering_->holds_any();
}

void Scheduler::settle_graphs() {
  std::unique_lock lock(mutex_);
  if (lowering_ != nullptr) lowering_->settle(lock);
}

std::chrono::nanoseconds Scheduler::expected_queue() {
  double most = 0;
  for (const auto& stream : streams_) {
    poll(*stream);
    most = std::max(most, stream->at_least_left_ns(std::chrono::steady_clock::now(), queue_trusted_));
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(most));
}

}  // namespace pergola::scheduler
