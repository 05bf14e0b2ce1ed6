// The programs of Table 3 at the sizes of Table 4, variants of two of them, and the irregular ones of section 6.4.
#include <array>
#include <cmath>
#include <utility>

#include "problem.h"

namespace narrow {
namespace {

using Shape = Problem::Shape;

std::vector<std::unique_ptr<Kind>> only(std::unique_ptr<Kind> kind) {
  std::vector<std::unique_ptr<Kind>> kinds;
  kinds.push_back(std::move(kind));
  return kinds;
}

std::unique_ptr<Problem> regular(std::string name, std::unique_ptr<Kind> kind, std::size_t tasks, int size,
                                 unsigned threads = 128) {
  std::string kernel = kind->kernel;
  return std::make_unique<Problem>(std::move(name), std::move(kernel), only(std::move(kind)), tasks,
                                   [=](std::size_t) { return Shape{0, size, threads}; });
}

// Packets of 2 to 64 KB: as many from 2 to 4 as from 32 to 64.
int packet_bytes(std::size_t i) {
  return static_cast<int>(2048 * std::exp2(5 * uniform(31, i))) / 8 * 8;
}

// Sizes of `low` to `high`, multiples of `step`, and 32 to 256 threads (section 6.4).
std::unique_ptr<Problem> irregular(const std::string& name, std::unique_ptr<Kind> kind, std::size_t tasks, int low,
                                   int high, int step) {
  std::string kernel = kind->kernel;
  auto problem = std::make_unique<Problem>(name + "-irregular", std::move(kernel), only(std::move(kind)), tasks,
                                           [=](std::size_t i) {
                                             const auto steps = static_cast<std::uint64_t>((high - low) / step + 1);
                                             return Shape{0, low + step * static_cast<int>(hash(32, i) % steps),
                                                          32 * (1 + static_cast<unsigned>(hash(33, i) % 8))};
                                           });
  problem->is_irregular = true;
  return problem;
}

// The kinds in the order of by_hand.cu's `mixed`; one task of each in turn.
std::unique_ptr<Problem> mixed(std::size_t tasks) {
  std::vector<std::unique_ptr<Kind>> kinds;
  kinds.push_back(make_triple_des());
  kinds.push_back(make_mandelbrot());
  kinds.push_back(make_filter_bank());
  kinds.push_back(make_product("product_tiled"));
  return std::make_unique<Problem>("MPE", "mixed", std::move(kinds), tasks, [](std::size_t i) {
    const std::array<Shape, 4> shapes{Shape{0, packet_bytes(i), 128}, Shape{1, 64, 128}, Shape{2, 2048, 128},
                                      Shape{3, 64, 128}};
    return shapes[i % 4];
  });
}

std::unique_ptr<Problem> variant(std::unique_ptr<Problem> problem) {
  problem->is_variant = true;
  return problem;
}

}  // namespace

std::vector<std::unique_ptr<Problem>> make_problems(std::size_t tasks) {
  std::vector<std::unique_ptr<Problem>> all;
  all.push_back(regular("MB", make_mandelbrot(), tasks, 64));
  all.push_back(regular("MM", make_product("product_tiled"), tasks, 64));
  all.push_back(regular("FB", make_filter_bank(), tasks, 2048));
  all.push_back(regular("BF", make_beam_former(), tasks, 2048));
  all.push_back(std::make_unique<Problem>("3DES", "triple_des", only(make_triple_des()), tasks,
                                          [](std::size_t i) { return Shape{0, packet_bytes(i), 128}; }));
  all.push_back(regular("DCT", make_cosine("cosine"), tasks, 128));
  all.push_back(regular("CONV", make_convolution(), tasks, 128));
  all.push_back(mixed(tasks));
  all.push_back(variant(regular("MM-plain", make_product("product_plain"), tasks, 64)));
  all.push_back(variant(regular("MM-256", make_product("product_tiled"), tasks, 64, 256)));
  all.push_back(variant(regular("DCT-shared", make_cosine("cosine_shared"), tasks, 128, 64)));
  all.push_back(irregular("MB", make_mandelbrot(), tasks, 16, 128, 16));
  all.push_back(irregular("MM", make_product("product_plain"), tasks, 16, 112, 16));
  all.push_back(irregular("FB", make_filter_bank(), tasks, 512, 4096, 256));
  all.push_back(irregular("BF", make_beam_former(), tasks, 512, 4096, 256));
  all.push_back(irregular("CONV", make_convolution(), tasks, 32, 224, 32));
  all.push_back(irregular("DCT", make_cosine("cosine"), tasks, 32, 224, 32));
  return all;
}

}  // namespace narrow
