// VEC: the sum of the differences of two vectors' squares.
//
//   x ─ square ─┐
//               ├─ sum of differences ─▶ one number
//   y ─ square ─┘
#include <mutex>

#include "harness.h"

namespace dag {
namespace {

struct Vec : Problem {
  Vec(Setup& setup, std::size_t tile)
      : tiling{.copies = setup.tiles},
        n(static_cast<long long>(tiling.on_device(tile))),
        each(covering(n, setup.block)),
        reduce(reducing(n, setup.block)),
        x(setup.memory.take<float>(tile)),
        y(setup.memory.take<float>(tile)),
        result(setup.memory.take<double>(1)) {
    name = "VEC";
    fill_uniform(x, 0, 1, 1);
    fill_uniform(y, 1, 2, 2);  // apart from x, so that errors do not cancel
  }

  Plan plan() const override {
    Plan plan;
    const ArrayId dx = plan.input("x", x, tiling), dy = plan.input("y", y, tiling);
    const ArrayId out = plan.output("result", result);
    const ArrayId x2 = plan.array<float>("x squared", n), y2 = plan.array<float>("y squared", n);
    const auto [partial, counter] = reduction_scratch(plan, "sum", reduce);
    const StepId in_x = plan.copy_in(dx, 0), in_y = plan.copy_in(dy, 1);
    const StepId square_x = plan.kernel("square", each, {dx, x2, n}, 0, {in_x});
    const StepId square_y = plan.kernel("square", each, {dy, y2, n}, 1, {in_y});
    const StepId sum =
        plan.kernel("sum_of_differences", reduce, {x2, y2, n, partial, counter, out}, 0, {square_x, square_y});
    plan.copy_out(out, 0, {sum});
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  void reference() override {
    expected = magnitude = 0;
    std::mutex mutex;
    parallel_for(x.size(), [&](std::size_t begin, std::size_t end) {
      double difference = 0, sum = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const double a = static_cast<double>(x[i]) * x[i], b = static_cast<double>(y[i]) * y[i];
        difference += a - b;
        sum += a + b;
      }
      const std::lock_guard lock(mutex);
      expected += difference * static_cast<double>(tiling.copies);
      magnitude += sum * static_cast<double>(tiling.copies);
    });
  }
  bool is_right(std::size_t) const override { return std::fabs(result[0] - expected) <= 1e-7 * magnitude; }

  const Tiling tiling;
  const long long n;
  const pergola::Grid each, reduce;
  const std::span<float> x, y;
  const std::span<double> result;
  double expected = 0, magnitude = 0;
};

class VecSequential : public Sequential {
 public:
  VecSequential(const pergola::Session& session, const pergola::Module& module, const Vec& problem)
      : p_(problem),
        square_(module.kernel("square")),
        sum_of_differences_(module.kernel("sum_of_differences")),
        x_(session.array<float>(p_.n)),
        y_(session.array<float>(p_.n)),
        x2_(session.array<float>(p_.n)),
        y2_(session.array<float>(p_.n)),
        partial_(session.array<double>(p_.reduce.blocks.x)),
        counter_(session.array<unsigned>(1, 0u)),
        result_(session.array<double>(1)) {}

  void write() override {
    send(x_, p_.x, p_.tiling);
    send(y_, p_.y, p_.tiling);
  }
  void launch() override {
    square_(p_.each, x_, x2_, p_.n);
    square_(p_.each, y_, y2_, p_.n);
    sum_of_differences_(p_.reduce, x2_, y2_, p_.n, partial_, counter_, result_);
  }
  void read() override { receive(result_, p_.result); }
  std::vector<pergola_array> outputs() const override { return {result_.handle()}; }

 private:
  const Vec& p_;
  const pergola::Kernel square_, sum_of_differences_;
  pergola::Array<float> x_, y_, x2_, y2_;
  pergola::Array<double> partial_;
  pergola::Array<unsigned> counter_;
  pergola::Array<double> result_;
};

std::unique_ptr<Sequential> Vec::sequential(const pergola::Session& session, const pergola::Module& module) {
  return std::make_unique<VecSequential>(session, module, *this);
}

}  // namespace

std::unique_ptr<Problem> make_vec(Setup& setup) {
  const std::size_t tile = setup.bytes / (4 * sizeof(float)) / setup.tiles;
  check_tile("VEC", setup, tile, 1);
  return std::make_unique<Vec>(setup, tile);
}

}  // namespace dag
