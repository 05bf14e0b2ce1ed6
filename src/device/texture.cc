#include "src/device/texture.h"

#include "src/base/plural.h"
#include "src/device/validate.h"

namespace pergola::device {
namespace {

struct Limit {
  std::uint32_t width, height, depth;
};
constexpr Limit kLimits[3] = {{131072, 1, 1}, {131072, 65536, 1}, {16384, 16384, 16384}};  // CUDA, compute capability 9.0

constexpr std::uint32_t kMostFetched = 1u << 27;

// A texture that is only fetched from: one dimension, no filter, no normalised coordinates.
Status validate_fetched(const TextureDescription& d) {
  if (d.dimensions != 1 || d.filter != FilterMode::kNearest || d.normalized_coordinates) {
    return PERGOLA_ERROR(kInvalidArgument, "A fetched texture has one dimension, no filter and no normalised coordinates; this one has {}, "
                         "{} and {}.", d.dimensions, d.filter == FilterMode::kLinear ? "a filter" : "none",
                         d.normalized_coordinates ? "normalised ones" : "others");
  }
  if (d.width >= 1 && d.width <= kMostFetched && d.height == 1 && d.depth == 1) return {};
  return PERGOLA_ERROR(kInvalidArgument, "A fetched texture has a width of 1 to {} and no height or depth; {} x {} x {} is asked for.",
                       kMostFetched, d.width, d.height, d.depth);
}

Status validate_extents(const TextureDescription& d) {
  if (d.fetched) return validate_fetched(d);
  if (d.dimensions < 1 || d.dimensions > 3) {
    return PERGOLA_ERROR(kInvalidArgument, "A texture has 1, 2 or 3 dimensions; {} are asked for.", d.dimensions);
  }
  const Limit& most = kLimits[d.dimensions - 1];
  const std::uint32_t extents[3] = {d.width, d.height, d.depth}, limits[3] = {most.width, most.height, most.depth};
  for (int n = 0; n < 3; ++n) {
    if (extents[n] >= 1 && extents[n] <= limits[n]) continue;
    constexpr std::string_view kNames[3] = {"width", "height", "depth"};
    return PERGOLA_ERROR(kInvalidArgument, "A texture of {} has a {} of 1 to {}; {} is asked for.",
                         plural(d.dimensions, "dimension"), kNames[n], limits[n], extents[n]);
  }
  return {};
}

}  // namespace

std::size_t size_bytes(ChannelType type) {
  switch (type) {
    case ChannelType::kU8:
    case ChannelType::kS8: return 1;
    case ChannelType::kU16:
    case ChannelType::kS16:
    case ChannelType::kF16: return 2;
    default: return 4;
  }
}

std::string_view name_of(ChannelType type) {
  constexpr std::string_view kNames[] = {"u8", "s8", "u16", "s16", "u32", "s32", "f16", "f32"};
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t TextureDescription::texel_bytes() const { return device::size_bytes(type) * channels; }

Status validate_texture(const TextureDescription& d) {
  if (d.buffer == nullptr) return PERGOLA_ERROR(kInvalidArgument, "A texture needs a buffer with its texels, and none is given.");
  PERGOLA_TRY(validate_extents(d));
  if (d.channels != 1 && d.channels != 2 && d.channels != 4) {
    return PERGOLA_ERROR(kInvalidArgument, "A texel has 1, 2 or 4 channels; {} are asked for.", d.channels);
  }
  const std::size_t texels = d.width * d.texel_bytes();
  if (d.row_bytes() < texels) {
    return PERGOLA_ERROR(kInvalidArgument, "A row of {} texels takes {} bytes; the pitch is {}.", d.width, texels, d.pitch_bytes);
  }
  const std::size_t rows = std::size_t{d.height} * d.depth;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(rows - 1, d.row_bytes(), &bytes) || __builtin_add_overflow(bytes, texels, &bytes)) {
    return PERGOLA_ERROR(kInvalidArgument, "{} rows with a pitch of {} bytes are more than any memory has.", rows, d.pitch_bytes);
  }
  PERGOLA_TRY(validate_range("texels", d.buffer.get(), d.offset_bytes, bytes));
  const bool small_integer = d.type <= ChannelType::kS16;
  const bool is_float = d.type >= ChannelType::kF16;
  if (d.normalized_read && !small_integer) {
    return PERGOLA_ERROR(kInvalidArgument, "Channels of 8 and 16 bits can be read as normalised floats; these are {}.", name_of(d.type));
  }
  if (d.filter == FilterMode::kLinear && !is_float && !d.normalized_read) {
    return PERGOLA_ERROR(kInvalidArgument, "A linear filter gives floats, and the channels are {}; read them normalised, or filter none.",
                         name_of(d.type));
  }
  for (std::uint32_t n = 0; n < d.dimensions; ++n) {
    const bool repeats = d.address[n] == AddressMode::kWrap || d.address[n] == AddressMode::kMirror;
    if (repeats && !d.normalized_coordinates) {
      return PERGOLA_ERROR(kInvalidArgument, "Address mode {} of {} needs normalised coordinates; clamp and border do not.",
                           d.address[n] == AddressMode::kWrap ? "wrap" : "mirror", "xyz"[n]);
    }
  }
  return {};
}

}  // namespace pergola::device
