#include "src/runtime/block_ways.h"

#include <algorithm>
#include <map>

#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/device/copies_together.h"
#include "src/device/graph_order.h"
#include "src/runtime/block_lowering.h"
#include "src/runtime/constant_nodes.h"
#include "src/runtime/fused_lowering.h"
#include "src/runtime/loaded_block_form.h"
#include "src/runtime/merged_early.h"
#include "src/runtime/merged_lowering.h"
#include "src/scheduler/durations.h"

namespace pergola::runtime {
namespace {

using device::NodeId;
using scheduler::Blocks;
using scheduler::GraphWay;
using scheduler::LaunchToLower;

constexpr std::string_view kPlain = "plain";
constexpr char kThen = '+';                       // "packed+copies-in-rows"
constexpr std::size_t kFastest = 3;               // of the ways, that are made with constants, too
constexpr std::size_t kFinerWays = kFastest + 3;  // and the plain one; one of launches with copies in order, twice

// Where several ways are tried lists of blocks are at the most this part of the data, or as much.
constexpr std::uint64_t kDataToLists = 16, kListsAnyway = std::uint64_t{256} << 10;

// What launches may reach. Memory of other libraries may be in several arrays at once: that is one allocation.
std::vector<BlockAllocation> allocations_of(std::span<const LaunchToLower> launches) {
  std::vector<BlockAllocation> all;
  for (const LaunchToLower& launch : launches)
    for (const scheduler::LaunchMemory& memory : launch.memory)
      if (memory.address != 0 && memory.size_bytes != 0) all.push_back({memory.address, memory.size_bytes});
  std::sort(all.begin(), all.end(),
            [](const BlockAllocation& a, const BlockAllocation& b) { return a.address < b.address; });
  std::vector<BlockAllocation> joined;
  for (const BlockAllocation& one : all) {
    if (joined.empty() || one.address >= joined.back().address + joined.back().size_bytes) {
      joined.push_back(one);
      continue;
    }
    const std::uint64_t end = one.address + one.size_bytes;
    joined.back().size_bytes = std::max(joined.back().size_bytes, end - joined.back().address);
  }
  return joined;
}

// "blocks wait for blocks in 30 launches, 2 wait for all (indirect: ...)".
std::string summary(const LoweredBlocks& lowered) {
  std::size_t by_block = 0, all = 0, plain = 0;
  std::map<std::string, std::size_t> reasons;
  for (std::size_t i = 0; i < lowered.steps.size(); ++i) {
    const analysis::ChainStep& step = lowered.steps[i];
    by_block += !step.first_parent.empty();
    all += step.waits_for_all;
    if (!step.reason.empty()) ++reasons[step.reason];
    if (lowered.plain_reasons[i].empty()) continue;
    ++plain;
    ++reasons[lowered.plain_reasons[i]];
  }
  std::string text = fmt::format("of {} {} by block, {} for the whole launch before them, {} late",
                                 plural(lowered.steps.size(), "launch"), plural(by_block, "waits", "wait"), all,
                                 plural(plain, "starts", "start"));
  for (const auto& [reason, count] : reasons) text += fmt::format("; {}: {}", plural(count, "time"), reason);
  return text;
}

// "; 3 times: it is no kernel launch; 1 time: ..." of those that are not "".
std::string counted(std::span<const std::string> why) {
  std::map<std::string, std::size_t> reasons;
  for (const std::string& reason : why)
    if (!reason.empty()) ++reasons[reason];
  std::string text;
  for (const auto& [reason, count] : reasons) text += fmt::format("; {}: {}", plural(count, "time"), reason);
  return text;
}

std::string summary(const LoweredFused& lowered) {
  std::size_t fused = 0, barriers = 0;
  for (const FusedSegment& segment : lowered.segments) fused += segment.count, barriers += segment.barriers;
  std::string text = fmt::format("of {} {} {} with {}", plural(lowered.plain_reasons.size(), "launch"),
                                 plural(fused, "is", "are"), lowered.segments.size(), plural(barriers, "barrier"));
  for (std::size_t i = 0; i < lowered.segments.size(); ++i)
    if (const FusedSegment& segment = lowered.segments[i]; segment.columns != 0)
      text += fmt::format("{} {} in {}", i == 0 ? ":" : ",", plural(segment.count, "launch"),
                          plural(segment.columns, "column"));
  return text + counted(lowered.plain_reasons);
}

// "10 launches became 1; 2 times: no other launch ...".
std::string summary(const LoweredMerged& lowered) {
  std::size_t launches = 0;
  for (const MergedGroup& group : lowered.groups) launches += group.launches.size();
  return fmt::format("{} launches became {}", launches, lowered.groups.size()) + counted(lowered.plain_reasons);
}

// "6 launches became 3; 2 times: ...".
std::string summary(const LoweredStacked& lowered) {
  std::size_t launches = 0;
  for (const auto& members : lowered.members) launches += members.size() > 1 ? members.size() : 0;
  return fmt::format("{} launches became {}", launches, lowered.stacks) + counted(lowered.plain_reasons);
}

// "whole numbers of 10 launches are constants of their code; 2 times: ...".
std::string summary(const ConstantNodes& constants) {
  const std::string what = constants.launches == 0 ? std::string("it would be the plain one")
                                                   : fmt::format("whole numbers of {} are constants of their code",
                                                                 plural(constants.launches, "launch"));
  return what + counted(constants.reasons);
}

std::vector<double> expected_of(std::span<const LaunchToLower> launches) {
  std::vector<double> expected_ns;
  for (const LaunchToLower& launch : launches) expected_ns.push_back(launch.expected_ns);
  return expected_ns;
}

bool all_known(std::span<const double> expected_ns) {
  return std::all_of(expected_ns.begin(), expected_ns.end(),
                     [](double ns) { return ns < scheduler::kUnknownDurationNs; });
}

struct Order {
  std::vector<NodeId> nodes;
  bool is_by_time = false;
};
// By what the nodes are expected to take, where that is known of all of them. Two that ran beside each other were seen
// to take longer than they do, and chains that take about the same are then told apart by chance: so where that leaves
// the order as it is, the longer chain in launches is measured. None where that is the order, too.
std::optional<Order> longest_way_first(const device::GraphSpec& plain, std::span<const double> expected_ns) {
  if (all_known(expected_ns)) {
    Order by_time{device::longest_first(plain, expected_ns), true};
    if (!std::is_sorted(by_time.nodes.begin(), by_time.nodes.end())) return by_time;
  }
  Order by_count{device::longest_first(plain, {}), false};
  if (std::is_sorted(by_count.nodes.begin(), by_count.nodes.end())) return std::nullopt;
  return by_count;
}

// By launch: null where its parameters change, or nothing is known of it.
std::vector<std::shared_ptr<BlockKernel>> kernels_of(std::span<const LaunchToLower> launches) {
  std::vector<std::shared_ptr<BlockKernel>> kernels;
  for (const LaunchToLower& launch : launches) {
    const auto* const form = launch.varies ? nullptr : dynamic_cast<const LoadedBlockForm*>(launch.form);
    kernels.push_back(form == nullptr ? nullptr : form->block_kernel());
  }
  return kernels;
}

std::uint32_t cluster_of(const device::Device& device) {
  constexpr std::uint32_t kPortable = 8;
  return std::min(device.info().max_cluster_blocks, kPortable);
}

GraphWay refused(const char* name, std::string why) {
  return {name, "", {}, std::move(why)};
}

// The graph itself, or why it would be the plain one.
GraphWay with_constants(const char* name, ConstantNodes constants) {
  std::string why = summary(constants);
  if (constants.launches == 0) return refused(name, std::move(why));
  return {name, std::move(why), std::move(constants.spec)};
}

GraphWay told(GraphWay way, std::size_t launches) {
  if (!way.refusal.empty())
    PERGOLA_INFO("a graph of {} is not made in the way '{}': {}", plural(launches, "launch"), way.name, way.refusal);
  return way;
}

}  // namespace

// What is quickly made comes first; by-block looks at every block.
BlockWays::BlockWays(device::DevicePtr device, Blocks policy) : device_(std::move(device)), policy_(policy) {
  const bool has_clusters = cluster_of(*device_) > 1;
  switch (policy_) {
    case Blocks::kOff: break;
    case Blocks::kMeasured:
      if (device_->info().kind != device::DeviceKind::kCuda) break;
      kinds_ = {Kind::kOrdered,        Kind::kUploadsInARow,  Kind::kCopiesInRows, Kind::kEnginesInRows,
                Kind::kCopiesTogether, Kind::kTogetherInRows, Kind::kTrimmed,      Kind::kPacked,
                Kind::kMerged,         Kind::kStacked,        Kind::kStackedAlone, Kind::kMergedStacked,
                Kind::kMergedKernels,  Kind::kEarly,          Kind::kPackedEarly,  Kind::kMergedEarly,
                Kind::kColumns,        Kind::kFusedBlock};
      if (has_clusters) kinds_.push_back(Kind::kFused);
      kinds_.push_back(Kind::kByBlock);
      break;
    case Blocks::kTrimmed: kinds_ = {Kind::kTrimmed}; break;
    case Blocks::kPacked: kinds_ = {Kind::kPacked}; break;
    case Blocks::kPackedEarly: kinds_ = {Kind::kPackedEarly}; break;
    case Blocks::kEarly: kinds_ = {Kind::kEarly}; break;
    case Blocks::kByBlock: kinds_ = {Kind::kByBlock}; break;
    case Blocks::kFused: kinds_ = {has_clusters ? Kind::kFused : Kind::kFusedBlock}; break;
    case Blocks::kColumns: kinds_ = {Kind::kColumns}; break;
    case Blocks::kMerged: kinds_ = {Kind::kMerged}; break;
    case Blocks::kMergedKernels: kinds_ = {Kind::kMergedKernels}; break;
    case Blocks::kMergedEarly: kinds_ = {Kind::kMergedEarly}; break;
    case Blocks::kStacked: kinds_ = {Kind::kStacked}; break;
    case Blocks::kStackedAlone: kinds_ = {Kind::kStackedAlone}; break;
    case Blocks::kMergedStacked: kinds_ = {Kind::kMergedStacked}; break;
    case Blocks::kConstants: kinds_ = {Kind::kConstants}; break;
    case Blocks::kCopiesTogether: kinds_ = {Kind::kCopiesTogether}; break;
  }
}

std::string BlockWays::why_none() const {
  if (policy_ == Blocks::kOff) return "the policy is blocks=off";
  return "ways are measured on NVIDIA GPUs only; "
         "blocks=trimmed|packed|packed-early|early|by-block|fused|columns|merged|merged-kernels|merged-early|stacked|"
         "stacked-alone|merged-stacked|constants|copies-together takes one";
}

const char* BlockWays::name_of(Kind kind) {
  switch (kind) {
    case Kind::kOrdered: return "ordered";
    case Kind::kUploadsInARow: return "uploads-in-a-row";
    case Kind::kCopiesInRows: return "copies-in-rows";
    case Kind::kEnginesInRows: return "engines-in-rows";
    case Kind::kCopiesTogether: return "copies-together";
    case Kind::kTogetherInRows: return "together-in-rows";
    case Kind::kTrimmed: return "trimmed";
    case Kind::kPacked: return "packed";
    case Kind::kPackedEarly: return "packed-early";
    case Kind::kMerged: return "merged";
    case Kind::kMergedKernels: return "merged-kernels";
    case Kind::kStacked: return "stacked";
    case Kind::kStackedAlone: return "stacked-alone";
    case Kind::kMergedStacked: return "merged-stacked";
    case Kind::kEarly: return "early";
    case Kind::kMergedEarly: return "merged-early";
    case Kind::kByBlock: return "by-block";
    case Kind::kFused: return "fused";
    case Kind::kFusedBlock: return "fused-block";
    case Kind::kColumns: return "columns";
    case Kind::kConstants: return "constants";
  }
  return "?";
}

std::optional<GraphWay> BlockWays::way(std::size_t n, const device::GraphSpec& plain, Launches launches) {
  const Kind kind = kinds_.at(n);
  Base base{plain, kernels_of(launches), policy_ == Blocks::kMeasured};
  Way way = kind == Kind::kConstants ? with_constants(name_of(kind), make_constant(base.spec, base.kernels))
                                     : made_of(kind, std::move(base), launches);
  return way ? told(std::move(*way), launches.size()) : std::move(way);
}

std::optional<GraphWay> BlockWays::way_named(std::string_view name, const device::GraphSpec& plain, Launches launches) {
  if (finer_count() == 0 || !is_finer(name)) return GraphLowerer::way_named(name, plain, launches);
  return finer(name, plain, launches, true);
}

std::size_t BlockWays::finer_count() const {
  return policy_ == Blocks::kMeasured && !kinds_.empty() ? kFinerWays : 0;
}

// Of the fastest so many, and of the plain one, which is among `names` in any case. What is finer itself is no such
// way.
std::optional<GraphWay> BlockWays::finer_way(std::size_t n, const device::GraphSpec& plain, Launches launches,
                                             std::span<const std::string> names) {
  const std::string_view constants = name_of(Kind::kConstants);
  std::vector<std::string_view> fastest;
  for (const std::string_view name : names)
    if (!is_finer(name)) fastest.push_back(name);
  if (n > kFastest) {
    const std::string name = with_copies_in_order(fastest);
    if (name.empty()) return std::nullopt;
    return finer(n == kFastest + 1 ? name : fmt::format("{}-{}", constants, name), plain, launches, false);
  }
  fastest.resize(std::min(fastest.size(), kFastest));
  const std::size_t tried = fastest.size();
  if (n < kFastest && n >= tried) return std::nullopt;
  if (n >= kFastest && std::ranges::count(fastest, kPlain) != 0) return std::nullopt;  // it has been made
  const std::string_view of = n < tried ? fastest[n] : kPlain;
  return finer(of == kPlain ? std::string(constants) : fmt::format("{}-{}", constants, of), plain, launches, n == 0);
}

// The fastest way that changes launches, and of that the copies as in the fastest that changes those; "" where not both
// are faster than the plain one.
std::string BlockWays::with_copies_in_order(std::span<const std::string_view> fastest) const {
  std::string_view launches, copies;
  for (const std::string_view name : fastest) {
    if (name == kPlain) break;
    const std::optional<Kind> kind = kind_named(name);
    if (!kind || *kind == Kind::kOrdered) continue;
    std::string_view& first = changes_copies(*kind) ? copies : launches;
    if (first.empty()) first = name;
  }
  return launches.empty() || copies.empty() ? std::string() : fmt::format("{}{}{}", launches, kThen, copies);
}

// "constants", "constants-merged", "merged+copies-in-rows", "constants-merged+copies-in-rows": the graph is made of
// each in this order. None where the name is none, or where that is nothing for this graph; `tells`: why its kernels
// can have no constants is told.
std::optional<GraphWay> BlockWays::finer(std::string_view name, const device::GraphSpec& plain, Launches launches,
                                         bool tells) const {
  std::string_view rest = name;
  Base base{plain, kernels_of(launches), false};
  std::string why;
  if (const std::string_view constants = name_of(Kind::kConstants); rest.starts_with(constants)) {
    rest.remove_prefix(constants.size());
    if (!rest.empty() && !rest.starts_with('-')) return std::nullopt;
    ConstantNodes made = make_constant(plain, base.kernels);
    if (made.launches == 0 && !tells) return std::nullopt;
    if (made.launches == 0 || rest.empty())
      return told(with_constants(name_of(Kind::kConstants), std::move(made)), launches.size());
    rest.remove_prefix(1);
    why = summary(made) + "; then ";
    base = {std::move(made.spec), std::move(made.kernels), false};
  }
  const std::optional<Kind> kind = kind_named(rest.substr(0, rest.find(kThen)));
  if (!kind) return std::nullopt;
  Way way = made_of(*kind, std::move(base), launches);
  if (!way) return std::nullopt;
  const bool is_refused = !way->refusal.empty();
  if (const std::size_t then = rest.find(kThen); then != rest.npos) {
    if (is_refused) return std::nullopt;  // which has been told of the way without
    const std::optional<Kind> copies = kind_named(rest.substr(then + 1));
    if (!copies || !changes_copies(*copies)) return std::nullopt;
    Way in_order = way_of(*copies, {std::move(way->spec), {}, false}, {});
    if (!in_order) return std::nullopt;
    way->spec = std::move(in_order->spec);
    way->why += "; then " + in_order->why;
  }
  way->name = name;
  way->why = why + way->why;
  if (is_refused && !why.empty()) way->refusal = "with constants " + way->refusal;
  return told(std::move(*way), launches.size());
}

bool BlockWays::is_finer(std::string_view name) {
  return name.starts_with(name_of(Kind::kConstants)) || name.find(kThen) != name.npos;
}

std::optional<BlockWays::Kind> BlockWays::kind_named(std::string_view name) const {
  const auto kind = std::ranges::find(kinds_, name, &BlockWays::name_of);
  return kind == kinds_.end() ? std::nullopt : std::optional(*kind);
}

bool BlockWays::changes_copies(Kind kind) {
  return kind == Kind::kUploadsInARow || kind == Kind::kCopiesInRows || kind == Kind::kEnginesInRows ||
         kind == Kind::kCopiesTogether || kind == Kind::kTogetherInRows;
}

BlockWays::Way BlockWays::made_of(Kind kind, Base base, Launches launches) const {
  const bool just_orders = kind == Kind::kOrdered || changes_copies(kind);
  const bool takes_copies = just_orders || kind == Kind::kMerged || kind == Kind::kMergedKernels ||
                            kind == Kind::kStacked || kind == Kind::kStackedAlone || kind == Kind::kMergedStacked ||
                            kind == Kind::kColumns || kind == Kind::kTrimmed || kind == Kind::kPacked;
  if (!takes_copies && !std::ranges::all_of(base.spec.nodes, device::is_launch))
    return refused(name_of(kind), "it has copies between the host and the device, and this way is for launches alone");
  if (just_orders) return way_of(kind, base, launches);
  TrimmedGrids trimmed = trim_grids(base.spec, base.kernels, allocations_of(launches), &cache_);
  if (trimmed.launches == 0) return way_of(kind, base, launches);
  base.spec = std::move(trimmed.spec);
  Way way = kind == Kind::kTrimmed ? GraphWay{name_of(kind), "", std::move(base.spec)} : way_of(kind, base, launches);
  if (way && way->refusal.empty())
    way->why += fmt::format(
        "{}{} left out of {}, {}", way->why.empty() ? "" : "; ",
        plural(trimmed.before - trimmed.after, "block that writes nothing is", "blocks that write nothing are"),
        plural(trimmed.launches, "launch"), plural(trimmed.after, "stays", "stay"));
  return way;
}

// `base` may have smaller grids than the launches.
BlockWays::Way BlockWays::way_of(Kind kind, const Base& base, Launches launches) const {
  switch (kind) {
    case Kind::kOrdered: return ordered(base, launches);
    case Kind::kUploadsInARow:
      return in_rows(kind, device::uploads_in_a_row(base.spec), "copies from the host follow each other");
    case Kind::kCopiesInRows:
      return in_rows(kind, device::copies_in_rows(base.spec),
                     "copies from the host follow each other in two rows, those to it in one");
    case Kind::kEnginesInRows:
      return in_rows(kind, device::engines_in_rows(base.spec),
                     "copies from the host, launches, and copies to the host follow each other");
    case Kind::kCopiesTogether:
    case Kind::kTogetherInRows: return copies_as_one(kind, base);
    case Kind::kConstants:
    case Kind::kTrimmed: return std::nullopt;
    case Kind::kPacked: return packed(base);
    case Kind::kMerged: return merged(false, base);
    case Kind::kMergedKernels: return merged(true, base);
    case Kind::kEarly:
    case Kind::kPackedEarly: return early(kind, base, launches);
    case Kind::kMergedEarly: return merged_early(base, launches);
    case Kind::kStacked:
    case Kind::kStackedAlone:
    case Kind::kMergedStacked: return stacked(kind, base, launches);
    case Kind::kByBlock: return early(kind, base, launches);
    case Kind::kFused:
    case Kind::kFusedBlock:
    case Kind::kColumns: return fused(kind, base, launches);
  }
  return std::nullopt;
}

// None where neither order nor priorities differ from the plain graph's.
BlockWays::Way BlockWays::ordered(const Base& base, Launches launches) {
  const std::vector<double> expected_ns = expected_of(launches);
  const std::optional<Order> order = longest_way_first(base.spec, expected_ns);
  const bool by_time = order ? order->is_by_time : all_known(expected_ns);
  device::GraphSpec spec = device::with_priorities(base.spec, by_time ? expected_ns : std::vector<double>());
  const bool has_priorities = std::ranges::any_of(spec.nodes, [](const auto& node) { return node.priority != 0; });
  if (!order && !has_priorities) return std::nullopt;
  return GraphWay{name_of(Kind::kOrdered),
                  fmt::format("launches of the longest way come first, {}",
                              by_time ? "by what they were seen to take" : "each counted alike"),
                  order ? device::in_order(spec, order->nodes) : std::move(spec)};
}

BlockWays::Way BlockWays::in_rows(Kind kind, std::optional<device::GraphSpec> spec, const char* why) {
  if (!spec) return std::nullopt;
  return GraphWay{name_of(kind), why, std::move(*spec)};
}

BlockWays::Way BlockWays::copies_as_one(Kind kind, const Base& base) {
  std::optional<device::CopiesTogether> together = device::copies_together(base.spec);
  if (!together) return std::nullopt;
  std::string why = fmt::format("{} copies of arrays that lie together became {}", together->before, together->after);
  if (kind == Kind::kTogetherInRows) {
    std::optional<device::GraphSpec> in_rows = device::engines_in_rows(together->spec);
    if (!in_rows) return std::nullopt;
    together->spec = std::move(*in_rows);
    why += "; then those from the host, launches, and those to the host follow each other";
  }
  return GraphWay{name_of(kind), std::move(why), std::move(together->spec)};
}

BlockWays::Way BlockWays::merged(bool of_kernels, const Base& base) const {
  MergedOptions options;
  options.different_kernels = of_kernels;
  options.joined = &joined_;
  Result<LoweredMerged> lowered = lower_merged(*device_, base.spec, base.kernels, options);
  const char* const name = name_of(of_kernels ? Kind::kMergedKernels : Kind::kMerged);
  if (!lowered.ok()) return refused(name, lowered.message());
  if (lowered->groups.empty()) return refused(name, "it would be the plain one" + counted(lowered->plain_reasons));
  const auto differs = [](const MergedGroup& group) { return group.in_a_row; };
  if (of_kernels && base.has_others && std::none_of(lowered->groups.begin(), lowered->groups.end(), differs))
    return refused(name, "it would be the same as merged" + counted(lowered->plain_reasons));
  return GraphWay{name, summary(*lowered), std::move(lowered->spec)};
}

// Of the merged graph where that is asked for: what is not merged there is stacked.
BlockWays::Way BlockWays::stacked(Kind kind, const Base& base, Launches launches) const {
  const char* const name = name_of(kind);
  std::vector<std::shared_ptr<BlockKernel>> kernels = base.kernels;
  std::vector<double> expected_ns = expected_of(launches);
  device::GraphSpec spec = base.spec;
  std::string why;
  if (kind == Kind::kMergedStacked) {
    Result<LoweredMerged> merged = lower_merged(*device_, base.spec, kernels, {.joined = &joined_});
    if (!merged.ok()) return refused(name, merged.message());
    if (merged->groups.empty())
      return refused(name, "it would be the same as stacked" + counted(merged->plain_reasons));
    spec = std::move(merged->spec);
    std::vector<std::shared_ptr<BlockKernel>> left(spec.nodes.size());
    std::vector<double> longest(spec.nodes.size(), 0);  // of what is merged
    for (NodeId i = 0; i < base.spec.nodes.size(); ++i) {
      const NodeId at = merged->places[i];
      left[at] = merged->plain_reasons[i].empty() ? nullptr : kernels[i];
      longest[at] = std::max(longest[at], expected_ns[i]);
    }
    why = summary(*merged) + "; then ";
    kernels = std::move(left), expected_ns = std::move(longest);
  }
  StackedOptions options{.stacked = &stacked_, .cache = &cache_};
  if (std::optional<Order> order = longest_way_first(spec, expected_ns)) options.order = std::move(order->nodes);
  if (all_known(expected_ns)) options.expected_ns = expected_ns;
  const std::vector<BlockAllocation> allocations = allocations_of(launches);
  options.waits_for_nothing_else = kind == Kind::kStackedAlone;
  const Result<LoweredStacked> lowered = lower_stacked(*device_, spec, kernels, allocations, options);
  if (!lowered.ok()) return refused(name, lowered.message());
  if (lowered->stacks == 0)
    return refused(name,
                   (kind == Kind::kMergedStacked ? "it would be the same as merged" : "it would be the plain one") +
                       counted(lowered->plain_reasons));
  if (kind == Kind::kStackedAlone && base.has_others) {
    options.waits_for_nothing_else = false;
    const Result<LoweredStacked> usual = lower_stacked(*device_, spec, kernels, allocations, options);  // all known
    if (usual.ok() && usual->members == lowered->members)
      return refused(name, "it would be the same as stacked" + counted(lowered->plain_reasons));
  }
  std::vector<double> weights;
  for (std::size_t i = 0; i < lowered->members.size() && !options.expected_ns.empty(); ++i) {
    weights.push_back(0);
    for (const NodeId member : lowered->members[i]) weights.back() += options.expected_ns[member];
  }
  return GraphWay{name, why + summary(*lowered), device::with_priorities(lowered->spec, weights)};
}

BlockWays::Way BlockWays::merged_early(const Base& base, Launches launches) const {
  const char* const name = name_of(Kind::kMergedEarly);
  Result<LoweredMerged> merged = lower_merged(*device_, base.spec, base.kernels);
  if (!merged.ok()) return refused(name, merged.message());
  if (merged->groups.empty()) return refused(name, "it would be the same as early" + counted(merged->plain_reasons));
  Result<LoweredMergedEarly> lowered = start_early(base.spec, *merged, base.kernels, allocations_of(launches), &cache_);
  if (!lowered.ok()) return refused(name, lowered.message());
  if (lowered->early == 0) return refused(name, "it would be the same as merged" + counted(lowered->plain_reasons));
  return GraphWay{name,
                  fmt::format("{}; of {} then {} early", summary(*merged), plural(lowered->spec.nodes.size(), "launch"),
                              plural(lowered->early, "starts", "start")) +
                      counted(lowered->plain_reasons),
                  std::move(lowered->spec)};
}

BlockWays::Way BlockWays::packed(const Base& base) const {
  PackedNodes packed = pack_nodes(*device_, base.spec, base.kernels);
  if (packed.launches == 0)
    return refused(name_of(Kind::kPacked), "it would be the plain one" + counted(packed.reasons));
  return GraphWay{
      name_of(Kind::kPacked),
      fmt::format("small blocks of {} are several to one of the device's", plural(packed.launches, "launch")) +
          counted(packed.reasons),
      std::move(packed.spec)};
}

BlockWays::Way BlockWays::early(Kind kind, const Base& base, Launches launches) const {
  const bool by_block = kind == Kind::kByBlock;
  const PackingOptions packing;
  BlockLoweringOptions options;
  if (kind == Kind::kPackedEarly) options.packing = &packing;
  options.chain.cache = &cache_;
  if (!by_block) {
    options.chain.by_block = false;
    options.chain.most_running = ~std::uint32_t{0};  // who waits for a launch waits for all before it
  }
  const std::vector<BlockAllocation> allocations = allocations_of(launches);
  // Of several ways this is one that is tried: not at the price of a good part of the data's memory once more.
  if (base.has_others && !allocations.empty()) {
    std::uint64_t bytes = 0;
    for (const BlockAllocation& each : allocations) bytes += each.size_bytes;
    options.most_memory_bytes = std::max(bytes / kDataToLists, kListsAnyway);
  }
  Result<LoweredBlocks> lowered = lower_blocks(*device_, base.spec, base.kernels, allocations, options);
  const char* const name = name_of(kind);
  if (!lowered.ok()) return refused(name, lowered.message());
  if (kind == Kind::kPackedEarly && lowered->packed == 0)
    return refused(name, "it would be the same as early, as no launch's blocks are small, many and packed");
  const auto differs = [&](const analysis::ChainStep& step) { return !step.first_parent.empty(); };
  if (by_block && base.has_others && std::none_of(lowered->steps.begin(), lowered->steps.end(), differs))
    return refused(name, "it would be the same as early; " + summary(*lowered));
  std::string why = summary(*lowered);
  if (lowered->packed != 0)
    why += fmt::format("; small blocks of {} are several to one of the device's", plural(lowered->packed, "launch"));
  return GraphWay{name, std::move(why), std::move(lowered->spec)};
}

BlockWays::Way BlockWays::fused(Kind kind, const Base& base, Launches launches) const {
  FusedOptions options;
  if (kind == Kind::kColumns) options = FusedOptions::in_columns();
  if (kind == Kind::kFused) options.blocks = cluster_of(*device_);
  if (kind == Kind::kFusedBlock) options.blocks = 1, options.most_warps = 32;
  options.cache = &cache_;
  Result<LoweredFused> lowered = lower_fused(*device_, base.spec, base.kernels, allocations_of(launches), options);
  const char* const name = name_of(kind);
  if (!lowered.ok()) return refused(name, lowered.message());
  if (lowered->segments.empty()) return refused(name, "it would be the plain one; " + summary(*lowered));
  return GraphWay{name, summary(*lowered), std::move(lowered->spec)};
}

}  // namespace pergola::runtime
