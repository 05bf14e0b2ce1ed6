// Which thread puts tasks into which rings. A thread owns rings and goes round them; it writes into its own without a
// lock or any other instruction that waits for stores to be seen, for each would wait for the records before it.
//
//   thread                                   whoever takes rings from it, under the mutex
//   uses becomes odd                         frozen = true
//   frozen? then wait for the mutex          fence in every thread (process_fence.h)
//   ... its rings ...                        wait until uses is even
//   uses becomes even                        ... its rings ...   frozen = false
//
// Without the fence the thread's load of `frozen` could overtake its store of `uses`. Where the system has none, the
// thread makes one itself. `uses` is two more after each spawn, of one task or of many, which tells the keeper who
// spawns.
//
// Threads that own rings share them evenly; the keeper takes those of threads that have not spawned for a while, and of
// threads that have ended, for those that do. There may be fewer rings than threads: then they are taken in turns.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/function_ref.h"
#include "src/executor/host_ring.h"

namespace pergola::executor {

struct alignas(64) Producer {
  std::atomic<std::uint64_t> uses{0};  // writer: the thread
  std::atomic<bool> frozen{false};     // writer: whoever holds the mutex
  // The thread's while it has entered and is not frozen, else the mutex's:
  std::uint32_t left = 0;  // tasks until it goes on to its next ring; 0 where it has none
  std::size_t at = 0;      // in owned, as the next
  std::vector<std::uint32_t> owned;

  // The keeper's: `uses` when it last looked, and how often that was no more.
  alignas(64) std::uint64_t seen = 0;
  std::uint64_t quiet_looks = 0;

  // Entered.
  void note_spawn() { uses.store(uses.load(std::memory_order_relaxed) + 2, std::memory_order_relaxed); }
};

class Producers : public std::enable_shared_from_this<Producers> {
 public:
  // `fences`: process_fence() is none.
  Producers(std::uint32_t rings, bool fences);

  // The calling thread's, which lives as long as the thread.
  Producer& mine();
  // The same where the thread has used it last of all; else null.
  Producer* known() const { return last_id == id_ ? last : nullptr; }
  // Between this, where it is true, and leave() the thread has its rings, maybe none. False while they are moved.
  bool try_enter(Producer& producer) {
    producer.uses.store(producer.uses.load(std::memory_order_relaxed) | 1, std::memory_order_relaxed);
    if (fences_) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_seq_cst);
    else
      std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!producer.frozen.load(std::memory_order_acquire)) [[likely]]
      return true;
    leave(producer);
    return false;
  }
  void enter(Producer& producer) {
    while (!try_enter(producer)) {
      const std::lock_guard lock(mutex_);  // until they are thawed
    }
  }
  void leave(Producer& producer) {
    producer.uses.store(producer.uses.load(std::memory_order_relaxed) & ~std::uint64_t{1}, std::memory_order_release);
  }
  // note_spawn() and leave() at once.
  void leave_after_spawn(Producer& producer) {
    producer.uses.store(producer.uses.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Gives the calling thread, which has not entered, its part of the rings, one at least.
  void share(Producer& producer);
  // The keeper's: moves rings to where tasks come from. Whether any has come since the last call.
  bool balance();
  // From now on the first `count` rings are used and no others, if `may` says so once no thread has any; whether.
  bool use_rings(std::uint32_t count, FunctionRef<bool()> may);

 private:
  // The calling thread's, as used last. 16 bytes fit the space that the linker keeps for libraries loaded by dlopen();
  // the usual model would call a function.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local std::uint64_t last_id;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Producer* last;

  [[gnu::tls_model("initial-exec")]] static constinit thread_local bool is_over;  // the thread is ending

  struct OfThread;
  void end(const std::shared_ptr<Producer>& producer);  // its thread does
  void freeze(const Producer* but);                     // both with the mutex
  void thaw();

  const std::uint64_t id_;
  const bool fences_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::shared_ptr<Producer>> all_;
  std::vector<std::uint32_t> unowned_;
  std::uint32_t rings_;  // that are used
};

// While it lives the thread has its rings.
class Entered {
 public:
  Entered(Producers& producers, Producer& producer) : producers_(producers), producer_(producer) {
    producers_.enter(producer_);
  }
  ~Entered() { producers_.leave(producer_); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Producers& producers_;
  Producer& producer_;
};

}  // namespace pergola::executor
