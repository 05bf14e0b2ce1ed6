#include "plan.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace dag {

ArrayId Plan::add(Array array) {
  arrays_.push_back(std::move(array));
  return {static_cast<int>(arrays_.size()) - 1};
}

StepId Plan::add(Step step, const std::vector<StepId>& after) {
  for (const StepId id : after) step.after.push_back(id.index);
  steps_.push_back(std::move(step));
  return {static_cast<int>(steps_.size()) - 1};
}

StepId Plan::add(StepKind kind, ArrayId array, int stream, std::initializer_list<StepId> after) {
  Step step;
  step.kind = kind;
  step.array = array.index;
  step.stream = stream;
  return add(std::move(step), after);
}

StepId Plan::kernel(const std::string& name, const pergola::Grid& shape, std::vector<Argument> arguments, int stream,
                    const std::vector<StepId>& after) {
  Step step;
  step.kernel = name;
  step.shape = shape;
  step.arguments = std::move(arguments);
  step.stream = stream;
  return add(std::move(step), after);
}

Plan Plan::resident() const {
  Plan result;
  result.arrays_ = arrays_;
  std::vector<int> now(steps_.size(), -1);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].kind != StepKind::kKernel) continue;
    now[i] = static_cast<int>(result.steps_.size());
    Step step = steps_[i];
    step.after.clear();
    for (const int before : steps_[i].after)
      if (now[before] >= 0) step.after.push_back(now[before]);
    result.steps_.push_back(std::move(step));
  }
  return result;
}

int Plan::stream_count() const {
  int count = 0;
  for (const Step& step : steps_) count = std::max(count, step.stream + 1);
  return count;
}

std::size_t Plan::device_bytes() const {
  std::size_t bytes = 0;
  for (const Array& array : arrays_) bytes += array.bytes;
  return bytes;
}

bool Plan::is_tiled() const {
  return std::any_of(arrays_.begin(), arrays_.end(), [](const Array& array) { return array.tiling.is_tiled(); });
}

std::size_t Plan::pieces() const {
  std::size_t pieces = 1;
  for (const Array& array : arrays_)
    if (array.is_output) pieces = std::max(pieces, array.bytes / array.host_bytes);
  return pieces;
}

namespace {

struct Accesses {
  std::vector<bool> reads, writes;  // by array
};

Accesses accesses_of(const Step& step, std::size_t arrays, const std::map<std::string, pergola::Kernel>& kernels) {
  Accesses result{std::vector<bool>(arrays), std::vector<bool>(arrays)};
  if (step.kind == StepKind::kCopyIn) result.writes[step.array] = true;
  if (step.kind == StepKind::kCopyOut) result.reads[step.array] = true;
  if (step.kind != StepKind::kKernel) return result;
  const auto& parameters = kernels.at(step.kernel).parameters();
  if (parameters.size() != step.arguments.size())
    throw std::runtime_error("The table gives " + step.kernel + " another number of arguments than it has parameters.");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const int array = step.arguments[i].array;
    if (array < 0) continue;
    const pergola::Access access = parameters[i].access;
    const bool unknown = access == pergola::Access::kUnknown || access == pergola::Access::kReadWrite;
    if (unknown || access == pergola::Access::kRead) result.reads[array] = true;
    if (unknown || access == pergola::Access::kWrite) result.writes[array] = true;
  }
  return result;
}

bool conflict(const Accesses& a, const Accesses& b) {
  for (std::size_t i = 0; i < a.reads.size(); ++i)
    if ((a.writes[i] && (b.reads[i] || b.writes[i])) || (a.reads[i] && b.writes[i])) return true;
  return false;
}

std::string name_of(const Plan& plan, std::size_t step) {
  const Step& s = plan.steps()[step];
  const std::string what = s.kind == StepKind::kKernel
                               ? s.kernel
                               : (s.kind == StepKind::kCopyIn ? "copy in " : "copy out ") + plan.arrays()[s.array].name;
  return "step " + std::to_string(step) + " (" + what + ")";
}

}  // namespace

void check_dependencies(const Plan& plan, const pergola::Module& module) {
  std::map<std::string, pergola::Kernel> kernels;
  for (const Step& step : plan.steps())
    if (step.kind == StepKind::kKernel && !kernels.contains(step.kernel))
      kernels.emplace(step.kernel, module.kernel(step.kernel));
  const std::size_t count = plan.steps().size();
  std::vector<Accesses> accesses;
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));  // before[i][j]: j has ended when i begins
  for (std::size_t i = 0; i < count; ++i) {
    accesses.push_back(accesses_of(plan.steps()[i], plan.arrays().size(), kernels));
    for (const int after : plan.steps()[i].after) {
      before[i][after] = true;
      for (std::size_t j = 0; j < count; ++j)
        if (before[after][j]) before[i][j] = true;
      if (!conflict(accesses[i], accesses[after]))
        throw std::runtime_error("The table of streams orders " + name_of(plan, i) + " after " + name_of(plan, after) +
                                 ", which it does not conflict with.");
    }
    for (std::size_t j = 0; j < i; ++j)
      if (conflict(accesses[i], accesses[j]) && !before[i][j])
        throw std::runtime_error("The table of streams does not order " + name_of(plan, i) + " after " +
                                 name_of(plan, j) + ", which it conflicts with.");
  }
}

}  // namespace dag
