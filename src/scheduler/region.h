// A region of launches that recurs: kept launches, and the graphs that stand for runs of them.
//
//   region   launch 0 · · · · · · · · · · · · · · · · · · length - 1, then 0 again
//   chunks   [0, 20)             [20, 40)        [40, 50)        each one graph, cut where the host steps in
//
// A kept launch holds its module, and of resources only the number: one that has gone is never met again, as numbers
// are not given twice.
#pragma once

#include <memory>
#include <vector>

#include "src/device/graph.h"
#include "src/scheduler/resource.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

// A launch by value.
struct Launch {
  Launch(const Work& work, std::uint64_t its_hash);
  Work work() const;  // points into this
  KernelCall call() const { return {module, *kernel, config, parameters}; }

  std::uint64_t hash = 0;
  device::ModulePtr module;
  const device::Kernel* kernel = nullptr;
  device::LaunchConfig config;
  std::vector<std::byte> parameters;
  std::vector<Access> accesses;
  std::vector<std::uint64_t> resource_ids;
  Mode universal = Mode::kNone;
  WorkSite* site = nullptr;
};
// Equal for equal launches.
std::uint64_t hash_of(const Work& work);
// Whether `work` is the same launch again, of the same resources.
bool equals(const Launch& launch, const Work& work);
// The same of two kept launches.
bool equals(const Launch& a, const Launch& b);
// Whether the order of two launches matters.
bool conflict(const Launch& a, const Launch& b);

struct Chunk {
  enum class State : std::uint8_t { kNone, kBuilding, kReady, kRefused };
  std::size_t begin = 0, end = 0;  // of Region::launches
  State state = State::kNone;
  std::shared_ptr<device::ExecutableGraph> graph;  // where ready
  std::vector<Access> accesses;                    // of all its launches together
  Mode universal = Mode::kNone;
  std::string name;  // "graph of 24 launches: scale, add"
  WorkSite* site = nullptr;
  double device_ns = 0;        // the shortest time between its end and that of the chunk before; 0: not known
  std::string refusal;         // where refused: why
  std::uint64_t launched = 0;  // as a graph
};

struct Region {
  std::vector<Launch> launches;   // as they were met; never changed after that, and so read without the lock
  std::vector<bool> cut_before;   // a chunk begins at this launch: the host did something else before it
  std::size_t turn = 0;           // launches after which it repeats itself; it has one turn or several
  std::size_t most_launches = 0;  // in a chunk
  std::vector<std::shared_ptr<Chunk>> chunks;
  std::uint32_t cuts = 0;  // how often it has been cut
  std::uint32_t late = 0;  // grows where launches were held too long, shrinks with each graph
  std::uint32_t rest = 0, rests = 0;  // turns for which it is left alone yet; how often it was

  bool begins_at_a_cut() const { return cut_before.front(); }
  std::shared_ptr<Chunk> chunk_of(std::size_t launch) const;
  // Cuts the region into chunks, anew.
  void cut();
  device::GraphSpec spec_of(const Chunk& chunk) const;
};

}  // namespace pergola::scheduler
