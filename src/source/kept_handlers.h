// The process's handlers of SIGINT and SIGTERM while a library compiles that sets its own: NVRTC's end the process at
// once, with status 4, so that a Ctrl-C in a notebook would take all that is in it, and a service would not run what it
// does when it is told to end. A thread looks whether the library has set a handler, and sets back the one before:
// within half a millisecond. The library sets that one back itself when it is done.
//
// The compilation goes on; the signal is seen as the program wants it.
#pragma once

#include <signal.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace pergola::source {

class KeptHandlers {
 public:
  // `in_library`: the address of anything in it.
  explicit KeptHandlers(const void* in_library);
  ~KeptHandlers();
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;

 private:
  struct Kept {
    int signal;
    struct sigaction action;
    bool is_known;
  };
  bool is_of_library(const struct sigaction& action) const;
  void look();
  void watch();

  const void* library_ = nullptr;  // where it is; null: not known, and nothing is done
  std::array<Kept, 2> kept_{};
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread watcher_;
};

}  // namespace pergola::source
