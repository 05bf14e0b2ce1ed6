// How many pairs of successive launches of the eighteen programs the analysis finds other than full, which patterns of
// Table I they have, what storage they take (Table III), and how long the analysis is.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "bench/blocks/relations/program_relations.h"
#include "bench/support/main.h"
#include "bench/support/report.h"
#include "src/analysis/affine/affine_relation.h"

namespace {

using namespace pergola::bench::blocks;
using pergola::analysis::BlockPattern;

struct Totals {
  std::size_t pairs = 0, not_full = 0, by_affine_sets = 0;
};

// Whether affine sets leave out what the closed form has, and add nothing to it.
bool is_within(const pergola::analysis::BlockRelation& affine, const pergola::analysis::BlockRelation& closed) {
  if (affine.parents != closed.parents || affine.children != closed.children || affine.edges > closed.edges)
    return false;
  if (closed.pattern == BlockPattern::kFull || affine.pattern == BlockPattern::kIndependent) return true;
  if (affine.pattern == BlockPattern::kFull) return false;
  for (std::uint32_t child = 0; child < affine.children; ++child) {
    for (const std::uint32_t parent : affine.parents_of(child)) {
      if (!closed.parents_of(child).contains(parent)) return false;
    }
  }
  return true;
}

// What affine sets make of the pairs that are full. False: they could not be asked.
bool add_affine_row(const Program& program, const ProgramRelations& relations,
                    const std::vector<ProgramRelations::Pair>& pairs, bench::Report& report, Totals& totals) {
  std::vector<double> ms;
  std::map<std::string, int> patterns, reasons;
  std::size_t not_full = 0;
  bool is_right = true;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].relation.pattern != BlockPattern::kFull) continue;
    const auto before = relations.call(i), after = relations.call(i + 1);
    if (!before || !after) return false;
    const auto begin = std::chrono::steady_clock::now();
    const auto found = pergola::analysis::affine_dependencies({before->kernel.get(), &before->values},
                                                              {after->kernel.get(), &after->values});
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    if (!found) {
      fmt::print(stderr, "{}: {}\n", program.name, found.message());
      return false;
    }
    ++patterns[std::string(to_string(found->relation.pattern))];
    if (!found->reason.empty()) ++reasons[found->reason];
    not_full += found->relation.pattern != BlockPattern::kFull;
    is_right &= is_within(found->relation, pairs[i].relation);
  }
  totals.by_affine_sets += not_full;
  if (ms.empty()) return true;
  nlohmann::json params = {{"pairs", ms.size()}, {"not_full", not_full}, {"patterns", patterns}};
  if (!reasons.empty()) params["closed_form_as"] = reasons;
  report.add(program.name, "affine", params, ms, is_right);
  return true;
}

// False: the program could not be analysed.
bool add_rows(const ProgramFactory& factory, const Size& size, pergola::source::Compiler compiler,
              bench::Report& report, Totals& totals) {
  const Program program = factory.make(size);
  const auto relations = ProgramRelations::of(program, compiler);
  if (!relations) {
    fmt::print(stderr, "{}: {}\n", program.name, relations.message());
    return false;
  }
  const auto pairs = relations->pairs();
  if (!pairs) {
    fmt::print(stderr, "{}: {}\n", program.name, pairs.message());
    return false;
  }
  std::map<std::string, int> patterns;
  std::set<int> numbers, read_numbers;
  std::vector<double> footprint_ms, relation_ms, first_ms, cached_ms;
  std::uint64_t encoded = 0, plain = 0;
  std::size_t not_full = 0;
  std::string reason;
  std::map<std::string, int> by_block;
  bool agree = true;
  for (const ProgramRelations::Pair& pair : *pairs) {
    ++patterns[std::string(to_string(pair.relation.pattern))];
    numbers.insert(table_one(pair.relation.pattern));
    read_numbers.insert(table_one(pair.read_pattern));
    footprint_ms.push_back(pair.footprint_time.count());
    relation_ms.push_back(pair.relation_time.count());
    first_ms.push_back(pair.first_time.count());
    cached_ms.push_back(pair.cached_time.count());
    encoded += pair.relation.encoded_bytes();
    plain += pair.relation.plain_bytes();
    not_full += pair.relation.pattern != BlockPattern::kFull;
    agree &= pair.agrees;
    if (!pair.relation.by_block_reason.empty()) ++by_block[pair.relation.by_block_reason];
    if (reason.empty()) reason = pair.relation.full_reason;
  }
  totals.pairs += pairs->size();
  totals.not_full += not_full;
  nlohmann::json params = {
      {"launches", program.launches.size()},
      {"pairs", pairs->size()},
      {"not_full", not_full},
      {"most_blocks", program.most_blocks()},
      {"patterns", patterns},
      {"table_1", fmt::format("{}", fmt::join(numbers, ","))},
      {"table_1_reads_alone", fmt::format("{}", fmt::join(read_numbers, ","))},
      {"paper", factory.paper_patterns},
      {"storage_to_plain", plain == 0 ? 0.0 : static_cast<double>(encoded) / static_cast<double>(plain)},
      {"compiler", pergola::source::to_string(relations->compiled().compiler)}};
  if (!reason.empty()) params["first_full_reason"] = reason;
  if (!by_block.empty()) params["by_block"] = by_block;
  if (footprint_ms.empty()) return true;
  report.add(program.name, "footprint", params, footprint_ms, agree);
  report.add(program.name, "relation", {{"pairs", pairs->size()}}, relation_ms, agree);
  report.add(program.name, "first", {{"pairs", pairs->size()}}, first_ms, agree);
  report.add(program.name, "cached", {{"pairs", pairs->size()}}, cached_ms, agree);
  return add_affine_row(program, *relations, *pairs, report, totals);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Block relations of the eighteen programs: patterns, storage, time of the analysis.",
               "block_patterns_bench");
  std::string only, compiler = "auto";
  app.add_option("--only", only, "One program, by name");
  app.add_option("--compiler", compiler, "auto, nvrtc or clang")->check(CLI::IsMember({"auto", "nvrtc", "clang"}));
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    using pergola::source::Compiler;
    const Compiler chosen = compiler == "nvrtc"   ? Compiler::kNvrtc
                            : compiler == "clang" ? Compiler::kClang
                                                  : Compiler::kAuto;
    bench::Report report("block-patterns", {"none: an analysis on the host", ""}, argc, argv);
    Totals totals;
    for (const ProgramFactory& factory : all()) {
      if (!only.empty() && factory.name != only) continue;
      const Size size = options.small ? Size::small() : Size::paper();
      if (!add_rows(factory, size, chosen, report, totals)) throw std::runtime_error("a program could not be analysed");
    }
    if (report.is_empty()) throw std::runtime_error("there is no program '" + only + "'");
    report.note(fmt::format(
        "{} of {} pairs of successive launches are not full, and {} more by affine sets. A footprint's time is that of "
        "one launch's, a relation's that of one pair, `first` that of both footprints and the relation, `cached` that "
        "of one footprint and the relation once they have been worked out; of three times the middle one. `affine` is "
        "one pair by affine sets, of those that are full. Checked: against a comparison of all accesses of both "
        "launches, and against the same worked out block by block; `affine`: that it is within the closed form's, as "
        "tests/blocks holds it against what blocks access.",
        totals.not_full, totals.pairs, totals.by_affine_sets));
    fmt::print("{} of {} pairs are not full, and {} more by affine sets\n", totals.not_full, totals.pairs,
               totals.by_affine_sets);
    return report;
  });
}
