// GeMTC (Krieder et al., HPDC'14) as by_hand.cu has it: a resident kernel, each block of which takes the next task of
// one queue; the host sends a batch when all tasks of the one before have ended. With copies a batch's inputs are
// copied before it is sent and its outputs when it has ended, beside the next.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "../support/report.h"
#include "form.h"

namespace narrow {
namespace {

using bench::check;
using namespace bench::cuda;

constexpr unsigned kLeave = 0x80000000u;
constexpr std::size_t kTailOffset = 8, kQueueBytes = 16;
constexpr auto kPatience = std::chrono::seconds(60);

class Gemtc : public HandWritten {
 public:
  Gemtc(const DeviceData& data, std::size_t batches)
      : HandWritten(data),
        kernel_(data.gpu.function("gemtc_" + data.problem.by_hand())),
        table_(records_of(data)),
        streams_(data.gpu, 3),
        pinned_(&data.gpu),
        pinned_table_(pinned_.take<Record>(table_.size())),
        tail_(pinned_.take<unsigned>(table_.size() + 1)),
        done_(pinned_.take<unsigned>(16).data()) {
    name = "gemtc";
    int blocks = 0;
    check(gpu_->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_, static_cast<int>(threads_), 0),
          "asking for the occupancy");
    blocks_ = static_cast<unsigned>(blocks * gpu_.multiprocessors());
    batch_ = blocks_ * batches;
    params["blocks"] = blocks_;
    params["batch"] = batch_;
    std::copy(table_.begin(), table_.end(), pinned_table_.begin());
    check(gpu_->cuMemAlloc(&queue_, kQueueBytes), "allocating the queue");
    check(gpu_->cuMemAlloc(&records_, table_.size() * sizeof(Record)), "allocating the queue");
  }
  ~Gemtc() override {
    gpu_->cuMemFree(queue_);
    gpu_->cuMemFree(records_);
  }
  double run(Measure measure) override {
    start_kernel();
    const auto start = std::chrono::steady_clock::now();
    const std::size_t tasks = table_.size();
    for (std::size_t first = 0; first < tasks; first += batch_) {
      const Range range{first, std::min(first + batch_, tasks)};
      if (measure == Measure::kCopies) data_.copy_in(range, streams_[1]);
      check(gpu_->cuMemcpyHtoDAsync(records_ + first * sizeof(Record), &pinned_table_[first],
                                    (range.last - first) * sizeof(Record), streams_[1]),
            "sending a batch");
      send_tail(range.last, static_cast<unsigned>(range.last));
      wait(static_cast<unsigned>(range.last));
      if (measure == Measure::kCopies) data_.copy_out(range, streams_[2]);
    }
    check(gpu_->cuStreamSynchronize(streams_[2]), "copying outputs");
    const double ms = bench::ms_since(start);
    send_tail(0, static_cast<unsigned>(tasks) | kLeave);
    check(gpu_->cuStreamSynchronize(streams_[0]), "ending the resident kernel");
    return ms;
  }

 private:
  void start_kernel() {
    *done_ = 0;
    check(gpu_->cuMemsetD8Async(queue_, 0, kQueueBytes, streams_[0]), "clearing the queue");
    CUdeviceptr done = 0;
    check(gpu_->cuMemHostGetDevicePointer(&done, done_, 0), "finding the flag's address");
    void* parameters[] = {&queue_, &records_, &done};
    check(gpu_.launch_kernel(kernel_, blocks_, 1, 1, threads_, 1, 1, 0, streams_[0], parameters, nullptr),
          "launching the resident kernel");
  }
  // `slot`: of page-locked memory, one a copy, because copies are queued.
  void send_tail(std::size_t slot, unsigned value) {
    tail_[slot] = value;
    check(gpu_->cuMemcpyHtoDAsync(queue_ + kTailOffset, &tail_[slot], sizeof value, streams_[1]), "sending the tail");
  }
  void wait(unsigned tasks) const {
    const auto start = std::chrono::steady_clock::now();
    const std::atomic_ref<unsigned> done(*done_);
    for (unsigned spins = 1; done.load(std::memory_order_acquire) != tasks; ++spins)
      if (spins % 0x100000 == 0 && std::chrono::steady_clock::now() - start > kPatience)
        throw std::runtime_error("The resident kernel of gemtc does not end a batch.");
  }

  const CUfunction kernel_;
  const std::vector<Record> table_;
  const Streams streams_;  // of the kernel, of what goes to the device, of what comes from it
  bench::HostMemory pinned_;
  const std::span<Record> pinned_table_;
  const std::span<unsigned> tail_;
  unsigned* const done_;
  const unsigned threads_ = std::min(128u, data_.problem.most_threads());  // of a worker: what by_hand.cu allows
  unsigned blocks_ = 0;
  std::size_t batch_ = 0;
  CUdeviceptr queue_ = 0, records_ = 0;
};

}  // namespace

std::unique_ptr<Form> make_gemtc(const DeviceData& data, std::size_t batches) {
  return std::make_unique<Gemtc>(data, batches);
}

}  // namespace narrow
