// ML: the classes of samples by two classifiers together, ridge regression and categorical naive Bayes.
//
//             ┌─ normalise ─ product ─ intercept ─────────── softmax ─┐
//   samples ──┤                                                       ├─ argmax ─▶ classes
//             └─ likelihood ─┬─ maximum ─┬─ log sum ─ posterior ─ softmax ─┘
//                            └───────────┘
#include "harness.h"

namespace dag {
namespace {

constexpr int kFeatures = 200, kCategories = 4, kClasses = 10;

struct Ml : Problem {
  Ml(Setup& setup, std::size_t tile)
      : tiling{.copies = setup.tiles},
        rows(static_cast<long long>(tiling.on_device(tile))),
        cells(rows * kFeatures),
        scores(rows * kClasses),
        each_cell(covering(cells, setup.block)),
        each_score(covering(scores, setup.block)),
        each_row(covering(rows, setup.block)),
        samples(setup.memory.take<float>(tile * kFeatures)),
        mean(setup.memory.take<float>(kFeatures)),
        deviation(setup.memory.take<float>(kFeatures)),
        coefficients(setup.memory.take<float>(std::size_t{kClasses} * kFeatures)),
        intercept(setup.memory.take<float>(kClasses)),
        log_probability(setup.memory.take<float>(std::size_t{kFeatures} * kCategories * kClasses)),
        chosen(setup.memory.take<int>(tile)) {
    name = "ML";
    parallel_for(samples.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        samples[i] = static_cast<float>(static_cast<int>(kCategories * uniform(1, i)));
    });
    fill_uniform(mean, 1.4, 1.6, 2);
    fill_uniform(deviation, 1.0, 1.2, 3);
    fill_uniform(coefficients, -0.1, 0.1, 4);
    fill_uniform(intercept, -0.1, 0.1, 5);
    fill_uniform(log_probability, 0.2, 0.3, 6);
    for (float& p : log_probability) p = std::log(p);
  }

  Plan plan() const override {
    Plan plan;
    const ArrayId x = plan.input("samples", samples, tiling), mu = plan.input("mean", mean);
    const ArrayId sigma = plan.input("deviation", deviation), weights = plan.input("coefficients", coefficients);
    const ArrayId offset = plan.input("intercept", intercept), table = plan.input("log probability", log_probability);
    const ArrayId normal = plan.array<float>("normalised", cells), ridge = plan.array<float>("ridge scores", scores);
    const ArrayId bayes = plan.array<float>("Bayes scores", scores), largest = plan.array<float>("largest", rows);
    const ArrayId log_sum = plan.array<float>("log sum", rows);
    const ArrayId out = plan.output("chosen", chosen, tiling.copies);

    const StepId in_mu = plan.copy_in(mu, 0), in_sigma = plan.copy_in(sigma, 0);
    const StepId in_weights = plan.copy_in(weights, 0), in_offset = plan.copy_in(offset, 0);
    const StepId in_table = plan.copy_in(table, 1);
    const StepId in_x = plan.copy_in(x, 0);
    const StepId likelihood = plan.kernel(
        "nb_likelihood", each_score, {x, table, bayes, kFeatures, kCategories, kClasses, scores}, 1, {in_x, in_table});
    const StepId rr1 =
        plan.kernel("rr_normalise", each_cell, {x, mu, sigma, normal, kFeatures, cells}, 0, {in_x, in_mu, in_sigma});
    const StepId maximum = plan.kernel("nb_maximum", each_row, {bayes, largest, kClasses, rows}, 1, {likelihood});
    const StepId rr2 = plan.kernel("rr_product", each_score, {normal, weights, ridge, kFeatures, kClasses, scores}, 0,
                                   {rr1, in_weights});
    const StepId sum =
        plan.kernel("nb_log_sum", each_row, {bayes, largest, log_sum, kClasses, rows}, 1, {likelihood, maximum});
    const StepId rr3 = plan.kernel("rr_intercept", each_score, {ridge, offset, kClasses, scores}, 0, {rr2, in_offset});
    const StepId posterior = plan.kernel("nb_posterior", each_score, {bayes, log_sum, kClasses, scores}, 1, {sum});
    const StepId ridge_done = plan.kernel("softmax", each_row, {ridge, kClasses, rows}, 0, {rr3});
    const StepId bayes_done = plan.kernel("softmax", each_row, {bayes, kClasses, rows}, 1, {posterior});
    const StepId best =
        plan.kernel("argmax", each_row, {ridge, bayes, out, kClasses, rows}, 1, {ridge_done, bayes_done});
    plan.copy_out(out, 1, {best});
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  void reference() override {
    expected.resize(chosen.size() * kClasses);
    parallel_for(chosen.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        double ridge[kClasses] = {}, bayes[kClasses] = {};
        for (int k = 0; k < kFeatures; ++k) {
          const float x = samples[row * kFeatures + k];
          const double z = (static_cast<double>(x) - mean[k]) / deviation[k];
          const float* log_of = &log_probability[(k * kCategories + static_cast<int>(x)) * kClasses];
          for (int c = 0; c < kClasses; ++c) {
            ridge[c] += z * coefficients[c * kFeatures + k];
            bayes[c] += log_of[c];
          }
        }
        for (int c = 0; c < kClasses; ++c) ridge[c] += intercept[c];
        to_softmax(bayes);  // the posterior: the likelihood over the sum of likelihoods
        to_softmax(bayes);
        to_softmax(ridge);
        for (int c = 0; c < kClasses; ++c) expected[row * kClasses + c] = ridge[c] + bayes[c];
      }
    });
  }
  // The chosen class has the highest score, or one so near that rounding may choose it. All tiles are alike.
  bool is_right(std::size_t) const override {
    std::atomic<bool> all = true;
    parallel_for(chosen.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end && all; ++row) {
        const std::span<const double> score(&expected[row * kClasses], kClasses);
        const int one = chosen[row];
        if (one < 0 || one >= kClasses || std::ranges::max(score) > score[one] + 1e-4) all = false;
      }
    });
    return all;
  }

  static void to_softmax(double* values) {
    double largest = values[0], sum = 0;
    for (int c = 1; c < kClasses; ++c) largest = std::max(largest, values[c]);
    for (int c = 0; c < kClasses; ++c) sum += values[c] = std::exp(values[c] - largest);
    for (int c = 0; c < kClasses; ++c) values[c] /= sum;
  }

  const Tiling tiling;
  const long long rows, cells, scores;
  const pergola::Grid each_cell, each_score, each_row;
  const std::span<float> samples, mean, deviation, coefficients, intercept, log_probability;
  const std::span<int> chosen;
  std::vector<double> expected;
};

template <typename Index>
class MlSequential : public Sequential {
 public:
  MlSequential(const pergola::Session& session, const pergola::Module& module, const Ml& problem)
      : p_(problem),
        rr_normalise_(module.kernel("rr_normalise")),
        rr_product_(module.kernel("rr_product")),
        rr_intercept_(module.kernel("rr_intercept")),
        nb_likelihood_(module.kernel("nb_likelihood")),
        nb_maximum_(module.kernel("nb_maximum")),
        nb_log_sum_(module.kernel("nb_log_sum")),
        nb_posterior_(module.kernel("nb_posterior")),
        softmax_(module.kernel("softmax")),
        argmax_(module.kernel("argmax")),
        samples_(session.array<float>(p_.cells)),
        mean_(session.array<float>(p_.mean.size())),
        deviation_(session.array<float>(p_.deviation.size())),
        coefficients_(session.array<float>(p_.coefficients.size())),
        intercept_(session.array<float>(p_.intercept.size())),
        log_probability_(session.array<float>(p_.log_probability.size())),
        normalised_(session.array<float>(p_.cells)),
        ridge_(session.array<float>(p_.scores)),
        bayes_(session.array<float>(p_.scores)),
        largest_(session.array<float>(p_.rows)),
        log_sum_(session.array<float>(p_.rows)),
        chosen_(session.array<int>(p_.rows)) {}

  void write() override {
    send(mean_, p_.mean);
    send(deviation_, p_.deviation);
    send(coefficients_, p_.coefficients);
    send(intercept_, p_.intercept);
    send(log_probability_, p_.log_probability);
    send(samples_, p_.samples, p_.tiling);
  }
  void launch() override {
    const auto rows = static_cast<Index>(p_.rows), cells = static_cast<Index>(p_.cells);
    const auto scores = static_cast<Index>(p_.scores);
    rr_normalise_(p_.each_cell, samples_, mean_, deviation_, normalised_, kFeatures, cells);
    rr_product_(p_.each_score, normalised_, coefficients_, ridge_, kFeatures, kClasses, scores);
    rr_intercept_(p_.each_score, ridge_, intercept_, kClasses, scores);
    softmax_(p_.each_row, ridge_, kClasses, rows);

    nb_likelihood_(p_.each_score, samples_, log_probability_, bayes_, kFeatures, kCategories, kClasses, scores);
    nb_maximum_(p_.each_row, bayes_, largest_, kClasses, rows);
    nb_log_sum_(p_.each_row, bayes_, largest_, log_sum_, kClasses, rows);
    nb_posterior_(p_.each_score, bayes_, log_sum_, kClasses, scores);
    softmax_(p_.each_row, bayes_, kClasses, rows);

    argmax_(p_.each_row, ridge_, bayes_, chosen_, kClasses, rows);
  }
  void read() override { receive(chosen_, p_.chosen); }
  std::vector<pergola_array> outputs() const override { return {chosen_.handle()}; }

 private:
  const Ml& p_;
  const pergola::Kernel rr_normalise_, rr_product_, rr_intercept_, nb_likelihood_, nb_maximum_, nb_log_sum_,
      nb_posterior_, softmax_, argmax_;
  pergola::Array<float> samples_, mean_, deviation_, coefficients_, intercept_, log_probability_;
  pergola::Array<float> normalised_, ridge_, bayes_, largest_, log_sum_;
  pergola::Array<int> chosen_;
};

std::unique_ptr<Sequential> Ml::sequential(const pergola::Session& session, const pergola::Module& module) {
  return by_index<MlSequential>(session, module, *this);
}

}  // namespace

std::unique_ptr<Problem> make_ml(Setup& setup) {
  constexpr std::size_t kBytesPerRow = (2 * kFeatures + 2 * kClasses + 3) * sizeof(float);
  const std::size_t tile = setup.bytes / kBytesPerRow / setup.tiles;
  check_tile("ML", setup, tile, 1);
  return std::make_unique<Ml>(setup, tile);
}

}  // namespace dag
