// What the host's refusal of a thread is to a user: std::thread's exception as an error of the library.
#pragma once

#include <system_error>

#include "src/base/result.h"

namespace pergola {

// kResourceExhausted where the host has no more threads for this process; another failure of the system is kInternal.
inline Error error_of(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) return PERGOLA_ERROR(kInternal, "{}", error.what());
  return PERGOLA_ERROR(
      kResourceExhausted,
      "The host gives this process no more threads; `ulimit -u` and the cgroup's pids.max say how many "
      "it may have.");
}

}  // namespace pergola
