#include "src/base/fork.h"

#include <pthread.h>

#include <atomic>

namespace pergola {
namespace {

// Written by the child's only thread before it runs on; relaxed: it orders nothing.
std::atomic<bool> forked{false};

}  // namespace

void watch_for_fork() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

bool is_forked_child() {
  return forked.load(std::memory_order_relaxed);
}

std::string_view forked_child_message() {
  return "This process was forked from one that uses Pergola: its devices and their threads did not come along. Start "
         "such a process with exec (in Python: multiprocessing's 'spawn' or 'forkserver' method), or open the first "
         "session only after the fork.";
}

}  // namespace pergola
