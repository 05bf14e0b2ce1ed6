// The image pipeline against the same computation written plainly, in double precision, on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "picture.h"
#include "pipeline.h"
#include "tests/support/source_dir.h"

namespace {

using Planes = std::vector<double>;

class Reference {
 public:
  explicit Reference(const img::Picture& in) : rows_(in.rows), cols_(in.cols), channels_(in.channels) {
    image_.assign(in.planes.begin(), in.planes.end());
  }

  Planes run() const {
    const Planes small = blur(5, 1.0), large = blur(15, 5.0), soft = blur(7, 2.0);
    const Planes mask_small = sobel(small);
    const Planes mask_large = extend(sobel(large));
    const double amount = 0.5;
    Planes sharp(image_.size()), result(image_.size());
    for (std::size_t i = 0; i < sharp.size(); ++i)
      sharp[i] = std::clamp(image_[i] * (1 + amount) - soft[i] * amount, 0.0, 1.0);
    for (std::size_t i = 0; i < sharp.size(); ++i) {
      const double first = sharp[i] * mask_large[i] + large[i] * (1 - mask_large[i]);
      result[i] = first * mask_small[i] + small[i] * (1 - mask_small[i]);
    }
    return result;
  }

 private:
  double at(const Planes& planes, int channel, int row, int col) const {
    row = std::clamp(row, 0, rows_ - 1);
    col = std::clamp(col, 0, cols_ - 1);
    return planes[(static_cast<std::size_t>(channel) * rows_ + row) * cols_ + col];
  }
  Planes each(const std::function<double(int, int, int)>& value) const {
    Planes out;
    for (int channel = 0; channel < channels_; ++channel)
      for (int row = 0; row < rows_; ++row)
        for (int col = 0; col < cols_; ++col) out.push_back(value(channel, row, col));
    return out;
  }
  Planes blur(int diameter, double sigma) const {
    const int radius = diameter / 2;
    const auto weight = [&](int dy, int dx) { return std::exp(-(dx * dx + dy * dy) / (2 * sigma * sigma)); };
    double total = 0;
    for (int dy = -radius; dy <= radius; ++dy)
      for (int dx = -radius; dx <= radius; ++dx) total += weight(dy, dx);
    return each([&](int channel, int row, int col) {
      double sum = 0;
      for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx) sum += at(image_, channel, row + dy, col + dx) * weight(dy, dx);
      return sum / total;
    });
  }
  Planes sobel(const Planes& in) const {
    return each([&](int c, int y, int x) {
      const auto p = [&](int dy, int dx) { return at(in, c, y + dy, x + dx); };
      const double gx = p(-1, 1) - p(-1, -1) + 2 * (p(0, 1) - p(0, -1)) + p(1, 1) - p(1, -1);
      const double gy = p(1, -1) - p(-1, -1) + 2 * (p(1, 0) - p(-1, 0)) + p(1, 1) - p(-1, 1);
      return std::sqrt(gx * gx + gy * gy);
    });
  }
  static Planes extend(Planes mask) {
    const auto [smallest, largest] = std::minmax_element(mask.begin(), mask.end());
    const double low = *smallest, range = *largest - *smallest;
    for (double& value : mask) value = range > 0 ? std::min(5 * (value - low) / range, 1.0) : 0.0;
    return mask;
  }

  int rows_, cols_, channels_;
  Planes image_;
};

// Every float of the result within 1e-5 of the reference: 400 times finer than a step of an 8-bit picture.
void expect_matches_reference(const img::Picture& in) {
  pergola::Session session;
  const img::Outcome outcome =
      img::run_pipeline(session, pergola::test_support::source_path("examples/img/img.cu").string(), in);
  ASSERT_EQ(outcome.picture.planes.size(), in.planes.size());
  EXPECT_EQ(outcome.launches.size(), 11u);
  const Planes expected = Reference(in).run();
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::fabs(expected[i] - static_cast<double>(outcome.picture.planes[i])));
  EXPECT_LT(worst, 1e-5);
}

img::Picture synthetic(int rows, int cols, int channels) {
  img::Picture picture{rows, cols, channels, {}};
  unsigned state = 12345;
  for (int i = 0; i < rows * cols * channels; ++i) {
    state = state * 1664525u + 1013904223u;
    picture.planes.push_back(static_cast<float>(state >> 8) / 16777216.0f);
  }
  return picture;
}

TEST(Img, OddSizes_MatchTheReference) {
  expect_matches_reference(synthetic(1, 1, 1));
  expect_matches_reference(synthetic(37, 53, 3));
  expect_matches_reference(synthetic(16, 200, 1));
}

TEST(Img, Photograph_MatchesTheReference) {
  const img::Picture whole = img::read_picture(pergola::test_support::source_path("examples/data/astronaut.png").string());
  ASSERT_EQ(whole.rows, 512);
  ASSERT_EQ(whole.cols, 512);
  ASSERT_EQ(whole.channels, 3);
  // A part of it, so that sanitizer builds and the interpreter are done in seconds.
  img::Picture part{96, 96, 3, {}};
  for (int channel = 0; channel < 3; ++channel)
    for (int row = 0; row < part.rows; ++row)
      for (int col = 0; col < part.cols; ++col)
        part.planes.push_back(whole.planes[(static_cast<std::size_t>(channel) * 512 + row + 40) * 512 + col + 200]);
  expect_matches_reference(part);
}

TEST(Img, FileThatIsNoPicture_NamesTheFile) {
  try {
    img::read_picture(pergola::test_support::source_path("README.md").string());
    FAIL() << "a README is no picture";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("README.md"), std::string::npos);
  }
}

}  // namespace
