// B&S: the prices of European calls on ten stocks, in double precision: ten kernels that have nothing to do with each
// other.
#include <array>

#include "harness.h"

namespace dag {
namespace {

constexpr int kStocks = 10;
constexpr double kStrike = 60, kRate = 0.035, kVolatility = 0.2, kYears = 1;

struct BlackScholes : Problem {
  BlackScholes(Setup& setup, std::size_t tile)
      : tiling{.copies = setup.tiles},
        n(static_cast<long long>(tiling.on_device(tile))),
        each(covering(n, setup.block)) {
    name = "B&S";
    for (int i = 0; i < kStocks; ++i) {
      price[i] = setup.memory.take<double>(tile);
      call[i] = setup.memory.take<double>(tile);
      fill_uniform(price[i], 40, 80, i);
    }
  }

  Plan plan() const override {
    Plan plan;
    for (int i = 0; i < kStocks; ++i) {
      const ArrayId in = plan.input("price " + std::to_string(i), price[i], tiling);
      const ArrayId out = plan.output("call " + std::to_string(i), call[i], tiling.copies);
      const StepId copied = plan.copy_in(in, i);
      const StepId priced =
          plan.kernel("black_scholes", each, {in, out, n, kStrike, kRate, kVolatility, kYears}, i, {copied});
      plan.copy_out(out, i, {priced});
    }
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  void reference() override {
    const auto normal = [](double d) { return 0.5 * std::erfc(-d * std::sqrt(0.5)); };
    for (int i = 0; i < kStocks; ++i) {
      expected[i].resize(price[i].size());
      parallel_for(expected[i].size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t k = begin; k < end; ++k) {
          const double spread = kVolatility * std::sqrt(kYears);
          const double d1 =
              (std::log(price[i][k] / kStrike) + (kRate + 0.5 * kVolatility * kVolatility) * kYears) / spread;
          expected[i][k] = price[i][k] * normal(d1) - kStrike * std::exp(-kRate * kYears) * normal(d1 - spread);
        }
      });
    }
  }
  bool is_right(std::size_t) const override {  // all tiles are alike
    for (int i = 0; i < kStocks; ++i)
      if (!all_close<double>(call[i], expected[i], 1e-11, kStrike)) return false;
    return true;
  }

  const Tiling tiling;
  const long long n;
  const pergola::Grid each;
  std::array<std::span<double>, kStocks> price, call;
  std::array<std::vector<double>, kStocks> expected;
};

template <typename Index>
class BlackScholesSequential : public Sequential {
 public:
  BlackScholesSequential(const pergola::Session& session, const pergola::Module& module, const BlackScholes& problem)
      : p_(problem), black_scholes_(module.kernel("black_scholes")) {
    for (int i = 0; i < kStocks; ++i) {
      price_.push_back(session.array<double>(p_.n));
      call_.push_back(session.array<double>(p_.n));
    }
  }

  void write() override {
    for (int i = 0; i < kStocks; ++i) send(price_[i], p_.price[i], p_.tiling);
  }
  void launch() override {
    for (int i = 0; i < kStocks; ++i) launch(i);
  }
  void read() override {
    for (const auto& call : call_) announce(call);
    receive_all();
  }
  void run() override {  // stock by stock
    for (int i = 0; i < kStocks; ++i) {
      send(price_[i], p_.price[i], p_.tiling);
      launch(i);
      announce(call_[i]);
    }
    receive_all();
  }
  std::vector<pergola_array> outputs() const override {
    std::vector<pergola_array> handles;
    for (const auto& array : call_) handles.push_back(array.handle());
    return handles;
  }

 private:
  void launch(int i) {
    black_scholes_(p_.each, price_[i], call_[i], static_cast<Index>(p_.n), kStrike, kRate, kVolatility, kYears);
  }
  void receive_all() {
    for (int i = 0; i < kStocks; ++i) receive(call_[i], p_.call[i]);
  }

  const BlackScholes& p_;
  const pergola::Kernel black_scholes_;
  std::vector<pergola::Array<double>> price_, call_;
};

std::unique_ptr<Sequential> BlackScholes::sequential(const pergola::Session& session, const pergola::Module& module) {
  return by_index<BlackScholesSequential>(session, module, *this);
}

}  // namespace

std::unique_ptr<Problem> make_black_scholes(Setup& setup) {
  const std::size_t tile = setup.bytes / (2 * kStocks * sizeof(double)) / setup.tiles;
  check_tile("B&S", setup, tile, 1);
  return std::make_unique<BlackScholes>(setup, tile);
}

}  // namespace dag
