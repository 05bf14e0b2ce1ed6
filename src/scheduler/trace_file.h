// A timeline as a file in the Trace Event Format (JSON), which Perfetto (ui.perfetto.dev) and chrome://tracing open:
//
//   process  the device
//   track    stream N          a slice a kernel, fill or copy within the device
//            copies to the device, copies to the host
//                              a slice a copy; a GPU has an engine for each way. More of them, "(2)", where copies of
//                              several streams were on their way at once
//            host thread N     what it waited for; its own reads and writes of arrays
//   process  narrow tasks, where their pool notes them: a track a resident block (or thread of the CPU device), and
//            more of them where tasks of one ran beside each other
//   arrow    a dependency, from the end of the parent to the start of the child (or the end of a host's wait)
//
// Everything a Timeline has is in `args` and `otherData`, so that what is read is what was written, to a picosecond.
#pragma once

#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

std::string print_trace(const Timeline& timeline);
// Any bytes may be given. kParseError says what is wrong and where; `name` is the file's, for messages. Events of kinds
// that print_trace() does not make are passed over.
Result<Timeline> parse_trace(std::string_view text, std::string_view name);

}  // namespace pergola::scheduler
