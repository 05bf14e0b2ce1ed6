// A launch a task on 32 streams, by one or several host threads. With copies each task's inputs, launch and outputs
// follow each other on its stream.
#include <exception>
#include <thread>

#include "../support/report.h"
#include "form.h"

namespace narrow {
namespace {

constexpr std::size_t kStreams = 32;

class StreamsForm : public HandWritten {
 public:
  StreamsForm(const DeviceData& data, unsigned host_threads)
      : HandWritten(data), host_threads_(host_threads), streams_(data.gpu, kStreams) {
    name = "streams";
    params["host_threads"] = host_threads;
  }
  double run(Measure measure) override {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::exception_ptr> failed(host_threads_);
    std::vector<std::thread> others;
    for (unsigned t = 1; t < host_threads_; ++t)
      others.emplace_back([&, t] {
        try {
          gpu_.enter();
          queue(measure, t);
        } catch (...) {
          failed[t] = std::current_exception();
        }
      });
    queue(measure, 0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& one : failed)
      if (one) std::rethrow_exception(one);
    streams_.synchronize();
    return bench::ms_since(start);
  }

 private:
  // The tasks of every host_threads-th stream.
  void queue(Measure measure, unsigned thread) {
    const auto& tasks = data_.problem.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (i % kStreams % host_threads_ != thread) continue;
      if (measure == Measure::kCopies) data_.copy_in({i, i + 1}, streams_[i]);
      launch(gpu_, data_.kernels[tasks[i].kind], tasks[i].threads, data_.parameters[i], streams_[i], tasks[i].blocks);
      if (measure == Measure::kCopies) data_.copy_out({i, i + 1}, streams_[i]);
    }
  }
  const unsigned host_threads_;
  const Streams streams_;
};

}  // namespace

std::unique_ptr<Form> make_streams(const DeviceData& data, unsigned host_threads) {
  return std::make_unique<StreamsForm>(data, host_threads);
}

}  // namespace narrow
