// The report of a benchmark: rows as they are measured, printed as a table, written as JSON and Markdown.
//
// Format: {"suite","device","driver","host","commit","date","command","rows":[{"problem","form","params","median_ms",
// "min_ms","max_ms","runs","checked"}],"notes"}. `checked` is true only where this run's result was compared with a
// reference.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bench {

struct Machine {
  std::string device, driver;
};

class Report {
 public:
  Report(std::string suite, Machine machine, int argc, char** argv);

  // `times_ms` are the single runs, at least one. Prints the row at once.
  void add(const std::string& problem, const std::string& form, nlohmann::json params, std::vector<double> times_ms,
           bool checked);
  void note(const std::string& text) { notes_ += text; }
  bool is_empty() const { return rows_.empty(); }
  // True where every row was checked against a reference.
  bool all_checked() const;
  // `path`.json and `path`.md, with `more_notes` behind the notes; throws std::runtime_error that names the file.
  void write(const std::string& path, const std::string& more_notes = "") const;

 private:
  nlohmann::json head_;
  nlohmann::json rows_ = nlohmann::json::array();
  std::string notes_;
};

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Calls `body` `runs` times after one warm-up and gives each call's wall time in milliseconds.
template <typename Body>
std::vector<double> time_ms(int runs, Body&& body);

}  // namespace bench

template <typename Body>
std::vector<double> bench::time_ms(int runs, Body&& body) {
  using Clock = std::chrono::steady_clock;
  body();
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    body();
    times.push_back(ms_since(start));
  }
  return times;
}
