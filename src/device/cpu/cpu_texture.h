// Textures of the CPU device: the texels, what sampling them gives, and the table from a handle to them.
//
//   handle  | 0x7e78 | generation 32 bits | 0000 slot |      bits 63..48, 47..16, 15..0
//
// A lookup takes no lock: each slot is one atomic pointer, and an image knows its handle, so a stale or made-up handle
// finds nothing. Images go when their Texture goes; whoever launches keeps it (src/device/texture.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/base/result.h"
#include "src/device/texture.h"
#include "src/ptx/instruction.h"

namespace pergola::device::cpu {

struct TextureImage {
  std::uint64_t handle = 0;
  TextureDescription description;  // its buffer is let go of
  std::vector<std::byte> texels;   // rows and slices touch
};

class TextureTable {
 public:
  static constexpr std::size_t kSlots = 4096;
  TextureTable() = default;
  TextureTable(const TextureTable&) = delete;
  TextureTable& operator=(const TextureTable&) = delete;

  // Gives the image its handle. kResourceExhausted where every slot is taken.
  Status add(TextureImage& image);
  void remove(const TextureImage& image);
  // Null where no texture has this handle.
  const TextureImage* find(std::uint64_t handle) const;

 private:
  // Written under mutex_; release, for the acquire of find(): who sees the pointer sees the image.
  std::array<std::atomic<const TextureImage*>, kSlots> slots_{};
  std::mutex mutex_;  // guards next_slot_, generation_
  std::size_t next_slot_ = 0;
  std::uint32_t generation_ = 0;
};

// One tex or tld4 (ISA 9.7.10) on texture `image`.
struct TextureRead {
  std::uint32_t dimensions = 2;     // of the instruction
  bool integer_coordinates = false;  // .s32: texels, unfiltered; outside the image zeros
  int gather = -1;                   // tld4: which component, 0 to 3
};
// `coordinates`: bits of s32 or f32. Gives four components: the bits of f32 where the channels are or become floats, else
// integers extended to 32 bits.
std::array<std::uint32_t, 4> read_texture(const TextureImage& image, const TextureRead& read,
                                          const std::array<std::uint32_t, 3>& coordinates);
// How many operands of a tex choose a level: one of .level, two gradients of .grad, else none. A texture here has one level,
// so they choose nothing, as on a GPU.
inline std::size_t level_operands(const ptx::Instruction& in) {
  return in.op != ptx::Op::kTex ? 0 : in.has(ptx::Mod::kLevel) ? 1 : in.has(ptx::Mod::kGrad) ? 2 : 0;
}
// txq: width 0, height 1, depth 2.
std::uint32_t texture_extent(const TextureImage& image, int which);

}  // namespace pergola::device::cpu
