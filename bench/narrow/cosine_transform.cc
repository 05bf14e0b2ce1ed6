// DCT: the discrete cosine transform of the 8 x 8 blocks of an image. The reference is the sum of its definition.
#include <array>
#include <cmath>
#include <numbers>

#include "problem.h"

namespace narrow {
namespace {

// matrix[u][x] of X = C x C'
std::array<std::array<double, 8>, 8> matrix() {
  std::array<std::array<double, 8>, 8> c{};
  for (int u = 0; u < 8; ++u)
    for (int x = 0; x < 8; ++x)
      c[static_cast<std::size_t>(u)][static_cast<std::size_t>(x)] =
          (u == 0 ? std::sqrt(0.125) : 0.5) * std::cos((2 * x + 1) * u * std::numbers::pi / 16);
  return c;
}

class Cosine : public Kind {
 public:
  explicit Cosine(const std::string& name) {
    kernel = name;
    const auto c = matrix();
    for (std::size_t u = 0; u < 8; ++u)
      for (std::size_t x = 0; x < 8; ++x) matrix_[u][x] = c[u][x], single_[u][x] = static_cast<float>(c[u][x]);
  }

  Sizes sizes(int size) const override {
    const std::size_t bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 4;
    return {bytes, bytes, 0};
  }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t in, out;
      std::int32_t size, unused;
    } p{at.in, at.out, task.size, 0};
    Parameters packed = pack(p);
    packed.size = 20;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override { fill_uniform(in, task.bytes.in, 10, task.index); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override { run(single_, task, in, out); }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override { run(matrix_, task, in, out); }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return all_close(out, expected, task.bytes.out, 1e-5f);
  }

 private:
  template <typename Sum>
  using Matrix = std::array<std::array<Sum, 8>, 8>;

  template <typename Sum>
  static void run(const Matrix<Sum>& c, const Task& task, const std::byte* in, std::byte* out) {
    const auto size = static_cast<std::size_t>(task.size);
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    for (std::size_t top = 0; top < size; top += 8)
      for (std::size_t left = 0; left < size; left += 8)
        block(c, from + top * size + left, to + top * size + left, size);
  }
  template <typename Sum>
  static void block(const Matrix<Sum>& c, const float* from, float* to, std::size_t pitch) {
    Matrix<Sum> columns{}, result{};
    for (std::size_t u = 0; u < 8; ++u)
      for (std::size_t y = 0; y < 8; ++y)
        for (std::size_t x = 0; x < 8; ++x) columns[u][x] += c[u][y] * from[y * pitch + x];
    for (std::size_t u = 0; u < 8; ++u)
      for (std::size_t x = 0; x < 8; ++x)
        for (std::size_t v = 0; v < 8; ++v) result[u][v] += columns[u][x] * c[v][x];
    for (std::size_t u = 0; u < 8; ++u)
      for (std::size_t v = 0; v < 8; ++v) to[u * pitch + v] = static_cast<float>(result[u][v]);
  }

  Matrix<double> matrix_{};
  Matrix<float> single_{};
};

}  // namespace

std::unique_ptr<Kind> make_cosine(const std::string& kernel) {
  return std::make_unique<Cosine>(kernel);
}

}  // namespace narrow
