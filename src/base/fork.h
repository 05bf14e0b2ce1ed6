// Processes that were forked from one that uses devices.
//
// A forked child has the parent's memory and none of its threads: queues whose worker is gone never end, locks that
// another thread held stay locked, and a GPU's context belongs to the parent. So nothing of Pergola can work there, and
// the C interface refuses every call instead of waiting for ever (capi/guard.h). exec() and children forked before the
// first session are not touched.
#pragma once

#include <string_view>

namespace pergola {

// From now on a forked child knows that it is one. Called when a session is made. Thread-safe.
void watch_for_fork();

// True in a child that was forked after watch_for_fork(). Thread-safe.
bool is_forked_child();

// What to tell the caller there.
std::string_view forked_child_message();

}  // namespace pergola
