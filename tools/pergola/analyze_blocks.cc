#include "tools/pergola/analyze_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/analysis/block_chain.h"
#include "src/analysis/block_dependencies.h"
#include "src/analysis/footprints.h"
#include "src/base/file.h"
#include "src/base/plural.h"
#include "tools/pergola/blocks_svg.h"
#include "tools/pergola/launch_text.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::uint32_t kShown = 4;  // blocks of which the text gives the bytes and the parents

// "bytes 0 to 1023", "16 times 64 bytes, 4096 apart, from 128"
std::string bytes(const analysis::AccessFootprint& access, std::uint32_t block) {
  const auto place = access.places[block];
  if (place.shape == access.kNoShape) return "nothing";
  const analysis::ByteShape& shape = access.shapes[place.shape];
  if (shape.dimensions.empty())
    return fmt::format("bytes {} to {}", place.first, place.first + static_cast<std::int64_t>(shape.width) - 1);
  std::string text;
  for (const auto& dimension : shape.dimensions)
    text += fmt::format("{}, {} apart, ", plural(dimension.count, "time"), dimension.stride);
  return fmt::format("{}{} from {}", text, plural(shape.width, "byte"), place.first);
}

void add_footprint(const std::string& name, const AnalysedLaunch& launch, const ArrayNames& arrays, Json& json,
                   std::string& text) {
  const analysis::LaunchFootprint& footprint = launch.footprint;
  text += fmt::format("{}: {}\n", name, plural(footprint.blocks(), "block"));
  Json accesses = Json::array();
  for (const analysis::AccessFootprint& access : footprint.accesses) {
    text += fmt::format("  {} {} (line {}){}{}\n", use_of(access), arrays.name(access.allocation), access.line,
                        access.whole_reason.empty() ? "" : ", the whole: ", access.whole_reason);
    Json blocks = Json::array();
    for (std::uint32_t b = 0; b < std::min(footprint.blocks(), kShown); ++b) {
      if (access.whole_reason.empty()) text += fmt::format("    block {}: {}\n", b, bytes(access, b));
      blocks.push_back(bytes(access, b));
    }
    accesses.push_back({{"array", arrays.name(access.allocation)},
                        {"reads", access.reads},
                        {"writes", access.writes},
                        {"line", access.line},
                        {"whole_reason", access.whole_reason},
                        {"first_blocks", blocks}});
  }
  if (!footprint.anything_reason.empty()) text += fmt::format("  may access anything: {}\n", footprint.anything_reason);
  json.push_back({{"launch", name},
                  {"blocks", footprint.blocks()},
                  {"accesses", accesses},
                  {"anything", footprint.anything_reason}});
}

// How the second launch waits where both are part of a graph whose launches start early (policy blocks=by-block).
void add_chain(const analysis::LaunchFootprint& first, const analysis::LaunchFootprint& second, Json& json,
               std::string& text) {
  std::vector<analysis::ChainLaunch> launches(2);
  launches[0].footprint = std::make_shared<const analysis::LaunchFootprint>(first);
  launches[1].footprint = std::make_shared<const analysis::LaunchFootprint>(second);
  const analysis::ChainStep step = analysis::plan_chain(launches)[1];
  const char* const waits = step.waits_for_all ? "all" : step.first_parent.empty() ? "nothing" : "blocks";
  text += fmt::format("in a graph, started early, the second launch waits for {}{}\n",
                      step.waits_for_all          ? "the whole first one: "
                      : step.first_parent.empty() ? "nothing of the first"
                                                  : "the blocks above, each block for its own",
                      step.reason);
  json = {{"waits_for", waits}, {"reason", step.reason}};
}

}  // namespace

Result<AnalysedLaunch> analysed_launch(const ptx::Module& module, const std::string& text, ArrayNames& arrays) {
  AnalysedLaunch result;
  PERGOLA_ASSIGN(result.text, parse_launch(text));
  const ptx::Function* entry = module.find_function(result.text.kernel);
  if (entry == nullptr || !entry->is_entry || !entry->has_body) {
    std::vector<std::string> names;
    for (const ptx::Function* other : module.entries()) names.push_back(other->name);
    return PERGOLA_ERROR(kNotFound, "{} has no kernel '{}'; it has {}", module.source_name, result.text.kernel,
                         fmt::join(names, ", "));
  }
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, *entry));
  PERGOLA_ASSIGN(analysis::LaunchValues values, launch_values(result.text, signature, arrays));
  values.add_variables(module, 1u << 30);  // behind all arrays
  PERGOLA_ASSIGN(const auto kernel, analysis::KernelFootprints::of(module, *entry));
  PERGOLA_ASSIGN(result.footprint, kernel.at(values));
  return result;
}

std::string_view use_of(const analysis::AccessFootprint& access) {
  return access.reads && access.writes ? "reads and writes" : access.writes ? "writes" : "reads";
}

void add_relation(const analysis::BlockRelation& relation, Json& json, std::string& text) {
  std::vector<std::string> hazards;
  if (relation.raw) hazards.emplace_back("read after write");
  if (relation.war) hazards.emplace_back("write after read");
  if (relation.waw) hazards.emplace_back("write after write");
  text += fmt::format("the second launch's blocks depend on the first's: {}{}{}\n", to_string(relation.pattern),
                      hazards.empty() ? "" : fmt::format(" ({})", fmt::join(hazards, ", ")),
                      relation.full_reason.empty() ? "" : ", as " + relation.full_reason);
  Json children = Json::array();
  for (std::uint32_t c = 0; c < std::min(relation.children, kShown) && !relation.lists.empty(); ++c) {
    const auto parents = relation.parents_of(c);
    std::vector<std::uint32_t> first(parents.begin(), parents.end());
    first.resize(std::min<std::size_t>(first.size(), 12));
    text += fmt::format(
        "  block {} waits for {}{}\n", c, first.empty() ? "none" : fmt::format("{}", fmt::join(first, ", ")),
        first.size() < parents.size() ? fmt::format(" and {} more", parents.size() - first.size()) : "");
    children.push_back(first);
  }
  text +=
      fmt::format("  {}, at most {} a block; {} encoded, {} as a list\n",
                  plural(relation.edges, "pair of blocks", "pairs of blocks"), plural(relation.max_degree, "parent"),
                  plural(relation.encoded_bytes(), "byte"), relation.plain_bytes());
  json = {{"pattern", to_string(relation.pattern)},
          {"hazards", hazards},
          {"edges", relation.edges},
          {"max_degree", relation.max_degree},
          {"full_reason", relation.full_reason},
          {"by_block_reason", relation.by_block_reason},
          {"first_children", children},
          {"encoded_bytes", relation.encoded_bytes()},
          {"plain_bytes", relation.plain_bytes()}};
}

Status analyze_blocks(const ptx::Module& module, const std::vector<std::string>& launches, const std::string& svg,
                      const Console& console) {
  if (launches.size() > 2) {
    return PERGOLA_ERROR(kInvalidArgument, "{} launches are given; blocks are related between two", launches.size());
  }
  if (!svg.empty() && launches.size() != 2) {
    return PERGOLA_ERROR(kInvalidArgument, "--svg draws the relation of two launches; give --launch twice");
  }
  PERGOLA_ASSIGN(const bool to_standard_output, console.is_output(svg));
  ArrayNames arrays;
  std::vector<AnalysedLaunch> all;
  Json json = {{"launches", Json::array()}};
  std::string text;
  for (const std::string& launch : launches) {
    PERGOLA_ASSIGN(AnalysedLaunch one, analysed_launch(module, launch, arrays));
    all.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < all.size(); ++i) add_footprint(launches[i], all[i], arrays, json["launches"], text);
  if (all.size() == 2) {
    const analysis::BlockRelation relation = analysis::block_dependencies(all[0].footprint, all[1].footprint);
    add_relation(relation, json["relation"], text);
    add_chain(all[0].footprint, all[1].footprint, json["chain"], text);
    if (!svg.empty()) PERGOLA_TRY(write_named_file(svg, blocks_svg(relation, launches[0], launches[1])));
  }
  return console.result_beside(to_standard_output, json, text);
}

}  // namespace pergola::tool
