#include "picture.h"

#include <climits>
#include <cmath>
#include <memory>
#include <stdexcept>

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

namespace img {

Picture read_picture(const std::string& path) {
  int cols = 0, rows = 0, in_file = 0;
  if (stbi_info(path.c_str(), &cols, &rows, &in_file) == 0)
    throw std::runtime_error("'" + path + "' cannot be read as PNG or JPEG: " + stbi_failure_reason() + ".");
  const int channels = in_file >= 3 ? 3 : 1;
  if (static_cast<long long>(cols) * rows * channels > INT_MAX / 4)
    throw std::runtime_error("'" + path + "' is too large: " + std::to_string(cols) + " x " + std::to_string(rows) + ".");
  const std::unique_ptr<unsigned char, void (*)(void*)> bytes(
      stbi_load(path.c_str(), &cols, &rows, &in_file, channels), stbi_image_free);
  if (bytes == nullptr)
    throw std::runtime_error("'" + path + "' cannot be read as PNG or JPEG: " + stbi_failure_reason() + ".");

  Picture picture{rows, cols, channels, std::vector<float>(static_cast<std::size_t>(rows) * cols * channels)};
  const std::size_t pixels = static_cast<std::size_t>(rows) * cols;
  for (std::size_t i = 0; i < pixels; ++i)
    for (int c = 0; c < channels; ++c) picture.planes[c * pixels + i] = bytes.get()[i * channels + c] / 255.0f;
  return picture;
}

void write_png(const std::string& path, const Picture& picture) {
  const std::size_t pixels = static_cast<std::size_t>(picture.plane_size());
  std::vector<unsigned char> bytes(pixels * picture.channels);
  for (std::size_t i = 0; i < pixels; ++i)
    for (int c = 0; c < picture.channels; ++c) {
      const float value = std::fmin(std::fmax(picture.planes[c * pixels + i], 0.0f), 1.0f);
      bytes[i * picture.channels + c] = static_cast<unsigned char>(std::lround(value * 255.0f));
    }
  if (stbi_write_png(path.c_str(), picture.cols, picture.rows, picture.channels, bytes.data(),
                     picture.cols * picture.channels) == 0)
    throw std::runtime_error("'" + path + "' cannot be written. Does its folder exist?");
}

}  // namespace img
