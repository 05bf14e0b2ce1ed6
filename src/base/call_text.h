// A launch as its caller wrote it: the bytes of the call, of which nothing has been looked up yet. Where a program that
// repeats itself writes the same bytes again, and nothing that they stand for has changed since, the launch is the same
// one, and need not be read, checked and bound again (scheduler/graph_lowering.h).
//
// What may change what the same bytes stand for is that a handle among them is destroyed: its number is never given
// twice, and `dropped` grows. What has to be done before the same launch may change besides (scheduler/resource.h).
#pragma once

#include <algorithm>
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
    bytes_.resize(config_bytes_ + types_bytes_ + text.arguments.size(), boost::container::default_init);
    std::byte* end = bytes_.data();
    for (const std::span<const std::byte> part : {text.config, text.types, text.arguments})
      end = std::copy(part.begin(), part.end(), end);
    dropped_ = text.dropped_before;
  }
  void forget() { kernel_ = nullptr; }
  bool is(const CallText& text) const {
    const std::size_t arguments_bytes = text.arguments.size();
    if (!stands(text) || config_bytes_ != text.config.size() || types_bytes_ != text.types.size() ||
        bytes_.size() != config_bytes_ + types_bytes_ + arguments_bytes)
      return false;
    Sixteen differing{};
    const std::byte* kept = bytes_.data();
    differing |= difference(kept, text.config);
    differing |= difference(kept += config_bytes_, text.types);
    differing |= difference(kept + types_bytes_, text.arguments);
    return (differing[0] | differing[1]) == 0;
  }
  // Of a text that is() was true of, under the same lock: whether it still is, as nothing has been dropped since. The
  // bytes are not looked at.
  bool stands(const CallText& text) const {
    return kernel_ == text.kernel && kernel_ != nullptr && dropped_ == text.dropped->load(std::memory_order_acquire);
  }

 private:
  using Sixteen [[gnu::vector_size(16)]] = std::uint64_t;
  template <typename T>
  static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  // Of as many bytes as T has at both ends, which may be some of the same.
  template <typename T>
  static T of_ends(const std::byte* kept, const std::byte* bytes, std::size_t last) {
    return (read<T>(kept) ^ read<T>(bytes)) | (read<T>(kept + last) ^ read<T>(bytes + last));
  }
  // No bit where they are the same. Of the few bytes that a launch has it takes half as long as a call of memcmp().
  [[gnu::always_inline]] static Sixteen difference(const std::byte* kept, std::span<const std::byte> bytes) {
    const std::size_t size = bytes.size();
    if (size >= sizeof(Sixteen)) {
      const std::size_t last = size - sizeof(Sixteen);
      Sixteen differing = of_ends<Sixteen>(kept, bytes.data(), last);
      for (std::size_t at = sizeof(Sixteen); at < last; at += sizeof(Sixteen))
        differing |= read<Sixteen>(kept + at) ^ read<Sixteen>(bytes.data() + at);
      return differing;
    }
    std::uint64_t differing = 0;
    if (size >= sizeof(std::uint64_t))
      differing = of_ends<std::uint64_t>(kept, bytes.data(), size - sizeof(std::uint64_t));
    else if (size >= sizeof(std::uint32_t))
      differing = of_ends<std::uint32_t>(kept, bytes.data(), size - sizeof(std::uint32_t));
    else
      for (std::size_t at = 0; at < size; ++at) differing |= std::to_integer<std::uint64_t>(kept[at] ^ bytes[at]);
    return Sixteen{differing, 0};
  }

  const void* kernel_ = nullptr;
  std::size_t config_bytes_ = 0, types_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  boost::container::small_vector<std::byte, 400> bytes_;  // the configuration's, the types', the arguments'
};

}  // namespace pergola
