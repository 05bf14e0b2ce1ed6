#include "src/runtime/block_lowering.h"

#include <algorithm>
#include <cstring>

#include "src/abi/block_links.h"

namespace pergola::runtime {
namespace {

using abi::BlockLinks;
using abi::BlockParent;
using device::KernelNode;

// Words, 8-byte aligned where one asks.
class Words {
 public:
  std::uint64_t here() const { return bytes_.size(); }
  void align() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }
  void zeros(std::size_t count) { bytes_.resize(bytes_.size() + count * 4); }
  template <typename T>
  void append(std::span<const T> values) {
    const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), begin, begin + values.size_bytes());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Lowering {
 public:
  Lowering(device::Device& device, const device::GraphSpec& plain,
           std::span<const std::shared_ptr<BlockKernel>> kernels, std::span<const BlockAllocation> allocations,
           const BlockLoweringOptions& options)
      : device_(device),
        plain_(plain),
        options_(options),
        launches_(plain, kernels, allocations, options.chain.by_block, options.chain.cache) {}

  Result<LoweredBlocks> run() {
    forms_.resize(plain_.nodes.size());
    packings_.resize(plain_.nodes.size());
    std::vector<analysis::ChainLaunch> launches;
    for (std::size_t i = 0; i < plain_.nodes.size(); ++i) launches.push_back(look_at(i));
    result_.steps = analysis::plan_chain(launches, options_.chain);
    PERGOLA_ASSIGN(const Words words, lay_out());  // before kernels are compiled: it may be too much
    for (std::size_t i = 0; i < plain_.nodes.size(); ++i) PERGOLA_TRY(choose_form(i));
    PERGOLA_TRY(bring(words));  // behind what may be refused: memory that goes may have to wait
    for (std::size_t i = 0; i < plain_.nodes.size(); ++i) PERGOLA_TRY(add_node(i));
    result_.spec.buffers = plain_.buffers;
    if (memory_ != nullptr) result_.spec.buffers.push_back(memory_);
    return std::move(result_);
  }

 private:
  bool is_plain(std::size_t node) const { return !result_.plain_reasons[node].empty(); }
  bool starts_early(std::size_t node) const { return node != 0 && !is_plain(node) && !is_plain(node - 1); }
  std::uint32_t blocks(std::size_t node) const { return launches_.blocks(node); }
  std::uint32_t threads(std::size_t node) const { return launches_.threads(node); }

  analysis::ChainLaunch look_at(std::size_t node) {
    analysis::ChainLaunch launch = launches_.launch(node);
    std::string why_plain = launches_.plain_reason(node);
    if (why_plain.empty()) why_plain = launches_.kernel(node).can_wait_for_blocks().message();
    result_.plain_reasons.push_back(why_plain);
    launch.is_plain = !why_plain.empty();
    if (launch.is_plain) return launch;
    find_packing(node);
    launch.may_wait_by_block = fits_at_once(node);
    launch.lets_next_start_late = device_blocks(node) > options_.most_triggers;
    return launch;
  }

  void find_packing(std::size_t node) {
    if (options_.packing == nullptr || options_.chain.by_block) return;
    const auto shape = packing_of(launches_.kernel_node(node).config, device_.info().sm_count, *options_.packing);
    if (shape && launches_.kernel(node).packed(*shape).ok()) packings_[node] = shape;
  }
  // That the device has of the launch.
  std::uint32_t device_blocks(std::size_t node) const {
    const std::uint32_t of_each = packings_[node] ? packings_[node]->blocks : 1;
    return (blocks(node) + of_each - 1) / of_each;
  }

  bool fits_at_once(std::size_t node) const {
    const KernelNode& work = launches_.kernel_node(node);
    const Result<std::uint32_t> resident =
        work.kernel->max_resident_blocks_per_sm(threads(node), work.config.dynamic_shared_bytes);
    return resident.ok() && blocks(node) <= std::uint64_t{*resident} * device_.info().sm_count;
  }

  Status choose_form(std::size_t node) {
    if (is_plain(node)) return {};
    const analysis::ChainStep& step = result_.steps[node];
    const bool early = starts_early(node);
    const transform::BlockSignalOptions signals{.triggers = device_blocks(node) <= options_.most_triggers,
                                                .waits_for_all = early && step.waits_for_all,
                                                .has_parents = !step.first_parent.empty(),
                                                .signals = step.signals,
                                                .limits = early && step.limits,
                                                .starts_early = early,
                                                .constant_lines = launches_.constant_lines(node)};
    BlockKernel& kernel = launches_.kernel(node);
    if (packings_[node]) {
      PERGOLA_ASSIGN(forms_[node], kernel.packed(*packings_[node], signals));
      return {};  // pack_node() looks at its blocks
    }
    PERGOLA_ASSIGN(forms_[node], kernel.form(signals));
    const std::uint32_t most = forms_[node].kernel->resources().max_threads_per_block;
    if (most != 0 && threads(node) > most)
      return PERGOLA_ERROR(kResourceExhausted,
                           "Kernel '{}' with blocks that wait for others runs in blocks of {} threads at most, not {}.",
                           forms_[node].kernel->signature().name, most, threads(node));
    return {};
  }

  // Counters of all launches that signal, then of each launch what it alone has: a chain whose launches wait for
  // launches has neither, however many its blocks are.
  Result<Words> lay_out() {
    Words words;
    links_.resize(plain_.nodes.size());
    std::uint32_t counters = 0;
    for (std::size_t i = 0; i < plain_.nodes.size(); ++i) {
      if (is_plain(i) || !result_.steps[i].signals) continue;
      links_[i].own = counters;
      counters += blocks(i);
    }
    words.zeros(counters);
    for (std::size_t i = 0; i < plain_.nodes.size(); ++i) {
      const analysis::ChainStep& step = result_.steps[i];
      if (is_plain(i) || step.first_parent.empty()) continue;
      BlockLinks& links = links_[i];
      words.align();
      links.epochs = words.here();
      words.zeros(blocks(i));
      words.align();
      links.parents = words.here();
      for (std::uint32_t b = 0; b < blocks(i); ++b)
        links.stride = std::max(links.stride, static_cast<std::uint32_t>(step.parents_of(b).size()));
      std::vector<BlockParent> parents(std::size_t{blocks(i)} * links.stride, BlockParent{abi::kNoParent, 0});
      for (std::uint32_t b = 0; b < blocks(i); ++b) {
        std::size_t at = std::size_t{b} * links.stride;
        for (const analysis::ChainStep::Parent& parent : step.parents_of(b))
          parents[at++] = {links_[parent.launch].own + parent.block, threads(parent.launch)};
      }
      words.append(std::span<const BlockParent>(parents));
    }
    if (words.here() > options_.most_memory_bytes)
      return PERGOLA_ERROR(kResourceExhausted,
                           "its lists of blocks would take {} bytes of the device, and {} is the most", words.here(),
                           options_.most_memory_bytes);
    return words;
  }

  Status bring(const Words& words) {
    if (words.here() == 0) return {};
    PERGOLA_ASSIGN(memory_, device_.allocate(words.here(), device::MemoryKind::kDevice));
    result_.memory_bytes = memory_->size_bytes();
    for (BlockLinks& links : links_)
      for (abi::u64* address : {&links.parents, &links.counters, &links.epochs}) *address += memory_->address();
    PERGOLA_ASSIGN(const std::unique_ptr<device::Queue> queue, device_.create_queue());
    PERGOLA_TRY(queue->copy_to_device(memory_, 0, words.bytes()));
    return queue->synchronize();
  }

  Status add_node(std::size_t i) {
    device::GraphNode node = plain_.nodes[i];
    const auto before = static_cast<device::NodeId>(i - 1);
    node.after.clear();
    if (starts_early(i))
      node.early_after = before;
    else if (i != 0)
      node.after = {before};
    if (packings_[i]) {
      PERGOLA_TRY(pack_node(std::get<KernelNode>(node.work), *packings_[i], forms_[i]));
      ++result_.packed;
    } else if (!is_plain(i)) {
      auto& work = std::get<KernelNode>(node.work);
      work.module = forms_[i].module;
      work.kernel = forms_[i].kernel;
      if (forms_[i].links_offset_bytes) {
        work.parameters.resize(*forms_[i].links_offset_bytes + sizeof(BlockLinks));
        std::memcpy(work.parameters.data() + *forms_[i].links_offset_bytes, &links_[i], sizeof(BlockLinks));
      }
    }
    result_.spec.nodes.push_back(std::move(node));
    return {};
  }

  device::Device& device_;
  const device::GraphSpec& plain_;
  const BlockLoweringOptions& options_;
  const ChainLaunches launches_;
  std::vector<BlockKernel::Form> forms_;                         // by node; of plain ones empty
  std::vector<std::optional<transform::PackedShape>> packings_;  // by node
  std::vector<BlockLinks> links_;                                // addresses are offsets until the memory is there
  device::BufferPtr memory_;                                     // null where none is needed
  LoweredBlocks result_;
};

}  // namespace

Result<LoweredBlocks> lower_blocks(device::Device& device, const device::GraphSpec& plain,
                                   std::span<const std::shared_ptr<BlockKernel>> kernels,
                                   std::span<const BlockAllocation> allocations, const BlockLoweringOptions& options) {
  return Lowering(device, plain, kernels, allocations, options).run();
}

}  // namespace pergola::runtime
