// Figure 12's micro-benchmark.
#include <algorithm>

#include "parts.h"

namespace pergola::bench::blocks {

Program make_vector_add(std::uint32_t blocks, std::uint32_t degree) {
  constexpr std::uint32_t kThreads = 256;
  const std::size_t n = std::size_t{blocks} * kThreads;
  Program p{"vector add", "vector_add.cu", {}, {}, nullptr};
  const auto of_a = uniform_floats(1, -1, 1), of_b = uniform_floats(2, -1, 1), of_d = uniform_floats(3, -1, 1);
  const auto a = add_buffer(p, "a", n, of_a), b = add_buffer(p, "b", n, of_b), d = add_buffer(p, "d", n, of_d);
  const auto c = add_zeros(p, "c", Element::kFloat, n, Role::kResult),
             e = add_zeros(p, "e", Element::kFloat, n, Role::kResult);
  p.launches.push_back({"vector_add", {blocks}, {kThreads}, 0, {buffer(a), buffer(b), buffer(c), as_int(n)}});
  p.launches.push_back(
      {"vector_add_of_group", {blocks}, {kThreads}, 0, {buffer(c), buffer(d), buffer(e), as_int(n), as_int(degree)}});
  p.check = compared_with(p, [=] {
    std::vector<double> c_right(n), e_right(n);
    for (std::size_t i = 0; i < n; ++i) c_right[i] = static_cast<double>(of_a(i)) + of_b(i);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t block = i / kThreads, t = i % kThreads;
      const std::size_t first = block / degree * degree, last = std::min<std::size_t>(first + degree, blocks);
      e_right[i] = of_d(i);
      for (std::size_t k = first + t; k < last; k += kThreads) e_right[i] += c_right[k * kThreads + t];
    }
    return std::vector<Expected>{{c, 1e-6, std::move(c_right)}, {e, 1e-5, std::move(e_right)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
