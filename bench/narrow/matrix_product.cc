// MM: a product of two square matrices.
#include "problem.h"

namespace narrow {
namespace {

class Product : public Kind {
 public:
  explicit Product(const std::string& name) { kernel = name; }

  Sizes sizes(int size) const override { return {2 * elements(size) * 4, elements(size) * 4, 0}; }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t a, b, c;
      std::int32_t n, unused;
    } p{at.in, at.in + elements(task.size) * 4, at.out, task.size, 0};
    Parameters packed = pack(p);
    packed.size = 28;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override { fill_uniform(in, task.bytes.in, 4, task.index); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override {
    const auto n = static_cast<std::size_t>(task.size);
    const auto* a = reinterpret_cast<const float*>(in);
    const float* b = a + n * n;
    auto* c = reinterpret_cast<float*>(out);
    for (std::size_t row = 0; row < n; ++row) product_row<float>(a + row * n, b, c + row * n, n);
  }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override {
    const auto n = static_cast<std::size_t>(task.size);
    const auto* a = reinterpret_cast<const float*>(in);
    const float* b = a + n * n;
    auto* c = reinterpret_cast<float*>(out);
    for (std::size_t row = 0; row < n; ++row) product_row<double>(a + row * n, b, c + row * n, n);
  }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return all_close(out, expected, task.bytes.out, 2e-5f);
  }

 private:
  static std::size_t elements(int size) { return static_cast<std::size_t>(size) * static_cast<std::size_t>(size); }

  template <typename Sum>
  static void product_row(const float* a, const float* b, float* c, std::size_t n) {
    constexpr std::size_t kAtOnce = 16;
    for (std::size_t first = 0; first < n; first += kAtOnce) {
      Sum sum[kAtOnce] = {};
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < kAtOnce; ++j) sum[j] += Sum{a[k]} * Sum{b[k * n + first + j]};
      for (std::size_t j = 0; j < kAtOnce; ++j) c[first + j] = static_cast<float>(sum[j]);
    }
  }
};

}  // namespace

std::unique_ptr<Kind> make_product(const std::string& kernel) {
  return std::make_unique<Product>(kernel);
}

}  // namespace narrow
