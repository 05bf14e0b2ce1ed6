#include "src/scheduler/policy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <type_traits>

namespace pergola::scheduler {
namespace {

// An option of a policy: what it is called, its words, and where its value is.
struct Option {
  std::string_view name;
  std::string_view words;  // separated by '|', in the order of the enumerators; "N": a number
  std::uint32_t least;     // of a number
  std::uint32_t (*get)(const Policy&);
  void (*set)(Policy&, std::uint32_t);

  bool is_number() const { return words == "N"; }
};

template <auto kMember>
constexpr Option option(std::string_view name, std::string_view words, std::uint32_t least = 0) {
  return {name, words, least, [](const Policy& policy) { return static_cast<std::uint32_t>(policy.*kMember); },
          [](Policy& policy, std::uint32_t value) {
            policy.*kMember = static_cast<std::remove_reference_t<decltype(policy.*kMember)>>(value);
          }};
}

constexpr Option kOptions[] = {
    option<&Policy::retrieve_new_stream>("retrieve-new-stream", "reuse|always-new"),
    option<&Policy::retrieve_parent_stream>("retrieve-parent-stream", "disjoint|same-as-parent"),
    option<&Policy::dependency>("dependency", "with-const|no-const"),
    option<&Policy::execution>("execution", "async|sync"),
    option<&Policy::max_streams>("max-streams", "N", 1),
    option<&Policy::fork_cost_us>("fork-cost", "N"),
    option<&Policy::graphs>("graphs", "measured|recurring|off|always"),
    option<&Policy::blocks>("blocks",
                            "off|measured|trimmed|packed|packed-early|early|by-block|fused|columns|merged|merged-"
                            "kernels|merged-early|stacked|"
                            "stacked-alone|merged-stacked|constants|copies-together"),
    option<&Policy::turns>("turns", "measured|leads|whole|launches"),
    option<&Policy::memory>("memory", "device|managed"),
    option<&Policy::tasks>("tasks", "off|small"),
};

// The first of the words, which it is taken off.
std::string_view take_word(std::string_view& words) {
  const std::string_view word = words.substr(0, words.find('|'));
  words.remove_prefix(std::min(words.size(), word.size() + 1));
  return word;
}

std::string value_of(const Option& option, const Policy& policy) {
  const std::uint32_t value = option.get(policy);
  if (option.is_number()) return std::to_string(value);
  std::string_view words = option.words;
  for (std::uint32_t n = 0; n < value; ++n) take_word(words);
  return std::string(take_word(words));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

constexpr std::uint32_t kMostNumber = 1024;

std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t least) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > kMostNumber)
    return std::nullopt;
  return number;
}

std::optional<std::uint32_t> parse_word(std::string_view text, std::string_view words) {
  for (std::uint32_t n = 0; !words.empty(); ++n)
    if (take_word(words) == text) return n;
  return std::nullopt;
}

bool apply(std::string_view name, std::string_view value, Policy& policy) {
  for (const Option& option : kOptions) {
    if (option.name != name) continue;
    const auto parsed = option.is_number() ? parse_number(value, option.least) : parse_word(value, option.words);
    if (parsed) option.set(policy, *parsed);
    return parsed.has_value();
  }
  return false;
}

// "always|never", "0 to 1024".
std::string values_of(const Option& option) {
  return option.is_number() ? fmt::format("{} to {}", option.least, kMostNumber) : std::string(option.words);
}

// "name=value" of each, `value` being a function of the option.
template <typename Value>
std::string list(std::string_view separator, Value value) {
  std::string text;
  for (const Option& option : kOptions)
    text += fmt::format("{}{}={}", text.empty() ? "" : separator, option.name, value(option));
  return text;
}

}  // namespace

Result<Policy> parse_policy(std::string_view text, Policy base) {
  std::set<std::string_view> given;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(item.size() + (item.size() < text.size() ? 1 : 0));
    const std::size_t between = std::min(item.find_first_of("=:"), item.size());
    const std::string_view name = trimmed(item.substr(0, between));
    if (!apply(name, trimmed(item.substr(std::min(between + 1, item.size()))), base))
      return PERGOLA_ERROR(kInvalidArgument, "'{}' is no scheduling policy; there are {}.", item,
                           list(", ", values_of));
    if (!given.insert(name).second)
      return PERGOLA_ERROR(kInvalidArgument,
                           "The scheduling policy gives '{}' twice, the second time as '{}': give it once.", name,
                           item);
  }
  return base;
}

std::string to_string(const Policy& policy) {
  return list(",", [&](const Option& option) { return value_of(option, policy); });
}

}  // namespace pergola::scheduler
