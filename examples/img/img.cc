// IMG: the image pipeline of the GrCUDA scheduler paper (section V-B, Figure 6), on a photograph.
//
//   img [IN.png|IN.jpg [OUT.png]]      PERGOLA_DEVICE=cpu | cuda:0 chooses where it runs
//
//              ┌─ blur small ──────────── sobel ──────────────────────── mask small ──────────┐
//   picture ───┼─ blur large ──────────── sobel ─┬─ maximum ─┬─ extend ─ mask large ─┐        │
//              │                                 └─ minimum ─┘                       │        │
//              └─ blur unsharpen ─ unsharpen ──────────────── combine(·, large) ─────┴── combine(·, small) ─▶ result
//
// The host code is written as if everything were sequential; only reading the result waits.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "pergola/pergola.hpp"
#include "picture.h"

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

// A kernel's name and the events around its launch.
struct Timed {
  std::string name;
  pergola::Event start, end;
};

class Pipeline {
 public:
  Pipeline(pergola::Session& session, const std::string& kernels, const img::Picture& in)
      : session_(session), module_(session.load(kernels)), in_(in), n_(static_cast<int>(in.planes.size())) {}

  img::Picture run() {
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
    return {in_.rows, in_.cols, in_.channels, {values.begin(), values.end()}};
  }

  const std::vector<Timed>& launches() const { return launches_; }

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
    pergola::Event start = session_.record();
    pergola::Event end = module_.kernel(kernel)(where, std::forward<Args>(args)...);
    launches_.push_back({kernel, std::move(start), std::move(end)});
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
  const img::Picture& in_;
  const int n_;
  std::vector<Timed> launches_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string in = argc > 1 ? argv[1] : IMG_DEFAULT_PICTURE;
  const std::string out = argc > 2 ? argv[2] : "img.png";
  const std::string kernels = argc > 3 ? argv[3] : IMG_KERNELS;
  try {
    const img::Picture picture = img::read_picture(in);
    pergola::Session session;
    Pipeline pipeline(session, kernels, picture);
    img::write_png(out, pipeline.run());

    const std::string device = session.device().name;
    std::printf("%-16s %12s  %s\n", "kernel", "time", "device");
    double total_us = 0.0;
    for (const Timed& launch : pipeline.launches()) {
      const double us = launch.end.milliseconds_since(launch.start) * 1e3;
      total_us += us;
      std::printf("%-16s %9.1f us  %s\n", launch.name.c_str(), us, device.c_str());
    }
    std::printf("%-16s %9.1f us  %s\n", "all", total_us, device.c_str());
    std::printf("%s (%d x %d, %d channels) -> %s\n", in.c_str(), picture.cols, picture.rows, picture.channels, out.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "img: %s\n", error.what());
    return 1;
  }
  return 0;
}
