#include "tools/pergola/analyze_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/footprints.h"
#include "src/base/file.h"
#include "src/base/plural.h"
#include "src/runtime/devices.h"
#include "tools/pergola/blocks_svg.h"
#include "tools/pergola/launch_pair.h"
#include "tools/pergola/launch_text.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kParentsInText = 12;  // of a block

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

// The same in numbers: `end` is behind the last byte; in between are rows of `width` bytes.
Json bytes_json(const analysis::AccessFootprint& access, std::uint32_t block,
                const analysis::BlockPlaces::Place& place) {
  const analysis::ByteShape& shape = access.shapes[place.shape];
  Json rows = Json::array();
  for (const auto& dimension : shape.dimensions)
    rows.push_back({{"count", dimension.count}, {"stride", dimension.stride}});
  return {{"block", block},
          {"begin", place.first},
          {"end", place.first + static_cast<std::int64_t>(shape.extent())},
          {"width", shape.width},
          {"rows", std::move(rows)}};
}

void add_footprint(const std::string& name, const AnalysedLaunch& launch, const ArrayNames& arrays,
                   const BlocksTold& told, Json& json, std::string& text) {
  const analysis::LaunchFootprint& footprint = launch.footprint;
  text += fmt::format("{}: {}\n", name, plural(footprint.blocks(), "block"));
  Json accesses = Json::array();
  for (const analysis::AccessFootprint& access : footprint.accesses) {
    text += fmt::format("  {} {} (line {}){}{}\n", use_of(access), arrays.name(access.allocation), access.line,
                        access.whole_reason.empty() ? "" : ", the whole: ", access.whole_reason);
    for (std::uint32_t b = 0; b < std::min(footprint.blocks(), told.in_text) && access.whole_reason.empty(); ++b)
      text += fmt::format("    block {}: {}\n", b, bytes(access, b));
    Json blocks = Json::array();
    for (std::uint32_t b = 0; b < std::min(footprint.blocks(), told.in_json); ++b)
      if (const auto place = access.places[b]; place.shape != access.kNoShape)
        blocks.push_back(bytes_json(access, b, place));
    accesses.push_back({{"array", arrays.name(access.allocation)},
                        {"reads", access.reads},
                        {"writes", access.writes},
                        {"line", access.line},
                        {"whole_reason", access.whole_reason},
                        {"blocks", blocks}});
  }
  if (!footprint.anything_reason.empty()) text += fmt::format("  may access anything: {}\n", footprint.anything_reason);
  json.push_back({{"launch", name},
                  {"blocks", footprint.blocks()},
                  {"blocks_told", std::min(footprint.blocks(), told.in_json)},
                  {"accesses", accesses},
                  {"anything", footprint.anything_reason}});
}

// "0, 1, 2 and 5 more"
std::string parents_text(const analysis::BlockView& parents) {
  const std::uint32_t count = parents.size();
  if (count == 0) return "none";
  std::vector<std::uint32_t> first;
  for (auto at = parents.begin(); at != parents.end() && first.size() < kParentsInText; ++at) first.push_back(*at);
  return fmt::format("{}{}", fmt::join(first, ", "),
                     first.size() < count ? fmt::format(" and {} more", count - first.size()) : "");
}

// [[0, 4], [6, 7]]: 0 to 3, and 6.
Json ranges(const analysis::BlockView& blocks) {
  Json found = Json::array();
  std::uint32_t begin = 0, end = 0;
  for (const std::uint32_t block : blocks) {
    if (end != begin && block == end) {
      ++end;
      continue;
    }
    if (end != begin) found.push_back({begin, end});
    begin = block, end = block + 1;
  }
  if (end != begin) found.push_back({begin, end});
  return found;
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
  PERGOLA_ASSIGN(result.values, launch_values(result.text, signature, arrays));
  result.values.add_variables(module, 1u << 30);  // behind all arrays
  PERGOLA_ASSIGN(const auto kernel, analysis::KernelFootprints::of(module, *entry));
  PERGOLA_ASSIGN(result.footprint, kernel.at(result.values));
  return result;
}

std::string_view use_of(const analysis::AccessFootprint& access) {
  return access.reads && access.writes ? "reads and writes" : access.writes ? "writes" : "reads";
}

void add_relation(const analysis::BlockRelation& relation, const BlocksTold& told, Json& json, std::string& text) {
  std::vector<std::string> hazards;
  if (relation.raw) hazards.emplace_back("read after write");
  if (relation.war) hazards.emplace_back("write after read");
  if (relation.waw) hazards.emplace_back("write after write");
  text += fmt::format("the second launch's blocks depend on the first's: {}{}{}\n", to_string(relation.pattern),
                      hazards.empty() ? "" : fmt::format(" ({})", fmt::join(hazards, ", ")),
                      relation.full_reason.empty() ? "" : ", as " + relation.full_reason);
  const bool is_full = relation.pattern == analysis::BlockPattern::kFull;
  Json children = Json::array();
  for (std::uint32_t c = 0; c < std::min(relation.children, told.in_text) && !relation.lists.empty(); ++c)
    text += fmt::format("  block {} waits for {}\n", c, parents_text(relation.parents_of(c)));
  if (is_full) text += fmt::format("  each block waits for all {}\n", relation.parents);
  for (std::uint32_t c = 0; c < std::min(relation.children, told.in_json); ++c) {
    Json parents = Json::array();
    if (is_full)
      parents.push_back({0, relation.parents});
    else if (!relation.lists.empty())
      parents = ranges(relation.parents_of(c));
    children.push_back({{"block", c}, {"parents", std::move(parents)}});
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
          {"children", children},
          {"encoded_bytes", relation.encoded_bytes()},
          {"plain_bytes", relation.plain_bytes()}};
}

Status analyze_blocks(const ptx::Module& module, std::string_view ptx, const BlocksQuestion& question,
                      const Console& console) {
  const std::vector<std::string>& launches = question.launches;
  if (launches.size() > 2) {
    return PERGOLA_ERROR(kInvalidArgument, "{} launches are given; blocks are related between two", launches.size());
  }
  if (!question.svg.empty() && launches.size() != 2) {
    return PERGOLA_ERROR(kInvalidArgument, "--svg draws the relation of two launches; give --launch twice");
  }
  PERGOLA_ASSIGN(const bool to_standard_output, console.is_output(question.svg));
  ArrayNames arrays;
  std::vector<AnalysedLaunch> all;
  Json json = {{"launches", Json::array()}};
  std::string text;
  for (const std::string& launch : launches) {
    PERGOLA_ASSIGN(AnalysedLaunch one, analysed_launch(module, launch, arrays));
    all.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    add_footprint(launches[i], all[i], arrays, question.told, json["launches"], text);
  if (all.size() == 2) {
    const analysis::BlockRelation relation = analysis::block_dependencies(all[0].footprint, all[1].footprint);
    add_relation(relation, question.told, json["relation"], text);
    PERGOLA_ASSIGN(const device::DevicePtr device, runtime::open_device(question.device));
    const GpuLimits limits = gpu_limits(device);
    PERGOLA_ASSIGN(const LaunchPair pair, launch_pair(module, ptx, all, device, limits));
    text += way_text(pair, limits);
    json["chain"] = {{"way", pair.way},           {"why", pair.why},     {"waits_for", pair.waits_for},
                     {"reason", pair.all_reason}, {"device", limits.id}, {"assumed", limits.assumed}};
    if (!question.svg.empty())
      PERGOLA_TRY(write_named_file(question.svg, blocks_svg(relation, launches[0], launches[1])));
  }
  return console.result_beside(to_standard_output, json, text);
}

}  // namespace pergola::tool
