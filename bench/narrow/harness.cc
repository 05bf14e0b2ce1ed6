#include "harness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace narrow {
namespace {

constexpr double kEnoughMs = 400;  // of a form's runs, if there were three
constexpr std::size_t kTasksOfOneCore = 1024;
constexpr Measure kMeasures[] = {Measure::kCompute, Measure::kCopies};

double median_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  return n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

}  // namespace

Bench::Bench(const bench::Gpu* gpu, const std::string& kernels_path, bench::Report& report, int runs,
             std::set<std::string> forms)
    : gpu_(gpu),
      report_(report),
      runs_(runs),
      forms_(std::move(forms)),
      kernels_path_(kernels_path),
      in_order_("", "max-streams=1"),
      in_order_module_(in_order_.load(kernels_path)) {}

void Bench::run(Problem& problem) {
  if (gpu_ != nullptr) gpu_->enter();
  problem.prepare(gpu_);
  Subject subject{problem.name(),     {{"tasks", problem.tasks().size()}}, problem.is_irregular,
                  problem.is_variant, [&] { problem.clobber(); },          [&] { return problem.is_right(); }};
  if (wants("cpu1")) {
    const std::size_t stride = std::max<std::size_t>(1, problem.tasks().size() / kTasksOfOneCore);
    Subject part = subject;
    part.is_right = [&, stride] { return problem.is_right(stride); };
    measure(part, *make_cpu(problem, true, stride));
  }
  if (wants("cpu")) measure(subject, *make_cpu(problem, false, 1));
  if (gpu_ != nullptr) measure_by_hand(subject, problem);
  measure_pergola(subject, problem);
  if (gpu_ != nullptr) gpu_->enter();
  problem.release();
}

void Bench::measure_by_hand(const Subject& subject, const Problem& problem) {
  const DeviceData data(*gpu_, problem);
  if (wants("streams"))
    for (const unsigned threads : {1u, 2u, 4u, 8u}) measure(subject, *make_streams(data, threads));
  if (wants("graph"))
    for (const bool in_chains : {false, true}) measure(subject, *make_graph(data, in_chains));
  if (wants("fused")) measure(subject, *make_fused(data));
  if (wants("gemtc"))
    for (const std::size_t batches : {1u, 4u}) measure(subject, *make_gemtc(data, batches));
}

void Bench::measure_pergola(const Subject& subject, const Problem& problem) {
  if (wants("pergola-launches"))
    measure(subject, *make_launches(make_pergola_data(in_order_, in_order_module_, problem)));
  if (!wants("pergola") && !wants("pergola-batch")) return;
  const pergola::Session session;  // of this problem alone, so that the resident kernel has its kernels and no others
  const auto data = make_pergola_data(session, session.load(kernels_path_), problem);
  const pergola::TaskPool pool = session.task_pool({.blocks = pool_blocks});
  if (wants("pergola")) {
    for (const unsigned threads : {1u, 2u, 4u}) measure(subject, *make_tasks(data, pool, threads, false));
    for (const unsigned threads : {1u, 4u}) measure(subject, *make_tasks(data, pool, threads, true));
  }
  if (wants("pergola-batch"))
    for (const std::size_t share : {16u, 4u})
      measure(subject, *make_batches(data, pool, std::max<std::size_t>(1, problem.tasks().size() / share)));
}

double Bench::measure(const Subject& subject, Form& form) {
  double computing = 0;
  if (results_.empty() || results_.back().first != subject.problem)
    results_.push_back({subject.problem, {subject.is_irregular, subject.is_variant, {}}});
  const bool on_host = form.name == "cpu" || form.name == "cpu1";
  for (const Measure what : kMeasures) {
    if (!form.can(what) || (what == Measure::kCopies && !copies)) continue;
    form.load();
    if (on_host)
      subject.clobber();  // its runs take long: the last one timed is the one that is checked
    else
      form.run(what);
    std::vector<double> times;
    double total = 0;
    const int runs = form.name == "cpu1" ? 1 : on_host ? std::min(runs_, 2) : runs_;
    while (static_cast<int>(times.size()) < runs && (times.size() < 3 || total < kEnoughMs)) {
      times.push_back(form.run(what));
      total += times.back();
    }
    if (!on_host) {
      subject.clobber();
      form.clobber();
      form.run(what);
      form.fetch(what);
    }
    nlohmann::json params = subject.params;
    params.update(form.params);
    params["measure"] = on_host ? "host" : to_string(what);
    report_.add(subject.problem, form.name, params, times, subject.is_right());
    for (const Measure counted : kMeasures) {
      if (counted != what && !on_host) continue;
      double& best = results_.back().second.best[static_cast<int>(counted)].try_emplace(form.name, 1e300).first->second;
      best = std::min(best, median_of(times));
    }
    if (what == Measure::kCompute) computing = median_of(times);
    if (form.instantiate_ms == 0 || what != Measure::kCompute) continue;
    params["measure"] = "instantiate";
    report_.add(subject.problem, form.name, params, {form.instantiate_ms}, true);
  }
  return computing;
}

void Bench::add_group(std::string& text, const std::string& title, Measure measure,
                      const std::function<bool(const Result&)>& belongs) const {
  static const std::vector<std::string> kOthers{"streams", "graph", "fused",         "gemtc",
                                                "cpu",     "cpu1",  "pergola-batch", "pergola-launches"};
  const std::string ours = "pergola";
  std::vector<double> logs(kOthers.size()), counts(kOthers.size());
  std::string rows;
  char cell[64];
  for (const auto& [name, result] : results_) {
    const auto& best = result.best[static_cast<int>(measure)];
    if (!belongs(result) || !best.contains(ours)) continue;
    std::snprintf(cell, sizeof cell, " | %.3f", best.at(ours));
    rows += "| " + name + cell;
    for (std::size_t i = 0; i < kOthers.size(); ++i) {
      const auto other = best.find(kOthers[i]);
      if (other == best.end()) {
        rows += " |";
        continue;
      }
      const double ratio = other->second / best.at(ours);
      logs[i] += std::log(ratio), counts[i] += 1;
      std::snprintf(cell, sizeof cell, " | %.2f", ratio);
      rows += cell;
    }
    rows += " |\n";
  }
  if (rows.empty()) return;
  text += "\n" + title + ":\n\n| problem | pergola ms";
  for (const std::string& other : kOthers) text += " | over " + other;
  text += " |\n|---|---|";
  for (std::size_t i = 0; i < kOthers.size(); ++i) text += "---|";
  text += "\n" + rows + "| geometric mean |";
  for (std::size_t i = 0; i < kOthers.size(); ++i) {
    std::snprintf(cell, sizeof cell, " | %.2f", std::exp(logs[i] / counts[i]));
    text += counts[i] == 0 ? " |" : cell;
  }
  text += " |\n";
}

std::string Bench::summary() const {
  std::string text =
      "How many times as fast Pergola's tasks are as each other form, by medians, of each form's best variant.\n";
  for (const Measure measure : kMeasures) {
    const std::string what = std::string(", ") + to_string(measure);
    add_group(text, "Table 3" + what, measure, [](const Result& r) { return !r.is_irregular && !r.is_variant; });
    add_group(text, "Irregular tasks" + what, measure, [](const Result& r) { return r.is_irregular; });
    add_group(text, "Variants" + what, measure, [](const Result& r) { return r.is_variant; });
  }
  return text;
}

}  // namespace narrow
