#include "src/device/cpu/jit/compile_gate.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace pergola::device::cpu::jit {
namespace {

thread_local int own_depth = 0;  // how often the calling thread is inside

// exit() destroys the calling thread's thread-local objects before any static one. In a forked child nobody who was
// inside comes out.
struct MainThreadEnd {
  const pid_t process = getpid();
  const bool is_main = static_cast<long>(process) == syscall(SYS_gettid);
  ~MainThreadEnd() {
    if (is_main && getpid() == process) CompileGate::instance().close();
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
  if (closed_) return false;
  ++inside_;
  ++own_depth;
  return true;
}

void CompileGate::leave() {
  {
    const std::scoped_lock lock(mutex_);
    --inside_;
    --own_depth;
  }
  empty_.notify_all();
}

void CompileGate::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  empty_.wait(lock, [this] { return inside_ == own_depth; });
}

}  // namespace pergola::device::cpu::jit
