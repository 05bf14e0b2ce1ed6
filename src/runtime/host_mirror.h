// The host's side of an array in the device's own memory: a page-locked copy that the program works on by pointer, and
// where the newest contents are. Copies between the two are vertices of the DAG, so that nobody waits for them but the
// host where it reads (paper 003, IV-A: the arrays of its runtime are used by both sides alike).
//
//            access(read): download           launch that writes
//   kDevice ────────────────────────▶ kBoth ─────────────────────▶ kDevice
//      └──── access(write) ──▶ kHost ◀──┘ access(write)
//                                │ anything on the device uses the array: upload
//                                └───────────────────────────────▶ kBoth
//
// Threads: thread-safe. `mutex_` guards the state, and is held while a copy is submitted, so that whoever finds kBoth
// comes behind the upload; nobody waits for work under it. A download stores kBoth before it is submitted and
// changed_on_device() comes after its launch was: whichever order the scheduler gave the two, contents that the launch
// changed are not taken for the mirror's. Locks in order: LocalSession's list of mirrors, `mutex_`, the scheduler's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/device/buffer.h"
#include "src/scheduler/scheduler.h"
#include "src/session/session.h"

namespace pergola::runtime {

class LocalSession;

class HostMirror {
 public:
  // Of all of `buffer`, which the host cannot reach and which `resource` stands for. All outlive it.
  HostMirror(LocalSession& session, const device::BufferPtr& buffer, const scheduler::Resource& resource)
      : session_(session), buffer_(buffer), array_(const_cast<scheduler::Resource&>(resource)) {}
  ~HostMirror() { retire(); }
  // Lets go of the memory, which copies under way keep; nothing more may be asked of it. No other thread uses it.
  void retire();
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;

  // Waits until the host may do so. To read: until the newest contents are there; to write: until no copy uses them any
  // more.
  Result<std::span<std::byte>> access(scheduler::Mode mode);
  // Starts a copy to where the contents are not yet.
  Status prefetch(session::Side to);
  session::Location location() const;

  // Before work on the device uses the array, and after work that changes it was submitted.
  Status settle() { return state_.load(std::memory_order_acquire) == State::kHost ? upload() : Status(); }
  void changed_on_device() {
    if (state_.load(std::memory_order_acquire) != State::kNone) forget();
  }

 private:
  enum class State : std::uint8_t { kNone, kDevice, kHost, kBoth };  // kNone: there is no mirror yet

  Status make();  // under mutex_, as the next two
  Status download();
  void store(State state) { state_.store(state, std::memory_order_release); }
  Status upload();
  void forget();
  Status copy(bool to_device);

  LocalSession& session_;
  const device::BufferPtr& buffer_;
  scheduler::Resource& array_;
  std::atomic<State> state_{State::kNone};  // written under mutex_
  std::mutex mutex_;
  device::BufferPtr mirror_;  // host-visible; null in kNone, then as long as this
  std::unique_ptr<scheduler::Resource> resource_;
};

// The mirrors of a session, for work that may use any array. Thread-safe.
class Mirrors {
 public:
  void add(HostMirror& mirror);  // nothing where it is there
  void remove(HostMirror& mirror);
  Status settle_all();
  void all_changed_on_device();

 private:
  std::atomic<bool> any_{false};  // stays true: spares the lock where no array has a mirror
  std::mutex mutex_;
  std::vector<HostMirror*> mirrors_;  // guarded by mutex_
};

}  // namespace pergola::runtime
