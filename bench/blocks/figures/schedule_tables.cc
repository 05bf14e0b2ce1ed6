#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "bench/blocks/figures/schedule_results.h"

namespace pergola::bench::blocks {
namespace {

using Cell = std::function<std::string(const ProgramResults&, std::size_t mode)>;

std::string header(const std::vector<std::string>& columns) {
  std::string text = "| |", line = "\n|---|";
  for (const std::string& column : columns) text += " " + column + " |", line += "---|";
  return text + line;
}

std::string table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs, const Cell& cell,
                  std::size_t first = 0) {
  std::string text = header({modes.begin() + static_cast<std::ptrdiff_t>(first), modes.end()});
  for (const ProgramResults& program : programs) {
    text += "\n| " + program.name + " |";
    for (std::size_t mode = first; mode < modes.size(); ++mode) text += " " + cell(program, mode) + " |";
  }
  return text;
}

std::string mean_row(const std::string& name, const std::vector<std::string>& modes,
                     const std::vector<ProgramResults>& programs) {
  std::string text = "\n| **" + name + "** |";
  for (std::size_t mode = 0; mode < modes.size(); ++mode) {
    double sum = 0;
    for (const ProgramResults& program : programs) sum += std::log(program.speed_up(mode));
    text += fmt::format(" **{:.2f}** |", std::exp(sum / static_cast<double>(programs.size())));
  }
  return text;
}

std::vector<ProgramResults> table_two_of(const std::vector<ProgramResults>& programs) {
  std::vector<ProgramResults> found;
  std::ranges::copy_if(programs, std::back_inserter(found), &ProgramResults::is_in_table_two);
  return found;
}

std::string speed_up_cell(const ProgramResults& program, std::size_t mode) {
  return fmt::format("{:.2f}", program.speed_up(mode));
}

}  // namespace

std::string bound_table(const std::vector<std::string>& modes, const std::vector<std::string>& reached,
                        const std::vector<ProgramResults>& programs) {
  std::vector<std::string> columns{"launching", "chain", "SMs' work", "SMs' room", "any schedule"};
  columns.insert(columns.end(), reached.begin(), reached.end());
  std::string text = header(columns);
  std::vector<double> logs(columns.size(), 0);
  const std::vector<ProgramResults> table_two = table_two_of(programs);
  const auto speed_ups = [&](const ProgramResults& program) {
    const LeastTimes& least = program.least;
    std::vector<double> times{least.launching_ns, least.chain_ns, least.work_ns, least.room_ns};
    times.push_back(std::ranges::max(times));
    for (const std::string& mode : reached)
      times.push_back(program.modes[static_cast<std::size_t>(std::ranges::find(modes, mode) - modes.begin())].end_ns);
    for (double& time : times) time = program.modes[0].end_ns / time;
    return times;
  };
  for (const ProgramResults& program : programs) {
    text += "\n| " + program.name + " |";
    for (const double value : speed_ups(program)) text += fmt::format(" {:.{}f} |", value, value < 100 ? 2 : 0);
  }
  if (table_two.empty()) return text;
  for (const ProgramResults& program : table_two) {
    const std::vector<double> values = speed_ups(program);
    for (std::size_t i = 0; i < values.size(); ++i) logs[i] += std::log(values[i]);
  }
  text += "\n| **geometric mean of Table II** |";
  for (const double sum : logs)
    text += fmt::format(" **{:.2f}** |", std::exp(sum / static_cast<double>(table_two.size())));
  return text;
}

std::string replaced_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs,
                           const ProgramResults& instead, const std::string& replaced) {
  std::vector<ProgramResults> with = table_two_of(programs);
  for (ProgramResults& program : with) {
    if (program.name == replaced) program = instead;
  }
  return table(modes, {instead}, speed_up_cell) + mean_row("geometric mean of Table II with it", modes, with);
}

std::string size_table(const std::vector<std::string>& modes,
                       const std::vector<std::pair<std::string, std::vector<ProgramResults>>>& sizes) {
  std::string text = header(modes);
  for (const auto& [name, programs] : sizes) text += mean_row(name, modes, table_two_of(programs));
  return text;
}

std::string speed_up_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs) {
  std::string text = table(modes, programs, speed_up_cell);
  std::vector<ProgramResults> table_two, others;
  for (const ProgramResults& program : programs) (program.is_in_table_two ? table_two : others).push_back(program);
  if (!table_two.empty() && !others.empty()) {
    text += mean_row("geometric mean of Table II", modes, table_two);
    text += mean_row("of the wavefronts", modes, others);
  }
  return text + mean_row("geometric mean", modes, programs);
}

std::string concurrency_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs) {
  return table(modes, programs, [](const ProgramResults& program, std::size_t mode) {
    return mode == 0 ? fmt::format("{:.1f} blocks", program.modes[0].concurrency)
                     : fmt::format("{:.2f}", program.modes[mode].concurrency / program.modes[0].concurrency);
  });
}

std::string stall_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs) {
  return table(modes, programs, [](const ProgramResults& program, std::size_t mode) {
    std::string quartiles;
    for (const double stall : program.modes[mode].stalls) {
      quartiles += fmt::format("{}{:.{}f}", quartiles.empty() ? "" : " ", stall, stall < 10 ? 2 : 0);
    }
    return quartiles;
  });
}

std::string request_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs) {
  std::string text = table(
      modes, programs,
      [](const ProgramResults& program, std::size_t mode) {
        return fmt::format("{:.2f} %", 100 * program.modes[mode].requests_added);
      },
      2);
  text += "\n| **mean** |";
  for (std::size_t mode = 2; mode < modes.size(); ++mode) {
    double sum = 0;
    for (const ProgramResults& program : programs) sum += program.modes[mode].requests_added;
    text += fmt::format(" **{:.2f} %** |", 100 * sum / static_cast<double>(programs.size()));
  }
  return text;
}

}  // namespace pergola::bench::blocks
