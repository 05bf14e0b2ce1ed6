#include "pergola_data.h"

#include <algorithm>

namespace narrow {
namespace {

constexpr std::size_t kRanges = 16;

std::size_t begin_of(const Problem& problem, const Range& range, std::size_t Task::* where) {
  return problem.tasks()[range.first].*where;
}
std::size_t end_of(const Problem& problem, const Range& range, std::size_t Task::* where, std::size_t whole) {
  return range.last == problem.tasks().size() ? whole : problem.tasks()[range.last].*where;
}

}  // namespace

PergolaData::PergolaData(const pergola::Session& on, const pergola::Module& kernels_of, const Problem& of)
    : session(on),
      problem(of),
      ranges(split(of.tasks().size(), kRanges)),
      scratch_(on.array<std::byte>(std::max<std::size_t>(of.bytes().scratch, 1))) {
  for (const auto& kind : of.kinds()) {
    kernels.push_back(kernels_of.kernel(kind->kernel));
    constants_.push_back(on.array<std::byte>(std::max<std::size_t>(kind->constants.size(), 1)));
    if (!kind->constants.empty()) constants_.back().write(kind->constants);
  }
  for (const Range& range : ranges) {
    const std::size_t in = begin_of(of, range, &Task::in), out = begin_of(of, range, &Task::out);
    const std::size_t in_bytes = end_of(of, range, &Task::in, of.bytes().in) - in;
    const std::size_t out_bytes = end_of(of, range, &Task::out, of.bytes().out) - out;
    in_.emplace_back();
    if (in_bytes != 0) in_.back().emplace(on.array<std::byte>(in_bytes));
    out_.push_back(on.array<std::byte>(out_bytes));
    for (std::size_t i = range.first; i < range.last; ++i) {
      const Task& task = of.tasks()[i];
      const std::uint64_t in_base = in_.back() ? in_.back()->address() : 0;
      parameters.push_back(
          of.kind_of(task).parameters(task, {in_base + task.in - in, out_.back().address() + task.out - out,
                                             scratch_.address() + task.scratch, constants_[task.kind].address()}));
    }
  }
  session.synchronize();
}

void PergolaData::start_in() {
  arrived_.clear();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (in_[i]) {
      const auto host = in_[i]->host_write();
      if (filled_.insert(host.data()).second)
        std::memcpy(host.data(), problem.in() + begin_of(problem, ranges[i], &Task::in), host.size_bytes());
      in_[i]->prefetch();
    }
    arrived_.push_back(session.record());
  }
}

void PergolaData::wait_in(std::size_t range) {
  arrived_[range].wait();
}

void PergolaData::start_out(std::size_t range) {
  session.call("tasks", {pergola::out(out_[range])}, [](void*) {});
  out_[range].prefetch_to_host();
}

void PergolaData::wait_out() {
  for (const Bytes& out : out_) out.host_read();
}

void PergolaData::load() {
  start_in();
  session.synchronize();
}

void PergolaData::fetch() {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto host = out_[i].host_read();
    std::memcpy(problem.out() + begin_of(problem, ranges[i], &Task::out), host.data(), host.size_bytes());
  }
}

std::vector<std::byte> PergolaData::scratch() {
  session.call("tasks", {pergola::out(scratch_)}, [](void*) {});
  const auto bytes = scratch_.read();
  return {bytes.begin(), bytes.end()};
}

void PergolaData::clobber() {
  for (Bytes& out : out_) out.fill(std::byte{0xff});
  session.synchronize();
}

std::shared_ptr<PergolaData> make_pergola_data(const pergola::Session& session, const pergola::Module& module,
                                               const Problem& problem) {
  return std::make_shared<PergolaData>(session, module, problem);
}
std::vector<std::byte> scratch_of(PergolaData& data) {
  return data.scratch();
}

}  // namespace narrow
