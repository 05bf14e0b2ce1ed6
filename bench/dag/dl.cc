// DL: two images through the same convolutional network, and what it makes of each combined into one number.
//
//   image 1 ─ convolution ─ pooling ─ convolution ─┐
//                                                  ├─ concatenate ─ dense ─▶ one number
//   image 2 ─ convolution ─ pooling ─ convolution ─┘
#include <array>

#include "harness.h"

namespace dag {
namespace {

constexpr int kFirst = 8, kSecond = 16;  // filters of the two convolutions
constexpr int kFactor = 4;               // of the pooling
constexpr int kKernel = 3 * 3;

// Per pixel of an image: two images, two first convolutions, and 1/16 of two poolings, two second convolutions, their
// concatenation and its weights.
constexpr double kFloatsPerPixel = 2 + 2 * kFirst + (2 * kFirst + 3 * 2 * kSecond) / (1.0 * kFactor * kFactor);

pergola::Grid cubes(int side, int depth) {
  return pergola::grid({(side + 3) / 4, (side + 3) / 4, depth / 4}, {4, 4, 4});
}

struct Dl : Problem {
  // Tiles lie one below the other; so in each filter's part of the dense weights.
  Dl(Setup& setup, int side_pixels, int rows_of_tile)
      : tiling{.copies = setup.tiles},
        dense_tiling{.copies = setup.tiles, .parts = 2 * kSecond},
        side(side_pixels),
        tile_rows(rows_of_tile),
        pooled(side / kFactor),
        embedding(static_cast<long long>(kSecond) * pooled * pooled),
        first(cubes(side, kFirst)),
        pool(cubes(pooled, kFirst)),
        second(cubes(pooled, kSecond)),
        each(covering(embedding, setup.block)),
        reduce(reducing(2 * std::size_t(embedding), setup.block)),
        image{setup.memory.take<float>(std::size_t(tile_rows) * side),
              setup.memory.take<float>(std::size_t(tile_rows) * side)},
        first_weights(setup.memory.take<float>(kFirst * kKernel)),
        second_weights(setup.memory.take<float>(kSecond * kFirst * kKernel)),
        dense_weights(setup.memory.take<float>(2 * std::size_t(kSecond) * (tile_rows / kFactor) * pooled)),
        result(setup.memory.take<double>(1)) {
    name = "DL";
    fill_uniform(image[0], 0, 1, 1);
    fill_uniform(image[1], 0, 1, 2);
    fill_uniform(first_weights, -0.3, 0.5, 3);
    fill_uniform(second_weights, -0.1, 0.2, 4);
    fill_uniform(dense_weights, -1, 1, 5);
  }

  Plan plan() const override {
    Plan plan;
    const ArrayId w1 = plan.input("first weights", first_weights), w2 = plan.input("second weights", second_weights);
    const ArrayId w3 = plan.input("dense weights", dense_weights, dense_tiling);
    const ArrayId out = plan.output("result", result);
    const ArrayId joined = plan.array<float>("embeddings", 2 * std::size_t(embedding));
    const auto [partial, counter] = reduction_scratch(plan, "dense", reduce);
    // A stream for the copies, in the order in which they are needed: side by side they would share the link, and
    // nothing could begin before half of them is there. And a stream a branch.
    const std::array<ArrayId, 2> pixels{plan.input("pixels of image 1", image[0], tiling),
                                        plan.input("pixels of image 2", image[1], tiling)};
    const StepId in_w1 = plan.copy_in(w1, 2), in_w2 = plan.copy_in(w2, 2);
    const std::array<StepId, 2> in_image{plan.copy_in(pixels[0], 2), plan.copy_in(pixels[1], 2)};
    const StepId in_w3 = plan.copy_in(w3, 2);
    std::array<ArrayId, 2> embedded;
    std::vector<StepId> done;
    for (int b = 0; b < 2; ++b) {
      const std::string of = " of image " + std::to_string(b + 1);
      const ArrayId c1 = plan.array<float>("first" + of, std::size_t(kFirst) * side * side);
      const ArrayId p = plan.array<float>("pooled" + of, std::size_t(kFirst) * pooled * pooled);
      embedded[b] = plan.array<float>("second" + of, embedding);
      const StepId convolved =
          plan.kernel("convolution", first, {pixels[b], w1, c1, side, 1, kFirst}, b, {in_image[b], in_w1});
      const StepId pooling = plan.kernel("pooling", pool, {c1, p, pooled, kFirst, kFactor}, b, {convolved});
      done.push_back(
          plan.kernel("convolution", second, {p, w2, embedded[b], pooled, kFirst, kSecond}, b, {pooling, in_w2}));
    }
    const StepId together = plan.kernel("concatenate", each, {embedded[0], embedded[1], joined, embedding}, 0, done);
    const StepId number =
        plan.kernel("dense", reduce, {joined, w3, 2 * embedding, partial, counter, out}, 0, {together, in_w3});
    plan.copy_out(out, 0, {number});
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  void reference() override {
    expected = magnitude = 0;
    const int rows = static_cast<int>(tiling.kinds()) * tile_rows, pooled_rows = rows / kFactor;  // a tile of each kind
    for (int b = 0; b < 2; ++b) {
      std::vector<double> pixels;
      for (std::size_t kind = 0; kind < tiling.kinds(); ++kind)
        pixels.insert(pixels.end(), image[b].begin(), image[b].end());
      const auto c1 = convolved(pixels, first_weights, rows, side, 1, kFirst);
      std::vector<double> p(static_cast<std::size_t>(kFirst) * pooled_rows * pooled);
      parallel_for(p.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const std::size_t x = i % pooled, y = i / pooled % pooled_rows, c = i / pooled / pooled_rows;
          for (int dy = 0; dy < kFactor; ++dy)
            for (int dx = 0; dx < kFactor; ++dx)
              p[i] += c1[(c * rows + y * kFactor + dy) * side + x * kFactor + dx] / (kFactor * kFactor);
        }
      });
      add_dense(b, convolved(p, second_weights, pooled_rows, pooled, kFirst, kSecond));
    }
  }
  // What the second convolution makes of image b's tiles, each as often as there are copies of its kind.
  void add_dense(int b, const std::vector<double>& c2) {
    const std::size_t of_tile = static_cast<std::size_t>(tile_rows / kFactor) * pooled;  // of one filter
    const std::size_t of_filter = of_tile * tiling.kinds();
    for (std::size_t i = 0; i < c2.size(); ++i) {
      const std::size_t filter = i / of_filter, kind = i % of_filter / of_tile;
      const double term = c2[i] * dense_weights[(b * std::size_t{kSecond} + filter) * of_tile + i % of_tile];
      expected += static_cast<double>(tiling.of_kind(kind)) * term;
      magnitude += static_cast<double>(tiling.of_kind(kind)) * std::fabs(term);
    }
  }
  bool is_right(std::size_t) const override { return std::fabs(result[0] - expected) <= 1e-6 * magnitude; }

  static std::vector<double> convolved(const std::vector<double>& in, std::span<const float> weights, int rows,
                                       int cols, int channels, int filters) {
    std::vector<double> out(static_cast<std::size_t>(filters) * rows * cols);
    parallel_for(out.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const int x = static_cast<int>(i % cols), y = static_cast<int>(i / cols % rows);
        const int filter = static_cast<int>(i / cols / rows);
        double sum = 0;
        for (int c = 0; c < channels; ++c) {
          const double* plane = &in[static_cast<std::size_t>(c) * rows * cols];
          const float* weight = &weights[(filter * channels + c) * kKernel];
          for (int fy = std::max(0, y - 1); fy <= std::min(rows - 1, y + 1); ++fy)
            for (int fx = std::max(0, x - 1); fx <= std::min(cols - 1, x + 1); ++fx)
              sum += plane[static_cast<std::size_t>(fy) * cols + fx] * weight[(fy - y + 1) * 3 + fx - x + 1];
        }
        out[i] = std::max(0.0, sum);
      }
    });
    return out;
  }

  const Tiling tiling, dense_tiling;
  const int side, tile_rows, pooled;
  const long long embedding;  // of an image
  const pergola::Grid first, pool, second, each, reduce;
  const std::array<std::span<float>, 2> image;
  const std::span<float> first_weights, second_weights, dense_weights;
  const std::span<double> result;
  double expected = 0, magnitude = 0;
};

template <typename Index>
class DlSequential : public Sequential {
 public:
  DlSequential(const pergola::Session& session, const pergola::Module& module, const Dl& problem)
      : p_(problem),
        convolution_(module.kernel("convolution")),
        pooling_(module.kernel("pooling")),
        concatenate_(module.kernel("concatenate")),
        dense_(module.kernel("dense")),
        first_weights_(session.array<float>(p_.first_weights.size())),
        second_weights_(session.array<float>(p_.second_weights.size())),
        dense_weights_(session.array<float>(2 * p_.embedding)),
        embeddings_(session.array<float>(2 * p_.embedding)),
        partial_(session.array<double>(p_.reduce.blocks.x)),
        counter_(session.array<unsigned>(1, 0u)),
        result_(session.array<double>(1)) {
    for (int b = 0; b < 2; ++b) {
      image_.push_back(session.array<float>(std::size_t(p_.side) * p_.side));
      convolved_.push_back(session.array<float>(std::size_t(kFirst) * p_.side * p_.side));
      pooled_.push_back(session.array<float>(std::size_t(kFirst) * p_.pooled * p_.pooled));
      embedding_.push_back(session.array<float>(p_.embedding));
    }
  }

  void write() override {
    send(first_weights_, p_.first_weights);
    send(second_weights_, p_.second_weights);
    for (int b = 0; b < 2; ++b) send(image_[b], p_.image[b], p_.tiling);
    send(dense_weights_, p_.dense_weights, p_.dense_tiling);
  }
  void launch() override {
    for (int b = 0; b < 2; ++b) {
      convolution_(p_.first, image_[b], first_weights_, convolved_[b], p_.side, 1, kFirst);
      pooling_(p_.pool, convolved_[b], pooled_[b], p_.pooled, kFirst, kFactor);
      convolution_(p_.second, pooled_[b], second_weights_, embedding_[b], p_.pooled, kFirst, kSecond);
    }
    const auto n = static_cast<Index>(p_.embedding);
    concatenate_(p_.each, embedding_[0], embedding_[1], embeddings_, n);
    dense_(p_.reduce, embeddings_, dense_weights_, 2 * n, partial_, counter_, result_);
  }
  void read() override { receive(result_, p_.result); }
  std::vector<pergola_array> outputs() const override { return {result_.handle()}; }

 private:
  const Dl& p_;
  const pergola::Kernel convolution_, pooling_, concatenate_, dense_;
  std::vector<pergola::Array<float>> image_, convolved_, pooled_, embedding_;  // by branch
  pergola::Array<float> first_weights_, second_weights_, dense_weights_, embeddings_;
  pergola::Array<double> partial_;
  pergola::Array<unsigned> counter_;
  pergola::Array<double> result_;
};

std::unique_ptr<Sequential> Dl::sequential(const pergola::Session& session, const pergola::Module& module) {
  return by_index<DlSequential>(session, module, *this);
}

}  // namespace

std::unique_ptr<Problem> make_dl(Setup& setup) {
  const double pixels = static_cast<double>(setup.bytes) / (kFloatsPerPixel * sizeof(float));
  const int tiles = static_cast<int>(setup.tiles);
  const int rows_of_tile = static_cast<int>(std::sqrt(pixels)) / tiles / kFactor * kFactor;
  // A pooled pixel and its neighbours depend on a row more than themselves, which must not be a third tile's.
  check_tile("DL", setup, rows_of_tile, 2 * kFactor);
  return std::make_unique<Dl>(setup, rows_of_tile * tiles, rows_of_tile);
}

}  // namespace dag
