#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "bench/blocks/figures/schedule_results.h"

namespace pergola::bench::blocks {
namespace {

using Cell = std::function<std::string(const ProgramResults&, std::size_t mode)>;

std::string table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs, const Cell& cell,
                  std::size_t first = 0) {
  std::string text = "| |", line = "\n|---|";
  for (std::size_t mode = first; mode < modes.size(); ++mode) text += " " + modes[mode] + " |", line += "---|";
  text += line;
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

}  // namespace

std::string speed_up_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs) {
  std::string text = table(modes, programs, [](const ProgramResults& program, std::size_t mode) {
    return fmt::format("{:.2f}", program.speed_up(mode));
  });
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
