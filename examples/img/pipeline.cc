#include "pipeline.h"

#include <cmath>
#include <utility>

namespace img {
namespace {

constexpr unsigned kTile = 16;          // the blur and Sobel kernels run in 16 x 16 blocks
constexpr unsigned kThreads = 256;      // the others in blocks of 256
constexpr unsigned kReduceBlocks = 64;  // of maximum and minimum

// diameter x diameter weights that add up to 1.
std::vector<float> gaussian_weights(int diameter, double sigma) {
  std::vector<float> weights(static_cast<std::size_t>(diameter) * diameter);
  const int radius = diameter / 2;
  double sum = 0.0;
  for (int y = -radius; y <= radius; ++y)
    for (int x = -radius; x <= radius; ++x) sum += std::exp(-(x * x + y * y) / (2 * sigma * sigma));
  for (int y = -radius; y <= radius; ++y)
    for (int x = -radius; x <= radius; ++x)
      weights[(y + radius) * diameter + x + radius] =
          static_cast<float>(std::exp(-(x * x + y * y) / (2 * sigma * sigma)) / sum);
  return weights;
}

class Pipeline {
 public:
  Pipeline(pergola::Session& session, const std::string& kernels, const Picture& in)
      : session_(session), module_(session.load(kernels)), in_(in), n_(static_cast<int>(in.planes.size())) {}

  Outcome run() {
    pergola::Event begin = session_.record();
    auto image = session_.array<float>(in_.planes);
    auto blurred_small = make(), blurred_large = make(), blurred_unsharpen = make();
    auto mask_small = make(), mask_large = make(), sharpened = make(), combined = make(), result = make();
    auto largest = session_.array<float>(1, 0.0f), smallest = session_.array<float>(1, 3.4e38f);

    blur(image, blurred_small, 5, 1.0);
    blur(image, blurred_large, 15, 5.0);
    blur(image, blurred_unsharpen, 7, 2.0);
    edges(blurred_small, mask_small);
    edges(blurred_large, mask_large);
    launch("maximum", linear(kReduceBlocks), mask_large, largest, n_);
    launch("minimum", linear(kReduceBlocks), mask_large, smallest, n_);
    launch("extend", covering(), mask_large, smallest, largest, n_);
    launch("unsharpen", covering(), image, blurred_unsharpen, sharpened, 0.5f, n_);
    launch("combine", covering(), sharpened, blurred_large, mask_large, combined, n_);
    launch("combine", covering(), combined, blurred_small, mask_small, result, n_);

    const auto values = result.read();
    return {{in_.rows, in_.cols, in_.channels, {values.begin(), values.end()}}, std::move(begin), std::move(launches_)};
  }

 private:
  pergola::Array<float> make() { return session_.array<float>(in_.planes.size()); }
  pergola::Grid linear(unsigned blocks) const { return pergola::grid({blocks}, {kThreads}); }
  pergola::Grid covering() const { return linear((n_ + kThreads - 1) / kThreads); }
  pergola::Grid tiles(unsigned shared_bytes) const {
    return pergola::grid({(in_.cols + kTile - 1) / kTile, (in_.rows + kTile - 1) / kTile, unsigned(in_.channels)},
                         {kTile, kTile}, shared_bytes);
  }

  template <typename... Args>
  void launch(const char* kernel, const pergola::Grid& where, Args&&... args) {
    launches_.push_back({kernel, module_.kernel(kernel)(where, std::forward<Args>(args)...)});
  }
  void blur(pergola::Array<float>& from, pergola::Array<float>& to, int diameter, double sigma) {
    auto weights = session_.array<float>(gaussian_weights(diameter, sigma));
    launch("gaussian_blur", tiles(diameter * diameter * sizeof(float)), from, to, in_.rows, in_.cols, weights, diameter);
  }
  void edges(pergola::Array<float>& from, pergola::Array<float>& to) {
    launch("sobel", tiles(0), from, to, in_.rows, in_.cols);
  }

  pergola::Session& session_;
  pergola::Module module_;
  const Picture& in_;
  const int n_;
  std::vector<Launched> launches_;
};

}  // namespace

Outcome run_pipeline(pergola::Session& session, const std::string& kernels, const Picture& in) {
  return Pipeline(session, kernels, in).run();
}

}  // namespace img
