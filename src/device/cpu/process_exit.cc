#include "src/device/cpu/process_exit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "src/base/fork.h"
#include "src/device/cpu/cpu_device.h"

namespace pergola::device::cpu {
namespace {

std::atomic<bool> ending{false};  // set once, by the thread that ends the process; relaxed: it orders nothing

// Devices that live. Never destroyed: static destructors may still use devices.
class Living {
 public:
  static Living& instance() {
    static auto* const living = new Living;
    return *living;
  }
  void add(std::weak_ptr<CpuDevice> device) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(devices_, [](const auto& old) { return old.expired(); });
    devices_.push_back(std::move(device));
  }

 private:
  Living() {
    std::atexit([] { instance().cancel_all(); });
  }
  void cancel_all() {
    if (is_forked_child()) return;  // the devices and their threads are the parent's
    ending.store(true, std::memory_order_relaxed);
    std::vector<std::weak_ptr<CpuDevice>> devices;
    {
      const std::scoped_lock lock(mutex_);
      devices = devices_;
    }
    for (const auto& weak : devices) {
      if (const auto device = weak.lock()) {
        device->cancel_all(PERGOLA_ERROR(kDeviceLost, "The process ends while this work is still running."));
      }
    }
  }

  std::mutex mutex_;  // guards devices_
  std::vector<std::weak_ptr<CpuDevice>> devices_;
};

// exit() destroys the calling thread's thread-local objects before any static one; the main thread has no other end.
struct MainThreadEnd {
  const bool is_main = static_cast<long>(getpid()) == syscall(SYS_gettid);
  ~MainThreadEnd() {
    if (is_main) ending.store(true, std::memory_order_relaxed);
  }
};

}  // namespace

void cancel_at_exit(std::weak_ptr<CpuDevice> device) {
  Living::instance().add(std::move(device));
}

void watch_for_exit() {
  thread_local const MainThreadEnd end;
  (void)end.is_main;
}

bool process_is_ending() {
  return ending.load(std::memory_order_relaxed);
}

}  // namespace pergola::device::cpu
