// The ways in which a run of launches can be one graph: with an edge wherever two launches conflict, and those that the
// session knows besides (blocks that wait for blocks: runtime/block_lowering.h). They are tried on the device by turns,
// as the program runs them anyway, and the fastest stays.
//
//   launches of the graph   0 1 2 3 4 5 ...                 way 0 is plain: it stays unless another is faster by kGain,
//                                                           or costs the host half, and is no slower for who waits
//   way                     0 1 0 1 ... fastest, 2 2 2 ... fastest              2 took longer to make
//
// What was found may have been found while the device's clock was still rising, or another program disturbed it. So all
// are tried again, by turns, after kAgainAfter launches for each four of them, then after four times as many, and so
// on: that is one launch of twenty at the most, and soon none to speak of. What runs then stays as the plain way did
// before.
//
// Where it may choose, a graph goes on the stream on which it goes fastest (a lane). Side by side its branches go over
// queues of the device that it was given when it was made, and one of these may be the stream's own: then they are one
// behind the other. (On an H200, of a graph of two branches launched on three streams in turn: 41.4, 40.9, 44.3 us; and
// 38.5, 38.5, 44.1.) So each way is tried on each of the first kMostLanes streams that were free for it, later on the
// one that stayed and another, and what it takes on its best counts. Launches that go elsewhere, behind what they wait
// for, are not timed then. Where nearly all do there are no lanes: times are those of whichever stream comes.
//
// Instances of one graph differ, too, by the queues that their branches were given (on an H200 one took 37 and one 44
// us of a graph with two branches, and 362 and 420). So of the fastest ways that have branches more instances are made
// and tried, kDraws in all where the graph takes so little that they are soon tried, else kDrawsOfLong; and trying
// again makes others: a program gets the best of those that were drawn.
//
// A graph takes memory of the device (on an H200 one of thirty nodes, ten of them side by side, a megabyte), so three
// of the ways have one at a time (four where one is made anew just then): the one that runs, the fastest of those that
// were tried, and the one that is tried. What is put back is known by its spec, and made again for each time it is
// tried again, one after the other:
//
//   settle() ──▶ asks() ──▶ to_make(), take_put_back() ──▶ made()       by who launches; by GraphLowering's threads
//
// All ways have the same results. Guarded by the scheduler's lock, but for GraphLowerer.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/graph.h"
#include "src/scheduler/graph_report.h"
#include "src/scheduler/host_clock.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

struct LaunchMemory {
  device::DeviceAddress address = 0;  // 0: nobody has said
  std::uint64_t size_bytes = 0;
};

// A launch of a graph, as a GraphLowerer sees it beside its node.
struct LaunchToLower {
  BlockForm* form = nullptr;             // of its kernel; null where nobody knows its PTX
  bool varies = false;                   // its parameters are in memory, and change
  std::span<const LaunchMemory> memory;  // of the resources that it accesses
  double expected_ns = 0;                // durations.h
};

struct GraphWay {
  // "plain" "ordered" "uploads-in-a-row" "copies-in-rows" "engines-in-rows" "copies-together" "together-in-rows"
  // "trimmed" "packed" "packed-early" "merged" "merged-kernels" "early" "merged-early" "by-block" "fused" "fused-block"
  // "columns" "stacked" "stacked-alone" "merged-stacked" "constants"; finer ones "constants", and "constants-stacked"
  // and so on, "packed+copies-in-rows" and so on; more instances of one "plain #2", "plain #3"
  std::string name;
  std::string why;  // what it does, for people
  device::GraphSpec spec;
  std::string refusal{};  // where not "": why it cannot be; there is no `spec` then
};

// Thread-safe.
class GraphLowerer {
 public:
  virtual ~GraphLowerer() = default;
  // How many ways there may be besides the plain one.
  virtual std::size_t count() const = 0;
  // Why there are none, where there are none; "" where nothing is to be said.
  virtual std::string why_none() const { return {}; }
  // The n-th of these, from 0, in the order in which they are worth having; none where it is nothing for this graph, or
  // one with a refusal. Called where nobody waits for a launch: it may compile.
  virtual std::optional<GraphWay> way(std::size_t n, const device::GraphSpec& plain,
                                      std::span<const LaunchToLower> launches) = 0;
  // The name that this one has, known before it is made,
  virtual std::string name(std::size_t n) const = 0;
  // and the way of a name that way() or finer_way() gave, perhaps in an earlier session; none where nothing has it.
  virtual std::optional<GraphWay> way_named(std::string_view name, const device::GraphSpec& plain,
                                            std::span<const LaunchToLower> launches) {
    for (std::size_t n = 0; n < count(); ++n)
      if (this->name(n) == name) return way(n, plain, launches);
    return std::nullopt;
  }
  // Ways that are made of others, asked for once those have been tried: how many there may be,
  virtual std::size_t finer_count() const { return 0; }
  // and the n-th of these, as way() gives them. `fastest`: the names of the others and of "plain", the fastest first.
  virtual std::optional<GraphWay> finer_way(std::size_t /*n*/, const device::GraphSpec& /*plain*/,
                                            std::span<const LaunchToLower> /*launches*/,
                                            std::span<const std::string> /*fastest*/) {
    return std::nullopt;
  }
  // Whether the plain one is one of them; else it goes as soon as there is another.
  virtual bool keeps_plain() const = 0;
};

// What has been made of the ways of one graph.
class GraphWays {
 public:
  // "merged" of "merged #2".
  static std::string_view name_without_instance(std::string_view name);
  static constexpr std::size_t kMostLanes = 3, kAnyLane = kMostLanes;
  // A way that leaves more copies from the host side by side than kMostSideBySide is loose: the device takes them in
  // whatever order, one launch so and another so, and what waits for the first may wait for them all. It counts kLoose
  // times as long as it takes: tried again and again it finds the copy engines as its own last launch left them, and in
  // a program as something else has.
  static constexpr double kLoose = 1.05;
  static constexpr std::size_t kMostSideBySide = 2;
  struct Way {
    std::string name, why;
    std::shared_ptr<device::ExecutableGraph> graph;   // null while it is put back
    std::shared_ptr<const device::GraphSpec> spec{};  // what that is made of again; null: it stays
    bool is_due = false;                              // to be made again and tried
    double best_ns = 0;                               // what it takes, by the times that are known; 0: none is
    std::size_t best_lane = kAnyLane;                 // where it does
    double host_ns = 0;                               // the shortest time that launching it took the host
    std::vector<double> beyond_ns{};                  // by which the host waited longer than events say; ascending
    bool was_hopeless = false;  // has two tries again, and all of them if it is not hopeless any more
    bool is_loose = false;
    // By lane; behind these, where there are none, all.
    std::array<std::uint32_t, kMostLanes + 1> tries_on{};
    std::array<std::vector<double>, kMostLanes + 1> times_ns{};  // ascending
    void took(double ns, std::size_t lane);
    double took_on(std::size_t lane) const;  // what stands for its times there; 0: there are none
    std::optional<double> took_beyond_ns() const;  // what stands for those; none: there are too few
    std::uint32_t tries() const { return std::accumulate(tries_on.begin(), tries_on.end(), 0u); }
    std::size_t timed() const;
    void forget_times();
    void begin_anew();                 // to be tried once more
    void drop_lane(std::size_t lane);  // those behind it move up
    void count();                      // best_ns and best_lane
    double counted_ns() const { return is_loose ? kLoose * best_ns : best_ns; }
  };

  GraphWays() = default;
  explicit GraphWays(std::vector<Way> ways, HostClock clock = {}) : ways_(std::move(ways)), clock_(std::move(clock)) {}
  bool empty() const { return ways_.empty(); }
  std::span<const Way> all() const { return ways_; }
  // The names of all, the fastest first, those whose times are not known last; each once, whichever instance.
  std::vector<std::string> by_time() const;
  // What each has taken, by name, the best instance of it; those whose times are not known are left out.
  std::map<std::string, double> times_ns() const;
  // The same, and of ways that are tried again what they took before; and the one that was chosen last, "": none was.
  struct Found {
    std::map<std::string, double> times_ns;
    std::string kept;
  };
  Found found() const;
  bool is_trying_again() const { return chosen_ == kUndecided && times_again_ != 0; }
  // Another instance of the fastest with branches, or of one that is nearly as fast and has fewer, and its name,
  // "merged #2"; no spec where there is none that could become the fastest, where it is not known what that is, or
  // where specs are not kept.
  static constexpr std::size_t kDraws = 16, kDrawsOfLong = 6;
  struct Draw {
    std::string name;
    std::shared_ptr<const device::GraphSpec> spec;
  };
  Draw draw() const;
  // The one that is taken; null while it is being tried which.
  const Way* chosen() const { return chosen_ < ways_.size() ? &ways_[chosen_] : nullptr; }
  // Which queue it would be launched on, where it may be any that has nothing to do; null: whichever comes. Settles
  // which of them is launched next, launched(), until that has been.
  const device::Queue* choose();
  // Launches that, on this queue. `was_free`: it need not have been this one.
  Status launch(device::Queue& queue, bool was_free = true);
  // Whether how long the host waits for what was launched last is to be known:
  bool asks_for_wait() const { return is_wait_asked_; }
  // it waits for that now; whether it is to be told of the end,
  bool host_waits();
  // and has waited.
  void host_waited();
  // One more, which is tried from now on; the others have been where has_tried_all().
  void add(Way way);
  bool has_tried_all() const { return ways_.size() < 2 || chosen_ != kUndecided; }
  // Whether there is something to take: the graphs that were put back, which are let go of where nobody waits for that;
  bool asks() const { return asks_; }
  std::vector<std::shared_ptr<device::ExecutableGraph>> take_put_back();
  // and the way that is to be made again, until made() or make_later() was called for it. kNone: there is none.
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t to_make();
  // Null: it cannot be made now, and is not tried this time.
  void made(std::size_t way, std::shared_ptr<device::ExecutableGraph> graph);
  void make_later() { awaited_ = kNone, is_taken_ = false; }
  // Launches of the chosen one, since it was chosen, that went elsewhere than where it is the fastest: that was busy, or
  // what they wait for was elsewhere.
  std::uint64_t elsewhere() const { return elsewhere_; }
  const Way& launched() const { return ways_[launched_]; }  // the one that was launched last, or is next
  // The next report() is another.
  void touch() { changed_ = true; }
  // How they stand, with `refused` behind them. False where nothing has changed since the last time.
  bool report(std::span<const WayReport> refused, std::vector<WayReport>& out);

 private:
  struct Trial {
    std::size_t way = 0, lane = 0;
    device::EventPtr start, end;
    double began_ns = 0, waited_ns = 0;  // by the host's clock; for how long the host waited for it, 0: it did not
  };
  // Of each, on the one lane that there is or without lanes; the first pays for an upload that was not made before.
  static constexpr std::uint32_t kTries = 12;
  // Another way than the one that stands is shorter by so much at least: events are half a microsecond exact, and the
  // fastest has the mean of kSureTimes of them.
  static constexpr double kGain = 0.99, kGainNs = 400;
  // A graph of few nodes is launched sooner than one of many side by side: 1 us against 25 for thirty. What launching
  // takes differs by itself, so it must be half as long, too. Where the host waits for what is tried (by the
  // scheduler; not by an event of its own), what it has waited from the call on is known, and by how much that is more
  // than events say counts, up to all that the one costs the host more. Else an eighth of what is saved:
  // most of a launch goes by while the device has begun. (On an H200 ten kernels side by side take 18.2 us as ten nodes
  // and 18.5 as one, the host 13 and 3 or 8 and 3, by the machine, and a host that waits for each 23.7 and 21.5 or 19.7
  // and 20.2.)
  static constexpr double kHostGainNs = 1000, kHostGain = 0.5, kHostShare = 0.125;
  // What the host was seen to wait was while ways were tried, one turn right behind the other. After something else its
  // launch takes it longer, and where that is more than half of what the device takes, the device then waits for its
  // last nodes: half of what is beyond that half counts. (The 18.3 us of ten side by side, on a host that took 14 for
  // them: 20.1 a turn while they were tried, 24.1 between others; where it took 8, 19.8 and 20.1.)
  static constexpr double kHostHalf = 0.5, kLateShare = 0.5;
  // The device begins with what is launched within microseconds, and a wait's end is seen within some; else it had
  // something else to do before.
  static constexpr double kMostBeyondNs = 10e3;
  static constexpr double kNearlyAsFast = 1.1;  // as what is drawn first: instances of one way differ by as much
  static constexpr double kLongNs = 500e3;  // of what takes longer there are kDrawsOfLong
  // What takes so much longer than that is given up, after kTriesAtLeast.
  static constexpr double kHopeless = 1.25;
  static constexpr std::uint32_t kTriesAtLeast = 2;
  // Of so many times on a lane the mean counts, without the longest sixth, which something disturbed: some graphs take
  // one of two times, as the device happens to begin with one branch or another, and a program gets both. Of fewer the
  // shortest, as the others may be those that pay for an upload: of what is given up, or not tried to the end.
  static constexpr std::uint32_t kManyTimes = 6;  // and so many tries of each on each of several lanes
  // Of what is the fastest then, where it is: of many ways that take one of two times the one that was lucky comes out
  // first (on an H200 one that took 36.9 us in four of six tries, and 43.6 in half of its launches).
  static constexpr std::uint32_t kSureTimes = 18;
  // Launches in a row that should be timed and go elsewhere: that lane is none, or there are none.
  static constexpr std::uint32_t kMostMissed = 48, kMissedOfAGap = 16, kMetAgain = 2;
  static constexpr std::size_t kUndecided = kNone;
  static constexpr std::uint64_t kAgainAfter = 1024, kFewWays = 4;    // launches, for each four ways
  static constexpr std::uint32_t kAgainGrowth = 2, kMostGrowths = 3;  // as a power of two; up to each 65,536
  // Tried again, a way has kManyTimes timed launches on a lane, each behind one that is not timed, which finds the
  // caches as the chosen way left them; and of so many launches two are of a way that is tried. So a program that was
  // fast stays so: in no stretch of it is every launch one of a slower way.
  static constexpr std::uint32_t kSpread = 8;

  void settle();
  std::vector<std::size_t> in_order_of_time() const;
  std::size_t fastest() const;
  void put_back_all_but(std::size_t fastest);
  bool awaits_another();
  void choose_now(std::size_t way);
  std::uint64_t again_after() const;
  void try_again();
  bool is_of_trial(std::size_t lane) const;
  std::size_t trial_lanes() const;
  std::uint32_t tries_needed(const Way& way, std::size_t lane) const;
  bool is_fastest(const Way& way) const;
  bool is_tried(const Way& way) const;
  void settle_next();
  void choose_trial();
  void plan(std::size_t way, std::size_t lane, bool is_timed = false);
  std::size_t lane_to_try(const Way& way) const;
  void fix_trial_lanes();
  void note_lane(const device::Queue& queue);
  void give_up_lane(std::size_t lane);
  void drop_lane(std::size_t lane);
  static double late_ns(const Way& way);
  static bool costs_less(const Way& way, const Way& other);
  static double beyond_ns(const Way& way, const Way& other);
  bool is_better(const Way& way, const Way& than) const;
  Status try_planned(device::Queue& queue, std::size_t lane);

  std::vector<Way> ways_;
  HostClock clock_;
  std::vector<Trial> trials_;   // under way
  bool is_wait_asked_ = false;  // for the last of these
  // The streams' that were free for it, until it came to such a one kMetAgain times in a row. Nothing is timed before.
  std::vector<const device::Queue*> lanes_;
  bool knows_lanes_ = false, has_lanes_ = true;
  std::uint32_t missed_ = 0, met_again_ = 0;
  std::array<std::uint32_t, kMostLanes + 1> missed_on_{};  // since a try came there
  std::size_t chosen_ = kUndecided, launched_ = 0;
  std::size_t running_ = 0;      // what is launched where nothing is tried: the one that was chosen last
  std::size_t awaited_ = kNone;  // to be made again
  bool is_taken_ = false;        // to_make() has told of it
  bool asks_ = false;
  std::vector<std::shared_ptr<device::ExecutableGraph>> put_back_;
  std::size_t lane_ = 0;  // of what stands
  // What settle_next() has settled, until launch().
  bool is_planned_ = false, is_timed_ = false;
  std::size_t planned_lane_ = 0;
  std::size_t standing_ = 0;  // what another has to be faster than by kGain: the plain one, or what was chosen before
  std::uint64_t since_chosen_ = 0, elsewhere_ = 0;  // launches
  std::uint32_t times_again_ = 0;
  std::uint32_t due_in_ = 0;              // launches until one is timed, where they are tried again
  std::size_t next_ = 0, next_lane_ = 0;  // that is timed next then, and where
  std::array<std::size_t, 2> again_{};    // the lanes of a trial again
  std::size_t next_other_ = 0;            // of these the second, where it can be
  bool changed_ = true;                   // since the last report()
  Found found_;                           // when one was chosen last
};

}  // namespace pergola::scheduler
