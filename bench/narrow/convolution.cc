// CONV: an image under a filter of 5 x 5, with zeros around it.
#include <algorithm>

#include "problem.h"

namespace narrow {
namespace {

class Convolution : public Kind {
 public:
  explicit Convolution(const std::string& name) {
    kernel = name;
    constants.resize(26 * 4);  // 25 weights, in pairs
    fill_uniform(constants.data(), constants.size(), 11, 0);
  }

  Sizes sizes(int size) const override {
    const std::size_t bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 4;
    return {bytes, bytes, 0};
  }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t in, weights, out;
      std::int32_t size, unused;
    } p{at.in, at.constants, at.out, task.size, 0};
    Parameters packed = pack(p);
    packed.size = 28;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override { fill_uniform(in, task.bytes.in, 12, task.index); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override { run<float>(task, in, out); }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override { run<double>(task, in, out); }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return all_close(out, expected, task.bytes.out, 1e-5f);
  }

 private:
  template <typename Sum>
  void run(const Task& task, const std::byte* in, std::byte* out) const {
    const int size = task.size;
    const auto* image = reinterpret_cast<const float*>(in);
    const auto* weights = reinterpret_cast<const float*>(constants.data());
    thread_local std::vector<Sum> sum;
    for (int y = 0; y < size; ++y) {
      sum.assign(static_cast<std::size_t>(size), 0);
      for (int dy = -2; dy <= 2; ++dy) {
        if (y + dy < 0 || y + dy >= size) continue;
        const float* row = image + (y + dy) * size;
        for (int dx = -2; dx <= 2; ++dx) {
          const Sum weight = weights[(dy + 2) * 5 + dx + 2];
          for (int x = std::max(0, -dx); x < std::min(size, size - dx); ++x)
            sum[static_cast<std::size_t>(x)] += weight * Sum{row[x + dx]};
        }
      }
      std::transform(sum.begin(), sum.end(), reinterpret_cast<float*>(out) + y * size,
                     [](Sum v) { return static_cast<float>(v); });
    }
  }
};

}  // namespace

std::unique_ptr<Kind> make_convolution(const std::string& kernel) {
  return std::make_unique<Convolution>(kernel);
}

}  // namespace narrow
