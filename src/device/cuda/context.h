// One GPU's primary context, shared by everything that a CUDA device makes; and whether the GPU is lost.
//
//            a sticky error: illegal address, trap, assert, ECC ...
//   (works) ────────────────────────────────────────────────────────▶ (lost), with the first cause
//
// The driver keeps a sticky error for the rest of the process: every later call of any thread returns it, and only a
// new process can use that GPU again. So lost is final: enter() then refuses every call, and a launch, with kDeviceLost
// and the cause, and handles are dropped without complaint. Other devices of the process are not touched. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "src/device/buffer.h"
#include "src/device/cuda/device_arena.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/host_slabs.h"
#include "src/device/cuda/host_word.h"
#include "src/device/memory_shortage.h"
#include "src/device/send_away.h"

namespace pergola::device::cuda {

class Context;

// The kernels that are resident on one GPU, of all sessions of the process: a driver waits for any of them. `mutex`
// guards the rest; it is shared while something is freed, so that none begins meanwhile.
struct Residents {
  // A stream whose queue has gone, with work that had not ended; counts as a resident kernel until it has.
  struct Left {
    std::shared_ptr<const Context> context;
    CUstream stream = nullptr;
    std::shared_ptr<const void> used;  // by the work
  };
  std::shared_mutex mutex;
  std::uint32_t count = 0;
  std::vector<std::function<void()>> kept_frees;
  // Goes up under the mutex once all kept frees have been called; read without it.
  std::atomic<std::uint64_t> times_freed{0};
  std::vector<Left> left;
  std::chrono::steady_clock::time_point gave_up_at{};
  // Of queues that live. A driver waits for all work in them before it frees.
  std::vector<std::pair<const Driver*, CUstream>> streams;
  SendAways send_away;    // thread-safe by itself
  bool is_stuck = false;  // that has been waited for in vain, and is not known to be over
};

class Context {
 public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<const Driver> driver, int ordinal,
                                                 std::chrono::milliseconds end_grace);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  const std::shared_ptr<const Driver>& shared_driver() const { return driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }
  const std::string& id() const { return id_; }  // "cuda:0"
  // From now on buffers lie in an arena, where there can be one, and small ones of the host in slabs. Entered, and
  // before others have this.
  void pack_memory() {
    arena_ = DeviceArena::create(driver_, device_);
    if (driver_->cuCtxSynchronize != nullptr) slabs_ = std::make_shared<HostSlabs>(driver_);
  }
  const std::shared_ptr<DeviceArena>& arena() const { return arena_; }  // null: there is none
  const std::shared_ptr<HostSlabs>& slabs() const { return slabs_; }    // null: memory is not packed

  // Makes the context the calling thread's. Every entry from outside starts with it, but a launch (CudaQueue::launch).
  // kDeviceLost once lost.
  Status enter() const {
    if (is_lost()) return health();
    return check(driver_->cuCtxSetCurrent(handle_), "making the context current");
  }
  // As enter(), for destructors, which go on where the device is lost.
  void enter_quietly() const { driver_->cuCtxSetCurrent(handle_); }

  // The error of a driver call, or success. `doing` completes "... failed while ": "copying 12 bytes to the device".
  // A sticky error makes the context lost, and is kDeviceLost.
  Status check(CUresult result, std::string_view doing) const {
    return result == CUDA_SUCCESS ? Status() : failed(result, doing);
  }
  // The same with what fmt::format makes of it, which it does for an error alone.
  template <typename First, typename... Rest>
  Status check(CUresult result, fmt::format_string<First, Rest...> doing, First&& first, Rest&&... rest) const {
    if (result == CUDA_SUCCESS) return {};
    return check(result, std::string_view(fmt::format(doing, std::forward<First>(first), std::forward<Rest>(rest)...)));
  }
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  Status health() const;

  // Events with a time or for ordering only, recycled; null where the driver gives none (`status` then says why).
  Result<CUevent> take_event(bool timed) const;
  void give_event(CUevent event, bool timed) const;

  // Runs `call`, which frees something of the driver's, once the work in all queues has ended, since the driver would
  // wait for it; or later (free_kept()): while kernels are resident, and where that work does not end within
  // end_grace().
  void free(const std::function<void()>& call) const noexcept;
  void resident_begins() const;
  void resident_ends() const;
  void free_kept() const;  // where none is resident
  // The same while work goes on, for which the driver then waits: before memory is said to be short. Whether any was,
  // or has been since Residents::times_freed was that, by whichever thread.
  bool free_kept_behind_work(std::uint64_t times_before) const;
  // Calls `allocate`, which asks the driver for memory, in the context; again where it has none and some is given back:
  // what others keep and could do without, and what has been freed and is kept while work goes on.
  template <typename Allocate>
  CUresult allocate(Allocate allocate) const {
    const std::uint64_t reliefs = MemoryShortage::reliefs(), times_freed = residents_->times_freed.load();
    CUresult result = allocate();
    if (result == CUDA_ERROR_OUT_OF_MEMORY && MemoryShortage::relieve(reliefs)) {
      enter_quietly();  // others may be on another GPU
      result = allocate();
    }
    return result == CUDA_ERROR_OUT_OF_MEMORY && free_kept_behind_work(times_freed) ? allocate() : result;
  }

  // Leaves `stream` to itself: it goes, and `used`, with what is freed after its work has ended, or with the process.
  // Until then nothing is freed on this GPU. `self` is this.
  void leave(const std::shared_ptr<const Context>& self, CUstream stream, std::shared_ptr<const void> used) const;
  // Memory of another library's, which what is left may use: its owner is kept as long as that.
  void let_go(std::shared_ptr<const void> owner) const;
  // Somebody has waited in vain within the last moment: whoever ends now has most likely been waited for as long.
  void note_given_up() const;
  bool has_just_given_up() const;
  // A queue's, from its beginning to its end.
  void add_stream(CUstream stream) const;
  void remove_stream(CUstream stream) const;
  std::chrono::milliseconds end_grace() const { return end_grace_; }

  // A word that no queue and no gate has. The owner gives it back.
  Result<HostWord> take_word() const;
  void give_word(HostWord word) const;
  // Whether a stream has waited for a value here: what has been tried once need not be tried for each gate.
  bool has_waited_for_value() const { return has_waited_for_value_.load(std::memory_order_relaxed); }
  void note_wait_for_value() const { has_waited_for_value_.store(true, std::memory_order_relaxed); }

  // Whether kernels that print have been loaded. The driver shows what they wrote where the host waits by a call of
  // its: who has seen the end without one makes one then.
  bool prints() const { return prints_.load(std::memory_order_relaxed); }
  void note_prints() const { prints_.store(true, std::memory_order_relaxed); }

  // Where graphs are brought to the device before anybody launches them; made when it is first asked for.
  Result<CUstream> upload_stream() const;

  // Around a call in which the driver would wait for kernels that stay, all are to be away. It waits with a lock that
  // others' calls need, those too that would end such a kernel.
  SendAways& send_away() const { return residents_->send_away; }

  // Page-locked staging memory of kStagingBytes, kept till the end of the context: cuMemFreeHost waits for all work.
  static constexpr std::size_t kStagingBytes = std::size_t{2} << 20;
  Result<std::byte*> take_staging() const;
  void give_staging(std::byte* memory) const;

  // Host ranges of this context's host-visible buffers: copies from and to them are asynchronous and keep them alive.
  void add_host_range(const std::byte* begin, std::size_t size_bytes, std::weak_ptr<Buffer> buffer) const;
  void remove_host_range(const std::byte* begin) const;
  // The live buffer that holds all of the range; else null.
  BufferPtr find_host_range(const std::byte* begin, std::size_t size_bytes) const;

 private:
  Context(std::shared_ptr<const Driver> driver, CUdevice device, CUcontext handle, int ordinal,
          std::chrono::milliseconds end_grace);
  Status failed(CUresult result, std::string_view doing) const;
  Status lose(CUresult result, std::string_view doing) const;
  Status add_words() const;
  void look_after_left() const;
  // With the residents' lock, entered. What they held, to be dropped without it: that may free something itself.
  [[nodiscard]] std::vector<std::function<void()>> call_kept() const;
  bool streams_are_idle() const;  // with the residents' lock
  bool await_streams() const;     // with none

  struct HostRange {
    std::size_t size_bytes = 0;
    std::weak_ptr<Buffer> buffer;
  };

  const std::shared_ptr<const Driver> driver_;
  const CUdevice device_;
  const CUcontext handle_;
  const std::string id_;
  const std::chrono::milliseconds end_grace_;

  std::shared_ptr<DeviceArena> arena_;
  std::shared_ptr<HostSlabs> slabs_;

  mutable std::atomic<bool> has_waited_for_value_{false}, prints_{false};  // relaxed: they order nothing
  mutable std::atomic<bool> lost_{false};  // release by the first loser, after cause_; acquire by readers
  mutable std::mutex mutex_;               // guards the seven below
  mutable Status cause_;
  mutable std::vector<CUevent> free_events_[2];  // [timed]
  mutable std::vector<std::byte*> free_staging_;
  mutable std::vector<HostWord> free_words_;
  mutable std::vector<void*> word_pages_;
  mutable CUstream upload_stream_ = nullptr;
  const std::shared_ptr<Residents> residents_;
  mutable std::shared_mutex ranges_mutex_;  // guards host_ranges_
  mutable std::map<const std::byte*, HostRange> host_ranges_;
};

using ContextPtr = std::shared_ptr<const Context>;

// Errors after which the driver refuses all further work of this process on the GPU.
bool is_sticky(CUresult result);
// Whether what a stream or an event has answered leaves it open that its work goes on: a question that failed does.
inline bool may_go_on(CUresult answer) {
  return answer != CUDA_SUCCESS && !is_sticky(answer);
}

}  // namespace pergola::device::cuda
