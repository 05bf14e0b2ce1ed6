// Textures on a GPU: a CUDA array, or memory where it is fetched from, that takes the buffer's texels when the texture is made, and a texture object over it.
#pragma once

#include "src/device/cuda/context.h"
#include "src/device/texture.h"

namespace pergola::device::cuda {

// Copies and waits for the copy. `description` is valid (validate_texture), its buffer the context's.
Result<TexturePtr> create_texture(ContextPtr context, const TextureDescription& description);

}  // namespace pergola::device::cuda
