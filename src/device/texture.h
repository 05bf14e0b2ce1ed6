// Texture objects: an image that kernels sample through a 64-bit handle, `tex.2d.v4.f32.f32 {...}, [handle, {x, y}]` in
// PTX, cudaTextureObject_t in CUDA C++.
//
// A texture holds the texels that its buffer had when the texture was made: work that fills the buffer must have ended
// before, and what is written later is not seen. So it is the same on every device, whatever the device keeps it in.
// Whoever launches holds the texture until the launch has ended, as with buffers. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "src/base/result.h"
#include "src/device/buffer.h"

namespace pergola::device {

enum class ChannelType : std::uint8_t { kU8, kS8, kU16, kS16, kU32, kS32, kF16, kF32 };
enum class AddressMode : std::uint8_t { kWrap, kClamp, kMirror, kBorder };  // beyond the edge; border: zeros
enum class FilterMode : std::uint8_t { kNearest, kLinear };

struct TextureDescription {
  BufferPtr buffer;
  std::size_t offset_bytes = 0;
  std::uint32_t dimensions = 2;                         // 1, 2 or 3
  std::uint32_t width = 1, height = 1, depth = 1;       // texels; beyond `dimensions` they are 1
  std::size_t pitch_bytes = 0;                          // from row to row; 0: rows touch. Slices are `height` rows apart.
  ChannelType type = ChannelType::kF32;
  std::uint32_t channels = 1;                           // 1, 2 or 4
  std::array<AddressMode, 3> address{AddressMode::kClamp, AddressMode::kClamp, AddressMode::kClamp};  // of x, y, z
  FilterMode filter = FilterMode::kNearest;
  bool normalized_coordinates = false;                  // coordinates from 0 to 1; wrap and mirror need it
  // Of one dimension, read by integers (tex1Dfetch, tex.1d with .s32 coordinates) and not sampled: up to 2^27 texels, no
  // filter. On other textures of one dimension such a read gives zeros.
  bool fetched = false;
  bool normalized_read = false;                         // 8- and 16-bit integers read as floats in [0, 1] or [-1, 1]

  std::size_t texel_bytes() const;
  std::size_t row_bytes() const { return pitch_bytes != 0 ? pitch_bytes : width * texel_bytes(); }
};

class Texture {
 public:
  virtual ~Texture() = default;
  // What a kernel's .u64 parameter is given. Never 0.
  virtual std::uint64_t handle() const = 0;
};

using TexturePtr = std::shared_ptr<Texture>;

std::size_t size_bytes(ChannelType type);
std::string_view name_of(ChannelType type);  // "u8"

// kInvalidArgument names the field that is wrong, what it was and what it may be: extents (1D 131072, 2D 131072 x 65536, 3D
// 16384 each), channels, the range in the buffer, modes that need normalised coordinates, a filter of integers.
Status validate_texture(const TextureDescription& description);

}  // namespace pergola::device
