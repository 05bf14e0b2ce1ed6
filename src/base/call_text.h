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
};

// One that was seen. Guarded by its owner's lock. An array's memory goes under that lock too, after its handle: so
// whoever finds `dropped` as it was finds the memory there.
class KeptCallText {
 public:
  void keep(const CallText& text) {
    kernel_ = text.kernel;
    config_bytes_ = text.config.size();
    bytes_.assign(text.config.begin(), text.config.end());
    bytes_.insert(bytes_.end(), text.arguments.begin(), text.arguments.end());
    dropped_ = text.dropped_before;
  }
  void forget() { kernel_ = nullptr; }
  bool is(const CallText& text) const {
    return kernel_ == text.kernel && kernel_ != nullptr && config_bytes_ == text.config.size() &&
           bytes_.size() == config_bytes_ + text.arguments.size() &&
           dropped_ == text.dropped->load(std::memory_order_acquire) && are(bytes_.data(), text.config) &&
           are(bytes_.data() + config_bytes_, text.arguments);
  }

 private:
  // Of none there may be no address.
  static bool are(const std::byte* kept, std::span<const std::byte> bytes) {
    return bytes.empty() || std::memcmp(kept, bytes.data(), bytes.size()) == 0;
  }

  const void* kernel_ = nullptr;
  std::size_t config_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  boost::container::small_vector<std::byte, 400> bytes_;  // the configuration's, then the arguments'
};

}  // namespace pergola
