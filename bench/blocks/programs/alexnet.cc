// AlexNet-like, as Tango has it in plain CUDA: five convolutions (without groups), three dense layers. 22 launches:
//
//   conv relu lrn pool | conv relu lrn pool | conv relu | conv relu | conv relu pool | dense relu | dense relu | dense
//   | exponentials normalise
#include <algorithm>
#include <array>

#include "parts.h"

namespace pergola::bench::blocks {
namespace {

constexpr std::uint32_t kThreads = 256, kDenseThreads = 64;
constexpr float kK = 2.0f, kAlpha = 0.1f, kBeta = 0.75f;

struct Shape {
  std::size_t images = 1, channels = 3, side = 227;
  std::array<std::size_t, 5> maps{96, 256, 384, 384, 256};
  std::array<std::size_t, 3> neurons{4096, 4096, 1000};
};

struct Convolution {
  std::size_t width, stride, padding;
  bool is_normalised, is_pooled;
};
constexpr std::array<Convolution, 5> kConvolutions{{{11, 4, 0, true, true},
                                                    {5, 1, 2, true, true},
                                                    {3, 1, 1, false, false},
                                                    {3, 1, 1, false, false},
                                                    {3, 1, 1, false, true}}};

// The network's data as it goes through the layers, of all images: what the reference computes.
using Activations = std::vector<double>;

struct Layer {
  std::size_t channels, in_side, maps, out_side;
  Convolution how;
  Value<float> weights, bias;
};

Activations convolved(const Layer& l, std::size_t images, const Activations& in) {
  Activations out(images * l.maps * l.out_side * l.out_side);
  const std::size_t taps = l.how.width * l.how.width;
  std::vector<double> weights(l.channels * taps);
  for (std::size_t m = 0; m < l.maps; ++m) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = l.weights(m * weights.size() + i);
    for (std::size_t image = 0; image < images; ++image)
      for (std::size_t y = 0; y < l.out_side; ++y)
        for (std::size_t x = 0; x < l.out_side; ++x) {
          double sum = l.bias(m);
          for (std::size_t c = 0; c < l.channels; ++c)
            for (std::size_t i = 0; i < l.how.width; ++i)
              for (std::size_t j = 0; j < l.how.width; ++j) {
                const std::size_t row = y * l.how.stride + i, column = x * l.how.stride + j;
                if (row < l.how.padding || column < l.how.padding || row - l.how.padding >= l.in_side ||
                    column - l.how.padding >= l.in_side)
                  continue;
                sum += in[((image * l.channels + c) * l.in_side + row - l.how.padding) * l.in_side + column -
                          l.how.padding] *
                       weights[c * taps + i * l.how.width + j];
              }
          out[((image * l.maps + m) * l.out_side + y) * l.out_side + x] = sum;
        }
  }
  return out;
}

Activations normalised(const Activations& in, std::size_t images, std::size_t maps, std::size_t pixels) {
  Activations out(in.size());
  for (std::size_t image = 0; image < images; ++image)
    for (std::size_t m = 0; m < maps; ++m)
      for (std::size_t p = 0; p < pixels; ++p) {
        double sum = 0;
        for (std::size_t o = m < 2 ? 0 : m - 2; o <= std::min(maps - 1, m + 2); ++o) {
          const double value = in[(image * maps + o) * pixels + p];
          sum += value * value;
        }
        const std::size_t at = (image * maps + m) * pixels + p;
        out[at] = in[at] * std::pow(static_cast<double>(kK) + static_cast<double>(kAlpha) * sum / 5, -kBeta);
      }
  return out;
}

Activations pooled(const Activations& in, std::size_t maps, std::size_t in_side, std::size_t out_side) {
  Activations out(maps * out_side * out_side);
  for (std::size_t m = 0; m < maps; ++m)
    for (std::size_t y = 0; y < out_side; ++y)
      for (std::size_t x = 0; x < out_side; ++x) {
        double most = in[(m * in_side + 2 * y) * in_side + 2 * x];
        for (std::size_t i = 0; i < 3; ++i)
          for (std::size_t j = 0; j < 3; ++j)
            most = std::max(most, in[(m * in_side + 2 * y + i) * in_side + 2 * x + j]);
        out[(m * out_side + y) * out_side + x] = most;
      }
  return out;
}

void rectify(Activations& values) {
  for (double& value : values) value = std::max(value, 0.0);
}

// Makes the program layer by layer, and beside each launch what it comes to.
class Network {
 public:
  Network(Program& program, const Shape& shape) : p_(program), shape_(shape) {}

  void add_image() {
    side_ = shape_.side, maps_ = shape_.channels;
    const auto value = uniform_floats(next_seed_++, 0, 1);
    const std::size_t count = shape_.images * maps_ * side_ * side_;
    last_ = add_buffer(p_, "image", count, value);
    steps_.push_back([=](const Activations&) {
      const auto floats = made(count, value);
      return Activations(floats.begin(), floats.end());
    });
  }

  void add_convolution(std::size_t number) {
    const Convolution how = kConvolutions[number];
    const std::size_t out_side = (side_ + 2 * how.padding - how.width) / how.stride + 1;
    const std::size_t inputs = maps_ * how.width * how.width, images = shape_.images;
    const Layer layer{
        maps_, side_, shape_.maps[number], out_side, how, weights_for(inputs), uniform_floats(next_seed_++, -0.1, 0.1)};
    const std::string name = std::to_string(number + 1);
    const auto weights = add_buffer(p_, "weights " + name, layer.maps * inputs, layer.weights),
               bias = add_buffer(p_, "bias " + name, layer.maps, layer.bias);
    const auto out = result("convolution " + name, images * layer.maps * out_side * out_side);
    launch("convolution", {as_extent(layer.maps), as_extent(images)}, kThreads,
           {buffer(last_), buffer(weights), buffer(bias), buffer(out), as_int(maps_), as_int(side_), as_int(out_side),
            as_int(how.width), as_int(how.stride), as_int(how.padding)});
    last_ = out, maps_ = layer.maps, side_ = out_side;
    const std::size_t pixels = side_ * side_;
    const std::uint32_t pieces = as_extent(divided_up(pixels, kThreads));
    launch("relu", {pieces, as_extent(maps_), as_extent(images)}, kThreads, {buffer(last_), as_int(pixels)});
    steps_.push_back([=](const Activations& in) {
      Activations values = convolved(layer, images, in);
      rectify(values);
      return values;
    });
    if (how.is_normalised) add_response(name, pieces);
    if (how.is_pooled) add_pool(name);
  }

  void add_dense(std::size_t number, bool is_rectified) {
    const std::size_t inputs = maps_ * side_ * side_, outputs = shape_.neurons[number], images = shape_.images;
    const Value<float> of_weights = weights_for(inputs), of_bias = uniform_floats(next_seed_++, -0.1, 0.1);
    const std::string name = std::to_string(number + 6);
    const auto weights = add_buffer(p_, "weights " + name, inputs * outputs, of_weights),
               bias = add_buffer(p_, "bias " + name, outputs, of_bias);
    const auto out = result("dense " + name, images * outputs);
    const std::uint32_t pieces = as_extent(divided_up(outputs, kDenseThreads));
    launch("dense", {pieces, as_extent(images)}, kDenseThreads,
           {buffer(last_), buffer(weights), buffer(bias), buffer(out), as_int(inputs), as_int(outputs)});
    last_ = out, maps_ = outputs, side_ = 1;
    if (is_rectified) launch("relu", {pieces, 1, as_extent(images)}, kDenseThreads, {buffer(last_), as_int(outputs)});
    steps_.push_back([=](const Activations& in) {
      Activations values(images * outputs);
      for (std::size_t image = 0; image < images; ++image)
        for (std::size_t o = 0; o < outputs; ++o) values[image * outputs + o] = of_bias(o);
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t o = 0; o < outputs; ++o) {
          const double weight = of_weights(i * outputs + o);
          for (std::size_t image = 0; image < images; ++image)
            values[image * outputs + o] += in[image * inputs + i] * weight;
        }
      if (is_rectified) rectify(values);
      return values;
    });
  }

  void add_softmax() {
    const std::size_t n = maps_, images = shape_.images;
    const std::uint32_t pieces = as_extent(divided_up(n, kThreads));
    const auto out = result("probabilities", images * n);
    const auto sums = add_zeros(p_, "sums", Element::kFloat, images * pieces, Role::kInput);
    const Dim3 grid{pieces, as_extent(images)};
    launch("exponentials", grid, kThreads, {buffer(last_), buffer(out), buffer(sums), as_int(n)});
    launch("normalise", grid, kThreads, {buffer(out), buffer(sums), as_int(n)});
    last_ = out;
    steps_.push_back([=](const Activations& in) {
      Activations values(in.size());
      for (std::size_t image = 0; image < images; ++image) {
        const double* of = in.data() + image * n;
        const double most = *std::max_element(of, of + n);
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += values[image * n + i] = std::exp(of[i] - most);
        for (std::size_t i = 0; i < n; ++i) values[image * n + i] /= sum;
      }
      return values;
    });
  }

  // All layers' results, as they are after the last launch.
  std::function<std::vector<Expected>()> reference() const {
    return [steps = steps_, results = results_] {
      std::vector<Expected> expected;
      Activations values;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        values = steps[i](values);
        if (i > 0) expected.push_back({results[i - 1], 1e-3, values});
      }
      return expected;
    };
  }

 private:
  void add_response(const std::string& name, std::uint32_t pieces) {
    const std::size_t pixels = side_ * side_, images = shape_.images, maps = maps_;
    const auto out = result("response " + name, images * maps * pixels);
    launch("normalise_response", {pieces, as_extent(images)}, kThreads,
           {buffer(last_), buffer(out), as_int(maps), as_int(pixels), kK, kAlpha, kBeta});
    last_ = out;
    steps_.push_back([=](const Activations& in) { return normalised(in, images, maps, pixels); });
  }

  void add_pool(const std::string& name) {
    const std::size_t in_side = side_, out_side = (side_ - 3) / 2 + 1, maps = shape_.images * maps_;
    const auto out = result("pool " + name, maps * out_side * out_side);
    launch("pool", {as_extent(maps_), as_extent(shape_.images)}, kThreads,
           {buffer(last_), buffer(out), as_int(in_side), as_int(out_side)});
    last_ = out, side_ = out_side;
    steps_.push_back([=](const Activations& in) { return pooled(in, maps, in_side, out_side); });
  }

  // So that values stay about as large from layer to layer.
  Value<float> weights_for(std::size_t inputs) {
    const double most = std::sqrt(6.0 / static_cast<double>(inputs));
    return uniform_floats(next_seed_++, -most, most);
  }
  std::uint32_t result(std::string name, std::size_t count) {
    results_.push_back(add_zeros(p_, std::move(name), Element::kFloat, count, Role::kResult));
    return results_.back();
  }
  void launch(std::string kernel, Dim3 grid, std::uint32_t threads, std::vector<Argument> arguments) {
    p_.launches.push_back({std::move(kernel), grid, {threads}, 0, std::move(arguments)});
  }

  Program& p_;
  const Shape shape_;
  std::uint64_t next_seed_ = 1;
  std::uint32_t last_ = 0;           // the buffer of the last layer
  std::size_t maps_ = 0, side_ = 0;  // of it
  // The image, then a step for each of `results_`.
  std::vector<std::function<Activations(const Activations&)>> steps_;
  std::vector<std::uint32_t> results_;
};

}  // namespace

Program make_alexnet(const Size& size) {
  Shape shape;
  if (size.kind == Size::Kind::kSmall) shape = {2, 3, 83, {6, 7, 8, 8, 6}, {70, 65, 40}};
  if (size.kind == Size::Kind::kWaves) {
    shape = {1, 3, 83, {32, 64, 96, 96, 64}, {256, 256, 100}};
    shape.images = divided_up(size.blocks(), 96);
  }
  Program p{"AlexNet", "alexnet.cu", {}, {}, nullptr};
  Network network(p, shape);
  network.add_image();
  for (std::size_t i = 0; i < kConvolutions.size(); ++i) network.add_convolution(i);
  network.add_dense(0, true);
  network.add_dense(1, true);
  network.add_dense(2, false);
  network.add_softmax();
  p.check = compared_with(p, network.reference());
  return p;
}

}  // namespace pergola::bench::blocks
