// Keeps LLVM from being used while the process ends: its static objects go before a session in a static object of the
// program does, whose queues may still have something to compile.
//
//   thread-local objects of the main thread go ─▶ closed: what is inside is waited for, nobody comes in any more;
//   static objects go: LLVM's, the program's        a launch whose code is not there yet is interpreted
//
// Only the main thread's end is seen: exit() in another thread closes nothing. Where the main thread ends alone
// (pthread_exit) the rest of the process interprets what is not compiled. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

namespace pergola::device::cpu::jit {

class CompileGate {
 public:
  static CompileGate& instance();
  // Called where an engine is made or asked for code: the main thread closes the gate only if it came by here.
  static void watch_for_exit();

  bool enter();  // false where it is closed; else leave() follows, in the same thread
  void leave();
  // Waits for the other threads that are inside.
  void close();

  // Whoever uses LLVM has one, and does so only where it is open. One thread may have several.
  class Inside {
   public:
    Inside() : open_(instance().enter()) {}
    ~Inside() {
      if (open_) instance().leave();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const { return open_; }

   private:
    const bool open_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;       // guarded by mutex_, as is the next
  bool closed_ = false;  // for good
};

}  // namespace pergola::device::cpu::jit
