// A launch as its caller wrote it: the bytes of the call, of which nothing has been looked up yet. Where a program that
// repeats itself writes the same bytes again, and nothing that they stand for has changed since, the launch is the same
// one, and need not be read, checked and bound again (scheduler/graph_lowering.h).
//
// What may change what the same bytes stand for is that a handle among them is destroyed: its number is never given
// twice, and `dropped` grows. What has to be done before the same launch may change besides (scheduler/resource.h).
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pergola {

struct CallText {
  const void* kernel = nullptr;  // its handle
  std::span<const std::byte> config, arguments;
  // Grows when a handle that arguments may name has been destroyed and before what it stood for goes; what it was
  // before any handle of this text was looked up.
  const std::atomic<std::uint64_t>* dropped = nullptr;
  std::uint64_t dropped_before = 0;
  std::span<const std::byte> types;  // the arguments', where they do not say them themselves
};

// One that was seen. Guarded by its owner's lock. An array's memory goes under that lock too, after its handle: so
// whoever finds `dropped` as it was finds the memory there.
class KeptCallText {
 public:
  void keep(const CallText& text) {
    kernel_ = text.kernel;
    config_bytes_ = text.config.size();
    types_bytes_ = text.types.size();
    bytes_.assign(text.config.begin(), text.config.end());
    bytes_.insert(bytes_.end(), text.types.begin(), text.types.end());
    bytes_.insert(bytes_.end(), text.arguments.begin(), text.arguments.end());
    dropped_ = text.dropped_before;
  }
  void forget() { kernel_ = nullptr; }
  bool is(const CallText& text) const {
    return kernel_ == text.kernel && kernel_ != nullptr && config_bytes_ == text.config.size() &&
           types_bytes_ == text.types.size() && bytes_.size() == config_bytes_ + types_bytes_ + text.arguments.size() &&
           dropped_ == text.dropped->load(std::memory_order_acquire) && are(bytes_.data(), text.config) &&
           are(bytes_.data() + config_bytes_, text.types) &&
           are(bytes_.data() + config_bytes_ + types_bytes_, text.arguments);
  }

 private:
  // Of none there may be no address. Sixteen bytes at a time, the last ones from the end, once more where they overlap:
  // of the few that a launch has it takes half as long as a call of memcmp().
  [[gnu::always_inline]] static bool are(const std::byte* kept, std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(Sixteen)) return bytes.empty() || std::memcmp(kept, bytes.data(), bytes.size()) == 0;
    const std::size_t last = bytes.size() - sizeof(Sixteen);
    Sixteen differing = difference(kept + last, bytes.data() + last);
    for (std::size_t at = 0; at < last; at += sizeof(Sixteen)) differing |= difference(kept + at, bytes.data() + at);
    return (differing[0] | differing[1]) == 0;
  }
  using Sixteen [[gnu::vector_size(16)]] = std::uint64_t;
  static Sixteen difference(const std::byte* a, const std::byte* b) {
    Sixteen x, y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return x ^ y;
  }

  const void* kernel_ = nullptr;
  std::size_t config_bytes_ = 0, types_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  boost::container::small_vector<std::byte, 400> bytes_;  // the configuration's, the types', the arguments'
};

}  // namespace pergola
