// A fence for all threads of the process, on the cost of the one that calls it: the other side of a store and a load
// that must not change places needs none then (membarrier(2), private expedited).
#pragma once

namespace pergola::executor {

// Whether process_fence() can be called: false where the kernel has no such thing.
bool register_process_fence();
// A full fence in every thread of the process, where that is registered, and in this one.
void process_fence();

}  // namespace pergola::executor
