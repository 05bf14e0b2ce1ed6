#include "harness.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "../support/steady.h"
#include "hand_written.h"

namespace dag {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFewestWarmUps = 3;
constexpr double kWarmUpMs = 500;   // a form, at least
constexpr double kLookEachMs = 10;  // at the device's memory
// No cache of a host has so much, and going over it takes long.
constexpr std::size_t kMostGoneOver = 256'000'000;
const std::vector<std::pair<std::string, Style>> kHandWritten{
    {"serial", Style::kSerial}, {"streams", Style::kStreams}, {"capture", Style::kCapture}, {"graph", Style::kGraph}};
const std::string kByPolicy = "pergola ";  // before the policy, the name of its form

double ms_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return bench::ms_since(start);
}

double median_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  return n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

class PergolaForm : public Form {
 public:
  PergolaForm(std::string form, const pergola::Session& session, std::unique_ptr<Sequential> code)
      : session_(session), code_(std::move(code)) {
    name = std::move(form);
  }
  void run(Measure measure) override {
    if (measure == Measure::kCold) {
      code_->run();
      code_->notes = false;
    } else {
      const auto start = Clock::now();
      code_->launch();
      submit_ms = bench::ms_since(start);
      session_.synchronize();
    }
  }
  void load() override {
    code_->write();
    session_.synchronize();
  }
  void fetch(std::size_t piece) override {
    code_->piece = piece;
    code_->read();
  }
  void collect() override { code_->collect(); }
  std::vector<std::span<std::byte>> on_host() const override { return code_->on_host(); }
  void clobber() override {
    code_->notes = true;  // of the run that is checked
    const std::uint64_t ones = ~std::uint64_t{0};
    for (pergola_array array : code_->outputs())
      if (pergola_array_fill(array, &ones) != PERGOLA_OK) throw std::runtime_error(pergola_last_error());
    session_.synchronize();
  }
  bool is_steady() override {
    if (!steady_.is_reached([&] { return session_.graphs(); })) return false;
    settle_ms = steady_.changed_for_ms();
    instantiate_ms = bench::Steady::making_ms(session_.graphs());
    return true;
  }
  std::string state() const override { return bench::Steady::ways_in(session_.graphs()); }

 private:
  const pergola::Session& session_;
  std::unique_ptr<Sequential> code_;
  bench::Steady steady_;
};

// The outputs on the host get bytes that no result has.
void clobber_host(const Plan& plan) {
  for (const Plan::Array& array : plan.arrays()) {
    if (!array.is_output) continue;
    parallel_for(array.host_bytes, [&](std::size_t begin, std::size_t end) {
      std::memset(static_cast<std::byte*>(array.host) + begin, 0xff, end - begin);
    });
  }
}

// Before a timed run, where it is another than before the last.
void print_change(const Form& form, int run, std::string& last) {
  std::string state = form.state();
  if (state == last) return;
  std::printf("%s, before timed run %d:\n%s", form.name.c_str(), run, state.c_str());
  last = std::move(state);
}

void print_times(const std::string& name, const std::vector<double>& times_ms) {
  std::printf("%s, ms:", name.c_str());
  for (const double ms : times_ms) std::printf(" %.4f", ms);
  std::printf("\n");
}

// Forms have memory of their own there, or share it with others: all find it alike.
void go_over_host(const Form& form) {
  const std::vector<std::span<std::byte>> all = form.on_host();
  std::size_t bytes = 0;
  for (const std::span<std::byte> one : all) bytes += one.size();
  if (bytes > kMostGoneOver) return;
  for (const std::span<std::byte> one : all) go_over(one);
}

}  // namespace

pergola::Grid reducing(std::size_t elements, unsigned block) {
  constexpr std::size_t kElementsPerThread = 8, kMostThreads = 132 * 2048;  // what the largest GPUs hold at once
  const std::size_t wanted = (elements + block * kElementsPerThread - 1) / (block * kElementsPerThread);
  return pergola::grid(std::clamp<std::size_t>(wanted, 1, kMostThreads / block), block);
}

Scratch reduction_scratch(Plan& plan, const std::string& name, const pergola::Grid& shape) {
  return {plan.array<double>("partial " + name, shape.blocks.x), plan.array<unsigned>("counter of " + name, 1, true)};
}

void check_tile(const std::string& problem, const Setup& setup, std::size_t size, std::size_t least) {
  if (size < least)
    throw std::runtime_error(std::to_string(setup.bytes) + " bytes in " + std::to_string(setup.tiles) + " tiles of " +
                             problem + " are " + std::to_string(size) + " rows or elements a tile, of " +
                             std::to_string(least) + " at least; give more --bytes or fewer --tiles.");
}

void parallel_for(std::size_t n, const std::function<void(std::size_t begin, std::size_t end)>& body) {
  const std::size_t threads = n < 10000 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> workers;
  for (std::size_t t = 1; t < threads; ++t)
    workers.emplace_back([&, t] { body(n * t / threads, n * (t + 1) / threads); });
  body(0, n / threads);
}

bool Bench::has(const std::string& form) const {
  if (gpu_ == nullptr) return form == "pergola";
  return options_.forms.empty() ||
         std::find(options_.forms.begin(), options_.forms.end(), form) != options_.forms.end();
}

std::vector<Bench::MakeForm> Bench::makers_of(Problem& problem, std::span<const PergolaSession> sessions) {
  std::vector<MakeForm> makers;
  const double host_mib = page_locked_mib(problem.plan());
  for (const auto& [name, style] : kHandWritten)
    if (has(name))
      makers.emplace_back([&problem, style, host_mib, this] {
        auto form = hand_written(*gpu_, problem.plan(), style);
        form->device_mib = host_mib;
        return form;
      });
  for (const PergolaSession& own : sessions)
    makers.emplace_back([&problem, &own, this] {
      auto code = sequential(problem, own.session, own.module);
      // Launches that are graphs bring their uploads with them.
      code->prefetches = own.policy.find("graphs=off") != std::string::npos ||
                         own.policy.find("graphs=recurring") != std::string::npos;
      return std::make_unique<PergolaForm>(own.form, own.session, std::move(code));
    });
  return makers;
}

std::unique_ptr<Sequential> Bench::sequential(Problem& problem, const pergola::Session& session,
                                              const pergola::Module& module) const {
  auto code = problem.sequential(session, module);
  const bool is_tiled = problem.plan().is_tiled();
  code->is_staged = options_.is_staged || is_tiled;
  if (is_tiled) code->repeat.emplace(module);
  return code;
}

std::unique_ptr<Form> Bench::made(const MakeForm& make, Measure measure) const {
  const double before = free_mib();
  auto form = make();
  form->load();
  if (options_.alone) {
    form->run(measure);
  } else {
    form->run(Measure::kCold);
    form->run(Measure::kResident);
  }
  form->device_mib += before - free_mib();
  return form;
}

double Bench::free_mib() const {
  return gpu_ != nullptr ? static_cast<double>(gpu_->free_bytes()) / (1 << 20) : 0;
}

double Bench::page_locked_mib(const Plan& plan) const {
  if (gpu_ == nullptr || options_.is_staged || plan.is_tiled()) return 0;
  const double before = free_mib();
  HostMemory memory(gpu_);
  for (const Plan::Array& array : plan.arrays())
    if (array.host != nullptr) memory.take<std::byte>(array.bytes);
  return before - free_mib();
}

void Bench::run(Problem& problem, const nlohmann::json& params) {
  nlohmann::json own = params;
  own.update(problem.params);
  {
    const pergola::Session session;
    const pergola::Module module = session.load_text(*ptx_);
    check_dependencies(problem.plan(), module);
    check_dependencies(problem.plan().resident(), module);
  }
  if (gpu_ != nullptr) gpu_->enter();  // the session's end has left the context
  const double reference_ms = ms_of([&] { problem.reference(); });
  report_.add(problem.name, "reference", own, {reference_ms}, true);
  for (const Measure what : options_.measures) {
    std::vector<PergolaSession> sessions;  // of just this measure: a program does one or the other
    const auto open = [&](std::string form, std::string policy) {
      pergola::Session session =
          policy.empty() ? pergola::Session() : pergola::Session(gpu_ != nullptr ? "cuda:0" : "cpu", policy);
      pergola::Module module = session.load_text(*ptx_);
      sessions.push_back({std::move(form), std::move(policy), std::move(session), std::move(module)});
    };
    if (has("pergola")) open("pergola", "");
    if (has("pergola-graphs")) open("pergola-graphs", "graphs=always");
    for (const std::string& policy : options_.policies) open(kByPolicy + policy, policy);
    Ratio ratio{problem.name, "", what};
    const std::vector<MakeForm> makers = makers_of(problem, sessions);
    for (std::size_t first = 0; first < makers.size();) {
      std::vector<std::unique_ptr<Form>> forms;
      do {
        forms.push_back(made(makers[first++], what));
      } while (!options_.alone && first < makers.size());
      measure(problem, forms, what, own, ratio);
      for (const auto& form : forms) {
        if (what == Measure::kCold) continue;
        const auto tell = [&](const char* measure, double ms) {
          nlohmann::json row = own;
          row["measure"] = measure;
          report_.add(problem.name, form->name, row, {ms}, true);
        };
        if (form->instantiate_ms != 0) tell("instantiate", form->instantiate_ms);
        if (form->settle_ms) tell("settle", *form->settle_ms);
      }
    }
    for (const PergolaSession& each : sessions)
      if (options_.explain)
        std::printf("%s, %s, %s:\n%s\n", problem.name.c_str(), to_string(what), each.form.c_str(),
                    each.session.graphs().c_str());
    if (gpu_ != nullptr) ratios_.push_back(ratio);
  }
}

void Bench::run_once(Problem& problem, const std::string& form, const std::string& trace) {
  const pergola::Session session;
  const pergola::Module module = session.load_text(*ptx_);
  std::unique_ptr<Form> one;
  const auto style =
      std::find_if(kHandWritten.begin(), kHandWritten.end(), [&](const auto& named) { return named.first == form; });
  if (style != kHandWritten.end() && gpu_ != nullptr)
    one = hand_written(*gpu_, problem.plan(), style->second);
  else if (form == "pergola") {
    auto code = sequential(problem, session, module);
    code->prefetches = !trace.empty();  // whose launches go one by one (overlap.py)
    one = std::make_unique<PergolaForm>(form, session, std::move(code));
  } else {
    throw std::runtime_error("There is no form '" + form + "' here to run once.");
  }
  const bool is_cold = options_.measures.size() == 1 && options_.measures[0] == Measure::kCold;
  if (!is_cold) one->load();
  const auto run = [&] { one->run(is_cold ? Measure::kCold : Measure::kResident); };
  if (trace.empty()) return run();
  constexpr int kBefore = 10;  // which load code, and after which the scheduler knows what kernels take
  for (int i = 0; i < kBefore; ++i) run();
  session.trace(trace);
  run();
  session.end_trace();
}

// A program's steady state: Pergola has found what recurs by then, and made graphs of it, as theirs are made before.
void Bench::warm_up(Form& form, Measure measure) const {
  const double before = free_mib();
  double least = before;
  const auto start = Clock::now();
  auto looked = start;
  int turns = 0;
  bool is_steady = false;
  do {
    form.run(measure);
    ++turns;
    is_steady = form.is_steady();  // asked from the first turn on, from which it counts
    if (bench::ms_since(looked) < kLookEachMs) continue;
    least = std::min(least, free_mib());
    looked = Clock::now();
  } while (options_.runs > 1 &&
           ((turns < kFewestWarmUps && !options_.alone) || bench::ms_since(start) < kWarmUpMs || !is_steady));
  form.device_mib += before - std::min(least, free_mib());  // graphs, and kernels that Pergola makes of others
}

// All pieces of the outputs of one more iteration.
bool Bench::is_right(const Problem& problem, Form& form, Measure measure) const {
  const Plan plan = problem.plan();
  clobber_host(plan);
  form.clobber();
  form.run(measure);
  bool right = true;
  for (std::size_t piece = 0; piece < plan.pieces(); ++piece) {
    if (piece != 0) clobber_host(plan);
    if (measure == Measure::kResident) form.fetch(piece);
    form.collect();
    right = problem.is_right(piece) && right;
  }
  return right;
}

// Forms take turns. A run follows others of the same form that are not timed, so that the caches of device and host
// hold what these left there, as they do where a program has only one form.
void Bench::measure(Problem& problem, std::span<const std::unique_ptr<Form>> forms, Measure measure,
                    const nlohmann::json& params, Ratio& ratio) {
  std::vector<std::vector<double>> times(forms.size()), submits(forms.size());
  if (!options_.alone)  // else it has been, and takes long
    for (const auto& form : forms) form->load();
  for (const auto& form : forms) warm_up(*form, measure);
  std::vector<std::string> states(forms.size());
  const int untimed = options_.untimed.value_or(options_.alone && measure == Measure::kResident ? 0 : 1);
  for (int run = 0; run < options_.runs; ++run) {
    for (std::size_t turn = 0; turn < forms.size(); ++turn) {
      const std::size_t i = (turn + run) % forms.size();
      if (options_.explain) print_change(*forms[i], run, states[i]);
      if (measure == Measure::kCold && !options_.after_others) go_over_host(*forms[i]);
      if (measure == Measure::kResident || !options_.after_others)
        for (int n = 0; n < untimed; ++n) forms[i]->run(measure);
      times[i].push_back(ms_of([&] { forms[i]->run(measure); }));
      submits[i].push_back(forms[i]->submit_ms);
    }
  }
  if (options_.explain)
    for (std::size_t i = 0; i < forms.size(); ++i)
      print_times(problem.name + ' ' + forms[i]->name + ' ' + to_string(measure) + ' ' + params.dump(), times[i]);
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const bool right = is_right(problem, *forms[i], measure);
    nlohmann::json row = params;
    row["measure"] = to_string(measure);
    ratio.params = row.dump();
    if (gpu_ != nullptr) row["device_mib"] = std::lround(forms[i]->device_mib);
    report_.add(problem.name, forms[i]->name, row, times[i], right);
    if (measure == Measure::kResident && forms[i]->submit_ms != 0) {
      row["measure"] = "submit";
      report_.add(problem.name, forms[i]->name, row, submits[i], right);
    }
    const double median = median_of(times[i]);
    if (forms[i]->name == "serial") {
      ratio.serial = median;
    } else if (forms[i]->name == "pergola") {
      ratio.pergola = median;
      ratio.pergola_mib = forms[i]->device_mib;
    } else if (forms[i]->name == "pergola-graphs") {
      ratio.pergola_graphs = median;
    } else if (forms[i]->name.starts_with(kByPolicy)) {
      ratio.by_policy.push_back(median);
    } else if (ratio.best_hand == 0 || median < ratio.best_hand) {
      ratio.best_hand = median;
      ratio.best_mib = forms[i]->device_mib;
      ratio.best_name = forms[i]->name;
    }
  }
}

std::string Bench::summary() const {
  if (ratios_.empty()) return "Without a GPU there are no hand-written forms to compare with.\n";
  std::string text =
      "How many times as fast Pergola is as the best hand-written form (not serial), and as the serial form; and the "
      "same with `graphs=always`" +
      std::string(options_.policies.empty() ? "" : ", and of other policies over the best") +
      ":\n\n"
      "| problem | params | best form | device MiB, best and Pergola | over best | over serial | graphs over best "
      "| graphs over serial |";
  for (const std::string& policy : options_.policies) text += " `" + policy + "` |";
  text += "\n|---|---|---|---|---|---|---|---|";
  for (std::size_t n = 0; n < options_.policies.size(); ++n) text += "---|";
  text += '\n';
  const auto add = [&](const std::string& name, const std::string& what, const std::string& best,
                       const std::string& mib, const std::vector<double>& over) {
    text += "| " + name + " | " + what + " | " + best + " | " + mib + " |";
    char number[32];
    for (const double value : over) {
      std::snprintf(number, sizeof number, " %.3f |", value);
      text += std::isfinite(value) && value > 0 ? number : " |";  // of forms that did not take part: nothing
    }
    text += '\n';
  };
  const auto over = [](const Ratio& r) {
    std::vector<double> all{r.best_hand / r.pergola, r.serial / r.pergola, r.best_hand / r.pergola_graphs,
                            r.serial / r.pergola_graphs};
    for (const double median : r.by_policy) all.push_back(r.best_hand / median);
    return all;
  };
  for (const Ratio& r : ratios_) {
    const std::string mib = std::to_string(std::lround(r.best_mib)) + ", " + std::to_string(std::lround(r.pergola_mib));
    add(r.problem, '`' + r.params + '`', r.best_name, mib, over(r));
  }
  for (const Measure measure : {Measure::kCold, Measure::kResident}) {
    std::vector<double> logs(4 + options_.policies.size());
    double count = 0;
    for (const Ratio& r : ratios_) {
      if (r.measure != measure) continue;
      const std::vector<double> of_one = over(r);
      for (std::size_t i = 0; i < logs.size(); ++i) logs[i] += std::log(of_one[i]);
      ++count;
    }
    if (count == 0) continue;
    for (double& mean : logs) mean = std::exp(mean / count);
    add("geometric mean", to_string(measure), "", "", logs);
  }
  return text;
}

}  // namespace dag
