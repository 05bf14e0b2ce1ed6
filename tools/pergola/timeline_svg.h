// A timeline as a picture (SVG): a row for each stream, its copies, what has narrow tasks and each thread of the host,
// a box for each piece of work, a line for each dependency between rows. For pages that cannot open a trace viewer.
#pragma once

#include <string>

#include "src/scheduler/timeline.h"

namespace pergola::tool {

// The first `most` computations, and of narrow tasks the same, in the rows that a page has room for; the picture says
// how many it leaves out.
std::string timeline_svg(const scheduler::Timeline& timeline, std::size_t most = 400);

}  // namespace pergola::tool
