#include "src/device/task_failures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pergola::device {

void TaskFailures::add(Id id, Code code, std::string_view message) {
  const std::lock_guard lock(mutex_);
  const auto made = failed_.emplace(id, Failure{code, std::string(message)});
  if (!made.second) return;
  in_order_.push_back(id);
  ++untold_;
  if (in_order_.size() > kMost) {
    const auto oldest = failed_.find(in_order_.front());
    untold_ -= oldest->second.told ? 0 : 1;
    failed_.erase(oldest);
    in_order_.pop_front();
  }
  count_.fetch_add(1, std::memory_order_release);
}

Error TaskFailures::error(Id id, const Failure& failure) const {
  return {failure.code, fmt::format("Task {:#x} has failed: {}", name_of(id), failure.message), __FILE__, __LINE__};
}

TaskFailures::Id TaskFailures::name_of(Id id) const {
  const auto named = names_.find(id);
  return named == names_.end() ? id : named->second;
}

void TaskFailures::call_by(Id id, Id as) {
  const std::lock_guard lock(mutex_);
  if (!names_.insert_or_assign(id, as).second) return;
  named_.push_back(id);
  if (named_.size() <= kMost) return;
  names_.erase(named_.front());
  named_.pop_front();
}

TaskFailures::Id TaskFailures::called(Id id) {
  const std::lock_guard lock(mutex_);
  return name_of(id);
}

void TaskFailures::rename(Id id, Id as) {
  const std::lock_guard lock(mutex_);
  auto node = failed_.extract(id);
  if (node.empty()) return;
  const auto at = std::find(in_order_.begin(), in_order_.end(), id);
  if (failed_.contains(as)) {  // another piece of it has failed before
    untold_ -= node.mapped().told ? 0 : 1;
    in_order_.erase(at);
    return;
  }
  node.key() = as;
  failed_.insert(std::move(node));
  *at = as;
}

Status TaskFailures::outcome(Id id) {
  if (count() == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto found = failed_.find(id);
  if (found == failed_.end()) return {};
  if (!std::exchange(found->second.told, true)) --untold_;
  return error(id, found->second);
}

bool TaskFailures::has_untold() {
  if (count() == 0) return false;
  const std::lock_guard lock(mutex_);
  return untold_ != 0;
}

Status TaskFailures::untold() {
  if (count() == 0) return {};
  const std::lock_guard lock(mutex_);
  if (untold_ == 0) return {};
  constexpr std::size_t kNamed = 8;
  std::optional<Error> first;
  std::vector<std::string> others;
  for (const Id id : in_order_) {
    Failure& failure = failed_.at(id);
    if (std::exchange(failure.told, true)) continue;
    if (!first)
      first = error(id, failure);
    else if (others.size() < kNamed)
      others.push_back(fmt::format("{:#x}", name_of(id)));
  }
  const std::size_t more = std::exchange(untold_, 0) - 1;
  if (more == 0) return *first;
  const std::size_t unnamed = more - others.size();
  const std::string rest = unnamed == 0 ? "" : fmt::format(" and {} more", unnamed);
  return Error{first->code,
               fmt::format("{} tasks have failed; {} The {} {}{}.", more + 1, first->message,
                           more == 1 ? "other is" : "others are", fmt::join(others, ", "), rest),
               __FILE__, __LINE__};
}

}  // namespace pergola::device
