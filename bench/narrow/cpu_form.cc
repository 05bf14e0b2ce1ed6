// The host's cores: one, and all of them, which take the next few tasks when they have done theirs.
#include "../support/report.h"
#include "form.h"

namespace narrow {
namespace {

class Cpu : public Form {
 public:
  Cpu(const Problem& problem, bool one_core, std::size_t stride)
      : problem_(problem), one_core_(one_core), stride_(stride) {
    name = one_core ? "cpu1" : "cpu";
    if (stride > 1) params["measured_every"] = stride;
  }
  double run(Measure) override {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t tasks = problem_.tasks().size();
    if (one_core_)
      for (std::size_t i = 0; i < tasks; i += stride_) compute(i);
    else
      parallel_for(tasks, [&](std::size_t i) { compute(i); });
    const double ms = bench::ms_since(start);
    if (!one_core_) return ms;
    return ms * static_cast<double>(tasks) / static_cast<double>((tasks + stride_ - 1) / stride_);
  }
  void load() override {}
  void fetch(Measure) override {}
  void clobber() override {}
  bool can(Measure measure) const override { return measure == Measure::kCompute; }

 private:
  void compute(std::size_t i) const {
    const Task& task = problem_.tasks()[i];
    problem_.kind_of(task).compute(task, problem_.in() + task.in, problem_.out() + task.out);
  }
  const Problem& problem_;
  const bool one_core_;
  const std::size_t stride_;
};

}  // namespace

std::unique_ptr<Form> make_cpu(const Problem& problem, bool one_core, std::size_t stride) {
  return std::make_unique<Cpu>(problem, one_core, stride);
}

}  // namespace narrow
