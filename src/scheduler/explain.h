// Why a run was scheduled as it was, in words: for each computation why it went on its stream and what orders it after
// each parent, for each wait of the host what it waited for. A pure function.
#pragma once

#include <string>

#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

// Plain text, in order of submission. Kernels' names are those of the PTX.
std::string explain(const Timeline& timeline);

}  // namespace pergola::scheduler
