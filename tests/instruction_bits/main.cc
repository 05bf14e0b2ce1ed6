// instruction_bits: runs every instruction of instruction_table.h over operand vectors on two devices and compares the
// results bit for bit.
//
//   instruction_bits --device=cuda:0                       against the interpreter
//   instruction_bits --device=jit --cases=65536 --seed=7   the JIT against the interpreter
//   instruction_bits --device=cuda:0 --json=STEM           writes STEM.json and STEM.md
//
// Ends with 1 where an instruction that is not approximate differs otherwise than in the bits of a NaN; with --strict
// also where an approximate one differs, where one side refuses an instruction, and where NaNs differ that the ISA fixes
// (all but those of f64). Devices: interpreter, jit, vector, cuda:N.
#include <CLI/CLI.hpp>
#include <map>
#include <regex>

#include "tests/instruction_bits/coverage.h"
#include "tests/instruction_bits/report.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::instruction_bits {
namespace {

constexpr std::size_t kBatch = 16;

struct Options {
  std::string device = "jit", reference = "interpreter", filter, json;
  std::size_t cases = 4096;
  std::uint64_t seed = 1;
  bool list = false, strict = false, coverage = false;
};

std::vector<Instruction> chosen(const Options& options) {
  std::vector<Instruction> all = all_instructions();
  if (options.filter.empty()) return all;
  const std::regex filter(options.filter);
  std::erase_if(all, [&](const Instruction& one) { return !std::regex_search(one.spelling, filter); });
  return all;
}

// The .target that the instruction needs, 0 where the device has it. The CPU device runs them all.
int needed_sm(const device::Device& device, const Instruction& instruction) {
  const device::DeviceInfo& info = device.info();
  const bool missing = info.kind == device::DeviceKind::kCuda &&
                       static_cast<int>(info.compute_major * 10 + info.compute_minor) < instruction.minimum_sm;
  return missing ? instruction.minimum_sm : 0;
}

std::vector<Comparison> run_all(device::Device& reference, device::Device& device, const Options& options,
                                const std::vector<Instruction>& all) {
  // Instructions of equal operands share kernels; the report keeps the table's order.
  std::map<std::string, std::vector<std::size_t>> groups;
  std::vector<Comparison> rows(all.size());
  for (std::size_t n = 0; n < all.size(); ++n) {
    rows[n].needs_sm = std::max(needed_sm(reference, all[n]), needed_sm(device, all[n]));
    rows[n].instruction = all[n];
    if (rows[n].needs_sm == 0) groups[all[n].kinds].push_back(n);
    else rows[n].refused_by = "an earlier GPU";
  }
  for (const auto& [kinds, members] : groups) {
    const std::vector<Case> cases = make_cases(std::string_view(kinds).substr(1), options.cases, options.seed);
    for (std::size_t first = 0; first < members.size(); first += kBatch) {
      std::vector<Instruction> batch;
      for (std::size_t n = first; n < std::min(first + kBatch, members.size()); ++n) batch.push_back(all[members[n]]);
      const std::vector<Results> expected = run_batch(reference, batch, cases), found = run_batch(device, batch, cases);
      for (std::size_t n = 0; n < batch.size(); ++n) {
        rows[members[first + n]] = compare(batch[n], cases, expected[n], options.reference, found[n], options.device);
      }
    }
  }
  return rows;
}

int finish(const Run& run, const Options& options) {
  bool failed = false;
  for (const Comparison& row : run.rows) {
    if (row.needs_sm != 0) continue;
    if (row.bits_wrong()) {
      fmt::print("differs: {}: {} of {}, first {}\n", row.instruction.spelling, row.differ, row.cases, row.first);
    } else if (!row.refused_by.empty()) {
      fmt::print("refused: {} by {}: {}\n", row.instruction.spelling, row.refused_by, row.refusal.substr(0, row.refusal.find('\n')));
    } else if (row.nan_bits > 0 && !row.instruction.approximate) {
      fmt::print("NaN bits: {}: {} of {}, first {}\n", row.instruction.spelling, row.nan_bits, row.cases, row.first);
    } else if (row.agree != row.cases) {
      fmt::print("approximate: {}: {} of {}, by {} ulp and {:.3g} at most, first {}\n", row.instruction.spelling,
                 row.differ + row.nan_bits, row.cases, row.max_ulp, row.max_absolute, row.first);
    }
    const bool nan_is_fixed = row.instruction.kinds[0] != static_cast<char>(Kind::kF64);
    failed = failed || row.bits_wrong() ||
             (options.strict && (row.differ > 0 || !row.refused_by.empty() || (nan_is_fixed && row.nan_bits > 0)));
  }
  fmt::print("{} seed {}\n", summary(run), run.seed);
  if (!options.json.empty()) {
    if (const Status written = write_report(run, options.json); !written.ok()) {
      fmt::print(stderr, "{}\n", written.message());
      return 2;
    }
  }
  return failed ? 1 : 0;
}

int main_with(const Options& options, std::string command) {
  const std::vector<Instruction> all = chosen(options);
  if (options.list) {
    for (const Instruction& one : all) fmt::print("{}\n", one.spelling);
    return 0;
  }
  auto reference = ptx_cases::open_test_device(options.reference), device = ptx_cases::open_test_device(options.device);
  for (const auto* opened : {&reference, &device}) {
    if (opened->ok()) continue;
    fmt::print(stderr, "{}\n", opened->message());
    return 2;
  }
  if (options.coverage) {
    fmt::print("{}", coverage_page(coverage_of(**reference), coverage_of(**device)));
    return 0;
  }
  Run run;
  run.device = (*device)->info().name;
  run.reference = (*reference)->info().name;
  run.driver = "none";
  for (const auto* opened : {&reference, &device}) {
    if ((**opened)->info().kind == device::DeviceKind::kCuda) run.driver = (**opened)->info().driver;
  }
  run.command = std::move(command);
  run.cases = options.cases;
  run.seed = options.seed;
  run.rows = run_all(**reference, **device, options, all);
  return finish(run, options);
}

}  // namespace
}  // namespace pergola::instruction_bits

int main(int argc, char** argv) {
  pergola::instruction_bits::Options options;
  CLI::App app("Every arithmetic instruction on two devices, compared bit for bit.");
  app.add_option("--device", options.device, "interpreter, jit, vector or cuda:N");
  app.add_option("--reference", options.reference, "the device it is held against");
  app.add_option("--cases", options.cases, "operand vectors an instruction")->check(CLI::Range(1, 1 << 22));
  app.add_option("--seed", options.seed, "of the random operands");
  app.add_option("--filter", options.filter, "only spellings that this regular expression finds");
  app.add_option("--json", options.json, "writes STEM.json and STEM.md");
  app.add_flag("--list", options.list, "prints the spellings and ends");
  app.add_flag("--coverage", options.coverage, "prints docs/instructions.md, from interpreter and jit, and ends");
  app.add_flag("--strict", options.strict, "refusals and approximate differences fail too");
  CLI11_PARSE(app, argc, argv);
  std::string command = "instruction_bits";
  for (int n = 1; n < argc; ++n) command += std::string(" ") + argv[n];
  return pergola::instruction_bits::main_with(options, std::move(command));
}
