#include "src/scheduler/policy.h"

#include <charconv>

namespace pergola::scheduler {
namespace {

constexpr std::string_view kKnown =
    "retrieve-new-stream=reuse|always-new, retrieve-parent-stream=disjoint|same-as-parent, "
    "dependency=with-const|no-const, execution=async|sync, max-streams=N, fork-cost=N, "
    "graphs=recurring|off|always, blocks=off|measured|early|by-block|fused|merged|merged-kernels|merged-early, "
    "turns=measured|leads|whole|launches, memory=device|managed, tasks=off|small";

// Sets `out` to the enumerator whose word `value` is: words[i] is that of the i-th.
template <typename Enum>
bool choose(std::string_view value, std::initializer_list<std::string_view> words, Enum& out) {
  std::uint8_t index = 0;
  for (const std::string_view word : words) {
    if (word == value) {
      out = static_cast<Enum>(index);
      return true;
    }
    ++index;
  }
  return false;
}

bool parse_count(std::string_view value, std::uint32_t least, std::uint32_t& out) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < least || count > 1024) return false;
  out = count;
  return true;
}

bool apply(std::string_view name, std::string_view value, Policy& policy) {
  if (name == "retrieve-new-stream") return choose(value, {"reuse", "always-new"}, policy.retrieve_new_stream);
  if (name == "retrieve-parent-stream")
    return choose(value, {"disjoint", "same-as-parent"}, policy.retrieve_parent_stream);
  if (name == "dependency") return choose(value, {"with-const", "no-const"}, policy.dependency);
  if (name == "execution") return choose(value, {"async", "sync"}, policy.execution);
  if (name == "graphs") return choose(value, {"recurring", "off", "always"}, policy.graphs);
  if (name == "blocks")
    return choose(value, {"off", "measured", "early", "by-block", "fused", "merged", "merged-kernels", "merged-early"},
                  policy.blocks);
  if (name == "turns") return choose(value, {"measured", "leads", "whole", "launches"}, policy.turns);
  if (name == "memory") return choose(value, {"device", "managed"}, policy.memory);
  if (name == "tasks") return choose(value, {"off", "small"}, policy.tasks);
  if (name == "max-streams") return parse_count(value, 1, policy.max_streams);
  if (name == "fork-cost") return parse_count(value, 0, policy.fork_cost_us);
  return false;
}

}  // namespace

Result<Policy> parse_policy(std::string_view text, Policy base) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(item.size() + (item.size() < text.size() ? 1 : 0));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || !apply(item.substr(0, equals), item.substr(equals + 1), base))
      return PERGOLA_ERROR(kInvalidArgument, "'{}' is no scheduling policy; there are {}.", item, kKnown);
  }
  return base;
}

std::string to_string(const Policy& policy) {
  return fmt::format(
      "retrieve-new-stream={},retrieve-parent-stream={},dependency={},execution={},max-streams={},fork-cost={},graphs={"
      "},blocks={},"
      "turns={},memory={},tasks={}",
      policy.retrieve_new_stream == RetrieveNewStream::kReuse ? "reuse" : "always-new",
      policy.retrieve_parent_stream == RetrieveParentStream::kDisjoint ? "disjoint" : "same-as-parent",
      policy.dependency == DependencyPolicy::kWithConst ? "with-const" : "no-const",
      policy.execution == Execution::kAsync ? "async" : "sync", policy.max_streams, policy.fork_cost_us,
      policy.graphs == Graphs::kRecurring ? "recurring"
      : policy.graphs == Graphs::kOff     ? "off"
                                          : "always",
      policy.blocks == Blocks::kOff             ? "off"
      : policy.blocks == Blocks::kMeasured      ? "measured"
      : policy.blocks == Blocks::kEarly         ? "early"
      : policy.blocks == Blocks::kByBlock       ? "by-block"
      : policy.blocks == Blocks::kFused         ? "fused"
      : policy.blocks == Blocks::kMerged        ? "merged"
      : policy.blocks == Blocks::kMergedKernels ? "merged-kernels"
                                                : "merged-early",
      policy.turns == Turns::kMeasured ? "measured"
      : policy.turns == Turns::kLeads  ? "leads"
      : policy.turns == Turns::kWhole  ? "whole"
                                       : "launches",
      policy.memory == Memory::kDevice ? "device" : "managed", policy.tasks == Tasks::kOff ? "off" : "small");
}

}  // namespace pergola::scheduler
