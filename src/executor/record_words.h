// Writes a task's record (abi/task_ring.h) into its place in a ring: each word with the phase of the lap, and the bits
// that the phases displace in word 0.
//
// It is most of what a spawn does, so it has no loop and keeps no words in memory: there is a form for each count of
// words. On x86 two words are stored at once, for what holds a spawn up is the count of stores that wait for lines
// that the device has had. Such a store may be seen in halves, which is all that phases ask for: a word is whole, and
// words come in any order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "src/abi/task_ring.h"

namespace pergola::executor {

// Brings a line that is about to be written into the caller's cache, as its own; a hint.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // __builtin_prefetch() for a write is one for a read where the compiler may not assume this instruction; processors
  // without it do nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// One record being written.
class RecordWords {
 public:
  // `head` is word 0 without what this adds to it. `parameters` are kMost words at most, and zeros follow them; they
  // are read in pieces such as they have been written in, so that no load waits for stores. All words are written
  // release.
  template <std::size_t kMost>
  [[gnu::always_inline]] static void write(abi::TaskRecord& record, std::uint32_t phase, std::uint64_t head,
                                           std::span<const std::byte> parameters) {
    std::atomic_signal_fence(std::memory_order_release);  // the compiler's part of release; x86 does the rest
    const RecordWords to(record.words, phase);
    const std::byte* const from = parameters.data();
    const std::size_t whole = parameters.size() / 8, rest = parameters.size() % 8;
    if (rest != 0) [[unlikely]]
      return to.write_some<kMost>(head, from, whole + 1, last_word(from + 8 * whole, rest));
    to.write_some<kMost>(head, from, whole, whole == 0 ? 0 : load(from + 8 * (whole - 1)));
  }

 private:
  static constexpr std::uint64_t kPhase = std::uint64_t{1} << abi::kRecordPhaseBit;
  static_assert(abi::kRecordWords == 8, "write_words() writes four pairs");

  RecordWords(std::uint64_t* words, std::uint32_t phase)
      : words_(words), phase_(std::uint64_t{phase} << abi::kRecordPhaseBit) {}

  [[gnu::always_inline]] static std::uint64_t load(const std::byte* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    return word;
  }
  template <typename Piece>
  [[gnu::always_inline]] static void take(const std::byte*& from, std::size_t bytes, std::uint64_t& word, int shift) {
    if ((bytes & sizeof(Piece)) == 0) return;
    Piece piece;
    std::memcpy(&piece, from, sizeof piece);
    word |= std::uint64_t{piece} << shift;
    from += sizeof piece;
  }
  // Of fewer than 8 bytes.
  [[gnu::always_inline]] static std::uint64_t last_word(const std::byte* from, std::size_t bytes) {
    std::uint64_t word = 0;
    take<std::uint32_t>(from, bytes, word, 0);
    take<std::uint16_t>(from, bytes, word, static_cast<int>(bytes & 4) * 8);
    take<std::uint8_t>(from, bytes, word, static_cast<int>(bytes & 6) * 8);
    return word;
  }

  // `count` words, kMost at most, of which `last` is the last one.
  template <std::size_t kMost>
  [[gnu::always_inline]] void write_some(std::uint64_t head, const std::byte* from, std::size_t count,
                                         std::uint64_t last) const {
    if constexpr (kMost != 0)
      if (count != kMost) return write_some<kMost - 1>(head, from, count, last);
    write_words<kMost>(head, from, last);
  }
  template <std::size_t kCount>
  [[gnu::always_inline]] void write_words(std::uint64_t head, const std::byte* from, std::uint64_t last) const {
    const std::uint64_t first = word<0, kCount>(head, from, last);
    write_two<1, kCount>(head, from, last);
    write_two<3, kCount>(head, from, last);
    write_two<5, kCount>(head, from, last);
    store_two(0, head | phase_, first);
  }
  template <std::size_t kN, std::size_t kCount>
  [[gnu::always_inline]] void write_two(std::uint64_t& head, const std::byte* from, std::uint64_t last) const {
    const std::uint64_t first = word<kN, kCount>(head, from, last), second = word<kN + 1, kCount>(head, from, last);
    store_two(kN + 1, first, second);
  }
  // The record's word of parameter word kN; what it has in the phase's place goes into `head`.
  template <std::size_t kN, std::size_t kCount>
  [[gnu::always_inline]] std::uint64_t word(std::uint64_t& head, const std::byte* from, std::uint64_t last) const {
    if constexpr (kN >= kCount) {
      return phase_;
    } else {
      const std::uint64_t given = kN + 1 == kCount ? last : load(from + 8 * kN);
      head |= (given >> abi::kRecordPhaseBit) << (abi::kRecordDisplacedShift + 1 + kN);
      return (given & ~kPhase) | phase_;
    }
  }

  [[gnu::always_inline]] void store_two(std::size_t at, std::uint64_t first, std::uint64_t second) const {
#if defined(__x86_64__) && !defined(PERGOLA_TSAN)
    using Two [[gnu::vector_size(16)]] = std::uint64_t;
    *reinterpret_cast<volatile Two*>(words_ + at) = Two{first, second};
#else
    std::atomic_ref(words_[at]).store(first, std::memory_order_release);
    std::atomic_ref(words_[at + 1]).store(second, std::memory_order_release);
#endif
  }

  std::uint64_t* const words_;
  const std::uint64_t phase_;
};

}  // namespace pergola::executor
