#include "tools/pergola/explain_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "src/analysis/block_chain.h"
#include "src/analysis/block_dependencies.h"
#include "src/base/plural.h"
#include "src/ptx/signature.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/block_lowering.h"
#include "src/runtime/describe.h"
#include "src/runtime/fused_lowering.h"
#include "tools/pergola/analyze_blocks.h"

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

// What runtime::lower_blocks() and lower_fused() ask of each kernel, without making it.
struct Step {
  std::string plain_reason;              // why it cannot start early; "" where it can
  std::optional<std::uint64_t> at_once;  // blocks that the device holds at once, where it can tell
  std::string device_refusal;
  std::string fused_reason;  // why it cannot be a part of a fused launch; "" where it can
};

// A variable that the kernel uses and some kernel of the module writes; "" where there is none.
Result<std::string> written_variable(const ptx::Module& module, std::string_view kernel) {
  std::vector<std::string> written, used;
  for (const ptx::Function* entry : module.entries()) {
    if (!entry->has_body) continue;
    PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, *entry));
    for (const session::VariableInfo& variable : runtime::describe(module, *entry, signature, {}).variables) {
      if (variable.access != session::Access::kNone && variable.access != session::Access::kRead)
        written.push_back(variable.name);
      if (entry->name == kernel) used.push_back(variable.name);
    }
  }
  for (const std::string& name : used)
    if (std::find(written.begin(), written.end(), name) != written.end()) return name;
  return std::string();
}

Result<Step> step_of(const ptx::Module& module, std::string_view ptx, const AnalysedLaunch& launch,
                     const device::DevicePtr& device, const Result<device::ModulePtr>& loaded) {
  Step step;
  PERGOLA_ASSIGN(std::string written, written_variable(module, launch.text.kernel));
  runtime::BlockKernel form(device, std::make_shared<const std::string>(ptx), module.source_name, launch.text.kernel,
                            std::move(written));
  step.plain_reason = form.can_wait_for_blocks().message();
  device::LaunchConfig config;
  config.grid = {launch.text.grid[0], launch.text.grid[1], launch.text.grid[2]};
  config.block = {launch.text.block[0], launch.text.block[1], launch.text.block[2]};
  step.fused_reason = runtime::why_not_fused(form, config, {}, device->info().max_shared_bytes_per_block);
  Status status = loaded.status();
  if (loaded.ok()) {
    const auto kernel = (*loaded)->kernel(launch.text.kernel);
    status = kernel.status();
    if (kernel.ok()) {
      const std::uint32_t* const block = launch.text.block;
      const auto resident = (*kernel)->max_resident_blocks_per_sm(block[0] * block[1] * block[2], 0);
      status = resident.status();
      if (resident.ok()) step.at_once = std::uint64_t{*resident} * device->info().sm_count;
    }
  }
  step.device_refusal = status.message();
  return step;
}

struct Lowering {
  std::string way, why;
  analysis::ChainStep by_block, early;  // of the second launch
};

Lowering lowering_of(const std::vector<AnalysedLaunch>& launches, const std::vector<Step>& steps) {
  const runtime::BlockLoweringOptions options;
  std::vector<analysis::ChainLaunch> chain(2);
  for (std::size_t i = 0; i < 2; ++i) {
    chain[i].footprint = std::make_shared<const analysis::LaunchFootprint>(launches[i].footprint);
    chain[i].is_plain = !steps[i].plain_reason.empty();
    chain[i].may_wait_by_block = !steps[i].at_once || launches[i].footprint.blocks() <= *steps[i].at_once;
    chain[i].lets_next_start_late = launches[i].footprint.blocks() > options.most_triggers;
  }
  Lowering lowering;
  lowering.by_block = analysis::plan_chain(chain, options.chain)[1];
  analysis::ChainOptions early = options.chain;
  early.by_block = false;
  early.most_running = ~std::uint32_t{0};
  lowering.early = analysis::plan_chain(chain, early)[1];
  for (std::size_t i = 0; i < 2; ++i) {
    if (steps[i].plain_reason.empty()) continue;
    lowering.way = "plain";
    lowering.why = fmt::format("the {} launch stays as it is: {}", i == 0 ? "first" : "second", steps[i].plain_reason);
    return lowering;
  }
  if (lowering.by_block.waits_for_all) {
    lowering.way = "early";
    lowering.why = fmt::format("it waits for the whole first launch: {}", lowering.by_block.reason);
    if (!chain[1].may_wait_by_block)
      lowering.why += fmt::format("; its {} not fit the device at once, which holds {}",
                                  plural(launches[1].footprint.blocks(), "block does", "blocks do"), *steps[1].at_once);
  } else if (lowering.by_block.first_parent.empty()) {
    lowering.way = "early";
    lowering.why = "it waits for nothing of the first launch";
  } else {
    lowering.way = "by-block";
    lowering.why = fmt::format("each of its blocks waits for its own, {} in all", lowering.by_block.parents.size());
  }
  return lowering;
}

void add_lowering(const Lowering& lowering, const std::vector<AnalysedLaunch>& launches, const std::vector<Step>& steps,
                  const device::Device& device, Json& json, std::string& text) {
  const runtime::BlockLoweringOptions options;
  const bool is_gpu = device.info().kind == device::DeviceKind::kCuda;
  if (lowering.way == "plain")
    text += fmt::format("in a graph: plain, the second launch starts when the first has ended; {}\n", lowering.why);
  else
    text += fmt::format("in a graph: {}, the second launch is on the device before the first has ended; {}\n",
                        lowering.way, lowering.why);
  const std::uint32_t first = launches[0].footprint.blocks();
  if (lowering.way != "plain" && first > options.most_triggers)
    text += fmt::format(
        "  the first launch has more than {} blocks: it lets the second start as its blocks end, not at once\n",
        options.most_triggers);
  text += fmt::format(
      "  limits: by block at most {} launches run at once, a block waits for at most {} others, and all blocks of a "
      "launch that waits so fit the device at once\n",
      options.chain.most_running, options.chain.most_parents);
  Json limits = {{"most_running", options.chain.most_running},
                 {"most_parents", options.chain.most_parents},
                 {"most_triggers", options.most_triggers},
                 {"blocks_at_once", Json::array()}};
  for (std::size_t i = 0; i < 2; ++i) {
    limits["blocks_at_once"].push_back(steps[i].at_once ? Json(*steps[i].at_once) : Json(nullptr));
    if (!steps[i].device_refusal.empty())
      text += fmt::format("  how many blocks of the {} launch fit {} is not known: {}\n", i == 0 ? "first" : "second",
                          device.info().id, steps[i].device_refusal);
  }
  const runtime::FusedOptions fused;
  const std::string parts = fmt::format("clusters of {} blocks of at most {} warps, runs of {} launches or more",
                                        fused.blocks, fused.most_warps, fused.shortest);
  if (steps[0].fused_reason.empty() && steps[1].fused_reason.empty())
    text += fmt::format("  with others like them both could be parts of one fused launch ({})\n", parts);
  for (std::size_t i = 0; i < 2; ++i)
    if (!steps[i].fused_reason.empty())
      text += fmt::format("  the {} launch could be no part of a fused one ({}): {}\n", i == 0 ? "first" : "second",
                          parts, steps[i].fused_reason);
  const char* const measured =
      is_gpu ? "which way is kept a session measures where it runs: this one, plain, and runs of tiny launches as one"
             : "ways are measured on GPUs only, of which the above is said: a graph of these launches on this device "
               "is plain";
  text += fmt::format("on {}: {}\n", device.info().id, measured);
  json = {{"way", lowering.way},
          {"why", lowering.why},
          {"plain_reasons", {steps[0].plain_reason, steps[1].plain_reason}},
          {"limits", std::move(limits)},
          {"fused",
           {{"blocks", fused.blocks},
            {"most_warps", fused.most_warps},
            {"shortest", fused.shortest},
            {"reasons", {steps[0].fused_reason, steps[1].fused_reason}}}},
          {"device", device.info().id},
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
  add_relation(analysis::block_dependencies(all[0].footprint, all[1].footprint), json["relation"], text);
  const Result<device::ModulePtr> loaded = device->load({&module, ptx, module.source_name});
  std::vector<Step> steps;
  for (const AnalysedLaunch& one : all) {
    PERGOLA_ASSIGN(Step step, step_of(module, ptx, one, device, loaded));
    steps.push_back(std::move(step));
  }
  add_lowering(lowering_of(all, steps), all, steps, *device, json["lowering"], text);
  return console.result(json, text);
}

}  // namespace pergola::tool
