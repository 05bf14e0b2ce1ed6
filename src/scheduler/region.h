// A region of launches that recurs: kept launches, and the graphs that stand for runs of them.
//
//   region   launch 0 · · · · · · · · · · · · · · · · · · length - 1, then 0 again
//   chunks   [0, 20)             [20, 40)        [40, 50)        each one graph, cut where the host steps in
//
// Of a piece that begins where the host steps in, the first uploads may be no part of a graph (graph_copies.cc):
//
//   chunks   [0, 1)              [1, 20)             [20, 50)       0 goes when it comes
//            leads
//
// Of the piece behind them the next uploads may go ahead as well, where the link is what the turn waits for and they
// come after nothing of the piece: they keep their places among its launches and have no nodes in its graph
// (Chunk::ahead).
//
// That is one of the forms of turns (turn_forms.h). The chunks of forms that are tried are kept aside meanwhile:
// of the same launches, cut at the same steps of the host.
//
// A kept launch holds its module, and of resources only the number: one that has gone is never met again, as numbers
// are not given twice.
//
// A launch recurs if only its scalars differ, too. Where they do its kernel takes them from memory (BlockForm), and the
// chunk has a block there with a slot for each such launch; what the other launches are given is part of the graph:
//
//   launch     0   1   2   3   4        1 and 4 vary
//   block      [ parameters of 1 | parameters of 4 ]      one copy before each launch of the graph
//
// Where its arrays differ from turn to turn, it recurs as well (Region::rebinds), if launches stand to each other as
// they did when they were met (array_slots.h). Such launches have their parameters in the block, too, and the graph
// uses what they came with. Those that cannot go alone, between two chunks.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "src/device/graph.h"
#include "src/scheduler/array_slots.h"
#include "src/scheduler/graph_ways.h"
#include "src/scheduler/host_pace.h"
#include "src/scheduler/resource.h"
#include "src/scheduler/turn_forms.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

// A copy by value. It keeps no memory: neither does a graph with it, as that of an array that goes while work uses it
// stays until the work has ended (Scheduler::retire()), and nothing that uses it comes afterwards.
struct KeptCopy {
  std::weak_ptr<device::Buffer> to, from;
  std::size_t size_bytes = 0;
};

// A launch by value, or a copy in its place.
struct Launch {
  Launch(const Work& work, std::uint64_t its_hash);
  Work work() const;  // points into this; with the scheduler's lock, as what it uses may change
  // Queues it, with the parameters as they are now.
  Status enqueue(device::Queue& queue) const;

  // The parameters to launch it with now.
  std::span<const std::byte> latest_parameters() const {
    if (varies()) return latest;
    return parameters;
  }
  bool varies() const { return !latest.empty(); }
  // From now on the chunk has them in its block.
  void vary() { latest.assign(parameters.begin(), parameters.end()); }
  void set_latest(std::span<const std::byte> bytes) { std::copy(bytes.begin(), bytes.end(), latest.begin()); }
  // Its arrays change, too; `latest` has their addresses.
  bool rebinds() const { return is_rebound; }
  void rebind() {
    if (!varies()) vary();
    is_rebound = true;
    goes_alone = !may_be_in_block();
    latest_accesses.assign(accesses.begin(), accesses.end());
    latest_ids.assign(resource_ids.begin(), resource_ids.end());
  }
  void set_latest_accesses(std::span<const Access> given) {
    latest_accesses.assign(given.begin(), given.end());
    for (std::size_t i = 0; i < given.size(); ++i) latest_ids[i] = given[i].resource->id();
  }
  bool may_be_in_block() const { return form != nullptr && !form->refused; }
  // It counts as met with what it came with last.
  void meet_again();
  std::span<const Access> now_accesses() const {
    if (rebinds()) return latest_accesses;
    return accesses;
  }
  std::span<const std::uint64_t> now_ids() const {
    if (rebinds()) return latest_ids;
    return resource_ids;
  }
  // What is looked at of each that comes again (KnownCall).
  void prefetch() const {
    __builtin_prefetch(&hash);
    __builtin_prefetch(&accesses);
  }

  std::uint64_t hash = 0;
  WorkKind kind = WorkKind::kKernel;
  std::optional<KeptCopy> copy;  // else a launch, which has the next six
  device::ModulePtr module;
  const device::Kernel* kernel = nullptr;
  device::LaunchConfig config;
  // As many as most launches have are in it: each is kept as it is learnt, and copied.
  template <typename T, std::size_t kMost>
  using Few = boost::container::small_vector<T, kMost>;
  Few<std::byte, 64> parameters;    // as it was met first
  ByteRanges scalars;               // of them; none where there is no form
  std::shared_ptr<BlockForm> form;  // null where there is none
  Few<Access, 4> accesses;
  Few<std::uint64_t, 4> resource_ids;
  Few<LaunchMemory, 4> memory;  // of the resources
  Mode universal = Mode::kNone;
  WorkSite* site = nullptr;
  // As it came last, where its scalars change, and where its arrays do. Guarded by the scheduler's lock.
  std::vector<std::byte> latest;
  bool is_rebound = false;
  bool goes_alone = false;  // and its parameters cannot be in memory: it is part of no graph
  bool went_ahead = false;  // an upload: of the held piece that it came in. Guarded by the scheduler's lock
  std::vector<Access> latest_accesses;
  std::vector<std::uint64_t> latest_ids;
};
struct Hashes {
  std::uint64_t whole = 0;  // equal for equal launches
  std::uint64_t shape = 0;  // for launches that are equal but for their scalars
};
Hashes hashes_of(const Work& work);
enum class Match : std::uint8_t { kNone, kArrays, kShape, kWhole };
// Whether `work` is the same launch again, of the same resources, or differs only in scalars that a block may hold; or
// where the launch may rebind, also in its arrays.
Match match(const Launch& launch, const Work& work, bool may_rebind = false);
// Whether a kept launch stands for another: their scalars may differ where those of `known` change anyway.
bool stands_for(const Launch& known, const Launch& found);
// "launch 3, 'b', was expected and 'c' came": how `work` differs.
std::string mismatch_text(std::size_t phase, const Launch& expected, const Work& work);
// In the order of their first launches.
std::vector<KernelCount> count_kernels(std::span<const Launch* const> launches);
// Whether the order of two launches matters.
bool conflict(const Launch& a, const Launch& b);
// The same of what uses just these bytes, and a launch. `readers_conflict`: two that read the same bytes do.
bool conflict(std::span<const Access> accesses, const Launch& launch, bool readers_conflict);

// The parameters of those launches of a chunk whose scalars change.
struct ParameterBlock {
  struct Slot {
    std::size_t launch = 0;  // of Region::launches
    std::size_t offset_bytes = 0;
  };
  std::vector<Slot> slots;
  std::vector<std::byte> staged;  // what the next launch of the graph copies; guarded by the scheduler's lock
  device::BufferPtr memory;       // on the device, where the chunk is ready
};

// What is looked at of a launch that comes again and is held, in a row. Guarded by the scheduler's lock.
//
// A turn's pieces and their arrays are more than the first cache holds, and after something else than any does. So
// while one is held, what the third behind it will look at is fetched, and the fourth with its KnownCall, which say
// where that is (Region::look_ahead()). On the host of an H200, a turn of ten arrays written, launches, and downloads:
// 0.98 us for each three calls without that, 0.62 with it, and 1.21 and 1.10 after 64 MB of something else.
struct KnownCall {
  // host_state_changes before the latest look at the launch's arrays, after which there was nothing left to be noted;
  // ~0: there was none. What that look noted was itself a change. Before the text, which seldom fills its place: in the
  // lines that are fetched.
  std::uint64_t looked_at = ~std::uint64_t{0};
  // Where its arrays are, and their host sides. Never followed, as they may have gone.
  boost::container::static_vector<const void*, 12> looks_at;
  // As it was met last; none of what is no launch, or whose scalars or arrays change.
  KeptCallText text;
  bool changes = false;  // these do, in one of its turns at least: it is to be known by no text
  void change() {
    text.forget();
    changes = true;
  }

  // Fetched into the cache while something else is done.
  void prefetch() const {
    constexpr std::size_t kLine = 64, kMost = 6;  // texts of values seldom have more
    const auto* const bytes = reinterpret_cast<const char*>(this);
    for (std::size_t at = 0; at < std::min(sizeof *this, kMost * kLine); at += kLine) __builtin_prefetch(bytes + at);
  }
  void prefetch_looks() const {
    for (const void* const at : looks_at) __builtin_prefetch(at);
  }
  void note_looks(std::span<const Access> accesses);
};

// What is told of a region, by whatever pieces it has had.
struct RegionStory {
  RegionReport report;  // but for its graphs
  std::deque<std::shared_ptr<GraphReport>> graphs;
  static constexpr std::size_t kMostGraphs = 128;
};

struct Chunk {
  enum class State : std::uint8_t { kNone, kBuilding, kReady, kRefused };
  std::size_t begin = 0, end = 0;  // of Region::launches
  bool leads = false;              // uploads that go when they come; never a graph
  bool is_first = false;           // of those since the host stepped in that may be graphs
  // Uploads of it that go when they come while it is held, as those that lead it: in order, neither the first of it nor
  // the last. All others are nodes of its graph, in their order.
  std::vector<std::size_t> ahead;
  State state = State::kNone;
  GraphWays ways;                                // where ready
  std::vector<std::vector<Access>> free_copies;  // what those use that come after nothing of the chunk
  std::uint32_t delays = 0;                      // its latest launches, in a row, that delayed one of these
  std::uint32_t late = 0;                        // as Region::late, where it is bound by its copies
  std::vector<Access> accesses;                  // of all its launches together
  Mode universal = Mode::kNone;
  std::unique_ptr<ParameterBlock> block;  // null where nothing changes
  std::unique_ptr<ArraySlots> slots;      // null where no arrays change
  std::string name;                       // "graph of 24 launches: scale, add"
  WorkSite* site = nullptr;
  double device_ns = 0;  // the shortest time between its end and that of the chunk before; 0: not known
  // The longest path of what its launches were seen to take one by one, by when its graph was made; 0: not known.
  double launches_ns = 0;
  std::uint32_t times_seen = 0;         // of these
  std::string refusal;                  // where refused: why
  std::uint64_t launched = 0;           // as a graph
  std::uint64_t launched_before = 0;    // by the begin of the turn, while forms are tried
  std::uint64_t region = 0;             // RegionReport::number
  std::vector<KernelCount> kernels;     // in the order of their first launches
  std::shared_ptr<GraphReport> report;  // null until it is thought of
  std::vector<WayReport> refused_ways;
  std::string key;              // graph_key.h; "" where nothing is kept of it
  bool has_tried_ways = false;  // all that there are
  bool goes_ahead(std::size_t launch) const {
    return !ahead.empty() && std::ranges::find(ahead, launch) != ahead.end();
  }
  std::vector<std::size_t> in_graph() const {  // of Region::launches
    std::vector<std::size_t> all;
    for (std::size_t i = begin; i < end; ++i)
      if (!goes_ahead(i)) all.push_back(i);
    return all;
  }
  // As a graph: by what its launches took, or by its own time where that is known and less.
  double takes_at_least_ns() const { return device_ns == 0 ? launches_ns : std::min(device_ns, launches_ns); }
  // Brings the report's ways up to date.
  void report_ways() {
    if (report == nullptr) return;
    ways.report(refused_ways, report->ways);
    report->elsewhere = ways.elsewhere();
  }
};

struct Region {
  static constexpr std::size_t kFewestLaunches = 2;  // in a graph
  // Of uploads that go when they come: they are there before long, and no graph is cut for them, nor goes beside them.
  static constexpr std::size_t kSoonBytes = 2'000'000;

  // As they were met; never changed after that but for Launch::latest, and so read without the lock.
  std::vector<Launch> launches;
  // Of each launch of a turn, all of which are the same but for scalars; where arrays change, of each launch. So what
  // is looked at of short turns stays in the first cache.
  std::vector<KnownCall> calls;
  KnownCall& call_of(std::size_t launch) { return calls[launch % calls.size()]; }
  std::vector<bool> cut_before;  // a chunk begins at this launch: the host did something else before it
  std::size_t turn = 0;          // launches after which it repeats itself; it has one turn or several
  // In a chunk, a quarter more where that leaves no rest, half as many where it varies(); where `grows`, in the first
  // one after a cut, and in the next twice as many.
  std::size_t most_launches = 0;
  bool grows = false;
  bool found_without_copies = false;  // while copies counted as no part of a turn
  bool rebinds = false;               // it was found by how launches stand to each other, not by their arrays
  std::uint32_t unbound = 0;          // grows where its graphs did not stand for what came, shrinks with each that did
  bool same_again = false;            // its arrays come again, after more launches than it has
  static constexpr std::size_t kMostGrown = 256;
  std::size_t most_grown = kMostGrown;  // where it grows
  std::vector<std::shared_ptr<Chunk>> chunks;
  TurnForm form = TurnForm::kLeads;  // what the chunks are cut for
  bool has_leads = false;            // where its forms differ
  bool leads_to_graph = false;       // what came behind the uploads of the latest turn was held, to be a graph
  std::uint32_t trials = 0;          // that were begun as the chosen form did not fit any more
  std::unique_ptr<TurnForms> trial;  // while forms are tried
  std::uint32_t again_in = 0;        // turns until they are tried again; 0: they are not
  std::uint32_t times_again = 0;
  bool on_idle = false;             // its launches are held on a device that has nothing queued, too
  HostPace pace;                    // the same where the host does not wait for turns
  std::uint32_t flushed_turns = 0;  // then, and no form is tried: in a row, in which something went before its time
  std::array<std::vector<std::shared_ptr<Chunk>>, kTurnForms> aside;  // meanwhile: the chunks of the others
  std::uint32_t cuts = 0;                                             // how often it has been cut
  std::uint32_t late = 0;       // grows where launches were held too long, shrinks with each graph
  std::uint32_t shortened = 0;  // how often its pieces have been made shorter for that since they were whole,
  std::uint32_t whole_in = 0;   // turns until they are again; 0: they are
  std::uint32_t times_shortened = 0;
  std::uint32_t rest = 0, rests = 0;  // turns for which it is left alone yet; how often it was
  std::shared_ptr<RegionStory> story;
  // What launches use, by array, for first_in_conflict(): made when that is asked first, as regions come and go that
  // nothing ever steps into. Guarded by the scheduler's lock.
  struct Use {
    std::uint64_t resource = 0;  // Resource::id
    std::size_t launch = 0;
    Range range;
    Mode mode = Mode::kNone;
  };
  mutable std::vector<Use> uses;                // by `resource`, then by `launch`
  mutable std::vector<std::size_t> universals;  // launches that may use anything
  mutable std::vector<std::size_t> rebound;     // launches whose arrays change, which are not in `uses`

  // Another one like this of these launches, whole turns, not cut yet.
  std::shared_ptr<Region> with(std::vector<Launch> others, std::vector<KnownCall> their_calls) const;
  bool begins_at_a_cut() const { return cut_before.front(); }
  // This launch is the next.
  void look_ahead(std::size_t launch) const {
    constexpr std::size_t kNear = 3;
    if (calls.size() != launches.size()) return;  // a short turn
    const auto behind = [&](std::size_t by) {
      return launch + by < calls.size() ? launch + by : (launch + by) % calls.size();
    };
    const std::size_t far = behind(kNear + 1), near = behind(kNear);
    calls[far].prefetch();
    launches[far].prefetch();
    __builtin_prefetch(launches[near].accesses.data());
    calls[near].prefetch_looks();
  }
  // Whether it is a whole turn behind its first uploads, and more of it are copies than launches.
  bool is_bound_by_copies(const Chunk& chunk) const;
  const std::shared_ptr<Chunk>& chunk_of(std::size_t launch) const;  // until it is cut anew
  std::vector<const Launch*> in_graph(const Chunk& chunk) const;
  // The first of the launches [begin, end) that conflicts with what uses just these bytes; `end` where none does. The
  // same as to ask conflict() of one after the other, but for the time: programs step in once for each array. Of those
  // that rebind it is not known what they will use, until they have come: `have_come`. With the scheduler's lock.
  std::size_t first_in_conflict(std::span<const Access> accesses, std::size_t begin, std::size_t end,
                                bool readers_conflict, bool have_come) const;
  // Cuts the region into chunks, anew.
  void cut();
  // Another form: its chunks are those that were put aside, or are cut.
  void take(TurnForm next);
  // Whether it is one of its chunks, of whichever form.
  bool has(const std::shared_ptr<Chunk>& chunk) const;
  // Whether uploads that do not yet would go when they come if the host stepped in before this launch, with which a
  // chunk begins.
  bool would_lead(std::size_t launch) const;
  // The first launch of the chunk that may be delayed where its graph waits for an upload of this resource; chunk.end
  // where none is.
  std::size_t first_delayed_by(const Chunk& chunk, std::uint64_t resource) const;
  bool varies() const;  // whether any launch's scalars change
  // The scalars of this launch change, or its arrays do: its chunk is another from now on.
  void vary(std::size_t launch, bool rebinds = false);
  // Whether the launches of another, whole turns as well, stand to each other as these do from `start` on.
  bool has_pattern_of(const Region& other, std::size_t start) const;
  // Brings the block of a chunk, if it has one, up to date, and what it uses.
  void stage(Chunk& chunk) const;
  // That of the graph behind uploads that lead it, for its next launch: GraphWays::choose(); null where there is none.
  const device::Queue* queue_behind(const Chunk& leads) const;
  // `forms` of the block's slots, at `block`. The spec keeps nothing of what its copies copy: whoever uses it has
  // copied_by() meanwhile. Without the lock.
  device::GraphSpec spec_of(const Chunk& chunk, std::span<const BlockForm::Kernel> forms,
                            const device::BufferPtr& block) const;
  // The memory of the chunk's copies, which stays as long as it is held; kFailedPrecondition where some has gone.
  // Without the lock.
  Result<std::vector<device::BufferPtr>> copied_by(const Chunk& chunk) const;

 private:
  std::size_t next_cut(std::size_t launch) const;
  bool is_bound_by_link(std::size_t bytes, std::size_t at, std::size_t stop) const;
  std::size_t most_leads(std::size_t begin, std::size_t stop) const;
  std::size_t lead_of(std::size_t begin, std::size_t stop) const;
  std::vector<std::size_t> pieces_of(std::size_t begin, std::size_t stop) const;
  std::vector<std::shared_ptr<Chunk>> cut_with(std::span<const std::shared_ptr<Chunk>> before) const;
  std::vector<std::size_t> ahead_in(std::size_t lead, std::size_t begin, std::size_t end) const;
  std::shared_ptr<Chunk> make_chunk(std::size_t begin, std::size_t end, std::vector<std::size_t> ahead = {}) const;
};

}  // namespace pergola::scheduler
