#include "tools/pergola/explain_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/analysis/block_dependencies.h"
#include "src/base/plural.h"
#include "src/runtime/block_lowering.h"
#include "tools/pergola/analyze_blocks.h"
#include "tools/pergola/launch_pair.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;

// All accesses of a launch to one array.
struct ArrayUse {
  bool reads = false, writes = false;
  std::uint64_t most_bytes = 0;            // of a block: the sum of its accesses, which may have bytes in common
  std::uint32_t accesses = 0, blocks = 0;  // blocks that make any of them
  std::string whole_reason;                // why each block counts as accessing all of it
};

std::uint64_t bytes_of(const analysis::ByteShape& shape) {
  std::uint64_t bytes = shape.width;
  for (const auto& dimension : shape.dimensions) bytes *= dimension.count;
  return bytes;
}

std::map<std::string, ArrayUse> uses_of(const analysis::LaunchFootprint& footprint, const ArrayNames& arrays) {
  std::map<std::string, ArrayUse> uses;
  std::map<std::string, std::vector<std::uint64_t>> bytes;  // by block
  for (const analysis::AccessFootprint& access : footprint.accesses) {
    const std::string name(arrays.name(access.allocation));
    ArrayUse& use = uses[name];
    use.reads |= access.reads;
    use.writes |= access.writes;
    ++use.accesses;
    if (use.whole_reason.empty()) use.whole_reason = access.whole_reason;
    std::vector<std::uint64_t>& by_block = bytes[name];
    by_block.resize(footprint.blocks());
    if (!access.whole_reason.empty()) continue;
    const std::vector<analysis::AccessFootprint::Place> places = access.places.expanded();
    for (std::uint32_t b = 0; b < places.size(); ++b)
      if (places[b].shape != access.kNoShape) by_block[b] += bytes_of(access.shapes[places[b].shape]);
  }
  for (auto& [name, use] : uses) {
    const std::vector<std::uint64_t>& by_block = bytes[name];
    if (!by_block.empty()) use.most_bytes = *std::max_element(by_block.begin(), by_block.end());
    use.blocks = static_cast<std::uint32_t>(
        std::count_if(by_block.begin(), by_block.end(), [](std::uint64_t count) { return count != 0; }));
  }
  return uses;
}

void add_uses(const std::string& name, const AnalysedLaunch& launch, const ArrayNames& arrays, Json& json,
              std::string& text) {
  const std::uint32_t* const block = launch.text.block;
  text += fmt::format("{}: {} of {}\n", name, plural(launch.footprint.blocks(), "block"),
                      plural(block[0] * block[1] * block[2], "thread"));
  Json list = Json::array();
  for (const auto& [array, use] : uses_of(launch.footprint, arrays)) {
    const char* const verb = use.reads && use.writes ? "reads and writes" : use.writes ? "writes" : "reads";
    if (!use.whole_reason.empty())
      text += fmt::format("  {} {}: any of it in every block, as {}\n", verb, array, use.whole_reason);
    else
      text += fmt::format("  {} {}: {}{} a block, in {} of the blocks\n", verb, array,
                          use.accesses > 1 ? "at most " : "", plural(use.most_bytes, "byte"),
                          use.blocks == launch.footprint.blocks() ? "all" : fmt::format("{}", use.blocks));
    list.push_back({{"array", array},
                    {"reads", use.reads},
                    {"writes", use.writes},
                    {"most_bytes_a_block", use.most_bytes},
                    {"blocks", use.blocks},
                    {"whole_reason", use.whole_reason}});
  }
  if (!launch.footprint.anything_reason.empty())
    text += fmt::format("  may access anything: {}\n", launch.footprint.anything_reason);
  json.push_back({{"launch", name},
                  {"blocks", launch.footprint.blocks()},
                  {"arrays", std::move(list)},
                  {"anything", launch.footprint.anything_reason}});
}

Json limits_json(const LaunchPair& pair, const GpuLimits& gpu) {
  const runtime::BlockLoweringOptions options;
  Json limits = {{"most_running", options.chain.most_running},
                 {"most_parents", options.chain.most_parents},
                 {"most_triggers", options.most_triggers},
                 {"multiprocessors", gpu.sm_count},
                 {"assumed", gpu.assumed},
                 {"blocks_at_once", Json::array()}};
  for (const LaunchPair::Launch& launch : pair.launches)
    limits["blocks_at_once"].push_back(launch.at_once ? Json(*launch.at_once) : Json(nullptr));
  return limits;
}

void add_lowering(const LaunchPair& pair, const std::vector<AnalysedLaunch>& launches, const GpuLimits& gpu, Json& json,
                  std::string& text) {
  const runtime::BlockLoweringOptions options;
  text += way_text(pair, gpu);
  if (pair.way != "plain" && launches[0].footprint.blocks() > options.most_triggers)
    text += fmt::format(
        "  the first launch has more than {} blocks: it lets the second start as its blocks end, not at once\n",
        options.most_triggers);
  text += fmt::format(
      "  by block at most {} launches run at once, a block waits for at most {} others, and all blocks of a launch "
      "that "
      "waits so fit the device at once\n",
      options.chain.most_running, options.chain.most_parents);
  for (std::size_t i = 0; i < 2; ++i)
    if (const std::string& refusal = pair.launches[i].device_refusal; !refusal.empty())
      text += fmt::format("  how many blocks of the {} launch fit the device is not known: {}\n",
                          i == 0 ? "first" : "second", refusal);
  text += "of the other ways\n";
  Json others = Json::array();
  for (const LaunchPair::Other& other : pair.others) {
    text += fmt::format("  {}: {}{}\n", other.way, other.is_possible ? "" : "no, ", other.why);
    others.push_back({{"way", other.way}, {"is_possible", other.is_possible}, {"why", other.why}});
  }
  const bool is_gpu = gpu.gpu != nullptr;
  text += fmt::format(
      "on {}: {}\n", gpu.id,
      is_gpu ? "a session makes a graph that is launched often in each way that it can be, those above and some for "
               "copies, orders and small blocks (docs/blocks.md), and keeps the one that it measures to be fastest"
             : "ways are measured on GPUs only, of which the above is said: a graph of these launches on this device "
               "is plain");
  json = {{"way", pair.way},
          {"why", pair.why},
          {"plain_reasons", {pair.launches[0].plain_reason, pair.launches[1].plain_reason}},
          {"limits", limits_json(pair, gpu)},
          {"others", std::move(others)},
          {"device", gpu.id},
          {"is_measured", is_gpu}};
}

}  // namespace

Status explain_blocks(const ptx::Module& module, std::string_view ptx, const std::vector<std::string>& launches,
                      const device::DevicePtr& device, const Console& console) {
  if (launches.size() != 2)
    return PERGOLA_ERROR(kInvalidArgument, "--launch is given {}; two launches are explained, so give it twice",
                         plural(launches.size(), "time"));
  ArrayNames arrays;
  std::vector<AnalysedLaunch> all;
  for (const std::string& launch : launches) {
    PERGOLA_ASSIGN(AnalysedLaunch one, analysed_launch(module, launch, arrays));
    all.push_back(std::move(one));
  }
  Json json = {{"launches", Json::array()}};
  std::string text;
  for (std::size_t i = 0; i < 2; ++i) add_uses(launches[i], all[i], arrays, json["launches"], text);
  add_relation(analysis::block_dependencies(all[0].footprint, all[1].footprint), {}, json["relation"], text);
  const GpuLimits limits = gpu_limits(device);
  PERGOLA_ASSIGN(const LaunchPair pair, launch_pair(module, ptx, all, device, limits));
  add_lowering(pair, all, limits, json["lowering"], text);
  return console.result(json, text);
}

}  // namespace pergola::tool
