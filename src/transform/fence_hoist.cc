#include "src/transform/fence_hoist.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/abi/task_fence.h"
#include "src/transform/fence_accesses.h"
#include "src/transform/fence_numbers.h"
#include "src/transform/fence_ranges.h"

namespace pergola::transform {
namespace {

constexpr std::size_t kMostStatements = 6000;     // of a body that is copied
constexpr std::uint32_t kMostInstructions = 350;  // that are spent on knowing it
constexpr std::size_t kMostPointers = 12;
// What checks must be saved: each in a loop counts as so many that are not.
constexpr std::size_t kInLoop = 8, kLeastSaved = 8;

// Bytes: all those from the least of `lows` to the greatest of `highs`, each of which may be that.
struct Reach {
  std::vector<Affine> lows, highs;
};

class Hoist {
 public:
  Hoist(const ptx::Function& function, const analysis::Cfg& cfg, const std::vector<FenceGroup>& groups,
        const FenceConfig& config, std::uint32_t begin)
      : groups_(groups), config_(config), ranges_(function, cfg, begin, numbers_) {}

  std::optional<FenceHoist> run() {
    if (!ranges_.is_reducible()) return std::nullopt;
    FenceHoist hoist;
    std::size_t saved = 0;
    for (const FenceGroup& group : groups_) {
      const bool is_known = add(group);
      hoist.is_known.push_back(is_known);
      if (is_known) saved += ranges_.is_in_loop(group.accesses[0].statement) ? kInLoop : 1;
    }
    if (saved < kLeastSaved || reaches_.size() > kMostPointers) return std::nullopt;
    for (const auto& [pointers, reach] : reaches_)
      if (!look_up(reach)) return std::nullopt;
    if (numbers_.instructions() > kMostInstructions) return std::nullopt;
    hoist.text = numbers_.text();
    hoist.arguments = numbers_.arguments();
    hoist.instructions = static_cast<std::uint32_t>(numbers_.instructions());
    return hoist;
  }

 private:
  bool add(const FenceGroup& group) {
    const FenceRanges::Range base = ranges_.operand(group.accesses[0].statement, group.base);
    if (!base || ranges_.is_spent()) return false;
    const Number low = numbers_.sum(base->low, Affine::number(group.begin));
    const Number high = numbers_.sum(base->high, Affine::number(group.end - 1));
    const Number aligned = numbers_.sum(base->anchor, Affine::number(group.aligned));
    if (!low || !high || !aligned || base->stride % group.align != 0) return false;
    const std::vector<analysis::TermId> by = pointers(*low, *high);
    if (!numbers_.require_multiple(*aligned, group.align)) return false;
    Reach& reach = reaches_[by];
    keep(reach.lows, *low, [&](const Affine& a, const Affine& b) { return numbers_.is_at_least(a, b); });
    keep(reach.highs, *high, [&](const Affine& a, const Affine& b) { return numbers_.is_at_least(b, a); });
    return true;
  }

  // `is_inside(a, b)`: where b is in the list, a is not needed.
  template <typename IsInside>
  static void keep(std::vector<Affine>& ends, const Affine& fresh, const IsInside& is_inside) {
    for (const Affine& end : ends)
      if (is_inside(fresh, end)) return;
    std::erase_if(ends, [&](const Affine& end) { return is_inside(end, fresh); });
    ends.push_back(fresh);
  }

  // What both ends are reckoned from: accesses by one pointer are looked up together.
  std::vector<analysis::TermId> pointers(const Affine& low, const Affine& high) const {
    std::vector<analysis::TermId> found;
    for (const Affine::Part& part : low.parts)
      if (part.coefficient == 1 && numbers_.is_pointer(part.term) && high.coefficient(part.term) == 1)
        found.push_back(part.term);
    return found;
  }

  // The run of its first granule must have as many as the reach. A reach without bytes is of accesses that are not
  // made.
  bool look_up(const Reach& reach) {
    Number lowest = reach.lows[0], highest = reach.highs[0];
    for (const Affine& end : reach.lows) lowest = lowest ? numbers_.least(*lowest, end) : lowest;
    for (const Affine& end : reach.highs) highest = highest ? numbers_.greatest(*highest, end) : highest;
    if (!lowest || !highest) return false;
    const std::string low = numbers_.name(*lowest), high = numbers_.name(*highest);
    const std::string at = numbers_.fresh(), table = numbers_.fresh(), first = numbers_.fresh(),
                      more = numbers_.fresh(), index = numbers_.fresh("b32"), tag = numbers_.fresh("b32"),
                      run = numbers_.fresh("b32"), is_known = numbers_.fresh("pred");
    numbers_.write(fmt::format(
        R"(
    mov.b64 {first}, {low};
    shr.u64 {at}, {first}, {index_shift};
    cvt.u32.u64 {index}, {at};
    and.b32 {index}, {index}, {mask};
    cvt.u64.u32 {at}, {index};
    ld.shared.u64 {table}, [{table_name}];
    add.s64 {at}, {at}, {table};
    ld.global.u16 {tag}, [{at}];
    ld.global.u16 {run}, [{at}+{runs}];
    shr.u64 {table}, {first}, {tag_shift};
    cvt.u32.u64 {index}, {table};
    shr.u64 {table}, {first}, {granule};
    mov.b64 {more}, {high};
    shr.u64 {at}, {more}, {granule};
    sub.s64 {table}, {at}, {table};
    cvt.u64.u32 {at}, {run};
    setp.eq.u32 {is_known}, {index}, {tag};
    setp.lt.and.u64 {is_known}, {table}, {at}, {is_known};
    setp.gt.or.s64 {is_known}, {first}, {more}, {is_known};
    and.pred %pergola_fence_known, %pergola_fence_known, {is_known};
)",
        fmt::arg("low", low), fmt::arg("high", high), fmt::arg("at", at), fmt::arg("table", table),
        fmt::arg("first", first), fmt::arg("more", more), fmt::arg("index", index), fmt::arg("tag", tag),
        fmt::arg("run", run), fmt::arg("is_known", is_known), fmt::arg("index_shift", config_.granule_shift - 1),
        fmt::arg("mask", ((1u << abi::kFenceIndexBits) - 1) << 1), fmt::arg("table_name", kFenceTableName),
        fmt::arg("runs", abi::kFenceRunsOffset), fmt::arg("tag_shift", config_.granule_shift + abi::kFenceIndexBits),
        fmt::arg("granule", config_.granule_shift)));
    return true;
  }

  const std::vector<FenceGroup>& groups_;
  const FenceConfig& config_;
  FenceNumbers numbers_;
  FenceRanges ranges_;
  std::map<std::vector<analysis::TermId>, Reach> reaches_;
};

}  // namespace

std::optional<FenceHoist> hoist_checks(const ptx::Function& function, const analysis::Cfg& cfg,
                                       const std::vector<FenceGroup>& groups, const FenceConfig& config,
                                       std::uint32_t begin) {
  if (groups.empty() || function.body.size() > kMostStatements) return std::nullopt;
  for (const ptx::Statement& statement : function.body)
    if (std::holds_alternative<ptx::BranchTargets>(statement.node) ||
        std::holds_alternative<ptx::CallTargets>(statement.node) ||
        std::holds_alternative<ptx::CallPrototype>(statement.node))
      return std::nullopt;  // their labels are named in more places than branches
  return Hoist(function, cfg, groups, config, begin).run();
}

}  // namespace pergola::transform
