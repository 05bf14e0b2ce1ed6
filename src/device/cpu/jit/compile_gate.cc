#include "src/device/cpu/jit/compile_gate.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/fork.h"

namespace pergola::device::cpu::jit {
namespace {

// exit() destroys the calling thread's thread-local objects before any static one; the main thread has no other end.
struct MainThreadEnd {
  const bool is_main = static_cast<long>(getpid()) == syscall(SYS_gettid);
  ~MainThreadEnd() {
    if (is_main && !is_forked_child()) CompileGate::instance().close();
  }
};

}  // namespace

CompileGate& CompileGate::instance() {
  static auto* const gate = new CompileGate;  // never destroyed
  return *gate;
}

void CompileGate::watch_for_exit() {
  thread_local const MainThreadEnd end;
  (void)end.is_main;
}

bool CompileGate::enter() {
  const std::scoped_lock lock(mutex_);
  inside_ += closed_ ? 0 : 1;
  return !closed_;
}

void CompileGate::leave() {
  {
    const std::scoped_lock lock(mutex_);
    --inside_;
  }
  empty_.notify_all();
}

void CompileGate::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  empty_.wait(lock, [this] { return inside_ == 0; });
}

}  // namespace pergola::device::cpu::jit
