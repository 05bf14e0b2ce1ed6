#include "tools/pergola/launch_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "src/analysis/block_chain.h"
#include "src/analysis/block_columns.h"
#include "src/analysis/block_dependencies.h"
#include "src/analysis/idle_blocks.h"
#include "src/base/plural.h"
#include "src/ptx/signature.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/block_lowering.h"
#include "src/runtime/describe.h"
#include "src/runtime/fused_lowering.h"

namespace pergola::tool {
namespace {

constexpr const char* kNames[] = {"first", "second"};

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

class Pair {
 public:
  Pair(const ptx::Module& module, std::string_view ptx, std::span<const AnalysedLaunch> launches,
       const device::DevicePtr& device, const GpuLimits& limits)
      : module_(module), launches_(launches), limits_(limits), device_(device), chain_(2) {
    text_ = std::make_shared<const std::string>(ptx);
  }

  Result<LaunchPair> run() {
    for (std::size_t i = 0; i < 2; ++i) {
      PERGOLA_TRY(look_at(i));
      chain_[i].footprint = std::make_shared<const analysis::LaunchFootprint>(launches_[i].footprint);
      chain_[i].is_plain = !made_.launches[i].plain_reason.empty();
      chain_[i].may_wait_by_block = !made_.launches[i].at_once || blocks(i) <= *made_.launches[i].at_once;
      chain_[i].lets_next_start_late = blocks(i) > options_.most_triggers;
    }
    relation_ = analysis::block_dependencies(launches_[0].footprint, launches_[1].footprint);
    find_way();
    add_trimmed();
    add_merged();
    add_stacked();
    add_columns();
    add_fused();
    add_constants();
    return std::move(made_);
  }

 private:
  std::uint32_t blocks(std::size_t i) const { return launches_[i].footprint.blocks(); }
  std::uint32_t threads(std::size_t i) const {
    const std::uint32_t* const block = launches_[i].text.block;
    return block[0] * block[1] * block[2];
  }
  std::uint32_t shared_bytes(std::size_t i) const { return static_cast<std::uint32_t>(launches_[i].text.shared_bytes); }
  device::LaunchConfig config(std::size_t i) const {
    const LaunchText& text = launches_[i].text;
    device::LaunchConfig made;
    made.grid = {text.grid[0], text.grid[1], text.grid[2]};
    made.block = {text.block[0], text.block[1], text.block[2]};
    made.dynamic_shared_bytes = shared_bytes(i);
    return made;
  }
  bool are_alike() const { return config(0).grid == config(1).grid && config(0).block == config(1).block; }

  Status look_at(std::size_t i) {
    const std::string& kernel = launches_[i].text.kernel;
    PERGOLA_ASSIGN(std::string written, written_variable(module_, kernel));
    forms_[i] = std::make_unique<runtime::BlockKernel>(device_, text_, module_.source_name, kernel, std::move(written));
    made_.launches[i].plain_reason = forms_[i]->can_wait_for_blocks().message();
    const Result<std::uint32_t> resident = limits_.gpu == nullptr ? assumed_resident(i) : resident_on_gpu(i);
    if (resident.ok())
      made_.launches[i].at_once = std::uint64_t{*resident} * limits_.sm_count;
    else
      made_.launches[i].device_refusal = resident.message();
    return {};
  }

  Result<std::uint32_t> resident_on_gpu(std::size_t i) {
    PERGOLA_ASSIGN(const device::ModulePtr loaded, limits_.gpu->load({&module_, *text_, module_.source_name}));
    PERGOLA_ASSIGN(const auto kernel, loaded->kernel(launches_[i].text.kernel));
    return kernel->max_resident_blocks_per_sm(threads(i), shared_bytes(i));
  }

  // Without registers, of which only the driver's compiler knows.
  Result<std::uint32_t> assumed_resident(std::size_t i) {
    const ptx::Function* const entry = module_.find_function(launches_[i].text.kernel);
    PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module_, *entry));
    const std::uint64_t shared = std::uint64_t{signature.static_shared_bytes} + shared_bytes(i);
    if (shared > limits_.shared_bytes_per_block)
      return PERGOLA_ERROR(kResourceExhausted, "its blocks have {} bytes of shared memory, and a block has {} at most",
                           shared, limits_.shared_bytes_per_block);
    const std::uint32_t of_threads = limits_.threads_per_sm / ((threads(i) + 31) / 32 * 32);
    const std::uint64_t of_shared = limits_.shared_bytes_per_sm / (shared + limits_.reserved_shared_bytes);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>({of_threads, of_shared, limits_.blocks_per_sm}));
  }

  void find_way() {
    const analysis::ChainStep step = analysis::plan_chain(chain_, options_.chain)[1];
    made_.waits_for = step.waits_for_all ? "all" : step.first_parent.empty() ? "nothing" : "blocks";
    made_.all_reason = step.reason;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& reason = made_.launches[i].plain_reason;
      if (reason.empty()) continue;
      made_.way = "plain";
      made_.waits_for = "all";
      made_.why = made_.all_reason = fmt::format("the {} launch stays as it is: {}", kNames[i], reason);
      return;
    }
    if (step.waits_for_all) {
      made_.way = "early";
      if (!chain_[1].may_wait_by_block)
        made_.all_reason = fmt::format("its {} not fit the device at once, which holds {}",
                                       plural(blocks(1), "block does", "blocks do"), *made_.launches[1].at_once);
      made_.why = fmt::format("it waits for the whole first launch: {}", made_.all_reason);
    } else if (step.first_parent.empty()) {
      made_.way = "early";
      made_.why = "it waits for nothing of the first launch";
    } else {
      made_.way = "by-block";
      made_.why = relation_.pattern == analysis::BlockPattern::kFull
                      ? fmt::format("each of its blocks waits for all {} of the first launch, {} in all",
                                    plural(blocks(0), "block"), plural(step.parents.size(), "pair"))
                      : fmt::format("each of its blocks waits for its own, {} in all", step.parents.size());
    }
  }

  void add(const char* way, std::string why_not, std::string how) {
    const bool is_possible = why_not.empty();
    made_.others.push_back({way, is_possible, is_possible ? std::move(how) : std::move(why_not)});
  }
  // The first launch of which something is said, with what is.
  template <typename Reason>
  std::string either(const Reason& reason) const {
    for (std::size_t i = 0; i < 2; ++i)
      if (std::string why = reason(i); !why.empty()) return fmt::format("the {} launch: {}", kNames[i], why);
    return "";
  }

  void add_trimmed() {
    std::string how, why_not = "all blocks of both launches write something";
    for (std::size_t i = 0; i < 2; ++i) {
      const auto grid = analysis::writing_grid(launches_[i].footprint);
      const std::uint64_t stay = std::uint64_t{grid[0]} * grid[1] * grid[2];
      if (stay == blocks(i)) continue;
      const Status may = forms_[i]->may_leave_blocks_out();
      if (may.ok())
        how += fmt::format("{}{} of the {} launch are left out", how.empty() ? "" : ", ",
                           plural(blocks(i) - stay, "block"), kNames[i]);
      else
        why_not = fmt::format("the {} launch: {}", kNames[i], may.message());
    }
    add("trimmed", how.empty() ? why_not : "", how);
  }

  void add_merged() {
    const bool is_one_kernel = launches_[0].text.kernel == launches_[1].text.kernel;
    std::string why_not;
    if (relation_.pattern != analysis::BlockPattern::kIndependent)
      why_not = "the second launch waits for the first";
    else if (!(config(0).block == config(1).block))
      why_not = "their blocks have different shapes";
    add(is_one_kernel ? "merged" : "merged-kernels", why_not, "the blocks of both as one launch");
  }

  // As runtime::lower_stacked() asks it of a launch and the one below.
  void add_stacked() {
    std::string why_not;
    analysis::ColumnOptions columns;
    columns.most_blocks_of_column = 1;
    columns.most_blocks = 1u << 20;
    if (relation_.pattern == analysis::BlockPattern::kIndependent)
      why_not = "the second launch waits for nothing of the first";
    else if (!are_alike())
      why_not = "their grids or blocks differ";
    else if (blocks(0) > 1 && analysis::find_columns(chain_, columns)[0].count != 2)
      why_not = "blocks of the second launch need others of the first than that of their own number";
    else if (const Status can = forms_[0]->can_be_followed(); !can.ok())
      why_not = "the first launch: " + std::string(can.message());
    else
      why_not = either([&](std::size_t i) { return made_.launches[i].plain_reason; });
    add("stacked", why_not, "each block runs its own block of both");
  }

  std::string why_not_fused(std::size_t i, const runtime::FusedOptions& options) {
    return runtime::why_not_fused(*forms_[i], config(i), {}, limits_.shared_bytes_per_block, options);
  }

  void add_columns() {
    const runtime::FusedOptions options = runtime::FusedOptions::in_columns();
    std::string why_not = either([&](std::size_t i) { return why_not_fused(i, options); }), how;
    if (why_not.empty()) {
      const analysis::ColumnRun run = analysis::find_columns(chain_)[0];
      if (run.count == 2)
        how = fmt::format("{} of {} blocks", run.columns, run.is_strided ? "strided" : "neighbouring");
      else
        why_not =
            "their blocks do not fall into parts that need nothing of each other, or there is nothing to wait for";
    }
    add("columns", why_not, how);
  }

  void add_fused() {
    const runtime::FusedOptions options;
    const std::string parts = fmt::format("clusters of {} blocks of at most {} warps, runs of {} launches or more",
                                          options.blocks, options.most_warps, options.shortest);
    for (std::size_t i = 0; i < 2; ++i) made_fused_[i] = why_not_fused(i, options);
    add("fused", either([&](std::size_t i) { return made_fused_[i]; }), "with others like them (" + parts + ")");
  }

  void add_constants() {
    std::string how, why_not = "neither launch has whole numbers as parameters";
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<std::byte> parameters = launches_[i].values.parameters;
      for (const auto& pointer : launches_[i].values.pointers)  // an address is no small number
        std::fill_n(parameters.begin() + pointer.offset_bytes, 8, std::byte{0xff});
      const auto found = forms_[i]->constants_of(parameters);
      if (!found.ok())
        why_not = fmt::format("the {} launch: {}", kNames[i], found.message());
      else if (!found->empty())
        how +=
            fmt::format("{}{} of the {} launch", how.empty() ? "" : ", ", plural(found->size(), "number"), kNames[i]);
    }
    add("constants", how.empty() ? why_not : "", how);
  }

  const ptx::Module& module_;
  const std::span<const AnalysedLaunch> launches_;
  const GpuLimits& limits_;
  const device::DevicePtr device_;
  const runtime::BlockLoweringOptions options_;
  std::shared_ptr<const std::string> text_;
  std::vector<analysis::ChainLaunch> chain_;
  std::unique_ptr<runtime::BlockKernel> forms_[2];
  std::string made_fused_[2];
  analysis::BlockRelation relation_;
  LaunchPair made_;
};

}  // namespace

GpuLimits gpu_limits(const device::DevicePtr& device) {
  GpuLimits limits;
  const device::DeviceInfo& info = device->info();
  limits.id = info.id;
  if (info.kind == device::DeviceKind::kCuda) {
    limits.gpu = device;
    limits.sm_count = info.sm_count;
    limits.shared_bytes_per_block = info.max_shared_bytes_per_block;
    return limits;
  }
  limits.assumed = fmt::format(
      "{} is no GPU, so that an NVIDIA H200's limits are assumed: {} multiprocessors of {} threads and {} of shared "
      "memory; registers are not counted",
      info.id, limits.sm_count, limits.threads_per_sm, plural(limits.shared_bytes_per_sm, "byte"));
  return limits;
}

Result<LaunchPair> launch_pair(const ptx::Module& module, std::string_view ptx,
                               std::span<const AnalysedLaunch> launches, const device::DevicePtr& device,
                               const GpuLimits& limits) {
  return Pair(module, ptx, launches, device, limits).run();
}

std::string way_text(const LaunchPair& pair, const GpuLimits& limits) {
  std::string text =
      pair.way == "plain"
          ? fmt::format("in a graph: plain, the second launch starts when the first has ended; {}\n", pair.why)
          : fmt::format("in a graph: {}, the second launch is on the device before the first has ended; {}\n", pair.way,
                        pair.why);
  text += fmt::format("  {}\n", limits.assumed.empty() ? "the limits are those of " + limits.id : limits.assumed);
  return text;
}

}  // namespace pergola::tool
