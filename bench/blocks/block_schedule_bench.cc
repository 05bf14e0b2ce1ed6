// The eighteen programs under a virtual clock, in the modes of BlockMaestro's Figure 9: speed-up over the baseline, how
// many blocks run together (Figure 10), how long blocks wait that could run (Figure 11), what lists and counters add to
// the memory requests (Figure 13); and the micro-benchmark of Figure 12.
//
// Every block of every launch runs once on the interpreter, in stream order, and what it executes makes its time
// (src/device/cpu/blocks/block_weights.h). The times below are of the virtual clock, not of the host. With --by-size:
// Table II's programs at several sizes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "bench/blocks/execution/program_execution.h"
#include "bench/blocks/figures/schedule_results.h"
#include "bench/support/main.h"
#include "bench/support/report.h"
#include "src/device/cpu/blocks/schedule_bounds.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"

namespace {

using namespace pergola;
using namespace pergola::bench::blocks;
using vclock::BlockTimes;
using vclock::IssueOrder;
using vclock::LaunchChain;
using vclock::ScheduleMode;
using vclock::ScheduleOptions;
using vclock::Timeline;

constexpr std::uint32_t kWindow = 4;
constexpr std::size_t kTableTwo = 12;  // of all(), the first
constexpr std::uint32_t kResident = 28 * 32;
constexpr double kDeviceLaunchNs = 3000;  // IV-D: without the 2 us of the host's call

// What of a program is left when it has run.
struct Measured {
  std::string name;
  std::vector<std::vector<vclock::BlockWork>> work;  // by launch and block
  LaunchChain chain;                                 // of what that costs in the order of the PTX
  std::uint64_t requests = 0;
  bool is_right = false;
};

template <typename T>
T value_of(Result<T> result, const std::string& what) {
  if (!result) throw std::runtime_error(what + ": " + std::string(result.message()));
  return std::move(result).value();
}

void set_costs(Measured& measured, IssueOrder order) {
  for (std::size_t i = 0; i < measured.work.size(); ++i) {
    for (std::size_t b = 0; b < measured.work[i].size(); ++b)
      measured.chain[i].blocks[b] = vclock::cost_of(measured.work[i][b], order);
  }
}

Measured measure(const Program& program, const ProgramRelations& relations, LaunchChain chain, unsigned threads) {
  device::cpu::CpuOptions options;
  options.sms = 1;
  const auto device =
      value_of(device::cpu::create_cpu_device(options, device::cpu::create_interpreter()), "the CPU device");
  const auto execution = value_of(ProgramExecution::on(device, program, relations), program.name);
  const auto progress = [&](std::size_t done) {
    if (done % std::max<std::size_t>(1, program.launches.size() / 20) == 0)
      fmt::print(stderr, "\r{}: {} of {} launches   ", program.name, done, program.launches.size());
  };
  auto work = value_of(execution.measure(threads, progress), program.name);
  fmt::print(stderr, "\r{:40}\r", "");
  Measured made{program.name, std::move(work), std::move(chain), 0, execution.check().empty()};
  for (std::size_t i = 0; i < made.work.size(); ++i) {
    made.chain[i].room = execution.room(i);
    for (const vclock::BlockWork& block : made.work[i]) made.requests += block.requests;
  }
  set_costs(made, IssueOrder::kText);
  return made;
}

Measured measure(const Program& program, unsigned threads) {
  const auto relations = value_of(ProgramRelations::of(program), program.name);
  return measure(program, relations, value_of(chain_of(program, relations, kWindow), program.name), threads);
}

void add_blocks_row(const Measured& measured, ::bench::Report& report) {
  std::vector<double> times;
  double share = 0;
  for (const auto& launch : measured.chain) {
    for (const vclock::BlockCost& cost : launch.blocks) times.push_back(cost.alone_ns / 1e6), share += cost.sm_share;
  }
  const double mean_share = share / static_cast<double>(times.size());
  report.add(measured.name, "block",
             {{"launches", measured.chain.size()}, {"mean_sm_share", mean_share}, {"requests", measured.requests}},
             times, measured.is_right);
}

Timeline schedule(const LaunchChain& chain, const ScheduleOptions& options) {
  return value_of(vclock::schedule_blocks(chain, options), "schedule");
}

ModeResult result_of(const Timeline& timeline, std::uint64_t requests) {
  ModeResult result;
  result.end_ns = timeline.end_ns;
  result.concurrency = timeline.concurrency();
  result.requests_added = static_cast<double>(timeline.requests) / static_cast<double>(requests);
  std::vector<double> stalls;
  for (const auto& launch : timeline.launches) {
    for (const BlockTimes& block : launch.blocks)
      stalls.push_back((block.start_ns - block.ready_ns) / (block.end_ns - block.start_ns));
  }
  std::ranges::sort(stalls);
  for (std::size_t quarter = 1; quarter <= 3; ++quarter)
    result.stalls[quarter - 1] = stalls[stalls.size() * quarter / 4];
  return result;
}

// To six digits, so that reports stay readable.
double rounded(double value) {
  return std::stod(fmt::format("{:.6g}", value));
}

// Figure 9's; the last of them where blocks of the earliest launch go first, and where launches take no time.
std::vector<ScheduleMode> modes_over(const ScheduleOptions& hardware) {
  std::vector<ScheduleMode> modes = vclock::figure_nine(hardware);
  const ScheduleOptions last = modes.back().options;
  modes.push_back({"oldest-4", last});
  modes.back().options.policy = vclock::BlockPolicy::kOldestFirst;
  modes.push_back({"limit", last});
  modes.back().options.launch_ns = 0;
  return modes;
}

// The modes over one kind of hardware; adds a row for each.
std::vector<ModeResult> add_modes(const Measured& measured, const std::string& variant, const ScheduleOptions& hardware,
                                  ::bench::Report& report) {
  std::vector<ModeResult> results;
  for (const ScheduleMode& mode : modes_over(hardware)) {
    const ModeResult result = result_of(schedule(measured.chain, mode.options), measured.requests);
    const std::vector<double> stalls{rounded(result.stalls[0]), rounded(result.stalls[1]), rounded(result.stalls[2])};
    report.add(measured.name, mode.name,
               {{"model", variant},
                {"concurrency", rounded(result.concurrency)},
                {"stall_quartiles", stalls},
                {"requests_added", rounded(result.requests_added)}},
               {result.end_ns / 1e6}, measured.is_right);
    results.push_back(result);
  }
  return results;
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const ScheduleMode& mode : modes_over({})) names.emplace_back(mode.name);
  return names;
}

struct Variant {
  std::string name, title;
  ScheduleOptions hardware;
  bool with_sharing = true;
  IssueOrder order = IssueOrder::kText;
};

// The first is the figures'; the others show what hangs on it.
std::vector<Variant> variants() {
  ScheduleOptions serial, any_size;
  serial.launches_at_once = 1;
  any_size.threads_per_sm = any_size.shared_bytes_per_sm = UINT32_MAX;
  return {{"shared SMs", "Figure 9: speed-up over the baseline", {}},
          {"own time", "Figure 9 where a block takes what it takes alone, whatever runs in its SM", {}, false},
          {"shared SMs, one launch at a time", "Figure 9 where the launches of a window are made one after the other",
           serial},
          {"shared SMs, as assembled",
           "Figure 9 where instructions issue in the order that an assembler gives them",
           {},
           true,
           IssueOrder::kAssembled},
          {"shared SMs, blocks of any size", "Figure 9 where an SM runs 32 blocks of any size", any_size}};
}

// The modes over one kind of hardware, and their bounds; adds a row for each.
ProgramResults add_variant(Measured measured, const Variant& variant, bool is_in_table_two, ::bench::Report& report) {
  set_costs(measured, variant.order);
  for (auto& launch : measured.chain) {
    for (vclock::BlockCost& cost : launch.blocks) cost.sm_share = variant.with_sharing ? cost.sm_share : 0;
  }
  ProgramResults results{
      measured.name, is_in_table_two, add_modes(measured, variant.name, variant.hardware, report), {}};
  const vclock::ScheduleBounds least =
      vclock::bounds_of(measured.chain, vclock::figure_nine(variant.hardware).back().options);
  results.least = {least.launching_ns, least.chain_ns, least.work_ns, least.room_ns};
  report.add(measured.name, "bound",
             {{"model", variant.name},
              {"launching_ms", rounded(least.launching_ns / 1e6)},
              {"chain_ms", rounded(least.chain_ns / 1e6)},
              {"work_ms", rounded(least.work_ns / 1e6)},
              {"room_ms", rounded(least.room_ns / 1e6)}},
             {least.least_ns() / 1e6}, measured.is_right);
  return results;
}

// 3MM at 64 x 64, whose relations take of plain storage about what Table III has; at the size chosen a seventh of that.
void add_3mm_of_table_three(unsigned threads, const std::vector<ProgramResults>& results, ::bench::Report& report) {
  Program program = all().front().make(Size::by_waves(16.0 / kResident, kResident));
  program.name = "3MM, 64 x 64";
  const Measured measured = measure(program, threads);
  std::uint64_t encoded = 0, plain = 0;
  for (std::size_t i = 1; i < measured.chain.size(); ++i) {
    encoded += measured.chain[i].relations.front()->encoded_bytes();
    plain += measured.chain[i].relations.front()->plain_bytes();
  }
  const ProgramResults instead = add_variant(measured, variants().front(), true, report);
  report.note(
      fmt::format("\n\n**Figure 9 with 3MM at the size that Table III suggests**: storage {:.2f} of plain, there "
                  "0.21\n\n{}",
                  static_cast<double>(encoded) / static_cast<double>(plain),
                  replaced_table(mode_names(), results, instead, "3MM")));
}

// Whether Table II's count of launches, or a network that has a name, says how large a program is.
bool has_given_size(const std::string& name) {
  constexpr std::string_view kGiven[] = {"AlexNet", "GAUSSIAN", "GRAMSCHM", "LUD", "NW"};
  return std::ranges::find(kGiven, name) != std::end(kGiven);
}

// Table II's programs where those that may have any size have so many blocks in their largest launch.
void add_sizes(const ::bench::Options& options, unsigned threads, ::bench::Report& report) {
  std::vector<double> sizes{1 / 64., 1 / 32., 1 / 16., 1 / 8., 1 / 4., 1 / 2., 1};
  if (options.small) sizes.resize(1);
  std::vector<std::pair<std::string, std::vector<ProgramResults>>> results;
  std::string tables;
  for (const double waves : sizes) {
    const std::string blocks = fmt::format("{:.0f} blocks", waves * kResident);
    std::vector<ProgramResults> of_size;
    for (std::size_t i = 0; i < kTableTwo; ++i) {
      const ProgramFactory& factory = all()[i];
      const bool is_given = has_given_size(factory.name);
      if (is_given && !results.empty()) {
        of_size.push_back(results.front().second[i]);
        continue;
      }
      const Size given = options.small ? Size::small() : Size::paper();
      Measured measured = measure(factory.make(is_given ? given : Size::by_waves(waves, kResident)), threads);
      if (!is_given) measured.name += ", " + blocks;
      of_size.push_back(add_variant(measured, variants().front(), true, report));
    }
    tables += "\n\n**" + blocks + "**\n\n" + speed_up_table(mode_names(), of_size);
    results.emplace_back(blocks, std::move(of_size));
  }
  report.note(
      "Times are of the virtual clock. Blocks are those wanted of the largest launch, which has the next number that a "
      "program's shape allows; programs without a number of blocks have the size that Table II's count of launches, or "
      "their network, gives them.\n\n**Figure 9: geometric means of Table II by the size of its other programs**\n\n" +
      size_table(mode_names(), results) + tables);
}

// Figure 12: two launches of as many blocks, of which each needs `degree` of the other. Degrees are never taken as
// full.
std::string add_degrees(const ::bench::Options& options, unsigned threads, ::bench::Report& report) {
  std::string text = "\n\n**Figure 12: speed-up over the baseline by degree, two launches, consumer-2**\n\n| blocks |";
  std::vector<std::uint32_t> sizes{128, 256, 512, 1024, 2048, 4096}, degrees{1, 2, 4, 8, 16, 32, 64, 128};
  if (options.small) sizes = {16}, degrees = {1, 16};
  std::string line = "\n|---|";
  for (const std::uint32_t degree : degrees) text += fmt::format(" {} |", degree), line += "---|";
  text += line;
  for (const std::uint32_t blocks : sizes) {
    text += fmt::format("\n| {} |", blocks);
    for (const std::uint32_t degree : degrees) {
      const Program program = make_vector_add(blocks, degree);
      const auto relations = value_of(ProgramRelations::of(program), program.name);
      std::vector<analysis::LaunchFootprint> footprints;
      for (std::size_t i = 0; i < program.launches.size(); ++i)
        footprints.push_back(value_of(relations.footprint(i), program.name));
      analysis::DependencyOptions all;
      all.max_degree = blocks;
      const Measured measured = measure(program, relations, chain_of(footprints, kWindow, all), threads);
      const auto modes = vclock::figure_nine();
      double baseline = 0;
      for (const std::size_t mode : {0u, 2u, 3u, 4u}) {
        const Timeline timeline = schedule(measured.chain, modes[mode].options);
        if (mode == 0) baseline = timeline.end_ns;
        report.add("VECTOR-ADD", modes[mode].name, {{"blocks", blocks}, {"degree", degree}}, {timeline.end_ns / 1e6},
                   measured.is_right);
        if (mode == 4) text += fmt::format(" {:.2f} |", baseline / timeline.end_ns);
      }
    }
  }
  return text;
}

// IV-D: launches from the device.
void add_device_launches(const Measured& measured, ::bench::Report& report) {
  ScheduleOptions options;
  options.launch_ns = kDeviceLaunchNs;
  report.add(measured.name, "device-launches", {{"model", "shared SMs"}},
             {schedule(measured.chain, options).end_ns / 1e6}, measured.is_right);
}

// `results` by variant.
void add_figures(const std::vector<std::vector<ProgramResults>>& results, ::bench::Report& report) {
  report.note(
      "Times are of the virtual clock. Rows of form 'block' are the times of all blocks, each alone on an SM. "
      "Checked: the results of the run that the blocks' times come from.");
  const auto add = [&](const std::string& title, const std::string& table) {
    report.note("\n\n**" + title + "**\n\n" + table);
  };
  const std::vector<std::string> modes = mode_names();
  for (std::size_t v = 0; v < variants().size(); ++v) add(variants()[v].title, speed_up_table(modes, results[v]));
  add("Figure 9 by its bounds: the speed-up that each allows, with a window of four launches",
      bound_table(modes, {"consumer-4", "oldest-4"}, results[0]));
  add("Figure 10: blocks that run together, over the baseline's", concurrency_table(modes, results[0]));
  add("Figure 11: how long a block waits that could run, in times of its own length, quartiles",
      stall_table(modes, results[0]));
  add("Figure 13: memory requests that lists and counters add", request_table(modes, results[0]));
}

std::string explanation() {
  std::ifstream file(BLOCKS_SCHEDULE_NOTES);
  return "\n\n" + std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The eighteen programs under a virtual clock, in the modes of BlockMaestro's Figure 9.",
               "block_schedule_bench");
  std::string only;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  auto* const only_option = app.add_option("--only", only, "One program, by name");
  double waves = 0;
  bool by_size = false;
  auto* const waves_option =
      app.add_option("--waves", waves, "Sizes of so many times 896 blocks in the largest launch, not the paper's")
          ->check(CLI::Range(0.01, 36.0));
  app.add_flag("--by-size", by_size, "Table II's programs, those of no given size at 1/64 to 1 times 896 blocks")
      ->excludes(only_option)
      ->excludes(waves_option);
  app.add_option("--threads", threads, "Threads that run blocks; the results do not depend on it")
      ->check(CLI::Range(1, 1024));
  return ::bench::run_main(app, argc, argv, [&](const ::bench::Options& options) {
    ::bench::Report report("block-schedule", {"a virtual clock: 28 SMs of 32 blocks, launches of 5 us", ""}, argc,
                           argv);
    if (by_size) {
      add_sizes(options, threads, report);
      return report;
    }
    const Size size = options.small ? Size::small() : waves != 0 ? Size::by_waves(waves, kResident) : Size::paper();
    std::vector<std::vector<ProgramResults>> results(variants().size());
    for (const ProgramFactory& factory : all()) {
      if (!only.empty() && factory.name != only) continue;
      const Measured measured = measure(factory.make(size), threads);
      add_blocks_row(measured, report);
      const bool is_in_table_two = static_cast<std::size_t>(&factory - all().data()) < kTableTwo;
      for (std::size_t v = 0; v < variants().size(); ++v) {
        results[v].push_back(add_variant(measured, variants()[v], is_in_table_two, report));
      }
      if (!is_in_table_two) add_device_launches(measured, report);
    }
    if (results[0].empty()) throw std::runtime_error("there is no program '" + only + "'");
    add_figures(results, report);
    if (only.empty() && waves == 0) {
      add_3mm_of_table_three(threads, results[0], report);
      report.note(add_degrees(options, threads, report));
    }
    if (!options.small && waves == 0) report.note(explanation());
    if (!options.report.empty()) {
      std::vector<std::string> bars = mode_names();
      bars.resize(vclock::figure_nine().size());
      draw_speed_ups(options.report + ".svg", bars, results[0]);
    }
    return report;
  });
}
