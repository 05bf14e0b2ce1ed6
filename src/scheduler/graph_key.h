// By what a graph is known again in a later session (tuning.h): all that decides how long it takes, and nothing that
// differs from run to run as addresses and numbers of resources do.
#pragma once

#include <span>
#include <string>

#include "src/device/graph.h"
#include "src/scheduler/region.h"

namespace pergola::scheduler {

// 32 digits. `plain`: the graph, a node for each of `launches`, behind which there may be other nodes. The scalars of a
// launch whose parameters change, as `varies` says by launch, count for nothing, nor do those of one of which nobody
// knows which they are. Two graphs that differ in those alone, or in code behind the same name with the same resources,
// have one key.
std::string graph_key(const device::GraphSpec& plain, std::span<const Launch* const> launches,
                      std::span<const bool> varies);

}  // namespace pergola::scheduler
