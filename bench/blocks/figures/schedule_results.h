// What the schedules of the programs come to, and BlockMaestro's figures made from it: as tables and as a picture.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pergola::bench::blocks {

struct ModeResult {
  double end_ns = 0;
  double concurrency = 0;     // blocks that run together
  double stalls[3] = {};      // quartiles of how long blocks wait that could run, in times of their own length
  double requests_added = 0;  // by lists and counters, over the program's own
};

// What no schedule can beat, whatever its policy (src/device/cpu/blocks/schedule_bounds.h).
struct LeastTimes {
  double launching_ns = 0, chain_ns = 0, work_ns = 0, room_ns = 0;
};

struct ProgramResults {
  std::string name;
  bool is_in_table_two = false;   // the twelve of which the paper's mean is
  std::vector<ModeResult> modes;  // Figure 9's; the first is the baseline
  LeastTimes least;               // with the window of the last of Figure 9's modes

  double speed_up(std::size_t mode) const { return modes[0].end_ns / modes[mode].end_ns; }
};

// Markdown tables, a row a program. `modes` are the modes' names.
// Figure 9, with the geometric means of Table II's programs and of all.
std::string speed_up_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs);
// What each bound leaves of Figure 9, and all of them together, beside `reached`, some of the modes.
std::string bound_table(const std::vector<std::string>& modes, const std::vector<std::string>& reached,
                        const std::vector<ProgramResults>& programs);
// Figure 9 of one program, and Table II's mean with it in place of the one called `replaced`.
std::string replaced_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs,
                           const ProgramResults& instead, const std::string& replaced);
// Table II's means, a row for each size: what the row is called, and the programs at that size.
std::string size_table(const std::vector<std::string>& modes,
                       const std::vector<std::pair<std::string, std::vector<ProgramResults>>>& sizes);
// Figure 10, in times of the baseline's.
std::string concurrency_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs);
// Figure 11: quartiles.
std::string stall_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs);
// Figure 13, in percent, with the mean.
std::string request_table(const std::vector<std::string>& modes, const std::vector<ProgramResults>& programs);

// Figure 9 as an SVG; the baseline is the line at 1. Throws std::runtime_error that names the file where it cannot.
void draw_speed_ups(const std::string& path, const std::vector<std::string>& modes,
                    const std::vector<ProgramResults>& programs);

}  // namespace pergola::bench::blocks
