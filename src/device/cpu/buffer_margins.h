// The bytes around buffers that no guard page covers, and which launch wrote to them.
//
//   [guard page][ margin, 64 bytes of it watched ][ buffer ][ margin, < 256 bytes ][guard page]
//
// A margin holds a pattern that nothing sensible writes and that every float type reads as NaN, every signed integer as
// a negative number. A launch watches, from its begin to its end, the margins of the buffers that its parameters point
// to, and of kInTurn others, which take turns. A margin that is whole at its begin and changed at its end was written
// to meanwhile: the launch fails. One that is changed at its begin is not the launch's doing: a warning tells of it.
//
// Claimed: in a session with at most kInTurn buffers beyond a launch's parameters, no launch that changes a margin ends
// well. A launch that ran alone is the one that wrote, or else the host, through the buffer's own address. Of launches
// that ran at the same time each that watched fails, and says that it may have been another. Not seen: the pattern's
// own bytes written.
//
// Thread-safe. No margin is read or written once its buffer is removed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/cpu/patient_mutex.h"

namespace pergola::device::cpu {

class BufferMargins {
 public:
  static constexpr std::size_t kMostBefore = 64, kMostAfter = 256;  // bytes watched
  static constexpr std::size_t kInTurn = 4;  // buffers that a launch watches beyond those of its parameters

  // A buffer and the bytes before and behind it; of more than kMostBefore and kMostAfter the nearest.
  struct Buffer {
    std::uintptr_t begin = 0;
    std::size_t size_bytes = 0, before_bytes = 0, after_bytes = 0;
    std::string what;  // "buffer 7 (4096 bytes)"
  };

  // Writes the pattern, and watches from now on; nothing where there is no margin.
  void add(Buffer buffer);
  // Warns where the margin is changed and no launch has been told of it.
  void remove(std::uintptr_t begin);

 private:
  struct Record {
    Buffer buffer;
    std::uint64_t id = 0;           // no other has had it
    std::atomic<bool> told{false};  // relaxed: a message was made of it; all else is ordered by the lock
  };

 public:
  // A launch. Owned by the thread that runs it; `kernel`, a name, outlives it.
  class Watch {
   public:
    Watch(BufferMargins& margins, std::string_view kernel, std::span<const std::byte> parameters);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    // Once, when the launch has ended: kDeviceFault where a margin has changed.
    Status end();

   private:
    // A record, and how to find it again where others have been removed.
    struct Entry {
      Record* record;
      std::uintptr_t begin;
      std::uint64_t id;
    };
    void collect(std::span<const std::byte> parameters);
    void settle_old_damage(const std::vector<Entry>& damaged);
    Record* find(const Entry& entry, std::uint64_t removed) const;
    bool others_ran() const { return before_ % kOneBegun != 0; }  // when it began
    // No other launch has run since this one began.
    bool alone() const { return !others_ran() && margins_.launches_.load() / kOneBegun == before_ / kOneBegun + 1; }

    BufferMargins& margins_;
    const std::string_view kernel_;
    const std::uint64_t before_;  // launches_ when it began
    std::uint64_t removed_ = 0;   // of the margins, as the entries' pointers were taken
    std::vector<Entry> watched_;
  };

 private:
  PatientMutex mutex_;                        // guards the three below, and what the margins hold
  std::map<std::uintptr_t, Record> records_;  // by begin
  std::uint64_t added_ = 0, removed_ = 0;     // ever; a pointer to a record is good while nothing is removed
  // How many launches run, below kOneBegun, and how many have ever begun: together, so that of two that overlap neither
  // takes itself for alone.
  static constexpr std::uint64_t kOneBegun = 1 << 16;
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uintptr_t> turn_{0};  // relaxed: the buffer whose turn was last
};

}  // namespace pergola::device::cpu
