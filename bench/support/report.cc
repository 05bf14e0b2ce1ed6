#include "report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "src/source/nvrtc.h"

namespace bench {
namespace {

std::string first_line(const std::string& path, const std::string& prefix) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(prefix, 0) == 0) return line.substr(line.find(':') == std::string::npos ? 0 : line.find(':') + 2);
  return "";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// "NVRTC 13.0", whatever its place; "" without one.
std::string nvrtc_version() {
  const auto nvrtc = pergola::source::Nvrtc::find();
  return nvrtc.ok() ? (*nvrtc)->version().substr(0, (*nvrtc)->version().find(" (")) : "";
}

}  // namespace

Report::Report(std::string suite, Machine machine, int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  const char* commit = std::getenv("PERGOLA_COMMIT");
  head_ = {{"suite", std::move(suite)},
           {"device", machine.device},
           {"driver", machine.driver},
           {"cuda", nvrtc_version()},
           {"host", std::to_string(std::thread::hardware_concurrency()) + " cores, " +
                        first_line("/proc/cpuinfo", "model name")},
           {"commit", commit != nullptr ? commit : "unknown"},
           {"date", today()},
           {"command", command}};
#ifndef __OPTIMIZE__  // this file is compiled as the benchmarks are, in which a launch is inline code
  head_["build"] = "without optimisation: times of the host count for nothing";
  std::fprintf(stderr, "This benchmark is built without optimisation: its times of the host count for nothing.\n");
#endif
  std::printf("%-16s %-14s %-28s %12s %12s %12s %s\n", "problem", "form", "params", "median ms", "min ms", "max ms",
              "checked");
}

void Report::add(const std::string& problem, const std::string& form, nlohmann::json params,
                 std::vector<double> times_ms, bool checked) {
  std::sort(times_ms.begin(), times_ms.end());
  const std::size_t n = times_ms.size();
  const double median = n % 2 == 1 ? times_ms[n / 2] : (times_ms[n / 2 - 1] + times_ms[n / 2]) / 2;
  std::printf("%-16s %-14s %-28s %12.6f %12.6f %12.6f %s\n", problem.c_str(), form.c_str(), params.dump().c_str(),
              median, times_ms.front(), times_ms.back(), checked ? "yes" : "NO");
  std::fflush(stdout);  // to a file, too: who waits sees how far it is
  rows_.push_back({{"problem", problem},
                   {"form", form},
                   {"params", std::move(params)},
                   {"median_ms", median},
                   {"min_ms", times_ms.front()},
                   {"max_ms", times_ms.back()},
                   {"runs", n},
                   {"checked", checked}});
}

bool Report::all_checked() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const auto& row) { return row["checked"].template get<bool>(); });
}

void Report::write(const std::string& path, const std::string& more_notes) const {
  nlohmann::json all = head_;
  const std::string notes = notes_ + more_notes;
  all["rows"] = rows_;
  all["notes"] = notes;
  std::ofstream json(path + ".json");
  json << all.dump(1) << '\n';
  std::ofstream md(path + ".md");
  md << "# " << head_["suite"].get<std::string>() << " on " << head_["device"].get<std::string>() << "\n\n";
  for (const char* key : {"driver", "cuda", "host", "commit", "date"})
    md << "- " << key << ": " << head_[key].get<std::string>() << '\n';
  if (head_.contains("build")) md << "- build: " << head_["build"].get<std::string>() << '\n';
  md << "- command: `" << head_["command"].get<std::string>() << "`\n\n";
  md << "| problem | form | params | median ms | min ms | max ms | runs | checked "
        "|\n|---|---|---|---|---|---|---|---|\n";
  for (const auto& row : rows_)
    md << "| " << row["problem"].get<std::string>() << " | " << row["form"].get<std::string>() << " | `"
       << row["params"].dump() << "` | " << row["median_ms"] << " | " << row["min_ms"] << " | " << row["max_ms"]
       << " | " << row["runs"] << " | " << (row["checked"].get<bool>() ? "yes" : "no") << " |\n";
  if (!notes.empty()) md << "\n" << notes << "\n";
  if (!json.flush() || !md.flush()) throw std::runtime_error("The report '" + path + "' cannot be written.");
}

}  // namespace bench
