// FB: a signal through one of a bank of filters, one sample of eight kept, zeros between them, another filter
// (StreamIt).
#include <algorithm>

#include "problem.h"

namespace narrow {
namespace {

constexpr std::size_t kTaps = 64, kDecimation = 8, kFilters = 8;

// out[i] = sum of taps[k] * in[i - k]
template <typename Sum>
void fir(const Sum* in, const float* taps, Sum* out, std::size_t width) {
  std::fill(out, out + width, Sum{0});
  for (std::size_t k = 0; k < kTaps; ++k)
    for (std::size_t i = k; i < width; ++i) out[i] += Sum{taps[k]} * in[i - k];
}

class FilterBank : public Kind {
 public:
  FilterBank() {
    kernel = "filter_bank";
    constants.resize(kFilters * 2 * kTaps * 4);
    fill_uniform(constants.data(), constants.size(), 5, 0);
  }

  Sizes sizes(int size) const override {
    const auto width = static_cast<std::size_t>(size);
    return {width * 4, width * 4, (2 * width + width / kDecimation) * 4};
  }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t signal, analysis, synthesis, scratch, out;
      std::int32_t width, unused;
    } p{at.in, 0, 0, at.scratch, at.out, task.size, 0};
    p.analysis = at.constants + filter(task) * 2 * kTaps * 4;
    p.synthesis = p.analysis + kTaps * 4;
    Parameters packed = pack(p);
    packed.size = 44;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override { fill_uniform(in, task.bytes.in, 6, task.index); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override { run<float>(task, in, out); }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override { run<double>(task, in, out); }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return all_close(out, expected, task.bytes.out, 1e-4f);
  }

 private:
  static std::size_t filter(const Task& task) { return task.index % kFilters; }

  template <typename Sum>
  void run(const Task& task, const std::byte* in, std::byte* out) const {
    const auto width = static_cast<std::size_t>(task.size);
    const auto* signal = reinterpret_cast<const float*>(in);
    const float* analysis = reinterpret_cast<const float*>(constants.data()) + filter(task) * 2 * kTaps;
    thread_local std::vector<Sum> x, y;
    x.assign(signal, signal + width);
    y.resize(width);
    fir<Sum>(x.data(), analysis, y.data(), width);
    for (std::size_t i = 0; i < width; ++i) x[i] = i % kDecimation == 0 ? y[i] : Sum{0};
    fir<Sum>(x.data(), analysis + kTaps, y.data(), width);
    std::transform(y.begin(), y.end(), reinterpret_cast<float*>(out), [](Sum v) { return static_cast<float>(v); });
  }
};

}  // namespace

std::unique_ptr<Kind> make_filter_bank() {
  return std::make_unique<FilterBank>();
}

}  // namespace narrow
