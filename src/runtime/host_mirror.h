// The host's side of an array in the device's own memory (of managed memory: managed_memory.h): a page-locked copy that
// the program works on by pointer, and where the newest contents are. Copies between the two are vertices of the DAG,
// so that nobody waits for them but the host where it reads (paper 003, IV-A: the arrays of its runtime are used by
// both sides alike).
//
//                access(read): download           launch that writes
//   kDevice ───────────────────────────▶ kDownloaded ──────────────▶ kDevice
//      └── access(write) ──▶ kHost ◀──────────┘ access(write)           ▲
//                              │ ▲ access(write)                        │
//   used on the device: upload ▼ └──── kUploaded ───────────────────────┘
//
// kDownloaded and kUploaded are the same to the program, "both", until work fails: a copy that was skipped made
// nothing, so the side that it came from has the contents.
//
// Threads: thread-safe. `mutex_` guards the state, and is held while a copy is submitted, so that whoever finds
// kUploaded comes behind the upload. But for execution=sync, and for tasks that launches became (tasks=small), nobody
// waits for work under it; whoever holds a HostAccess takes no `mutex_`, as submitting may wait for that access's end.
// A download stores its state before it is submitted, and changed_on_device() comes after its launch was: whichever
// order the scheduler gave the two, contents that the launch changed are not taken for the mirror's. That the host
// works on an array while another thread launches with it is for the program to order. Locks in order: `mutex_`, the
// scheduler's. A launch that comes again with the same text waits for no `mutex_`: under the scheduler's lock it looks
// whether a copy has to come first, and goes from "both" to kDevice (Resource::changed_on_device()). That is in one
// piece with its place among the work, so a download is either before both or behind both, and stays what it says in
// either case. Its uploads are queued there, too, by begin_upload() and end_upload(): `mutex_` against the order of
// locks, and so taken only where it is free. Nor is `mutex_` held while others' accesses are waited for.
#pragma once

#include <array>
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

class HostMirror final : public scheduler::HostSide, public std::enable_shared_from_this<HostMirror> {
 public:
  // Of all of `buffer`, which the host cannot reach and which `resource` stands for. All stand until retire().
  HostMirror(LocalSession& session, const device::BufferPtr& buffer, scheduler::Resource& resource)
      : session_(session), buffer_(buffer), array_(resource) {
    array_.set_host_side(&state_, this);
  }
  // The array goes: lets go of the memory, which copies under way keep. From then on only Mirrors asks, in vain.
  void retire();
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;

  // Waits until the host may do so, or kTimeout. To read: until the newest contents are there; to write: until no copy
  // uses them any more.
  using Deadline = scheduler::Scheduler::Deadline;
  Result<std::span<std::byte>> access(scheduler::Mode mode, Deadline deadline);
  // Starts a copy to where the contents are not yet.
  Status prefetch(session::Location to);
  session::Location location() const;

  // Before work on the device uses the array, and after work that changes it was submitted or others have changed it.
  Status settle() { return state_.load(std::memory_order_acquire) == State::kHost ? upload() : Status(); }
  void changed_on_device() {
    if (state_.load(std::memory_order_acquire) != State::kNone) forget();
  }
  // settle() by the scheduler, where the array is to be uploaded before a launch that comes again with the same text.
  bool begin_upload() override;
  void end_upload(bool is_queued) override;
  // Work has failed, which may have been a copy of this: what was copied is not believed any more.
  void failed();
  bool holds(const std::byte* at);

 private:
  using State = scheduler::HostState;

  Status upload();
  void forget();
  // Under mutex_:
  Status make();
  Status download();
  Status copy(bool to_device);
  void doubt();
  // Without:
  template <typename Act>
  Status in_turn(bool to_device, const Act& act);
  Status await_turn_of_copy(bool to_device, Deadline deadline) const;
  std::array<scheduler::Access, 2> accesses_of_copy(bool to_device) const;
  void store(State state) { scheduler::change(state_, state); }

  LocalSession& session_;
  const device::BufferPtr& buffer_;
  scheduler::Resource& array_;
  std::atomic<State> state_{State::kNone};  // written under mutex_, and by Resource::changed_on_device()
  std::mutex mutex_;
  device::BufferPtr mirror_;  // host-visible; null in kNone, then as long as this
  std::unique_ptr<scheduler::Resource> resource_;
};

// The mirrors of a session, for work that may use any array. Thread-safe. Whatever it asks of mirrors it asks without
// its lock: an upload may wait for a library call, whose function may let go of an array.
class Mirrors {
 public:
  void add(const std::shared_ptr<HostMirror>& mirror);  // nothing where it is there
  void remove(HostMirror& mirror);
  Status settle_all();
  void all_changed_on_device();
  void failed();
  bool any_holds(std::span<const std::byte> bytes);  // in one mirror's memory

 private:
  std::atomic<bool> any_{false};  // stays true: spares the lock where no array has a mirror
  std::vector<std::shared_ptr<HostMirror>> all();

  std::mutex mutex_;
  std::vector<std::shared_ptr<HostMirror>> mirrors_;  // those that were used and whose arrays live; guarded by mutex_
};

}  // namespace pergola::runtime
