// IMG: a picture sharpened where its subject is, and softened elsewhere.
//
//   image ─┬─ blur small ──┬─ sobel ───────────────────────────────────────────┐
//          ├─ blur large ──┼─ sobel ─┬─ maximum ─┬─ extend ─┐                  ├─ combine ─▶ picture
//          │               │         └─ minimum ─┘          ├─ combine ────────┘
//          ├─ blur unsharpen ─┬─────────────────────────────┤
//          └──────────────────┴─ unsharpen ─────────────────┘
#include <array>

#include "harness.h"

namespace dag {
namespace {

constexpr int kSmall = 3, kLarge = 5, kUnsharpen = 3;  // diameters
constexpr double kSigmaSmall = 1, kSigmaLarge = 10, kSigmaUnsharpen = 5;
constexpr float kAmount = 0.5f;

using Image = std::vector<double>;

struct Img : Problem {
  // Tiles lie one below the other.
  Img(Setup& setup, int columns, int rows_of_tile)
      : tiling{.copies = setup.tiles},
        cols(columns),
        rows(static_cast<int>(tiling.on_device(rows_of_tile))),
        n(static_cast<long long>(rows) * cols),
        squares(pergola::grid({(cols + 7) / 8, (rows + 7) / 8}, {8, 8})),
        each(covering(n, setup.block)),
        reduce(reducing(n, setup.block)),
        image(setup.memory.take<float>(static_cast<std::size_t>(rows_of_tile) * cols)),
        small(weights(setup.memory, kSmall, kSigmaSmall)),
        large(weights(setup.memory, kLarge, kSigmaLarge)),
        unsharpen(weights(setup.memory, kUnsharpen, kSigmaUnsharpen)),
        picture(setup.memory.take<float>(image.size())) {
    name = "IMG";
    fill_uniform(image, 0, 1, 1);
  }

  static std::span<float> weights(HostMemory& memory, int diameter, double sigma) {
    const std::span<float> result = memory.take<float>(static_cast<std::size_t>(diameter) * diameter);
    const int radius = diameter / 2;
    double sum = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the second divides by what the first has summed
      for (int y = -radius; y <= radius; ++y) {
        for (int x = -radius; x <= radius; ++x) {
          const double weight = std::exp(-(x * x + y * y) / (2 * sigma * sigma));
          if (pass == 0) sum += weight;
          result[(y + radius) * diameter + x + radius] = static_cast<float>(weight / sum);
        }
      }
    }
    return result;
  }

  Plan plan() const override {
    Plan plan;
    const ArrayId in = plan.input("image", image, tiling);
    const ArrayId out = plan.output("picture", picture, tiling.copies);
    const ArrayId w_small = plan.input("weights small", small), w_large = plan.input("weights large", large);
    const ArrayId w_unsharpen = plan.input("weights unsharpen", unsharpen);
    const auto make = [&](const char* what) { return plan.array<float>(what, n); };
    const ArrayId blurred_small = make("blurred small"), blurred_large = make("blurred large");
    const ArrayId blurred = make("blurred unsharpen"), sharp = make("sharpened"), combined = make("combined");
    const ArrayId mask_small = make("mask small"), mask_large = make("mask large");
    const ArrayId largest = plan.array<double>("largest", 1), smallest = plan.array<double>("smallest", 1);
    const auto [max_partial, max_counter] = reduction_scratch(plan, "maximum", reduce);
    const auto [min_partial, min_counter] = reduction_scratch(plan, "minimum", reduce);

    // Stream 0 has the longest chain; what is next in its way is launched first.
    const StepId in_large = plan.copy_in(w_large, 0), in_small = plan.copy_in(w_small, 1);
    const StepId in_unsharpen = plan.copy_in(w_unsharpen, 2), in_image = plan.copy_in(in, 0);
    const auto blur = [&](ArrayId to, ArrayId with, int diameter, int stream, StepId ready) {
      return plan.kernel("gaussian_blur", squares, {in, to, rows, cols, with, diameter}, stream, {in_image, ready});
    };
    const StepId blur_large = blur(blurred_large, w_large, kLarge, 0, in_large);
    const StepId blur_small = blur(blurred_small, w_small, kSmall, 1, in_small);
    const StepId blur_unsharpen = blur(blurred, w_unsharpen, kUnsharpen, 2, in_unsharpen);
    const StepId sobel_large = plan.kernel("sobel", squares, {blurred_large, mask_large, rows, cols}, 0, {blur_large});
    const StepId maximum =
        plan.kernel("maximum", reduce, {mask_large, n, max_partial, max_counter, largest}, 0, {sobel_large});
    const StepId minimum =
        plan.kernel("minimum", reduce, {mask_large, n, min_partial, min_counter, smallest}, 3, {sobel_large});
    const StepId sobel_small = plan.kernel("sobel", squares, {blurred_small, mask_small, rows, cols}, 1, {blur_small});
    const StepId sharpened =
        plan.kernel("unsharpen", each, {in, blurred, sharp, kAmount, n}, 2, {in_image, blur_unsharpen});
    const StepId extended =
        plan.kernel("extend", each, {mask_large, smallest, largest, n}, 0, {sobel_large, maximum, minimum});
    const StepId first = plan.kernel("combine", each, {sharp, blurred_large, mask_large, combined, n}, 0,
                                     {sharpened, blur_large, extended});
    const StepId last = plan.kernel("combine", each, {combined, blurred_small, mask_small, out, n}, 0,
                                    {first, blur_small, sobel_small});
    plan.copy_out(out, 0, {last});
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  void reference() override {
    const std::vector<float> copies = tiling.is_tiled() ? stacked() : std::vector<float>();
    const std::span<const float> of = tiling.is_tiled() ? std::span<const float>(copies) : image;
    const Image blurred_small = blur(of, small, kSmall), blurred_large = blur(of, large, kLarge);
    const Image blurred = blur(of, unsharpen, kUnsharpen);
    const Image mask_small = edges(blurred_small);
    Image mask_large = edges(blurred_large);
    const auto [low, high] = std::minmax_element(mask_large.begin(), mask_large.end());
    const double smallest = *low, largest = *high;
    expected.resize(of.size());
    parallel_for(of.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const double mask = std::min(1.0, 5 * (mask_large[i] - smallest) / (largest - smallest));
        const double sharp = std::clamp(of[i] * (1.0 + kAmount) - blurred[i] * kAmount, 0.0, 1.0);
        const double combined = sharp * mask + blurred_large[i] * (1 - mask);
        expected[i] = combined * mask_small[i] + blurred_small[i] * (1 - mask_small[i]);
      }
    });
  }
  bool is_right(std::size_t piece) const override {
    const std::span<const double> all = expected;
    return all_close<float>(picture, all.subspan(tiling.kind_of(piece) * picture.size(), picture.size()), 1e-4, 1);
  }

  // One tile of each kind: what the reference works on. The smallest and largest of the mask are those of all tiles.
  std::vector<float> stacked() const {
    std::vector<float> result;
    for (std::size_t kind = 0; kind < tiling.kinds(); ++kind) result.insert(result.end(), image.begin(), image.end());
    return result;
  }
  // f(x, y) of each pixel.
  template <typename F>
  Image each_pixel(F f) const {
    Image result(image.size() * tiling.kinds());
    parallel_for(result.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) result[i] = f(static_cast<int>(i % cols), static_cast<int>(i / cols));
    });
    return result;
  }
  // 0 outside.
  template <typename T>
  double pixel(const T& from, int x, int y) const {
    const std::size_t at = static_cast<std::size_t>(y) * cols + x;
    return x < 0 || x >= cols || y < 0 || at >= from.size() ? 0 : from[at];
  }
  Image blur(std::span<const float> of, std::span<const float> with, int diameter) const {
    const int radius = diameter / 2;
    return each_pixel([&](int x, int y) {
      double sum = 0;
      for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx)
          sum += pixel(of, x + dx, y + dy) * with[(dy + radius) * diameter + dx + radius];
      return sum;
    });
  }
  Image edges(const Image& from) const {
    return each_pixel([&](int x, int y) {
      const auto at = [&](int dx, int dy) { return pixel(from, x + dx, y + dy); };
      const double across = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1);
      const double down = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1);
      return std::sqrt(across * across + down * down);
    });
  }

  const Tiling tiling;
  const int cols, rows;
  const long long n;
  const pergola::Grid squares, each, reduce;
  const std::span<float> image, small, large, unsharpen, picture;
  Image expected;
};

template <typename Index>
class ImgSequential : public Sequential {
 public:
  ImgSequential(const pergola::Session& session, const pergola::Module& module, const Img& problem)
      : p_(problem),
        gaussian_blur_(module.kernel("gaussian_blur")),
        sobel_(module.kernel("sobel")),
        maximum_(module.kernel("maximum")),
        minimum_(module.kernel("minimum")),
        extend_(module.kernel("extend")),
        unsharpen_(module.kernel("unsharpen")),
        combine_(module.kernel("combine")),
        image_(session.array<float>(p_.n)),
        weights_small_(session.array<float>(p_.small.size())),
        weights_large_(session.array<float>(p_.large.size())),
        weights_unsharpen_(session.array<float>(p_.unsharpen.size())),
        blurred_small_(session.array<float>(p_.n)),
        blurred_large_(session.array<float>(p_.n)),
        blurred_(session.array<float>(p_.n)),
        mask_small_(session.array<float>(p_.n)),
        mask_large_(session.array<float>(p_.n)),
        sharp_(session.array<float>(p_.n)),
        combined_(session.array<float>(p_.n)),
        picture_(session.array<float>(p_.n)),
        max_partial_(session.array<double>(p_.reduce.blocks.x)),
        min_partial_(session.array<double>(p_.reduce.blocks.x)),
        largest_(session.array<double>(1)),
        smallest_(session.array<double>(1)),
        max_counter_(session.array<unsigned>(1, 0u)),
        min_counter_(session.array<unsigned>(1, 0u)) {}

  void write() override {
    send(weights_small_, p_.small);
    send(weights_large_, p_.large);
    send(weights_unsharpen_, p_.unsharpen);
    send(image_, p_.image, p_.tiling);
  }
  void launch() override {
    const int rows = p_.rows, cols = p_.cols;
    const auto n = static_cast<Index>(p_.n);
    gaussian_blur_(p_.squares, image_, blurred_small_, rows, cols, weights_small_, kSmall);
    gaussian_blur_(p_.squares, image_, blurred_large_, rows, cols, weights_large_, kLarge);
    gaussian_blur_(p_.squares, image_, blurred_, rows, cols, weights_unsharpen_, kUnsharpen);
    sobel_(p_.squares, blurred_small_, mask_small_, rows, cols);
    sobel_(p_.squares, blurred_large_, mask_large_, rows, cols);
    maximum_(p_.reduce, mask_large_, n, max_partial_, max_counter_, largest_);
    minimum_(p_.reduce, mask_large_, n, min_partial_, min_counter_, smallest_);
    extend_(p_.each, mask_large_, smallest_, largest_, n);
    unsharpen_(p_.each, image_, blurred_, sharp_, kAmount, n);
    combine_(p_.each, sharp_, blurred_large_, mask_large_, combined_, n);
    combine_(p_.each, combined_, blurred_small_, mask_small_, picture_, n);
  }
  void read() override { receive(picture_, p_.picture); }
  std::vector<pergola_array> outputs() const override { return {picture_.handle()}; }

 private:
  const Img& p_;
  const pergola::Kernel gaussian_blur_, sobel_, maximum_, minimum_, extend_, unsharpen_, combine_;
  pergola::Array<float> image_, weights_small_, weights_large_, weights_unsharpen_, blurred_small_, blurred_large_,
      blurred_, mask_small_, mask_large_, sharp_, combined_, picture_;
  pergola::Array<double> max_partial_, min_partial_, largest_, smallest_;
  pergola::Array<unsigned> max_counter_, min_counter_;
};

std::unique_ptr<Sequential> Img::sequential(const pergola::Session& session, const pergola::Module& module) {
  return by_index<ImgSequential>(session, module, *this);
}

}  // namespace

std::unique_ptr<Problem> make_img(Setup& setup) {
  constexpr int kReach = 3;  // of what a pixel depends on, in rows: a blur's and Sobel's
  const int side = static_cast<int>(std::sqrt(setup.bytes / (9.0 * sizeof(float))));
  const int rows_of_tile = side / static_cast<int>(setup.tiles);
  check_tile("IMG", setup, rows_of_tile, kReach);
  return std::make_unique<Img>(setup, side, rows_of_tile);
}

}  // namespace dag
