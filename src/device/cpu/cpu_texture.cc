// Sampling as "Texture Fetching" of the CUDA C++ Programming Guide has it: positions are counted from texel centres in
// steps of 1/256, and the weights of a linear filter have 8 bits of fraction.
#include "src/device/cpu/cpu_texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu {
namespace {

constexpr std::uint64_t kMark = std::uint64_t{0x7e78} << 48;

using Texel = std::array<std::uint32_t, 4>;

// Channels as they are, or as the bits of f32: what a channel that the format lacks reads as, too.
std::uint32_t channel(const TextureDescription& d, const std::byte* at) {
  const auto load = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  switch (d.type) {
    case ChannelType::kU8: {
      const auto v = load(std::uint8_t{});
      return d.normalized_read ? bits(static_cast<float>(v / 255.0)) : v;
    }
    case ChannelType::kS8: {
      const auto v = load(std::int8_t{});
      return d.normalized_read ? bits(std::max(static_cast<float>(v / 127.0), -1.0f)) : static_cast<std::uint32_t>(v);
    }
    case ChannelType::kU16: {
      const auto v = load(std::uint16_t{});
      return d.normalized_read ? bits(static_cast<float>(v / 65535.0)) : v;
    }
    case ChannelType::kS16: {
      const auto v = load(std::int16_t{});
      return d.normalized_read ? bits(std::max(static_cast<float>(v / 32767.0), -1.0f)) : static_cast<std::uint32_t>(v);
    }
    case ChannelType::kF16: return bits(half_to_float(load(std::uint16_t{})));
    default: return load(std::uint32_t{});
  }
}

bool gives_floats(const TextureDescription& d) { return d.type >= ChannelType::kF16 || d.normalized_read; }

// The texel at a position inside the image, or zeros outside it.
Texel texel(const TextureImage& image, const std::array<std::int64_t, 3>& at) {
  const TextureDescription& d = image.description;
  const std::int64_t extents[3] = {d.width, d.height, d.depth};
  Texel result{};
  for (int n = 0; n < 3; ++n) {
    if (at[n] < 0 || at[n] >= extents[n]) return result;
  }
  const auto index = static_cast<std::size_t>((at[2] * extents[1] + at[1]) * extents[0] + at[0]);
  const std::byte* first = image.texels.data() + index * d.texel_bytes();
  for (std::uint32_t n = 0; n < d.channels; ++n) result[n] = channel(d, first + n * size_bytes(d.type));
  // Channels that are not there: 0, and 1 for the last.
  if (d.channels < 4) result[3] = gives_floats(d) ? std::bit_cast<std::uint32_t>(1.0f) : 1;
  return result;
}

// Where texel number `i` of an axis really lies; -1 for zeros beyond a border.
std::int64_t place(std::int64_t i, std::int64_t extent, AddressMode mode) {
  switch (mode) {
    case AddressMode::kWrap: return ((i % extent) + extent) % extent;
    case AddressMode::kMirror: {
      const std::int64_t j = ((i % (2 * extent)) + 2 * extent) % (2 * extent);
      return j < extent ? j : 2 * extent - 1 - j;
    }
    case AddressMode::kBorder: return i < 0 || i >= extent ? -1 : i;
    default: return std::clamp<std::int64_t>(i, 0, extent - 1);
  }
}

// A position in texels, kept where 64-bit arithmetic on 1/256ths is exact. A NaN is position 0.
double position(std::uint32_t bits, std::int64_t extent, bool normalized) {
  const auto x = static_cast<double>(std::bit_cast<float>(bits));
  if (std::isnan(x)) return 0;
  return std::clamp(normalized ? x * static_cast<double>(extent) : x, -0x1p40, 0x1p40);
}

struct Axis {
  std::int64_t low = 0, high = 0;  // the two texels, placed
  double weight = 0;               // of the high one
};

Axis linear_axis(double x, std::int64_t extent, AddressMode mode) {
  const auto steps = static_cast<std::int64_t>(std::floor((x - 0.5) * 256 + 0.5));
  const std::int64_t low = steps >> 8;
  return {place(low, extent, mode), place(low + 1, extent, mode), static_cast<double>(steps & 255) / 256};
}

Texel linear(const TextureImage& image, const std::array<Axis, 3>& axes, std::uint32_t dimensions) {
  double sums[4] = {0, 0, 0, 0};
  for (std::uint32_t corner = 0; corner < 1u << dimensions; ++corner) {
    double weight = 1;
    std::array<std::int64_t, 3> at{};
    for (std::uint32_t n = 0; n < dimensions; ++n) {
      const bool high = (corner >> n & 1) != 0;
      at[n] = high ? axes[n].high : axes[n].low;
      weight *= high ? axes[n].weight : 1 - axes[n].weight;
    }
    if (weight == 0) continue;
    const Texel one = texel(image, at);
    for (int n = 0; n < 4; ++n) sums[n] += weight * static_cast<double>(std::bit_cast<float>(one[n]));
  }
  Texel result;
  for (int n = 0; n < 4; ++n) result[n] = std::bit_cast<std::uint32_t>(canonical(static_cast<float>(sums[n])));
  return result;
}

}  // namespace

Status TextureTable::add(TextureImage& image) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t n = 0; n < kSlots; ++n) {
    const std::size_t slot = (next_slot_ + n) % kSlots;
    if (slots_[slot].load(std::memory_order_relaxed) != nullptr) continue;  // only written under the lock
    next_slot_ = slot + 1;
    image.handle = kMark | std::uint64_t{++generation_} << 16 | slot;
    slots_[slot].store(&image, std::memory_order_release);
    return {};
  }
  return PERGOLA_ERROR(kResourceExhausted, "The CPU device has {} textures already; let go of one.", kSlots);
}

void TextureTable::remove(const TextureImage& image) {
  const std::scoped_lock lock(mutex_);
  slots_[image.handle & 0xffff].store(nullptr, std::memory_order_release);
}

const TextureImage* TextureTable::find(std::uint64_t handle) const {
  const std::size_t slot = handle & 0xffff;
  if (slot >= kSlots) return nullptr;
  const TextureImage* image = slots_[slot].load(std::memory_order_acquire);
  return image != nullptr && image->handle == handle ? image : nullptr;
}

std::array<std::uint32_t, 4> read_texture(const TextureImage& image, const TextureRead& read,
                                          const std::array<std::uint32_t, 3>& coordinates) {
  const TextureDescription& d = image.description;
  const std::int64_t extents[3] = {d.width, d.height, d.depth};
  // The hardware fetches from memory alone: an image of one dimension that is sampled gives zeros.
  if (read.dimensions == 1 && read.integer_coordinates != d.fetched) return {};
  std::array<std::int64_t, 3> at{};
  std::array<Axis, 3> axes{};
  const bool filters = d.filter == FilterMode::kLinear && gives_floats(d);
  for (std::uint32_t n = 0; n < read.dimensions; ++n) {
    if (read.integer_coordinates) {
      at[n] = static_cast<std::int32_t>(coordinates[n]);
      continue;
    }
    const double x = position(coordinates[n], extents[n], d.normalized_coordinates);
    if (filters || read.gather >= 0) axes[n] = linear_axis(x, extents[n], d.address[n]);
    else at[n] = place(static_cast<std::int64_t>(std::floor(x)), extents[n], d.address[n]);
  }
  if (read.gather >= 0) {  // counter-clockwise from the lower left
    const auto component = static_cast<std::size_t>(read.gather);
    return {texel(image, {axes[0].low, axes[1].high, 0})[component], texel(image, {axes[0].high, axes[1].high, 0})[component],
            texel(image, {axes[0].high, axes[1].low, 0})[component], texel(image, {axes[0].low, axes[1].low, 0})[component]};
  }
  return filters && !read.integer_coordinates ? linear(image, axes, read.dimensions) : texel(image, at);
}

std::uint32_t texture_extent(const TextureImage& image, int which) {
  const TextureDescription& d = image.description;
  return which == 0 ? d.width : which == 1 ? d.height : d.depth;
}

}  // namespace pergola::device::cpu
