// What must not be destroyed before the process ends, since that would wait for what may never end.
#pragma once

#include <memory>

namespace pergola {

// Keeps `what` for good, where those who look for leaks find it. Thread-safe.
void leave_to_the_process(std::shared_ptr<const void> what);

}  // namespace pergola
