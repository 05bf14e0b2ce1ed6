// Reading and writing photographs for the examples.
#pragma once

#include <string>
#include <vector>

namespace img {

// `channels` planes of rows x cols floats in [0, 1], one after the other.
struct Picture {
  int rows = 0, cols = 0, channels = 0;
  std::vector<float> planes;
  int plane_size() const { return rows * cols; }
};

// Any PNG or JPEG, grey or RGB; transparency is dropped. Throws std::runtime_error that names the file and what is wrong.
Picture read_picture(const std::string& path);

// Writes a PNG of 8 bits a channel, rounding to nearest. Throws std::runtime_error.
void write_png(const std::string& path, const Picture& picture);

}  // namespace img
