// A task of the pool each, spawned by one or several host threads as its data is there, one by one or many at once; or
// in batches, each of which waits for the one before (section 6.6).
#include <algorithm>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "../support/report.h"
#include "pergola_data.h"

namespace narrow {
namespace {

class Tasks : public Form {
 public:
  Tasks(std::shared_ptr<PergolaData> data, pergola::TaskPool pool, unsigned host_threads, std::size_t batch,
        bool at_once)
      : data_(std::move(data)),
        pool_(std::move(pool)),
        host_threads_(host_threads),
        batch_(batch),
        at_once_(at_once),
        ids_(data_->problem.tasks().size()) {
    name = batch == 0 ? "pergola" : "pergola-batch";
    if (batch == 0)
      params["host_threads"] = host_threads;
    else
      params["batch"] = batch;
    if (at_once) params["spawned"] = "at once";
    std::map<std::tuple<std::uint32_t, unsigned, unsigned>, std::uint32_t> known;
    for (const Task& task : data_->problem.tasks()) {
      const auto [at, is_new] =
          known.try_emplace({task.kind, task.threads, task.blocks}, static_cast<std::uint32_t>(kinds_.size()));
      if (is_new) kinds_.push_back(pool_.prepare(data_->kernels[task.kind], pergola::grid(task.blocks, task.threads)));
      kind_of_.push_back(at->second);
    }
  }

  double run(Measure measure) override {
    const auto start = std::chrono::steady_clock::now();
    if (measure == Measure::kCompute)
      spawn({0, ids_.size()});
    else
      with_copies();
    pool_.wait_all();
    if (measure == Measure::kCopies) data_->wait_out();
    return bench::ms_since(start);
  }
  void load() override { data_->load(); }
  void fetch(Measure measure) override {
    if (measure == Measure::kCompute)
      for (std::size_t range = 0; range < data_->ranges.size(); ++range) data_->start_out(range);
    data_->fetch();
    const pergola_task_pool_info info = pool_.info();
    params["blocks"] = info.blocks;
    params["registers"] = info.registers_per_thread;
    if (info.local_bytes_per_thread != 0) params["local_bytes"] = info.local_bytes_per_thread;
  }
  void clobber() override { data_->clobber(); }

 private:
  // A range's tasks are spawned when its inputs have arrived, and its outputs leave when they have ended.
  void with_copies() {
    const auto& ranges = data_->ranges;
    data_->start_in();
    const auto finish = [&](std::size_t range) {
      for (std::size_t i = ranges[range].first; i < ranges[range].last; ++i) pool_.wait(ids_[i]);
      data_->start_out(range);
    };
    for (std::size_t range = 0; range < ranges.size(); ++range) {
      data_->wait_in(range);
      spawn(ranges[range]);
      if (range > 0) finish(range - 1);
    }
    finish(ranges.size() - 1);
  }
  void spawn(const Range& range) {
    if (batch_ != 0) {
      for (std::size_t first = range.first; first < range.last; first += batch_) {
        spawn_part({first, std::min(first + batch_, range.last)}, 0);
        pool_.wait_all();
      }
      return;
    }
    std::vector<std::exception_ptr> failed(host_threads_);
    std::vector<std::thread> others;
    for (unsigned t = 1; t < host_threads_; ++t)
      others.emplace_back([&, t] {
        try {
          spawn_part(range, t);
        } catch (...) {
          failed[t] = std::current_exception();
        }
      });
    spawn_part(range, 0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& one : failed)
      if (one) std::rethrow_exception(one);
  }
  // Every host_threads-th task of the range; at once, that part of it, in runs of one kind.
  void spawn_part(const Range& range, unsigned thread) {
    if (at_once_) {
      const std::size_t part = (range.last - range.first + host_threads_ - 1) / host_threads_;
      const std::size_t last = std::min(range.last, range.first + (thread + 1) * part);
      for (std::size_t first = range.first + thread * part, end; first < last; first = end) {
        for (end = first + 1; end < last && kind_of_[end] == kind_of_[first];) ++end;
        const Parameters& parameters = data_->parameters[first];
        if (pergola_task_spawn_many(kinds_[kind_of_[first]].handle(), parameters.bytes.data(), parameters.size,
                                    sizeof(Parameters), end - first, &ids_[first], nullptr) != PERGOLA_OK)
          throw std::runtime_error(pergola_last_error());
      }
      return;
    }
    const unsigned step = batch_ != 0 ? 1 : host_threads_;
    for (std::size_t i = range.first + thread; i < range.last; i += step) {
      const Parameters& parameters = data_->parameters[i];
      ids_[i] = kinds_[kind_of_[i]].spawn_packed(std::span<const std::byte>(parameters.bytes.data(), parameters.size));
    }
  }

  const std::shared_ptr<PergolaData> data_;
  const pergola::TaskPool pool_;
  const unsigned host_threads_;
  const std::size_t batch_;  // 0: none
  const bool at_once_;
  std::vector<pergola::TaskKind> kinds_;
  std::vector<std::uint32_t> kind_of_;  // by task
  std::vector<pergola::TaskId> ids_;    // by task
};

}  // namespace

std::unique_ptr<Form> make_tasks(std::shared_ptr<PergolaData> data, const pergola::TaskPool& pool,
                                 unsigned host_threads, bool at_once) {
  return std::make_unique<Tasks>(std::move(data), pool, host_threads, 0, at_once);
}
std::unique_ptr<Form> make_batches(std::shared_ptr<PergolaData> data, const pergola::TaskPool& pool,
                                   std::size_t batch) {
  return std::make_unique<Tasks>(std::move(data), pool, 1, batch, false);
}

}  // namespace narrow
