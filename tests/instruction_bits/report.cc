#include "tests/instruction_bits/report.h"

#include <sys/utsname.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/file.h"
#include "tests/support/stamp.h"

namespace pergola::instruction_bits {
namespace {

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ulp_text(const Comparison& row) {
  if (!row.instruction.approximate) return "";
  if (row.max_ulp == kNoDistance) return "NaN against a number";
  return row.max_absolute == 0 ? std::to_string(row.max_ulp) : fmt::format("{}; at most {:.3g} off", row.max_ulp, row.max_absolute);
}

std::string markdown(const Run& run, const std::string& commit) {
  std::string text = fmt::format(
      "# Instructions, bit for bit\n\n- device: {}\n- reference: {}\n- driver: {}\n- commit: {}\n- date: {}\n- command: {}\n"
      "- cases an instruction: {}, seed {}\n\n{}\n",
      run.device, run.reference, run.driver, commit, test_support::now_utc(), run.command, run.cases, run.seed, summary(run));
  text += "\n## What differs\n\n| instruction | cases | agree | NaN bits | differ | ulp | first |\n|---|---|---|---|---|---|---|\n";
  for (const Comparison& row : run.rows) {
    if (!row.refused_by.empty() || row.agree == row.cases) continue;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", escape(row.instruction.spelling), row.cases, row.agree,
                        row.nan_bits, row.differ, ulp_text(row), escape(row.first));
  }
  text += "\n## What is refused\n\n| instruction | by | why |\n|---|---|---|\n";
  for (const Comparison& row : run.rows) {
    if (row.refused_by.empty() || row.needs_sm != 0) continue;
    text += fmt::format("| {} | {} | {} |\n", escape(row.instruction.spelling), row.refused_by,
                        escape(row.refusal.substr(0, row.refusal.find('\n'))));
  }
  text += "\n## What agrees in every case\n\n";
  for (const Comparison& row : run.rows) {
    if (row.refused_by.empty() && row.agree == row.cases) text += fmt::format("`{}` ", row.instruction.spelling);
  }
  return text + "\n";
}

}  // namespace

std::string summary(const Run& run) {
  std::size_t agree = 0, nan_bits = 0, differ = 0, approximate = 0, refused = 0, later = 0;
  for (const Comparison& row : run.rows) {
    if (row.needs_sm != 0) ++later;
    else if (!row.refused_by.empty()) ++refused;
    else if (row.agree == row.cases) ++agree;
    else if (row.instruction.approximate) ++approximate;
    else if (row.differ == 0) ++nan_bits;
    else ++differ;
  }
  return fmt::format("{} instructions: {} agree in every case, {} differ in bits of NaNs alone, {} differ, {} approximate ones "
                     "differ, {} are refused by one side, {} are not run: they need a later GPU.",
                     run.rows.size(), agree, nan_bits, differ, approximate, refused, later);
}

Status write_report(const Run& run, const std::string& path) {
  utsname system{};
  uname(&system);
  nlohmann::ordered_json all = {
      {"suite", "instruction-bits"}, {"device", run.device}, {"reference", run.reference}, {"driver", run.driver},
      {"host", fmt::format("{} cores, {} {}", std::thread::hardware_concurrency(), system.sysname, system.release)},
      {"commit", test_support::commit()}, {"date", test_support::now_utc()}, {"command", run.command},
      {"seed", run.seed}, {"notes", summary(run)}};
  auto& rows = all["rows"] = nlohmann::ordered_json::array();
  for (const Comparison& row : run.rows) {
    nlohmann::ordered_json one = {{"problem", row.instruction.spelling}, {"form", "pergola"}, {"checked", row.refused_by.empty()},
                                  {"cases", row.cases}, {"agree", row.agree}, {"nan_bits", row.nan_bits}, {"differ", row.differ}};
    if (!row.first.empty()) one["first"] = row.first;
    if (!row.examples.empty()) one["examples"] = row.examples;
    if (row.instruction.approximate && row.refused_by.empty()) {
      if (row.max_ulp == kNoDistance) one["max_ulp"] = "NaN against a number";
      else one["max_ulp"] = row.max_ulp;
      one["max_absolute"] = row.max_absolute;
    }
    if (row.needs_sm != 0) one["needs_sm"] = row.needs_sm;
    else if (!row.refused_by.empty()) one["refused"] = row.refused_by + ": " + row.refusal;
    rows.push_back(std::move(one));
  }
  PERGOLA_TRY(write_file_atomically(path + ".json", all.dump(1) + "\n"));
  return write_file_atomically(path + ".md", markdown(run, test_support::commit()));
}

}  // namespace pergola::instruction_bits
