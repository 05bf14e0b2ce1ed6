// Textures of the C interface.
#include <optional>

#include "src/capi/guard.h"

using namespace pergola;        // NOLINT: this file is the border of the namespace
using namespace pergola::capi;  // NOLINT

namespace {

constexpr uint32_t kTextureFlags =
    PERGOLA_TEXTURE_NORMALIZED_COORDINATES | PERGOLA_TEXTURE_NORMALIZED_READ | PERGOLA_TEXTURE_FETCHED;

std::optional<device::ChannelType> channel_type(pergola_type type) {
  switch (type) {
    case PERGOLA_TYPE_U8: return device::ChannelType::kU8;
    case PERGOLA_TYPE_I8: return device::ChannelType::kS8;
    case PERGOLA_TYPE_U16: return device::ChannelType::kU16;
    case PERGOLA_TYPE_I16: return device::ChannelType::kS16;
    case PERGOLA_TYPE_U32: return device::ChannelType::kU32;
    case PERGOLA_TYPE_I32: return device::ChannelType::kS32;
    case PERGOLA_TYPE_F16: return device::ChannelType::kF16;
    case PERGOLA_TYPE_F32: return device::ChannelType::kF32;
    default: return std::nullopt;
  }
}

std::optional<device::AddressMode> address_mode(pergola_address_mode mode) {
  switch (mode) {
    case PERGOLA_ADDRESS_CLAMP: return device::AddressMode::kClamp;
    case PERGOLA_ADDRESS_WRAP: return device::AddressMode::kWrap;
    case PERGOLA_ADDRESS_MIRROR: return device::AddressMode::kMirror;
    case PERGOLA_ADDRESS_BORDER: return device::AddressMode::kBorder;
    default: return std::nullopt;
  }
}

Result<device::TextureDescription> description_of(const pergola_texture_options& options) {
  device::TextureDescription result;
  const auto type = channel_type(options.type);
  if (!type)
    return PERGOLA_ERROR(kInvalidArgument, "type {} of a texture is none of I8 U8 I16 U16 I32 U32 F16 F32.",
                         options.type);
  result.type = *type;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto mode = address_mode(options.address[i]);
    if (!mode)
      return PERGOLA_ERROR(kInvalidArgument, "address[{}] is {}, which is no pergola_address_mode.", i,
                           options.address[i]);
    result.address[i] = *mode;
  }
  if (options.filter != PERGOLA_FILTER_NEAREST && options.filter != PERGOLA_FILTER_LINEAR)
    return PERGOLA_ERROR(kInvalidArgument, "filter {} is no pergola_filter.", options.filter);
  if ((options.flags & ~kTextureFlags) != 0)
    return PERGOLA_ERROR(kUnsupported, "The texture flags {:#x} are not known to version " PERGOLA_VERSION ".",
                         options.flags & ~kTextureFlags);
  const auto or_one = [](uint32_t extent) { return extent == 0 ? 1 : extent; };
  result.dimensions = options.dimensions == 0 ? 2 : options.dimensions;
  result.width = or_one(options.extent[0]);
  result.height = or_one(options.extent[1]);
  result.depth = or_one(options.extent[2]);
  result.channels = or_one(options.channels);
  result.offset_bytes = options.offset_bytes;
  result.pitch_bytes = options.pitch_bytes;
  result.filter = options.filter == PERGOLA_FILTER_LINEAR ? device::FilterMode::kLinear : device::FilterMode::kNearest;
  result.normalized_coordinates = (options.flags & PERGOLA_TEXTURE_NORMALIZED_COORDINATES) != 0;
  result.normalized_read = (options.flags & PERGOLA_TEXTURE_NORMALIZED_READ) != 0;
  result.fetched = (options.flags & PERGOLA_TEXTURE_FETCHED) != 0;
  return result;
}

}  // namespace

pergola_code pergola_texture_create(pergola_array handle, const pergola_texture_options* given, pergola_texture* out) {
  return guarded([&]() -> Status {
    PERGOLA_TRY(check_pointer(given, "options"));
    PERGOLA_TRY(check_pointer(out, "texture"));
    PERGOLA_ASSIGN(auto array, object_of<session::Array>(handle, "array"));
    PERGOLA_ASSIGN(const pergola_texture_options options, read_struct(given, "pergola_texture_options"));
    PERGOLA_ASSIGN(const device::TextureDescription description, description_of(options));
    PERGOLA_ASSIGN(auto texture, array->create_texture(description));
    return give_handle(std::move(texture), out);
  });
}

pergola_code pergola_texture_destroy(pergola_texture texture) {
  return capi::destroy<session::Texture>(texture, "texture");
}
