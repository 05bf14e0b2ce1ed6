// Events, and what is on a session's device: arrays and textures. Part of pergola.hpp, which says who owns what, how
// errors come and what threads may do.
#ifndef PERGOLA_ARRAYS_HPP_
#define PERGOLA_ARRAYS_HPP_

#include <pergola/pergola.h>
#include <pergola/basics.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>

namespace pergola {
inline namespace v0_1 {

// ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

// The end of the work submitted before it.
class Event {
 public:
  Event() = default;
  explicit Event(pergola_event handle) : handle_(handle) {}

  // Blocks until the work has ended; throws what it failed with.
  void wait() const { detail::check(pergola_event_wait(handle_.get(), -1)); }
  // As wait(), for a while: false when it is over and the work goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const {
    return detail::has_ended(pergola_event_wait(handle_.get(), detail::wait_ns(timeout)));
  }
  bool done() const {
    std::int32_t done = 0;
    detail::check(pergola_event_done(handle_.get(), &done));
    return done != 0;
  }
  // Device time from the end of `start`'s work to the end of this, which both must have ended.
  double milliseconds_since(const Event& start) const {
    double nanoseconds = 0;
    detail::check(pergola_event_elapsed_ns(start.handle_.get(), handle_.get(), &nanoseconds));
    return nanoseconds * 1e-6;
  }
  pergola_event handle() const { return handle_.get(); }

 private:
  detail::Handle<pergola_event, pergola_event_destroy> handle_;
};

// ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace detail {
// Where `count` elements of T are more bytes than a number holds, it is the most, which lies outside of every array:
// what wraps around could lie inside.
template <typename T>
constexpr std::size_t bytes_of(std::size_t count) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  return count > kMost / sizeof(T) ? kMost : count * sizeof(T);
}
}  // namespace detail

// A place inside an array, to pass as a pointer: x.from(100). With a count, x.part(100, 50), it says how much is meant:
// launches that touch different parts of an array need not wait for each other (docs/scheduling.md).
struct ArrayView {
  pergola_array array = nullptr;
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;  // 0: nobody says
};

// Memory on the session's device for `size()` elements. Made by Session::array().
template <Element T>
class Array {
 public:
  Array(pergola_array handle, std::size_t count) : handle_(handle), count_(count) {}

  std::size_t size() const { return count_; }
  std::size_t size_bytes() const { return count_ * sizeof(T); }

  // The contents once all work on them so far has ended. A copy of this moment in memory that the array owns: valid
  // until the next read(), host access or prefetch of this array or its end.
  std::span<const T> read() const {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    detail::check(pergola_array_view(handle_.get(), &data, &bytes));
    return {static_cast<const T*>(data), count_};
  }
  // The same into your memory, which may be shorter than the array.
  void read(std::span<T> destination, std::size_t first = 0) const {
    detail::check(
        pergola_array_read(handle_.get(), detail::bytes_of<T>(first), destination.data(), destination.size_bytes()));
  }
  // The array for the host to work on by pointer, until it is next given to anything else: page-locked memory that
  // mirrors the device's, the fastest way in and out of a GPU (docs/scheduling.md); with memory=managed the array
  // itself. host_read() and host() wait for the work that made the contents; host_write() does not, and every element
  // is to be written. What was written goes up before the next use on the device, and nobody waits for it.
  std::span<const T> host_read() const { return access<const T>(PERGOLA_ACCESS_READ); }
  std::span<T> host_write() { return access<T>(PERGOLA_ACCESS_WRITE); }
  std::span<T> host() { return access<T>(PERGOLA_ACCESS_READ_WRITE); }
  // Queue the copy that brings the contents there, if they are not.
  void prefetch() const { detail::check(pergola_array_prefetch(handle_.get(), PERGOLA_LOCATION_DEVICE)); }
  void prefetch_to_host() const { detail::check(pergola_array_prefetch(handle_.get(), PERGOLA_LOCATION_HOST)); }

  // Queued; the source may change as soon as this returns.
  void write(std::span<const T> source, std::size_t first = 0) {
    detail::check(pergola_array_write(handle_.get(), detail::bytes_of<T>(first), source.data(), source.size_bytes()));
  }
  // Queued; all elements, or `count` from `first` on.
  void fill(const T& value) { detail::check(pergola_array_fill(handle_.get(), &value)); }
  void fill(const T& value, std::size_t first, std::size_t count) {
    detail::check(pergola_array_fill_range(handle_.get(), detail::bytes_of<T>(first), detail::bytes_of<T>(count),
                                           &value, sizeof(T)));
  }
  void copy_from(const Array& source) {
    detail::check(pergola_array_copy(handle_.get(), 0, source.handle_.get(), 0, source.size_bytes()));
  }
  // A pointer to element `first`, as a kernel's argument.
  ArrayView from(std::size_t first) const { return {handle_.get(), detail::bytes_of<T>(first)}; }
  ArrayView part(std::size_t first, std::size_t count) const {
    return {handle_.get(), detail::bytes_of<T>(first), detail::bytes_of<T>(count)};
  }

  pergola_array handle() const { return handle_.get(); }
  // By which pictures of the DAG, traces and messages speak of it: "array 3".
  std::uint64_t number() const {
    std::uint64_t number = 0;
    detail::check(pergola_array_number(handle_.get(), &number));
    return number;
  }
  // On the device, for structs of parameters (TaskKind::spawn_packed). It keeps nothing alive and orders nothing.
  std::uint64_t address() const {
    pergola_array_info info{};
    info.struct_size = sizeof info;
    detail::check(pergola_array_get_info(handle_.get(), &info));
    return info.address;
  }

 private:
  template <typename E>
  std::span<E> access(pergola_access how) const {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    detail::check(pergola_array_host(handle_.get(), how, -1, &data, &bytes));
    return {static_cast<E*>(data), count_};
  }

  detail::Handle<pergola_array, pergola_array_destroy> handle_;
  std::size_t count_ = 0;
};

// ── Textures ────────────────────────────────────────────────────────────────────────────────────────────────────────

enum class AddressMode : std::int32_t {
  kClamp = PERGOLA_ADDRESS_CLAMP,
  kWrap = PERGOLA_ADDRESS_WRAP,      // needs normalized_coordinates
  kMirror = PERGOLA_ADDRESS_MIRROR,  // likewise
  kBorder = PERGOLA_ADDRESS_BORDER,  // zeros
};

// How an array's elements are sampled; a texel is `channels` of them.
struct Sampling {
  std::uint32_t channels = 1;                                                                         // 1, 2 or 4
  std::array<AddressMode, 3> address{AddressMode::kClamp, AddressMode::kClamp, AddressMode::kClamp};  // of x, y, z
  bool linear = false;
  bool normalized_coordinates = false;  // from 0 to 1 instead of 0 to the extent
  bool normalized_read = false;         // 8- and 16-bit integers as floats in [0, 1] or [-1, 1]
  bool fetched = false;                 // one dimension, read by tex1Dfetch
  std::size_t offset_bytes = 0, pitch_bytes = 0;
};

// A kernel's cudaTextureObject_t: the texels that an array had when it was made. Made by texture().
class Texture {
 public:
  explicit Texture(pergola_texture handle) : handle_(handle) {}
  pergola_texture handle() const { return handle_.get(); }

 private:
  detail::Handle<pergola_texture, pergola_texture_destroy> handle_;
};

// Of one dimension: texture(x, n); of two: texture(image, w, h); of three: texture(volume, w, h, d). Waits for the work
// submitted so far.
template <Element T, std::integral... Extents>
  requires(sizeof...(Extents) >= 1 && sizeof...(Extents) <= 3)
Texture texture(const Array<T>& array, const Sampling& sampling, Extents... extents) {
  pergola_texture_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_texture_options);
  options.dimensions = sizeof...(Extents);
  const std::array<std::uint32_t, sizeof...(Extents)> given{detail::extent(extents, "texture")...};
  std::copy(given.begin(), given.end(), options.extent);
  for (std::size_t i = 0; i < 3; ++i) options.address[i] = static_cast<pergola_address_mode>(sampling.address[i]);
  options.type = detail::type_of<T>();
  options.channels = sampling.channels;
  options.offset_bytes = sampling.offset_bytes;
  options.pitch_bytes = sampling.pitch_bytes;
  options.filter = sampling.linear ? PERGOLA_FILTER_LINEAR : PERGOLA_FILTER_NEAREST;
  if (sampling.normalized_coordinates) options.flags |= PERGOLA_TEXTURE_NORMALIZED_COORDINATES;
  if (sampling.normalized_read) options.flags |= PERGOLA_TEXTURE_NORMALIZED_READ;
  if (sampling.fetched) options.flags |= PERGOLA_TEXTURE_FETCHED;
  pergola_texture made = nullptr;
  detail::check(pergola_texture_create(array.handle(), &options, &made));
  return Texture(made);
}
template <Element T, std::integral... Extents>
Texture texture(const Array<T>& array, Extents... extents) {
  return texture(array, Sampling{}, extents...);
}

// A raw address on the device, from another library; its memory is the caller's care.
struct Address {
  std::uint64_t value = 0;
};

}  // namespace v0_1
}  // namespace pergola

#endif  // PERGOLA_ARRAYS_HPP_
