// Textures: addressing, filtering, formats, and what is refused. All expected values are exact: texels and positions are
// chosen so that the weights of a linear filter have at most 8 bits and every sum fits an f32.
#include <algorithm>
#include <numeric>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Textures);

using device::AddressMode;
using device::ChannelType;
using device::FilterMode;
using device::TextureDescription;
using device::TexturePtr;

TextureDescription image_of(const BufferPtr& buffer, std::uint32_t dimensions, std::uint32_t width, std::uint32_t height = 1,
                            std::uint32_t depth = 1) {
  TextureDescription description;
  description.buffer = buffer;
  description.dimensions = dimensions;
  description.width = width;
  description.height = height;
  description.depth = depth;
  return description;
}

// Each row is 10 more than the one above, each slice 100.
std::vector<float> ramp(std::size_t width, std::size_t height = 1, std::size_t depth = 1) {
  std::vector<float> texels;
  for (std::size_t z = 0; z < depth; ++z)
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x) texels.push_back(static_cast<float>(x + 10 * y + 100 * z));
  return texels;
}

constexpr LaunchConfig kConfig{.block = {32, 1, 1}};

TEST_P(Textures, Nearest1d_ClampsOrGivesZeros) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(ramp(8));
  need(queue().synchronize());
  const std::vector<float> at = {-3, 0, 0.5f, 0.99f, 1, 7.5f, 8, 100};
  for (const AddressMode mode : {AddressMode::kClamp, AddressMode::kBorder}) {
    TextureDescription description = image_of(texels, 1, 8);
    description.address.fill(mode);
    const TexturePtr texture = need(device().create_texture(description));
    const BufferPtr out = zeros<float>(at.size());
    run(module, "sample_1d", kConfig, Arguments(texture->handle(), upload(at), out, static_cast<int>(at.size())));
    const bool clamps = mode == AddressMode::kClamp;
    EXPECT_EQ(download<float>(out), (std::vector<float>{0, 0, 0, 0, 1, 7, clamps ? 7.0f : 0, clamps ? 7.0f : 0})) << clamps;
  }
}

TEST_P(Textures, Linear1d_WeighsBy256ths) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(std::vector<float>{0, 256, 1024, 512});
  need(queue().synchronize());
  TextureDescription description = image_of(texels, 1, 4);
  description.filter = FilterMode::kLinear;
  const TexturePtr texture = need(device().create_texture(description));
  const std::vector<float> at = {0.25f, 0.5f, 1, 1.5f, 0.5f + 3 / 256.0f, 2.75f, 3.5f, 9};
  const BufferPtr out = zeros<float>(at.size());
  run(module, "sample_1d", kConfig, Arguments(texture->handle(), upload(at), out, static_cast<int>(at.size())));
  EXPECT_EQ(download<float>(out), (std::vector<float>{0, 0, 128, 256, 3, 896, 512, 512}));
}

TEST_P(Textures, Fetch1d_TakesIntegersUnfiltered) {
  const ModulePtr module = load("textures");
  std::vector<int> texels(1000);
  std::iota(texels.begin(), texels.end(), -500);
  const BufferPtr buffer = upload(texels);
  need(queue().synchronize());
  TextureDescription description = image_of(buffer, 1, 1000);
  description.type = ChannelType::kS32;
  const std::vector<int> at = {0, 1, 499, 500, 999};
  for (const bool fetched : {true, false}) {  // what is made to be sampled gives zeros
    description.fetched = fetched;
    const TexturePtr texture = need(device().create_texture(description));
    const BufferPtr out = zeros<int>(at.size());
    run(module, "fetch_1d", kConfig, Arguments(texture->handle(), upload(at), out, static_cast<int>(at.size())));
    EXPECT_EQ(download<int>(out), fetched ? (std::vector<int>{-500, -499, -1, 0, 499}) : std::vector<int>(5));
  }
}

TEST_P(Textures, Linear2d_OfAPitchedImage) {
  const ModulePtr module = load("textures");
  std::vector<float> rows;  // 3 texels a row, then 2 that are not of the image
  for (int y = 0; y < 4; ++y) rows.insert(rows.end(), {16.0f * static_cast<float>(y), 16.0f * static_cast<float>(y) + 256, 512, -1, -1});
  const BufferPtr buffer = upload(rows);
  need(queue().synchronize());
  TextureDescription description = image_of(buffer, 2, 3, 4);
  description.pitch_bytes = 20;
  description.filter = FilterMode::kLinear;
  const TexturePtr texture = need(device().create_texture(description));
  const std::vector<float> at = {0.5f, 0.5f, 1, 0.5f, 0.5f, 1, 1, 2, 3, 4, -5, 3.5f};
  const BufferPtr out = zeros<float>(at.size() / 2);
  run(module, "sample_2d", kConfig, Arguments(texture->handle(), upload(at), out, static_cast<int>(at.size() / 2)));
  EXPECT_EQ(download<float>(out), (std::vector<float>{0, 128, 8, 152, 512, 48}));
}

TEST_P(Textures, NormalisedCoordinates_WrapAndMirror) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(ramp(4, 4));
  need(queue().synchronize());
  TextureDescription description = image_of(texels, 2, 4, 4);
  description.normalized_coordinates = true;
  description.address = {AddressMode::kWrap, AddressMode::kMirror, AddressMode::kClamp};
  const TexturePtr texture = need(device().create_texture(description));
  // x: 1.125 -> texel 0, -0.125 -> 3, 2.875 -> 3; y: 1.125 -> 3, -0.125 -> 0, 1.875 -> 0.
  const std::vector<float> at = {0.125f, 0.125f, 1.125f, 0.375f, -0.125f, 0.125f, 2.875f, 0.125f, 0.125f, 1.125f, 0.125f, -0.125f, 0.125f, 1.875f};
  const BufferPtr out = zeros<float>(at.size() / 2);
  run(module, "sample_2d", kConfig, Arguments(texture->handle(), upload(at), out, static_cast<int>(at.size() / 2)));
  EXPECT_EQ(download<float>(out), (std::vector<float>{0, 10, 3, 3, 30, 0, 0}));
}

TEST_P(Textures, FourBytes_ReadAsIntegersOrNormalised) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(std::vector<std::uint8_t>{0, 255, 51, 102, 1, 2, 3, 4});
  need(queue().synchronize());
  TextureDescription description = image_of(texels, 2, 2, 1);
  description.type = ChannelType::kU8;
  description.channels = 4;
  const std::vector<float> at = {0.5f, 0.5f, 1.5f, 0.5f};
  const TexturePtr integers = need(device().create_texture(description));
  const BufferPtr out = zeros<std::uint32_t>(8);
  run(module, "sample_2d_integers", kConfig, Arguments(integers->handle(), upload(at), out, 2));
  EXPECT_EQ(download<std::uint32_t>(out), (std::vector<std::uint32_t>{0, 255, 51, 102, 1, 2, 3, 4}));
  description.normalized_read = true;
  const TexturePtr floats = need(device().create_texture(description));
  const BufferPtr real = zeros<float>(8);
  run(module, "sample_2d_four", kConfig, Arguments(floats->handle(), upload(at), real, 2));
  const std::vector<float> got = download<float>(real);
  EXPECT_EQ(got[0], 0.0f);
  EXPECT_EQ(got[1], 1.0f);
  EXPECT_NEAR(got[2], 0.2f, 1e-6f);
  EXPECT_NEAR(got[3], 0.4f, 1e-6f);
}

TEST_P(Textures, Halves_ReadAsFloats) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(std::vector<std::uint16_t>{0x3c00, 0xc000, 0x7bff, 0x0001});
  need(queue().synchronize());
  TextureDescription description = image_of(texels, 1, 4);
  description.type = ChannelType::kF16;
  const TexturePtr texture = need(device().create_texture(description));
  const std::vector<float> at = {0.5f, 1.5f, 2.5f, 3.5f};
  const BufferPtr out = zeros<float>(4);
  run(module, "sample_1d", kConfig, Arguments(texture->handle(), upload(at), out, 4));
  EXPECT_EQ(download<float>(out), (std::vector<float>{1, -2, 65504, 0x1p-24f}));
}

TEST_P(Textures, Linear3d_MixesEightTexels) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(ramp(4, 3, 2));
  need(queue().synchronize());
  TextureDescription description = image_of(texels, 3, 4, 3, 2);
  description.filter = FilterMode::kLinear;
  const TexturePtr texture = need(device().create_texture(description));
  const std::vector<float> at = {0.5f, 0.5f, 0.5f, 0, 1, 1, 1, 0, 2, 1.5f, 1.5f, 0, 9, 9, 9, 0};
  const BufferPtr out = zeros<float>(4);
  run(module, "sample_3d", kConfig, Arguments(texture->handle(), upload(at), out, 4));
  EXPECT_EQ(download<float>(out), (std::vector<float>{0, 0.5f + 5 + 50, 1.5f + 10 + 100, 3 + 20 + 100}));
}

TEST_P(Textures, Gather_GivesTheFourTexelsAround) {
  const ModulePtr module = load("textures");
  const BufferPtr texels = upload(ramp(4, 4));
  need(queue().synchronize());
  const TexturePtr texture = need(device().create_texture(image_of(texels, 2, 4, 4)));
  const std::vector<float> at = {2, 2};
  const BufferPtr out = zeros<float>(4);
  run(module, "gather_2d", kConfig, Arguments(texture->handle(), upload(at), out, 1));
  EXPECT_EQ(download<float>(out), (std::vector<float>{21, 22, 12, 11}));
}

TEST_P(Textures, Stencil_SeesTheTexelsOfItsMaking) {
  const ModulePtr module = load("textures");
  constexpr std::uint32_t kWidth = 37, kHeight = 19;
  const std::vector<float> image = ramp(kWidth, kHeight);
  const BufferPtr texels = upload(image);
  need(queue().synchronize());
  const TexturePtr texture = need(device().create_texture(image_of(texels, 2, kWidth, kHeight)));
  need(queue().fill(texels, 0, texels->size_bytes(), 0, 4));  // too late to be seen
  const BufferPtr out = zeros<float>(image.size());
  run(module, "blur_3x3", {.grid = {3, 3, 1}, .block = {16, 8, 1}},
      Arguments(texture->handle(), out, static_cast<int>(kWidth), static_cast<int>(kHeight)));
  const std::vector<float> got = download<float>(out);
  const auto texel = [&](int x, int y) {
    return image[static_cast<std::size_t>(std::clamp(y, 0, int{kHeight} - 1)) * kWidth + static_cast<std::size_t>(std::clamp(x, 0, int{kWidth} - 1))];
  };
  for (int y = 0; y < int{kHeight}; ++y) {
    for (int x = 0; x < int{kWidth}; ++x) {
      float want = 0;
      for (int n = 0; n < 9; ++n) want += texel(x + n % 3 - 1, y + n / 3 - 1);
      ASSERT_EQ(got[static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x)], want) << x << ", " << y;
    }
  }
}

TEST_P(Textures, WrongDescriptions_AreRefusedByName) {
  const BufferPtr texels = upload(ramp(8, 8));
  EXPECT_CODE(kInvalidArgument, "needs a buffer", device().create_texture(image_of(nullptr, 2, 8, 8)));
  EXPECT_CODE(kInvalidArgument, "texels", device().create_texture(image_of(texels, 2, 8, 9)));
  EXPECT_CODE(kInvalidArgument, "width of 1 to 131072", device().create_texture(image_of(texels, 1, 0)));
  EXPECT_CODE(kInvalidArgument, "1, 2 or 3 dimensions", device().create_texture(image_of(texels, 4, 8, 8)));
  TextureDescription description = image_of(texels, 2, 8, 8);
  description.channels = 3;
  EXPECT_CODE(kInvalidArgument, "1, 2 or 4 channels", device().create_texture(description));
  description.channels = 1;
  description.address[1] = AddressMode::kMirror;
  EXPECT_CODE(kInvalidArgument, "mirror of y needs normalised", device().create_texture(description));
  description.address[1] = AddressMode::kClamp;
  description.type = ChannelType::kS32;
  description.filter = FilterMode::kLinear;
  EXPECT_CODE(kInvalidArgument, "linear filter gives floats", device().create_texture(description));
  description.filter = FilterMode::kNearest;
  description.pitch_bytes = 31;
  description.fetched = true;
  EXPECT_CODE(kInvalidArgument, "fetched texture has one dimension", device().create_texture(description));
  description.fetched = false;
  EXPECT_CODE(kInvalidArgument, "the pitch is 31", device().create_texture(description));
}

}  // namespace
}  // namespace pergola::conformance
