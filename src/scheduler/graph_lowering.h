// Recurring launches as graphs, without a change in the program (a CUDA Graph costs the host less than its launches).
//
//   learning                 ─▶ following ──────────────▶ learning
//   a period is looked for        each launch is the one      one is not
//   and its launches kept         expected
//
// Once the device has enough to do, the region's chunks are made into graphs, on a thread of its own. From then on the
// launches of a chunk may be held back: compared with what is expected and no more. With the last one the chunk's graph
// is launched. Held launches are launched one by one, in order, as soon as
//   something else comes     another launch, an event wanted, and of copies, fills and accesses of the host those that
//                            conflict with one of them: others go ahead (graph_passing.cc)
//   kPatience is over        the thread looks while something is held
// A chunk where this happens often is cut into smaller ones.
// Launches are held only while the device has kEnoughQueued of work to do, so that it never waits for them; of turns
// that were measured to take less for it also while it has not (graph_turns.cc). Where they are held always, for
// kPatienceOfAlways, the first chunk of a turn is short and the next ones grow (Region::grows).
//
// Launches whose scalars alone change recur as well. A launch that has changed once has its parameters in its chunk's
// block from then on, and before each launch of the chunk's graph one copy brings them (region.h). Each block is bytes
// of one resource, which such a launch writes and reads: so the copy of a later launch of the same graph comes after
// the earlier one has ended, on whatever streams the two are. What the copy reads has been staged by the queue when it
// returns (Queue::copy_to_device), so the next launch may fill it at once.
//
// Launches whose arrays change recur, too, where nothing else does: an array that is new in each turn, a part of one
// that moves on (graph_rebinding.cc).
//
// Copies between an array and its page-locked host side recur as launches do (graph_copies.cc).
//
// A graph begins when all of its launches may: where one waits for a copy from the host that the chunk's first does not
// wait for, a new chunk begins. Large uploads with which a turn begins go when they come, or are part of its graph, or
// it has none, whichever takes the least (graph_turns.cc).
//
// The device's work is known by an event at each chunk's end: what is queued is the time of the chunks that have not
// ended, without the first of them, which may be about to. A chunk's time is the shortest seen between its end and that
// of the chunk before. Before two have ended, it is what the streams' kernels were seen to take, of a graph its longest
// path of them: of what is behind the first event that has not ended (one is recorded every kMarkEach launches
// meanwhile), or of all less what has gone by. Graphs are made once kWorthMaking is queued, so that they are there when
// it is enough.
//   Where it turns out that little is queued, it is not asked about for some chunks, more each time. Where it is much,
// it is not asked about until that may have been done, and only some chunks have an event (wants_event()).
//
// Guarded by the scheduler's lock but for held_since_, by which the thread knows without the lock that there is nothing
// to do, and for Region::launches.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "src/base/fork.h"
#include "src/device/device.h"
#include "src/scheduler/computation.h"
#include "src/scheduler/host_clock.h"
#include "src/scheduler/policy.h"
#include "src/scheduler/recurrence.h"
#include "src/scheduler/region.h"
#include "src/scheduler/state_mutex.h"
#include "src/scheduler/stream.h"
#include "src/scheduler/tuning.h"

namespace pergola::scheduler {

// What it has done, since it was made.
struct GraphCounters {
  std::uint64_t regions = 0;      // found
  std::uint64_t graphs = 0;       // instantiated
  std::uint64_t launches = 0;     // of graphs
  std::uint64_t replaced = 0;     // kernel launches that those stood for
  std::uint64_t flushed = 0;      // held back and then launched one by one
  std::uint64_t interrupted = 0;  // times that held launches went because something else came
  std::uint64_t passed = 0;       // times that something else went ahead of held launches
  std::uint64_t overdue = 0;      // times that they went because kPatience was over
  std::uint64_t by_text = 0;      // launches that were known by their text
  std::uint64_t varying = 0;      // launches found to have scalars that change,
  std::uint64_t rebinding = 0;    // and arrays
  std::uint64_t refused = 0;      // runs of launches of which no graph could be made
  std::string refusal;            // why, of the last
};

class GraphLowering {
 public:
  // In a graph; a quarter more where that leaves no rest (Region::pieces_of()).
  static constexpr std::size_t kMostLaunches = 64, kFewestLaunches = Region::kFewestLaunches;
  static constexpr std::size_t kFewestRepeated = 32;  // shorter turns are taken several times over
  // A chunk's other ways are made once it has been launched so often, and for so long: compiling one takes some tens of
  // milliseconds, and the device finishes what it has before it loads a way's code.
  static constexpr std::uint64_t kWorthLaunches = 16;
  // The same where an earlier session has tried all, and what it kept holds.
  static constexpr std::uint64_t kTunedFor = 8192;
  static constexpr std::chrono::milliseconds kWorthAfter{100};
  static constexpr std::chrono::nanoseconds kPatience{20'000}, kEnoughQueued{50'000}, kPatienceOfAlways{100'000};
  static constexpr std::chrono::nanoseconds kWorthMaking{10'000};
  // Turns after which forms are tried again, and pieces that were made shorter are whole again.
  static constexpr std::uint32_t kAgainAfter = 512;
  static constexpr std::uint32_t kAgainGrowth = 2, kMostGrowths = 4;  // as a power of two; up to each 131,072
  static constexpr std::size_t kMarkEach = 8;                         // launches of a region that has no graphs yet

  // `readers_conflict`: of one array, by the policy. `blocks` stands for all blocks of parameters, a byte each.
  // `overdue` is called on the thread, without the lock, when held launches should go; it takes the lock and calls
  // flush_overdue().
  GraphLowering(device::DevicePtr device, StateMutex& mutex, Graphs graphs, Resource& blocks,
                const ComputationPool& computations, std::function<void()> overdue, bool readers_conflict = false);
  ~GraphLowering();  // without the lock
  // Before the first offer(). Without one, graphs have an edge wherever two launches conflict.
  void set_lowerer(std::shared_ptr<GraphLowerer> lowerer) { lowerer_ = std::move(lowerer); }

  // What the device has to do at least, by what kernels were seen to take; asked with the lock. Without one nothing is
  // known of that until chunks have ended.
  void set_expected_queue(std::function<std::chrono::nanoseconds()> expected) { expected_queue_ = std::move(expected); }

  // Else it is at the first graph, whose program waits for that.
  void start_thread() {
    if (!thread_.joinable()) thread_ = std::thread([this] { run_thread(); });
  }

  // Before the first offer(): of turns whose first uploads may go when they come, which form is taken, or tried.
  void set_turns(Turns turns) { turn_policy_ = turns; }
  // By which turns are timed; empty: the steady clock. Tests have another.
  void set_turn_clock(std::function<double()> clock_ns) { turn_clock_ = HostClock(std::move(clock_ns)); }

  // What is to be done for a launch, in this order.
  struct Decision {
    std::span<const Launch> flush;         // launched one by one, but for those that went ahead
    bool held = false;                     // the launch needs nothing itself
    bool leads = false;                    // an upload that goes when it comes, before a graph,
    const device::Queue* queue = nullptr;  // which is to go on this one's stream; null: any
    bool follows_lead = false;             // and which that graph alone waits for, if it comes as in the last turn
    std::shared_ptr<Chunk> run;            // launched as a graph, which stands for this launch too
    std::shared_ptr<Chunk> ended;          // an event behind the launch or graph is for ended()
    bool marks = false;                    // an event behind the launch tells how far the device is
    // It is launched, though an event behind it may be wanted.
    bool is_launched() const { return flush.empty() && !held && !leads && queue == nullptr; }
    bool only_holds() const { return held && run == nullptr && flush.empty(); }  // there is nothing to be done now
    // It is launched, and there is no more to it.
    bool is_plain() const { return is_launched() && ended == nullptr && !marks; }
  };
  // `arriving`: the resources that copies from the host may still be filling and no launch has used since, by number.
  Decision offer(const Work& work, bool may_hold, std::span<const std::uint64_t> arriving = {});
  struct Expected {
    const Launch* launch = nullptr;
    KnownCall* call = nullptr;          // of `launch`, where the text stands for that; null where it is an upload
    const KnownCall* behind = nullptr;  // then: of the launch behind the uploads, for which the text stands
  };
  // The launch that `text` stands for, where it is the one expected next; or where uploads of its arrays come before
  // it, the first of these. Else null. Nothing has happened, and it stands until the next call of another function than
  // again(), hold_again() and pass_again(). `before`: what this gave for the same text before the upload that came
  // last;
  // {} where there was none.
  Expected expected(const CallText& text, const Expected& before) const {
    if (region_ == nullptr || offered_ < look_on_until_ || region_->same_again) return {};
    KnownCall& call = region_->calls[place_];
    if (call.text.is(text)) return {&region_->launches[place_], &call};
    return expected_upload(text, before.behind);
  }
  // Where it stands.
  const std::shared_ptr<Region>& region() const { return region_; }
  std::size_t place() const { return place_; }  // of Region::calls
  // That launch has come, and is launched: where nothing is to be decided, which is follow() with nothing held, inside
  // a chunk. Else false, and nothing has happened.
  bool pass_again() {
    if (held_ != 0 || held_chunk_ != nullptr) return false;
    const Chunk& chunk = *region_->chunk_of(phase_);
    if (chunk.begin == phase_ || phase_ + 1 == chunk.end || chunk.leads || is_marked(chunk)) return false;
    ++offered_;
    ++counters_.by_text;
    step();
    return true;
  }
  // offer() of that launch.
  Decision again(std::span<const std::uint64_t> arriving);
  // The same of a launch, no copy, that is held behind others and is not the last of its chunk: to be counted is all
  // that happens to it, which is follow() with held_ != 0. Else false, and nothing has happened.
  bool hold_again() {
    if (held_ == 0 || held_ + 1 >= held_chunk_->end - held_chunk_->begin) return false;
    ++offered_;
    ++counters_.by_text;
    step();  // the chunk goes on, and so does the region
    region_->look_ahead(phase_);
    ++held_;
    return true;
  }
  // Something other than a launch comes: what is to be launched first. `is_event`: an event of all work so far.
  // Programs keep count by these of what is under way, and want them at another place in each turn: the region is cut
  // only where two in a row come at the same one.
  std::span<const Launch> interrupt(bool is_event = false);
  // The same for what uses just these bytes: nothing where it may go ahead of what is held. With `over_the_link` it is
  // a copy between the two sides, which no launch is to wait for that need not.
  std::span<const Launch> interrupt_for(std::span<const Access> accesses, bool over_the_link = false);
  // Between the two the host waits for something else than what is held. Launches that are too late then are so for
  // that, and not because the host is slow.
  void begin_host_wait() { ++host_waits_; }
  void end_host_wait() {
    --host_waits_;
    known_queue_ = {};  // the device may have done it all
  }
  // It waits for work.
  void note_wait() { ++waits_; }
  // The same, for what ends with this mark; null: for several. What note_waited() is to be given when it has waited so
  // long: 0 where nobody asks.
  std::uint64_t note_wait_for(const Mark* mark) {
    note_wait();
    const std::shared_ptr<Chunk> chunk = timed_.chunk.lock();
    const bool is_its =
        chunk != nullptr && mark != nullptr && mark->stream == timed_.stream && mark->position == timed_.position;
    return is_its && chunk->ways.host_waits() ? timed_.number : 0;
  }
  void note_waited(std::uint64_t number) {
    if (number == 0 || number != timed_.number) return;
    if (const std::shared_ptr<Chunk> chunk = timed_.chunk.lock()) chunk->ways.host_waited();
    timed_.chunk.reset();
  }
  // The chunk's graph is now what comes last on that stream.
  void note_launched(const std::shared_ptr<Chunk>& chunk, const Stream& stream) {
    if (chunk->ways.asks_for_wait())
      timed_ = {chunk, &stream, stream.tail_position, timed_.number + 1};
    else
      timed_.chunk.reset();
  }
  // interrupt() because it has been held for too long; empty where it has not.
  std::span<const Launch> flush_overdue();
  void ended(const std::shared_ptr<Chunk>& chunk, MarkPtr mark);
  // Whether offer() is to be asked about copies, too (graph_copies.cc).
  bool takes_copies() const { return offered_ >= copies_rest_until_; }
  // The chunk's graph, with copies in it that come after nothing of it, has gone. `delayed`: it had to wait for work
  // that one of these, by itself, would not have waited for.
  void copies_went(const std::shared_ptr<Chunk>& chunk, bool delayed);
  // The chunk's graph has been launched, and its ways ask for something (GraphWays::asks()).
  void ways_ask(const std::shared_ptr<Chunk>& chunk);
  bool holds_any() const { return held_ != 0; }
  // Whether a launch that is held uses it, or may.
  bool holds_use_of(const Resource& resource) const;
  const GraphCounters& counters() const { return counters_; }
  // What became a graph and why, or why not; of the latest regions.
  GraphsReport report() const;
  // For tests and measurements: how long launches may be held; waits until all graphs, and their other ways, are made,
  // and those that nobody uses any more are gone (while they go, nothing is held).
  void set_patience(std::chrono::nanoseconds patience) { patience_ns_ = patience.count(); }
  std::chrono::nanoseconds patience() const { return std::chrono::nanoseconds(patience_ns_.load()); }
  void settle(StateLock& lock);
  // What is found of the ways of those graphs that are made from now on is kept, and what `known` has of them comes
  // first (tuning.h). With the lock, as the next.
  void begin_tuning(Tuning known);
  // What was found; nothing is known or kept any more.
  Tuning end_tuning();

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::shared_ptr<const Region> region;
    std::shared_ptr<Chunk> chunk;
  };
  // Of a chunk that has its plain graph: the other ways in which it may run.
  struct Improvement {
    Job job;
    std::shared_ptr<const device::GraphSpec> plain;
    std::vector<double> expected_ns{};          // of its launches
    std::size_t way = 0;                        // GraphLowerer's; behind these its finer ones, made of
    std::vector<std::string> fastest{};         // these, by what was measured of the others; and behind them
    GraphWays::Draw draw{};                     // more instances of this
    std::shared_ptr<const TunedGraph> tuned{};  // what earlier sessions found; null: nothing
    std::size_t ahead = 0;                      // steps before all of these: the way that was kept, and instances of it
    std::vector<std::string> made{};            // the ways that it has, by name
    bool has_other = false;                     // than the plain one
    std::size_t again = GraphWays::kNone;       // else of GraphWays, put back, whose spec is `plain`: it alone is made
    std::uint64_t launched = 0;                 // the chunk had been, when it was looked at last
    Clock::time_point since{}, not_before{};
  };
  struct InFlight {
    std::shared_ptr<Chunk> chunk;
    MarkPtr mark;           // null: it ends before the next one with a mark
    bool in_a_row = false;  // the chunk before it has a mark too
  };

  Expected expected_upload(const CallText& text, const KnownCall* known) const;
  void follow(const Work* work, bool may_hold, std::span<const std::uint64_t> arriving, Decision& decision);
  void vary_here(bool rebinds);
  void learn(const Work& work);
  bool is_shape_period(std::size_t period) const;
  // ── Arrays that change (graph_rebinding.cc) ──
  std::uint64_t pattern_hash(const Work& work, std::uint64_t whole);
  bool is_pattern_period(std::size_t period) const;
  std::vector<Launch> met_with_arrays(std::size_t period);
  bool binds(const Work* work);
  void look_at_arrays(const Launch& launch);
  void give_up_binding();
  void rest_from_patterns();
  bool is_worth_keeping() const;
  void learn_copy(const Work& work, std::uint64_t hash);
  bool follow_with_copies(std::size_t period);
  void keep(const Work& work, std::uint64_t hash);
  std::size_t longer_period(const Work& work);
  struct Found {
    bool look_on = false;      // for a longer turn
    bool with_copies = false;  // which are part of it
    bool rebinds = false;      // by how launches stand to each other
  };
  std::vector<Launch> met(std::size_t period, bool with_copies);
  void begin_following(std::size_t period, Found by);
  void stop_following();
  void forget_what_came();
  void forget(const std::shared_ptr<const Region>& region);
  bool may_hold_chunk(const Chunk& chunk);
  bool holds_on_idle() const { return always_ || region_->on_idle || (region_->pace.holds() && may_pace()); }
  bool wants_event(const std::shared_ptr<Chunk>& chunk);
  void forget_in_flight() {
    in_flight_.clear();
    last_ended_ = nullptr;
    in_a_row_ = false;
  }
  bool wants_mark(const Chunk& chunk);
  bool enough_queued();
  void make_graphs();
  void make_graphs_soon();
  std::chrono::nanoseconds queued();
  std::span<const Launch> take_held();
  bool is_overdue(std::int64_t since_ns) const;
  void cut_here();
  void recut();
  void refuse_chunks();
  void cut_before(std::size_t launch);
  void begin_here();
  void keep_one_turn();
  void replace_region(std::shared_ptr<Region> by);
  void advance();
  // Whether an event behind the launch that comes is one that tells how far the device is, while there are no graphs.
  bool is_marked(const Chunk& chunk) const { return (phase_ + 1 - chunk.begin) % kMarkEach == 0; }
  void step() {
    ++phase_;
    if (++place_ == region_->calls.size()) place_ = 0;
  }
  std::size_t first_that_waits_longer(const Chunk& chunk, std::span<const std::uint64_t> arriving) const;
  void hold();
  // ── Turns that the host does not wait for (host_pace.h, graph_turns.cc) ──
  // Not where forms are compared, or one has been chosen by that.
  bool may_pace() const { return measures_idle_ && region_->again_in == 0 && !is_trying(*region_); }
  void look_at_pace();
  std::optional<HostPace::Turn> turn_for_pace() const;
  // ── Forms of turns (graph_turns.cc) ──
  TurnForm first_form() const;
  void begin_turn();
  TurnForms::Turn how_it_was() const;
  void take_form(TurnForm form);
  void end_forms();
  void try_forms();
  void try_again();
  void look_at_turn();
  // Turns; four times as many each time, of which there have been `times`.
  static std::uint32_t turns_until_again(std::uint32_t& times);
  bool is_whole_again();
  void make_whole();
  bool is_first_form() const { return region_->form == first_form(); }
  // Whether it is being tried in place of another, which is what it must not harm.
  bool is_challenger() const { return region_->trial != nullptr && !region_->trial->is_first(region_->form); }
  bool leaves_form(const char* why);
  bool is_trying(const Region& region) const { return region.trial != nullptr && region.trial->is_under_way(); }
  void run_thread();
  void build(StateLock& lock);
  struct Built {
    std::shared_ptr<device::ExecutableGraph> graph;
    device::BufferPtr block;                        // of the chunk's parameters; null where it has none
    Status status;                                  // else why there is no graph,
    BlockForm* refused_form = nullptr;              // and whose form there is not
    std::shared_ptr<const device::GraphSpec> spec;  // of the graph
    std::string key{};                              // where it is tuned
    bool is_loose = false;                          // as of its way
  };
  Built make_graph(const Job& job) const;
  void run_improver();
  bool is_wanted(const Improvement& each) const;
  bool next_improvement(StateLock& lock, Improvement& next);
  struct Made {
    std::optional<GraphWays::Way> way;
    WayReport refused;  // without a name: it is not
  };
  Made make_way(const Improvement& next) const;
  Made instantiated(const Job& job, std::string name, std::string why,
                    std::shared_ptr<const device::GraphSpec> spec) const;
  std::size_t other_ways() const { return lowerer_->count() + lowerer_->finer_count(); }  // than draws
  std::size_t draws() const { return lowerer_->keeps_plain() ? GraphWays::kDraws : 0; }
  std::shared_ptr<device::ExecutableGraph> make_again(const Improvement& next) const;
  void improve(StateLock& lock, Improvement next);
  bool is_worth_now(const Improvement& each, Clock::time_point now) const;
  // ── What is known from earlier sessions (graph_lowering_tuning.cc) ──
  bool tunes() const;
  std::string key_of(const Job& job, const device::GraphSpec& plain) const;
  Improvement with_tuning(Improvement next) const;
  bool holds(const Improvement& each) const;
  void tell_of_tuning(const Improvement& next) const;
  bool is_known(const Improvement& next, std::string_view way) const;
  std::vector<std::string> fastest_of(const Improvement& next) const;
  // The step is another instance of a way.
  bool is_draw(const Improvement& each) const {
    return each.ahead != 0 ? each.ahead <= draws() : each.way >= other_ways();
  }
  bool advance(Improvement& next, bool was_made) const;
  void note_ways(const Chunk& chunk);
  bool has_forgotten() const;  // of what it has made, something that nobody uses any more
  bool drop_forgotten(StateLock& lock);
  void refuse(const Job& job, const Built& built);
  // ── What is told of it (graph_lowering_report.cc) ──
  void tell_of_region(Region& region);
  void tell_of_chunks();
  static void tell_of_variation(RegionStory& story, const Launch& launch);
  static void tell_of_rebinding(RegionStory& story, const Launch& launch);
  void tell_of_forms();
  void watch(StateLock& lock);

  const device::DevicePtr device_;
  StateMutex& mutex_;
  const bool always_;         // held whatever the device has queued;
  const bool measures_idle_;  // or where that has turned out, or is tried, to be faster
  Resource& blocks_;
  const ComputationPool& computations_;
  std::uint64_t next_block_ = 0;  // byte of blocks_
  const std::function<void()> overdue_;
  std::function<std::chrono::nanoseconds()> expected_queue_;
  const bool readers_conflict_;
  std::shared_ptr<GraphLowerer> lowerer_;  // may be null
  std::shared_ptr<const Tuning> tuning_;   // what was known; null: nothing is kept
  Tuning tuned_;                           // what was found since, of tuning_device_
  const std::string tuning_device_;
  Turns turn_policy_ = Turns::kMeasured;
  HostClock turn_clock_;

  static constexpr std::uint64_t kWorthKeeping = 8;  // launches in a row that bear a period out
  static constexpr std::uint64_t kConfirmShortShape = 3 * Recurrence::kConfirm;
  // Of whole launches; of these where the first after anything else differs from the same one in the middle, so that
  // turns are found in which shorter runs recur (A A A B B B, wait, A A A ...); and of their shapes.
  Recurrence recurrence_, turns_, shape_;
  Recurrence pattern_;                     // of how launches stand to each other
  std::uint64_t looked_for_pattern_ = 0;   // launches
  std::uint64_t patterns_rest_until_ = 0;  // offered_
  std::uint32_t patterns_rests_ = 0;
  std::uint64_t look_at_arrays_until_ = 0;  // offered_, while following a region that rebinds
  Recurrence with_copies_;                  // of whole launches and copies, from the first copy on
  bool copies_come_ = false;                // since it was forgotten what came
  std::size_t since_copy_ = 0;              // kept launches behind the last copy
  std::uint64_t copies_rest_until_ = 0;     // offered_
  std::uint32_t copies_rests_ = 0;
  bool begins_turn_ = false;         // something else has come since the last launch
  std::uint64_t look_on_until_ = 0;  // offered_, while following a short turn: a longer one is looked for until then
  std::deque<Launch> kept_;          // while learning or looking on: those that bear a period out, the latest last
  std::shared_ptr<Region> region_;   // while following
  std::shared_ptr<Region> before_turning_;  // what interrupt() or expected() gave may be of it
  std::size_t phase_ = 0, place_ = 0;       // the launch of region_ expected next, and its call
  std::size_t held_ = 0;                    // launches before it that are held back, or went ahead of these
  std::uint32_t host_waits_ = 0;            // under way
  std::uint64_t waits_ = 0;                 // that have begun
  // The graph that was launched last, where it asks how long the host waits for it. `chunk` is never the last to own
  // one: made_ does as long as anybody.
  struct {
    std::weak_ptr<Chunk> chunk;
    const Stream* stream = nullptr;
    std::uint64_t position = 0, number = 0;  // there; of those that asked
  } timed_;
  // While forms are tried: when the turn began, and what had been done by then. Of turns on an idle device `flushed`.
  struct TurnBegin {
    double ns = 0;
    std::uint64_t offered = 0, flushed = 0, waits = 0;
  };
  TurnBegin turn_begin_;
  struct PaceBegin {
    const Region* region = nullptr;  // which may have gone
    double ns = 0;
    std::uint64_t offered = 0, flushed = 0, waits = 0, replaced = 0, too_little = 0;
  };
  PaceBegin pace_begin_;                              // of the latest turn
  std::pair<const Region*, std::size_t> event_at_{};  // where the last event of all work came: before that launch
  std::shared_ptr<Chunk> held_chunk_;                 // whose they are
  std::deque<std::shared_ptr<Region>> known_;         // least recently found first
  std::deque<InFlight> in_flight_;
  MarkPtr last_ended_;
  // Chunks without an event still to come; how many there were the last time; events since then.
  std::uint32_t unasked_ = 0, last_unasked_ = 0, asked_ = 0;
  bool in_a_row_ = false;
  // What was queued at least when that was last enough, and since then: no more of it has been done than time has gone
  // by.
  std::chrono::nanoseconds known_queue_{0};
  Clock::time_point known_at_{};
  double unmarked_ns_ = 0;      // of the chunks since the last one with an event
  std::uint32_t unmarked_ = 0;  // how many they are
  GraphCounters counters_;
  std::deque<std::shared_ptr<RegionStory>> stories_;  // of the latest regions
  std::uint64_t offered_ = 0, forgotten_stories_ = 0;

  // By themselves in their line: the thread looks there every few us, and would take the line away from whoever counts
  // launches beside it.
  alignas(64) std::atomic<std::int64_t> patience_ns_{kPatience.count()};
  // Since when something is held: of Clock, in ns; 0: nothing is. Whoever holds a launch spares itself the clock and
  // says kJustNow, and the thread, which looks every few us, writes the time. Relaxed: flush_overdue() looks again.
  static constexpr std::int64_t kJustNow = -1;
  std::atomic<std::int64_t> held_since_{0};
  alignas(64) std::deque<Job> jobs_;
  // Every chunk that has a graph: what only this knows goes on the thread, as a device may make that wait for its work.
  std::vector<std::shared_ptr<Chunk>> made_;
  bool building_ = false, watching_ = false, stopping_ = false;
  AnyForkedCondition wake_, settled_;
  std::thread thread_;  // from start_thread() on, at the first job at the latest
  // Takes milliseconds and more a graph, and so has a thread of its own, from the first on: launches may be held
  // meanwhile.
  std::deque<Improvement> improvements_;
  std::vector<std::shared_ptr<device::ExecutableGraph>> put_back_;  // ways that go, on that thread
  bool improving_ = false;
  Clock::time_point improver_rests_until_{};
  std::uint32_t settling_ = 0;  // threads in settle(): no improvement waits for its time then
  AnyForkedCondition improve_;
  std::thread improver_;  // begun by thread_, without the lock: that takes as long as twenty launches
};

}  // namespace pergola::scheduler
