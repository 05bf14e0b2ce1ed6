// All tasks as one grid whose block b does task b. With copies a grid for each of some ranges, beside the copies of
// others.
#include "../support/report.h"
#include "form.h"

namespace narrow {
namespace {

using bench::check;
using namespace bench::cuda;

constexpr std::size_t kChunks = 16, kStreams = 4;

class Fused : public HandWritten {
 public:
  explicit Fused(const DeviceData& data)
      : HandWritten(data),
        kernel_(data.gpu.function("fused_" + data.problem.by_hand())),
        chunks_(split(data.problem.tasks().size(), kChunks)),
        streams_(data.gpu, kStreams) {
    name = "fused";
    params["block"] = data.problem.most_threads();
  }
  double run(Measure measure) override {
    const auto start = std::chrono::steady_clock::now();
    if (measure == Measure::kCompute) {
      launch_range({0, data_.problem.tasks().size()}, streams_[0]);
    } else {
      for (std::size_t i = 0; i < chunks_.size(); ++i) {
        data_.copy_in(chunks_[i], streams_[i]);
        launch_range(chunks_[i], streams_[i]);
        data_.copy_out(chunks_[i], streams_[i]);
      }
    }
    streams_.synchronize();
    return bench::ms_since(start);
  }

 private:
  void launch_range(const Range& range, CUstream stream) const {
    CUdeviceptr records = data_.records + range.first * sizeof(Record);
    void* parameters[] = {&records};
    check(gpu_.launch_kernel(kernel_, static_cast<unsigned>(range.last - range.first), 1, 1,
                             data_.problem.most_threads(), 1, 1, 0, stream, parameters, nullptr),
          "launching the fused grid");
  }
  const CUfunction kernel_;
  const std::vector<Range> chunks_;
  const Streams streams_;
};

}  // namespace

std::unique_ptr<Form> make_fused(const DeviceData& data) {
  return std::make_unique<Fused>(data);
}

}  // namespace narrow
