// BF: complex samples through a complex filter, steered into a direction; the magnitude of what comes from there
// (StreamIt).
#include <algorithm>
#include <cmath>

#include "problem.h"

namespace narrow {
namespace {

constexpr std::size_t kTaps = 64;

class BeamFormer : public Kind {
 public:
  BeamFormer() {
    kernel = "beam_former";
    constants.resize(kTaps * 8);
    fill_uniform(constants.data(), constants.size(), 7, 0);
  }

  Sizes sizes(int size) const override {
    return {static_cast<std::size_t>(size) * 8, static_cast<std::size_t>(size) * 4, 0};
  }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t samples, taps, out;
      std::int32_t width;
      float steer_re, steer_im;
      std::int32_t unused;
    } p{at.in, at.constants, at.out, task.size, std::cos(angle(task)), std::sin(angle(task)), 0};
    Parameters packed = pack(p);
    packed.size = 36;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override { fill_uniform(in, task.bytes.in, 8, task.index); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override { run<float>(task, in, out); }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override { run<double>(task, in, out); }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return all_close(out, expected, task.bytes.out, 1e-4f);
  }

 private:
  static float angle(const Task& task) { return static_cast<float>(6.283185307 * uniform(9, task.index)); }

  template <typename Sum>
  void run(const Task& task, const std::byte* in, std::byte* out) const {
    const auto width = static_cast<std::size_t>(task.size);
    const auto* samples = reinterpret_cast<const float*>(in);
    const auto* taps = reinterpret_cast<const float*>(constants.data());
    thread_local std::vector<Sum> x_re, x_im, re, im;
    x_re.resize(width), x_im.resize(width);
    for (std::size_t i = 0; i < width; ++i) x_re[i] = samples[2 * i], x_im[i] = samples[2 * i + 1];
    re.assign(width, 0), im.assign(width, 0);
    for (std::size_t k = 0; k < kTaps; ++k) {
      const Sum tap_re = taps[2 * k], tap_im = taps[2 * k + 1];
      for (std::size_t i = k; i < width; ++i) {
        re[i] += tap_re * x_re[i - k] - tap_im * x_im[i - k];
        im[i] += tap_re * x_im[i - k] + tap_im * x_re[i - k];
      }
    }
    const Sum c = std::cos(angle(task)), s = std::sin(angle(task));
    auto* result = reinterpret_cast<float*>(out);
    for (std::size_t i = 0; i < width; ++i) {
      const Sum a = re[i] * c - im[i] * s, b = re[i] * s + im[i] * c;
      result[i] = static_cast<float>(std::sqrt(a * a + b * b));
    }
  }
};

}  // namespace

std::unique_ptr<Kind> make_beam_former() {
  return std::make_unique<BeamFormer>();
}

}  // namespace narrow
