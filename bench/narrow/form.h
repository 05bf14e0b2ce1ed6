// One way of running a problem's tasks, as the bench drives it: one form after another, each by itself on the device.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../support/gpu.h"
#include "pergola/pergola.hpp"
#include "pergola/tasks.hpp"
#include "problem.h"

namespace narrow {

// kCompute: data is on the device. kCopies: each task's inputs come from the host and its outputs go there.
enum class Measure { kCompute, kCopies };
inline const char* to_string(Measure measure) {
  return measure == Measure::kCompute ? "compute" : "copies";
}

class Form {
 public:
  virtual ~Form() = default;
  // All tasks once; the milliseconds from the first call to the end of the last task, or of the last copy. kCopies
  // leaves the outputs on the host.
  virtual double run(Measure measure) = 0;

  // None of these is timed; all wait.
  virtual void load() = 0;          // the inputs onto the device
  virtual void fetch(Measure) = 0;  // the outputs into the problem's memory, where a run has not put them there
  virtual void clobber() = 0;       // the outputs on the device get bytes that no result has
  virtual bool can(Measure) const { return true; }

  std::string name;
  nlohmann::json params = nlohmann::json::object();  // beside tasks and measure
  double instantiate_ms = 0;                         // of graphs
};

// Tasks first ... last - 1.
struct Range {
  std::size_t first = 0, last = 0;
};
// `count` ranges, or fewer where there are not as many tasks.
std::vector<Range> split(std::size_t tasks, std::size_t count);

// One core on every stride-th task, the time multiplied; and all cores.
std::unique_ptr<Form> make_cpu(const Problem& problem, bool one_core, std::size_t stride);

// ── By Pergola ──────────────────────────────────────────────────────────────────────────────────────────────────────

class PergolaData;
std::shared_ptr<PergolaData> make_pergola_data(const pergola::Session& session, const pergola::Module& module,
                                               const Problem& problem);
// What the last run's tasks left in their scratch memory.
std::vector<std::byte> scratch_of(PergolaData& data);
// An ordinary launch a task, in the order of the tasks.
std::unique_ptr<Form> make_launches(std::shared_ptr<PergolaData> data);
// A task of the pool each, spawned one by one or many at once; and in batches of so many.
std::unique_ptr<Form> make_tasks(std::shared_ptr<PergolaData> data, const pergola::TaskPool& pool,
                                 unsigned host_threads, bool at_once);
std::unique_ptr<Form> make_batches(std::shared_ptr<PergolaData> data, const pergola::TaskPool& pool, std::size_t batch);

// ── On a GPU, by the driver ─────────────────────────────────────────────────────────────────────────────────────────

// The problem's data on the device, for all hand-written forms.
class DeviceData {
 public:
  DeviceData(const bench::Gpu& gpu, const Problem& problem);
  ~DeviceData();
  DeviceData(const DeviceData&) = delete;
  DeviceData& operator=(const DeviceData&) = delete;

  void load() const;
  void fetch() const;
  void clobber() const;
  std::vector<std::byte> scratch() const;
  // A copy of what is one piece: the inputs or outputs of a range of tasks. Queued.
  void copy_in(const Range& tasks, bench::cuda::CUstream stream) const;
  void copy_out(const Range& tasks, bench::cuda::CUstream stream) const;

  const bench::Gpu& gpu;
  const Problem& problem;
  std::vector<Parameters> parameters;            // by task
  std::vector<bench::cuda::CUfunction> kernels;  // by kind
  bench::cuda::CUdeviceptr records = 0;          // of all tasks: Record

 private:
  Range bytes_in(const Range& tasks) const;
  Range bytes_out(const Range& tasks) const;
  bench::cuda::CUdeviceptr in_ = 0, out_ = 0, scratch_ = 0;
  std::vector<bench::cuda::CUdeviceptr> constants_;
};

std::vector<Record> records_of(const DeviceData& data);

// A form that works on `data`, which outlives it.
class HandWritten : public Form {
 public:
  explicit HandWritten(const DeviceData& data) : data_(data), gpu_(data.gpu) {}
  void load() override { data_.load(); }
  void fetch(Measure measure) override {
    if (measure == Measure::kCompute) data_.fetch();
  }
  void clobber() override { data_.clobber(); }

 protected:
  const DeviceData& data_;
  const bench::Gpu& gpu_;
};

std::unique_ptr<Form> make_streams(const DeviceData& data, unsigned host_threads);
// All nodes side by side, or in 32 chains.
std::unique_ptr<Form> make_graph(const DeviceData& data, bool in_chains);
std::unique_ptr<Form> make_fused(const DeviceData& data);
// `batches` times as many tasks a batch as the resident kernel has blocks.
std::unique_ptr<Form> make_gemtc(const DeviceData& data, std::size_t batches);

// Owns streams.
class Streams {
 public:
  Streams(const bench::Gpu& gpu, std::size_t count);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  bench::cuda::CUstream operator[](std::size_t i) const { return streams_[i % streams_.size()]; }
  std::size_t size() const { return streams_.size(); }
  void synchronize() const;

 private:
  const bench::Gpu& gpu_;
  std::vector<bench::cuda::CUstream> streams_;
};

// The driver's launch of one task.
void launch(const bench::Gpu& gpu, bench::cuda::CUfunction kernel, unsigned threads, const Parameters& parameters,
            bench::cuda::CUstream stream, unsigned blocks = 1);

}  // namespace narrow
