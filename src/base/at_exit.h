// What an object that may still live when the process ends does then: one that std::exit() leaves on the stack, one
// that was leaked, one of an interpreter that destroys nothing.
//
// Thread-safe: the process may end while the object goes in another thread. Nothing is done in a forked child.
#pragma once

#include <functional>

namespace pergola {

class AtExit {
 public:
  // `act` is called once, by the thread that ends the process, unless cancel() comes first. It may not wait for long:
  // other threads go on, or stand still with locks in their hands.
  explicit AtExit(std::function<void()> act);
  ~AtExit() { cancel(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;
  // It will not be called any more, and is not under way; instead of it `act` is called here, for whose end the end of
  // the process waits. False where it has been called, or in a forked child: then nothing is.
  bool cancel(const std::function<void()>& act = nullptr);

 private:
  class Living;
  const std::function<void()> act_;
};

}  // namespace pergola
