// What --check watches in a block's shared memory: data races between its threads, and bytes read before any write.
//
// Happens-before by vector clocks, as in FastTrack (Flanagan and Freund, PLDI 2009). A thread's clock is the times of
// all threads it knows of; two accesses are ordered where the later thread knows the earlier one's time.
//
//   barrier arrival      leaves the thread's clock at the barrier      who it releases takes the join of all
//   bar.warp.sync        the same, among the lanes of its mask
//   release, fence       leaves the clock at the location of the strong store that carries it; an acquire of the
//   acquire              location (or a strong load and a later fence) takes it. In shared and in global memory.
//
// shfl, vote, match and redux order nothing (ISA 9.7.9, 9.7.13). Strong accesses (volatile, relaxed, atomics, ...) do
// not race with each other; a weak one races with any. Two stores of the same value are let pass, as in idioms that
// set a flag from many threads. mbarrier operations acquire and release; a cp.async counts where it is issued.
//
// One per block, owned by its OS thread. Costs some 40 bytes a byte of shared memory that is touched.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/device/cpu/interpreter/thread.h"

namespace pergola::device::cpu::interp {

class SharedCheck {
 public:
  SharedCheck(std::uint32_t threads, const std::byte* shared, std::uint32_t shared_bytes);

  // What an earlier access has to do with one that is wrong.
  struct Finding {
    enum class Kind : std::uint8_t { kNone, kRace, kUninitialized } kind = Kind::kNone;
    std::uint32_t offset = 0;       // first byte concerned
    std::uint32_t thread = 0;       // kRace: the other one, by linear index
    bool wrote = false;             // kRace: it wrote
    const Inst* inst = nullptr;     // kRace: at
  };
  // Thread number `self` is about to access [at, at + size) by `inst`, in shared or other memory. Keeps the access.
  Finding access(std::uint32_t self, const Thread& thread, const Inst& inst, const std::byte* at, std::uint32_t size,
                 bool write);

  // These bytes count as written before the block began.
  void initialize(std::uint32_t offset, std::uint32_t size_bytes);
  void fence(std::uint32_t self);
  void arrive(std::uint32_t self, std::uint32_t barrier);     // at a barrier of the block
  void leave(std::uint32_t self, std::uint32_t barrier);      // released from it; before clear_barrier()
  void clear_barrier(std::uint32_t barrier);
  void sync_warp(std::uint32_t first_lane, LaneMask lanes);   // bar.warp.sync has completed among them

 private:
  using Times = std::vector<std::uint32_t>;      // by thread; 0: knows nothing of it
  using Clock = std::shared_ptr<const Times>;    // null: all 0
  struct ThreadState {
    Clock known;               // of the others
    std::uint32_t time = 1;    // its own, of accesses from now on
    Clock fenced;              // what a strong store after a fence carries
    Clock observed;            // what strong loads have seen, for the next fence
  };
  struct Access {
    std::uint32_t thread, time;
    const Inst* inst;
    std::uint8_t mask;         // bytes of the word
    bool write, strong;
  };
  struct Order {
    bool strong = false, acquires = false, releases = false, read_modify_write = false;
  };
  // The join of clocks; one that was taken in already costs nothing.
  struct Join {
    Times times;
    std::vector<const Times*> taken;
    void take(const Clock& clock);
  };

  static Order order_of(const Inst& inst);
  static Clock join(const Clock& a, const Clock& b);
  Clock own_clock(std::uint32_t self) const;
  void add_to(Join& into, std::uint32_t self);
  bool ordered(const Access& before, std::uint32_t self) const;
  void synchronize(std::uint32_t self, const Order& order, const std::byte* at, bool write);
  Finding check_word(std::uint32_t self, std::uint32_t word, std::uint8_t mask, const Inst& inst, bool write, bool strong,
                     bool same_value);
  bool stores_what_is_there(const Thread& thread, const Inst& inst, const std::byte* at, std::uint32_t size) const;

  const std::byte* const shared_;
  const std::uint32_t shared_bytes_;
  std::vector<ThreadState> threads_;
  std::vector<std::vector<Access>> words_;       // by word of 4 bytes: accesses that a later one may race with
  std::vector<bool> initialized_;                // by byte
  std::array<Join, 16> barriers_;
  std::array<Clock, 16> released_;               // the barrier's join, made once it lets threads go
  std::unordered_map<const std::byte*, Clock> published_;  // by the location of a strong store
};

}  // namespace pergola::device::cpu::interp
