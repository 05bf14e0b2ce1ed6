// The execution context of paper 003 (IV-B): submits work to streams so that the result is that of the order in which
// it was submitted, and no more is ordered than that needs.
//
//   submit(work, accesses) ─▶ dependencies (resource.h) ─▶ stream (policy.h) ─▶ waits where streams differ ─▶ enqueue
//   host access            ─▶ dependencies ─▶ the calling thread waits, for just what made or uses the data
//
// Streams: work without parents takes the stream that has been free longest, or a new one; with parents, the stream of
// the first that no other child has followed (`disjoint`), else one that has been followed by so little that it is free
// sooner than an event comes across, else one whose work all comes before the parents' and which is free therefore when
// this can start, else as if without. An event is recorded where a
// child on another stream, or the host, waits for a parent; at the latest before the parent's stream goes on, if the
// parent's dependency set is not empty then and its kernel's events are usually used (EventPrediction).
//
// Accesses that may be to anything (`universal`) come after everything before them and before everything after.
//
// Failures: work that depends on failed work is skipped by the device; so is what shares a stream with it, until
// synchronize() has reported it.
//
// Launches that recur may be held back for a moment and launched as a graph (graph_lowering.h): `launch()` below stands
// for all that was held. Whatever else is asked of the scheduler has them launched first, but for copies, fills,
// accesses of the host where none of them uses the same bytes: these go ahead (graph_passing.cc). Memory that goes does
// so behind them.
//
// Memory: a resource that goes while work uses it leaves its buffer behind until that has ended (retire()).
// Threads: everything is thread-safe. Two threads whose accesses conflict are ordered one way or the other. One lock
// guards all state, also over the device's enqueueing calls, so that each stream has the order that the dependencies
// presume; nobody waits for work under it.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "src/base/fork.h"
#include "src/base/function_ref.h"
#include "src/base/nvtx.h"
#include "src/device/device.h"
#include "src/scheduler/dag_log.h"
#include "src/scheduler/durations.h"
#include "src/scheduler/graph_lowering.h"
#include "src/scheduler/policy.h"
#include "src/scheduler/recorder.h"
#include "src/scheduler/repetition.h"
#include "src/scheduler/resource.h"
#include "src/scheduler/state_mutex.h"
#include "src/scheduler/task_launches.h"
#include "src/scheduler/turn_repetition.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

// How often which decision was made, since the scheduler was made.
struct Counters {
  std::uint64_t computations = 0, dependencies = 0, streams = 0, events = 0, waits = 0;
  std::uint64_t late_events = 0;  // recorded behind later work of the stream: more was waited for than needed
  std::uint64_t host_waits = 0;
  std::uint64_t repeated = 0;  // of the computations, those that were written down in the place of their like
};

// Where a piece of work is: position on its stream << 10 | index of the stream; or, with the highest bit, how many
// launches were held back before this one; or, with the next, how many ran as tasks.
using Ticket = std::uint64_t;

class Scheduler {
 public:
  // kResourceExhausted and the like where the device gives no queue.
  // `lowerer`: what graphs may be besides plain ones; may be null.
  static Result<std::unique_ptr<Scheduler>> create(device::DevicePtr device, const Policy& policy,
                                                   std::shared_ptr<GraphLowerer> lowerer = nullptr);
  ~Scheduler();  // waits for all work
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  std::unique_ptr<Resource> create_resource(std::uint64_t size_bytes, ResourceKind kind = ResourceKind::kArray);
  // The host's side of an array: once for each.
  static std::unique_ptr<Resource> create_host_side(const Resource& array);
  // Of another library's memory on the device. It comes after work on what was there before and has been retired: a
  // program may take the same memory in again and again, and drop it each time while it is in use.
  std::unique_ptr<Resource> create_foreign_resource(std::uint64_t size_bytes, std::uint64_t address);
  // It is an array's, whose address has been said: told of where the device is lost.
  void know_array(const Resource& resource);
  // "The contents of 2 arrays are lost: array 1 (4096 bytes at 0x7f0000000000), array 3 (...)."; "" where there are none.
  // Arrays by their numbers in pictures and traces. All of them: where that is too long for a message, by a warning.
  std::string lost_arrays() const;
  // `resource` goes; `memory` is dropped when all work that uses it has ended, which may be now.
  void retire(std::unique_ptr<Resource> resource, std::shared_ptr<const void> memory);
  // For who needs memory: waits for the work that uses what has been retired, until some of it has ended; whether
  // some memory has been dropped by now. How that work ends is told to others. False where nothing is left but what
  // tasks use, by `deadline`, inside a call of another library and, with `unless_held`, while launches are held, which
  // would go by themselves meanwhile; else they go first.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  bool await_retired(bool unless_held, Deadline deadline);
  // The number of what has been retired last, or will be once what is held has been launched, and how many of the first
  // so many are left that no task uses: who waits for memory as long as anything ends might wait for ever beside a thread
  // whose arrays come and go.
  std::uint64_t last_retired() const;
  std::size_t left_of_retired(std::uint64_t last) const;
  // Without waiting, has queues let go of what they keep for work that has ended: false where some goes on, or has
  // failed and nobody has been told.
  bool release_kept_by_queues();

  using Enqueue = FunctionRef<Status(device::Queue&)>;
  // Queues one piece of work: `enqueue` is called once, under the lock, with the queue of its stream. Its status is
  // returned. With `event`, an event of just this work is made; `ticket` may be exchanged for one later.
  Status submit(const Work& work, Enqueue enqueue, device::EventPtr* event = nullptr, Ticket* ticket = nullptr);
  // submit() of the kernel launch that `text` stood for when it was last submitted with it, and before it of the
  // uploads of its arrays, where these are what is expected next, and no other array has to be uploaded. Else none, and
  // nothing has happened but perhaps some of the uploads.
  std::optional<Status> submit_again(const CallText& text, Ticket* ticket);
  // Launches that are held back for a graph, and conflict with it, go to the device now, with what their arrays need.
  void let_go_before(const Access& access);
  // An event that ends with the work of `ticket`, or, where its stream has gone on, with later work of that stream.
  Result<device::EventPtr> event_of(Ticket ticket, Status* failed_task = nullptr);

  // While it lives the host may access what it was given for; what conflicts waits for its end, which is soon. It is a
  // vertex of the DAG only for others: an access with nothing to wait for is not recorded (paper 003, IV-A).
  class HostAccess {
   public:
    HostAccess() = default;
    HostAccess(HostAccess&& other) noexcept : scheduler_(std::exchange(other.scheduler_, nullptr)), id_(other.id_) {}
    HostAccess& operator=(HostAccess&&) = delete;
    ~HostAccess() {
      if (scheduler_ != nullptr) scheduler_->end_host_access(id_);
    }
    explicit operator bool() const { return scheduler_ != nullptr; }

   private:
    friend class Scheduler;
    HostAccess(Scheduler* scheduler, std::uint64_t id) : scheduler_(scheduler), id_(id) {}
    Scheduler* scheduler_ = nullptr;
    std::uint64_t id_ = 0;
  };
  // Waits for what made (to write: and what uses) these bytes, and for work of other threads that waits to use them, as
  // the host is at them; for no more. Tells how that ended. kTimeout where it has not by `deadline`, and goes on.
  // An empty one where it has waited `most_waits` times, and each time others' work had been submitted meanwhile.
  Result<HostAccess> begin_host_access(const Access& access, Deadline deadline = std::nullopt,
                                       std::size_t most_waits = std::numeric_limits<std::size_t>::max());
  // The same for what has been submitted by now; keeps nobody away, and is not held up by what comes meanwhile.
  Status await_access(const Access& access, Deadline deadline = std::nullopt);
  // Until what submit() would wait for with such accesses, which is what other threads are at, is out of the way.
  Status await_turn_of(std::span<const Access> accesses, Deadline deadline = std::nullopt);
  // As await_access() for who only waits, to read by another call perhaps: a recording has no access for it.
  Status await_contents(const Access& access, Deadline deadline = std::nullopt);
  // The same, and nobody is told what has failed: for who does not look at the contents.
  Status await_uses(const Access& access, Deadline deadline = std::nullopt);
  // As begin_host_access() where there is nothing to wait for; else none. The device is asked what has ended where
  // `ask`; a caller that would wait next saves the question.
  HostAccess try_host_access(const Access& access, bool ask = true);
  // Whether there is nothing to wait for, for an access that is over at once, and so keeps nobody away; the device is
  // not asked.
  bool try_short_host_access(const Access& access);
  // A call of another library as one piece of work. `function` is called once, without the lock, with the handle of the
  // stream that the work goes on (device::Queue::native_handle(); it is that thread's device then), and queues it
  // there. Where the device has no handles, or with `synchronous`, the accesses are waited for as the host's, and it is
  // called with null and has done its work when it returns, the default streams' included. Its status is returned.
  // While it runs, work that conflicts waits, and the calling thread can submit none: kFailedPrecondition. It may not
  // throw.
  using Function = FunctionRef<Status(void* stream)>;
  Status call(const Work& work, bool synchronous, Function function);
  // An event at the end of all work so far; launches that run as tasks are waited for. No event knows what those failed
  // with: `failed_task` gets it, of the first since synchronize() has reported all.
  Result<device::EventPtr> record(Status* failed_task = nullptr);
  // Of all work on streams.
  Result<device::EventPtr> record_streams();
  // Waits for all work so far, reports the first failure since the last call and clears it. With a deadline, kTimeout
  // where some of the work goes on then: nothing is reported, or cleared.
  Status synchronize(Deadline deadline = std::nullopt);
  // The first failure that is known and not reported by synchronize() yet. Asks the events that have ended.
  Status failure();

  // ── Launches that run as tasks (task_launches.h, scheduler_tasks.cc) ──
  // The pool, once there is one, for a policy that has tasks.
  void set_task_host(std::shared_ptr<TaskHost> host);
  // Instead of submit(), which is to follow where the answer is no: whether the launch has been spawned. For a policy
  // that has tasks. May wait for the resident kernel's start.
  Result<bool> offer_task(const Work& work, bool wants_event, TaskForms& forms, Ticket* ticket);
  bool takes_tasks() const { return tasks_ != nullptr; }
  // What of the work on streams so far a task that uses `accesses` has to come after, and has not ended. Waits, for
  // accesses of the host under way and for launches that run as tasks. The first failure that synchronize() has not
  // reported is an error: nothing may come after it.
  Result<Predecessors> predecessors(std::span<const Access> accesses, Mode universal);
  // Whether launches that run as tasks, and have not ended, have to end before `work`.
  bool comes_after_tasks(const Work& work);
  void set_task_bounds(const TaskBounds& bounds);  // for tests and measurements
  // Waits for all of them, unless the pool has been given up, where memory that they use is left to them for good; and
  // lets go of it.
  void end_tasks(bool waits = true);

  Counters counters();
  GraphCounters graph_counters();
  // What became a graph and why, or why not, since the scheduler was made.
  GraphsReport graphs();
  // For tests and measurements: waits until no graph is being made or destroyed; whether launches are held back; for
  // how long they may be, and for at least how long what is expected of the queue is believed.
  void settle_graphs();
  bool holds_launches();
  void set_graph_patience(std::chrono::nanoseconds patience);
  std::chrono::nanoseconds graph_patience();
  // For tests: for how long what is expected of the queue is believed, which goes by the steady clock.
  void set_queue_trust(std::chrono::nanoseconds trust);
  // For tests: the clock by which turns are timed.
  void set_turn_clock(std::function<double()> clock_ns);
  // Computations that are kept: those that something may still depend on.
  std::size_t frontier_size();
  // The computations submitted last, oldest first.
  DagPicture picture();
  // The same without what is held back, and none where another thread is in the scheduler for as long as that: it may
  // wait there for the device.
  std::optional<DagPicture> try_picture(std::chrono::milliseconds patience);
  // What the work of this name shares, for Work::site; always the same one for a name.
  WorkSite* site(std::string_view name);
  const Policy& policy() const { return policy_; }

  // ── Recordings (recorder.h, scheduler_recording.cc) ──
  // A trace of what is submitted from now on, written to `path` by end_trace() or when the scheduler goes
  // (trace_file.h); one that is on is ended first. A file that cannot be written is told at once, and one that
  // another trace of the process is on its way to (open_trace.h). `options` count for the first recording.
  Status start_trace(const std::string& path, RecorderOptions options = {});
  // Waits for the work so far and writes. Nothing where no trace is on.
  Status end_trace();
  // The same for kernels' times, which are added to what the file has (history.h); a file that is no history is
  // refused.
  Status start_history(const std::string& path, RecorderOptions options = {});
  Status end_history();
  // What the file's history has is known of kernels from now on, until they have been timed here; nothing is recorded.
  // kNotFound where there is no such file.
  Status use_history(const std::string& path);
  // Ends both, but waits no longer than until then for what they record: kTimeout where some of that goes on. It is in
  // neither, and the trace says how many such there are.
  Status end_recordings(Deadline deadline);
  // The same and end_tuning(), at the end of a process in which the scheduler lives, and other threads may be in it:
  // kUnavailable where one is there for as long as that, which recorded work is given, too. What runs as narrow tasks is
  // not asked for.
  Status end_recordings_at_exit(std::chrono::milliseconds patience);
  // What is found of the ways of graphs from now on is added to the file by end_tuning() or when the scheduler goes,
  // and what the file has of them comes first (tuning.h); one that is on is ended first. A file that is no tuning, or
  // cannot be written, is refused.
  Status start_tuning(const std::string& path);
  // Waits for nothing.
  Status end_tuning();
  // A wait of this thread for narrow tasks, which the scheduler knows nothing of: null where no trace is on, which is
  // told without a lock. With how many tasks there had been by its end.
  std::optional<HostSlice> begin_task_wait();
  void end_task_wait(HostSlice slice, std::uint64_t tasks);
  // Whether a trace is on; told without a lock. What ran as narrow tasks is to be added before it ends.
  bool traces() const { return traces_.load(std::memory_order_relaxed); }
  void add_tasks(const device::TaskSlices& slices);
  // What a kernel took before; empty where no history is on, or it has never run.
  std::optional<Estimate> estimate(std::string_view kernel, SizeClass size);

 private:
  struct Retired {
    std::uint64_t number;
    std::shared_ptr<const void> memory;  // a buffer, a texture
    std::vector<std::pair<Stream*, std::uint64_t>> users;
    std::vector<TaskId> tasks;
    // Of foreign memory, which may come again: where it is, and who used it, each held.
    std::uint64_t begin = 0, end = 0;
    std::vector<Computation*> work{};
  };

  static constexpr unsigned kTicketStreamBits = 10;  // parse_policy() allows no more streams
  static constexpr Ticket kHeldTicket = Ticket{1} << 63, kTaskTicket = Ticket{1} << 62;
  static constexpr std::size_t kHeldTickets = 1024;
  // Computations: launches that are timed are asked whether they have ended.
  static constexpr std::uint64_t kSettlesEach = 8;
  static Ticket ticket_of(const Computation& computation) {
    return computation.position << kTicketStreamBits | computation.stream->index;
  }

  Scheduler(device::DevicePtr device, const Policy& policy, std::shared_ptr<GraphLowerer> lowerer);
  Status carry_out(StateLock& lock, const Work& work, Enqueue enqueue, const GraphLowering::Decision& lowered,
                   device::EventPtr* event, Ticket* ticket);
  // Gives the work its place and queues it; the caller lets `who` go.
  Status place(const Work& work, Enqueue enqueue, Computation& who);
  static std::uint8_t prediction_slot(std::span<const Access> accesses);
  bool all_ended_well() const;
  Stream* behind_leads_alone() const;
  bool comes_after_nothing() const;
  void add_parents(const Work& work, Computation& who, Dependencies& parents, EndedParents& ended);
  bool may_be_of_a_graph(const Work& work);
  std::optional<Status> upload_before(StateLock& lock, const CallText& text, GraphLowering::Expected& next);
  std::optional<Status> upload_again(StateLock& lock, const Launch& upload);
  Status run_again(StateLock& lock, const Launch& launch, Ticket* ticket);
  std::optional<Status> repeat_any(const Launch& launch, const TurnRepetition::At& at,
                                   const GraphLowering::Decision* lowered, Ticket* ticket);
  Status place_again(StateLock& lock, const Launch& launch, const TurnRepetition::At& at,
                     const GraphLowering::Decision& lowered, Ticket* ticket);
  std::optional<Status> repeat(const Launch& launch, Ticket* ticket);
  // As Waits, of a launch of a turn that is repeated.
  struct TurnWaits {
    struct For {
      std::uint32_t step = 0;
      bool is_late = false;
      const Clock* clock = nullptr;
    };
    boost::container::static_vector<For, DagVertex::kEdges> all;
    boost::container::static_vector<const device::EventPtr*, DagVertex::kEdges> events;  // of each
    boost::container::static_vector<MarkPtr, DagVertex::kEdges> marks;  // whose those are that are no step's
  };
  std::optional<Status> repeat_in_turn(const Launch& launch, const GraphLowering::Decision* marked, Ticket* ticket);
  Status prepare_waits_in_turn(const TurnRepetition::Step& step, Stream& stream, TurnWaits& waits);
  std::uint32_t orders_in_turn(const TurnRepetition::Step& step, const TurnWaits& waits);
  void mark_in_turn(TurnRepetition::Step& step, Stream& stream, const GraphLowering::Decision& lowered);
  void write_down();
  // How often something may have changed that repetitions of turns go by.
  std::uint64_t changes() const { return mutex_.visits() + pool_.forgotten(); }
  std::uint64_t take_held_ticket(Ticket* ticket) {  // its number
    if (ticket != nullptr) *ticket = kHeldTicket | held_count_;
    return held_count_++;
  }
  Status hold_or_run(const Work& work, const GraphLowering::Decision& decision, Ticket* ticket);
  // Of the busiest stream.
  std::chrono::nanoseconds expected_queue();
  Status launch_graph(const std::shared_ptr<Chunk>& run, const std::shared_ptr<Chunk>& ended, bool host_waits);
  Dependencies not_ended_parents(std::span<const Access> accesses, Mode universal);
  bool delays_copies(const Chunk& chunk);
  void launch_held(std::span<const Launch> launches);
  void launch_held(bool for_event = false) {
    if (lowering_ != nullptr) launch_held(lowering_->interrupt(for_event));
  }
  // Before something that uses just these bytes: it may go ahead of what is held.
  void launch_held_before(std::span<const Access> accesses, bool over_the_link = false) {
    if (lowering_ != nullptr) launch_held(lowering_->interrupt_for(accesses, over_the_link));
  }
  void launch_held_before(const Work& work);
  GraphsReport graphs_locked() const;
  void mark_end_of(const std::shared_ptr<Chunk>& chunk, Stream& stream);
  void note_arrivals(const Work& work, const Computation& who);
  std::span<const std::uint64_t> arriving();
  void resolve_held_tickets(std::size_t count, const Computation& who);
  WorkSite* site_locked(std::string_view name);
  Status start(const Work& work, Computation& who, const Dependencies& parents, const EndedParents& ended,
               Enqueue enqueue, Stream* leads);
  struct StreamChoice {
    Stream* stream = nullptr;
    StreamReason reason = StreamReason::kNew;
  };
  // Work that goes on a stream.
  struct Placing {
    const Work& work;
    Computation& who;
    const Dependencies& parents;
    const EndedParents& ended;
    const StreamChoice choice;
    KernelDurations* const durations = nullptr;  // null: not asked
  };
  // The parents that a stream was made to wait for, by Computation::id, and whether by a late event.
  using Waits = boost::container::small_vector<std::pair<std::uint64_t, bool>, 8>;
  using WaitsDone = std::span<const std::pair<std::uint64_t, bool>>;
  StreamChoice behind(Stream& parents) const;
  static bool had_choice(const StreamChoice& choice, const Dependencies& parents, const Computation& who);
  Result<StreamChoice> stream_for(const Work& work, const Dependencies& parents, const Computation* who = nullptr);
  Stream* stream_of_copies(const Work& work, bool follows_lead) const;
  Stream* stream_soon_free(const Dependencies& parents) const;
  Result<Stream*> stream_free_by_then(const Dependencies& parents);
  Stream* parent_stream(const Dependencies& parents) const;
  Result<StreamChoice> free_stream(const Dependencies& parents);
  void prepare();
  Result<Stream*> create_stream();
  bool ask_idle(Stream& stream);
  Status keep_parent_reachable(Stream& stream);
  Status wait_across(Stream& stream, const Dependencies& parents, Waits& waits);
  void append(Stream& stream, Computation& who, double expected_ns, double least_ns);
  void become_tail(Stream& stream, Computation& who);
  Status start_apart(const Placing& placing, Enqueue enqueue);
  void take_place(const Placing& placing, double expected_ns, WaitsDone waits);
  static Status leave_out(const Dependencies& parents, Computation& who, const Status& status);
  Status begin_timing(Stream& stream, device::EventPtr& start);
  Status enqueue_timed(const Work& work, Stream& stream, Enqueue enqueue, device::EventPtr start);
  // What a mark that is not there yet is made for.
  enum class MarkFor : std::uint8_t { kStream, kHost, kTime };
  Result<MarkPtr> mark_of(Computation& computation, MarkFor wanted = MarkFor::kStream);
  Result<MarkPtr> mark_covering(Stream& stream, std::uint64_t position, MarkFor wanted);
  Result<MarkPtr> record_on(Stream& stream, MarkFor wanted = MarkFor::kStream);
  Result<MarkPtr> record_behind(Stream& stream, MarkFor wanted);
  static MarkPtr mark_that_covers(const Stream& stream, std::uint64_t position);
  void tell_end_of(Computation& who);
  void tell_ends();
  void universal_dependencies(Mode universal, bool any_write, const Computation* who, Dependencies& out,
                              EndedParents& ended);
  void universal_dependencies(Mode universal, bool any_write, Dependencies& out) {  // of nobody who takes a place
    EndedParents ended;
    universal_dependencies(universal, any_write, nullptr, out, ended);
  }
  // Accesses to anything, or what is left of them, which later work comes after.
  bool has_universal() const {
    return universal_writer_ != nullptr || ended_universal_writer_ != 0 || !universal_readers_.empty() ||
           !ended_universal_readers_.empty();
  }
  bool has_universal_under_way() const { return universal_writer_ != nullptr || !universal_readers_.empty(); }
  void become_universal(Mode mode, Computation& who);
  void forget_ended_universal();
  void write_log(const Placing& placing, WaitsDone waits);
  void add_to_log(const Dependencies& parents, const EndedParents& ended);
  void note_lead(const Computation& who, std::size_t size_bytes);
  void learn_end(const Mark& mark, const Status& outcome);
  void note_failure(const Status& outcome);
  Status name_suspects(const Status& lost) const;  // and what is lost
  std::string lost_arrays_locked() const;
  Status tell_failure();       // to a caller: the first; a skip only where its cause is not known
  Status tell_all_failures();  // for the last time: the first, and in its message what failed besides
  void poll(Stream& stream);
  void poll_all();
  bool is_behind_another(const Stream& stream) const;
  void note_failed_beside(const std::string& message);
  std::vector<device::Queue*> all_queues() const;  // which stay as they are without the lock, too
  Status synchronize_queues(StateLock& lock);
  std::optional<NoTask> reason_for_no_task(const Work& work, bool wants_event, TaskForms& forms,
                                           std::shared_ptr<TaskForm>& form);
  std::optional<NoTask> reason_to_keep_device();
  bool has_parents(const Work& work);
  Dependencies parents_under_way(std::span<const Access> accesses, Mode universal, bool among_launches);
  void count_in_a_row(std::optional<NoTask> why);
  static TaskTally& tally_of(WorkSite& site);
  void note_task(const Work& work, TaskId id, Ticket* ticket);
  bool task_has_ended(TaskId id);
  void learn_end_of_task(TaskId id, const Status& outcome);
  void note_end_of_task(const Status& outcome);
  void forget_ended_tasks();
  TaskId blocking_task(std::span<const Access> accesses, Mode universal, const BehindTasks* behind = nullptr);
  Status wait_for_tasks(const BehindTasks& behind, Stream& stream);
  Status await_turn(StateLock& lock, const Work& work, Deadline deadline = std::nullopt);
  Deadline deadline_of(const Work& work) const {  // of its turn
    return work.may_wait ? Deadline() : Deadline(std::chrono::steady_clock::time_point());
  }
  Status await_hosts(StateLock& lock, const Work& work, Deadline deadline);
  Status await_task(StateLock& lock, TaskId id, HeldFromTasks* held, Deadline deadline);
  Status await_all_tasks(StateLock& lock, Deadline deadline = std::nullopt);
  device::EventPtr event_of_task(Ticket ticket);
  TasksReport tasks_locked() const;
  Mode mode_among_launches(Mode mode) const {
    return policy_.dependency == DependencyPolicy::kNoConst && reads(mode) ? Mode::kReadWrite : mode;
  }
  Result<device::EventPtr> record_streams_locked();
  Dependencies host_parents(const Access& access);
  bool blocked_by_host(std::span<const Access> accesses, Mode universal) const;
  bool in_the_way_of_waiting(const Access& access) const;
  Status give_way(StateLock& lock, const Access& access, Deadline deadline);
  bool is_free_for_host(const Access& access, bool ask, bool keeps_others_away);
  HostAccess register_host_access(const Access& access);
  void note_short_access(const Access& access, std::optional<HostAccess>& told);
  void end_host_access(std::uint64_t id);
  Status await_uses(StateLock& lock, const Access& access, Deadline deadline);
  Status await_contents(StateLock& lock, const Access& access, Deadline deadline);
  Status wait_for_parents(StateLock& lock, const Access& access, Dependencies& parents, Deadline deadline);
  void log_host_wait(const Access& access, const Dependencies& parents);
  struct CallUnderWay;  // scheduler_call.cc
  Status begin_call(StateLock& lock, const Work& work, bool synchronous, CallUnderWay& call);
  Status end_call(StateLock& lock, const Work& work, CallUnderWay& call);
  Status refuse_inside_call() const { return calls_under_way_ == 0 ? Status() : refuse_on_this_thread(); }
  Status refuse_on_this_thread() const;
  Status wait_unlocked(StateLock& lock, std::span<const MarkPtr> marks, Deadline deadline = std::nullopt);
  Status enqueue_recorded(const Work& work, Stream& stream, Enqueue enqueue, const KernelDurations* durations);
  HostSlice open_host(HostKind kind, const Access& access);  // recorder_ is there
  std::optional<HostSlice> open_host_wait(const Access& access, const Dependencies& parents);
  void close_host_wait(std::optional<HostSlice> slice);
  Status ensure_recorder(StateLock& lock, RecorderOptions options);
  bool settle_recording(StateLock& lock, Deadline deadline = {});
  // What is to be written of a recording, which has ended with that; empty where there is none, as another thread has
  // ended it. With the lock, and called without.
  using Write = std::function<Status()>;
  Write take_trace();
  Write take_history();
  Write take_tuning();
  static Status write(StateLock lock, const Write& taken);
  void end_recording();
  void retire_locked(std::unique_ptr<Resource> resource, std::shared_ptr<const void> memory);
  void retire_behind_held();
  struct FirstRetired {
    boost::container::small_vector<MarkPtr, 8> marks;  // of what uses it
    bool is_in_call = false;  // a library call has a stream of them and may be recording: that one has no mark
  };
  std::optional<FirstRetired> first_retired();
  bool await_going(StateLock& lock, std::chrono::steady_clock::time_point until);
  bool asks_for_ends();
  void mark_for_reaping(Stream& stream, std::uint64_t position);
  // What nobody uses any more, on its way to be dropped, without the lock. Who needs memory waits for it.
  class EndedMemory {
   public:
    explicit EndedMemory(std::atomic<std::size_t>& going) : going_(going) {}
    ~EndedMemory() {
      const std::size_t count = memory_.size();
      if (count == 0) return;
      memory_.clear();
      going_.fetch_sub(count, std::memory_order_release);
    }
    EndedMemory(const EndedMemory&) = delete;
    EndedMemory& operator=(const EndedMemory&) = delete;
    void add(std::shared_ptr<const void> memory) {
      memory_.push_back(std::move(memory));
      going_.fetch_add(1, std::memory_order_relaxed);
    }
    bool is_empty() const { return memory_.empty(); }

   private:
    std::atomic<std::size_t>& going_;
    std::vector<std::shared_ptr<const void>> memory_;
  };
  // Moves it to `out`, to be dropped after the lock; `always`: by what has ended by now.
  void reap(EndedMemory& out, bool always = false);

  const device::DevicePtr device_;
  const Policy policy_;
  const nvtx::Functions* const nvtx_ = nvtx::functions();  // null: no ranges
  mutable StateMutex mutex_;
  ComputationPool pool_;
  std::unique_ptr<device::Queue> spare_;  // of the second stream, on a GPU, until there is one
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> by_use_;   // least recently used first; without those that are reserved
  std::unique_ptr<Stream> join_;  // where record() brings streams together; made when first needed
  device::EventPtr last_record_;  // of record(); null where it is known to have ended
  const Stream* last_record_stream_ = nullptr;
  Computation* universal_writer_ = nullptr;                      // held; everything later comes after it
  std::vector<Computation*> universal_readers_;                  // held; every later write comes after them
  std::uint64_t ended_universal_writer_ = 0;                     // Computation::id of one that is forgotten, or 0
  EndedIds ended_universal_readers_;                             // the same of the readers since
  std::vector<std::pair<std::uint64_t, Access>> host_accesses_;  // under way, by HostAccess::id_
  std::uint64_t last_host_access_ = 0;
  std::vector<const Work*> behind_host_;  // in await_turn(), for a host access to end; of their threads' calls
  AnyForkedCondition host_access_ended_;  // or work has left behind_host_
  std::uint32_t calls_under_way_ = 0;
  std::vector<Retired> retired_;  // by their numbers
  std::uint64_t last_retired_ = 0, dropped_ = 0;  // the last's number; how many pieces of memory have gone to be dropped
  // Of all EndedMemory. Counted up with the lock, and down without, release: who sees it gone may have it.
  std::atomic<std::size_t> memory_going_{0};
  std::uint32_t vain_reaps_ = 0, reaps_to_pass_ = 0;  // in a row that found nothing; before one asks again
  // Retired while launches that use it are held: it goes behind them, so that they need not go one by one.
  struct BehindHeld {
    std::unique_ptr<Resource> resource;
    std::shared_ptr<const void> memory;
  };
  static constexpr std::size_t kMostBehindHeld = 64;
  std::vector<BehindHeld> behind_held_;
  std::array<std::uint64_t, kResourceKinds> resource_numbers_{};  // the last ones
  struct KnownArray {
    std::uint64_t address = 0, size_bytes = 0;
  };
  std::map<std::uint64_t, KnownArray> arrays_;  // by Resource::id, which is an array's number, until they are retired
  Status failure_, skip_;                   // the first of each kind that synchronize() has not reported yet
  std::vector<std::string> failed_beside_;  // messages of what failed without depending on that, each once
  bool memory_let_go_ = false;              // by reap(), since the queues were synchronized
  bool failure_told_ = false;               // a caller has had failure_
  Counters counters_;
  std::map<std::string, std::unique_ptr<WorkSite>, std::less<>> sites_;
  Durations durations_;
  DagLog log_;
  // The blocks of graphs whose scalars change: a byte each, which a launch of the graph writes (graph_lowering.h).
  Resource blocks_{kParameterBlocks, std::uint64_t{1} << 62};
  std::chrono::nanoseconds queue_trusted_ = std::chrono::milliseconds(5);  // expected_queue()
  std::unique_ptr<GraphLowering> lowering_;                                // null where the policy has no graphs
  Repetition repetition_;
  TurnRepetition turn_;
  std::deque<std::pair<std::uint64_t, WorkDetail>> held_details_;  // while something is recorded, by number of the held
  std::uint64_t launches_apart_ = 0;                               // that cannot be part of a graph
  std::unique_ptr<TaskLaunches> tasks_;                            // null where the policy has no tasks
  // Of launches held back, numbered from 0, the tickets once they are launched: the latest, by number modulo the size.
  std::vector<Ticket> held_tickets_;
  std::uint64_t held_count_ = 0, held_resolved_ = 0;
  // Copies from the host that are not known to have ended and that no work has come after, and what they fill; the
  // latest kMostArriving.
  struct Arrival {
    Stream* stream = nullptr;
    std::uint64_t position = 0;
  };
  Arrival last_large_copy_;  // from the host
  // The uploads that went when they came, before a graph (Computation::leads): the latest ones, right behind each other
  // on one stream, of which none was known to have ended when the next came.
  struct Leads {
    Stream* stream = nullptr;
    std::uint64_t first = 0, last = 0;  // positions
    std::size_t size_bytes = 0;         // of all
  };
  Leads leads_;
  bool has_told_end_ = false;            // of work that the host waits for soon, since it last waited
  boost::container::small_vector<Arrival, 8> untold_ends_;
  std::vector<Arrival> arrivals_;
  std::vector<std::uint64_t> arriving_;  // resources, an arrival each
  std::unique_ptr<Recorder> recorder_;   // null where nothing is recorded
  std::string tuning_path_;              // "": none is on
  std::atomic<bool> has_recorded_{false};  // anything, so far: written with the lock, read without
  // Whether a trace is on: written with the lock, read without by waits for tasks, which may miss its first or last.
  std::atomic<bool> traces_{false};
};

}  // namespace pergola::scheduler
