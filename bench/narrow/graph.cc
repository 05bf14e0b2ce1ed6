// A node a task. With copies a graph is made of each of some ranges of tasks; copies of the one run beside the graph of
// another.
#include <algorithm>

#include "../support/report.h"
#include "form.h"

namespace narrow {
namespace {

using bench::check;
using namespace bench::cuda;

constexpr std::size_t kChains = 32, kChunks = 16, kStreams = 4;

class GraphForm : public HandWritten {
 public:
  GraphForm(const DeviceData& data, bool in_chains)
      : HandWritten(data),
        chains_(in_chains ? kChains : 0),
        chunks_(split(data.problem.tasks().size(), kChunks)),
        streams_(data.gpu, kStreams) {
    name = "graph";
    params["shape"] = in_chains ? "32 chains" : "wide";
    const auto start = std::chrono::steady_clock::now();
    whole_ = instantiate({0, data.problem.tasks().size()});
    instantiate_ms = bench::ms_since(start);
    for (const Range& chunk : chunks_) of_chunks_.push_back(instantiate(chunk));
  }
  ~GraphForm() override {
    gpu_->cuGraphExecDestroy(whole_);
    for (CUgraphExec graph : of_chunks_) gpu_->cuGraphExecDestroy(graph);
  }
  double run(Measure measure) override {
    const auto start = std::chrono::steady_clock::now();
    if (measure == Measure::kCompute) {
      check(gpu_->cuGraphLaunch(whole_, streams_[0]), "launching a graph");
      check(gpu_->cuStreamSynchronize(streams_[0]), "waiting for a graph");
    } else {
      for (std::size_t i = 0; i < chunks_.size(); ++i) {
        data_.copy_in(chunks_[i], streams_[i]);
        check(gpu_->cuGraphLaunch(of_chunks_[i], streams_[i]), "launching a graph");
        data_.copy_out(chunks_[i], streams_[i]);
      }
      streams_.synchronize();
    }
    return bench::ms_since(start);
  }

 private:
  CUgraphExec instantiate(const Range& range) {
    CUgraph graph = nullptr;
    check(gpu_->cuGraphCreate(&graph, 0), "making a graph");
    std::vector<CUgraphNode> last(std::max<std::size_t>(chains_, 1));
    for (std::size_t i = range.first; i < range.last; ++i) {
      const Task& task = data_.problem.tasks()[i];
      const Parameters& parameters = data_.parameters[i];
      std::size_t size = parameters.size;
      void* extra[] = {bench::kParameterBuffer, const_cast<std::byte*>(parameters.bytes.data()),
                       bench::kParameterBufferSize, &size, nullptr};
      CUDA_KERNEL_NODE_PARAMS work{};
      work.func = data_.kernels[task.kind];
      work.gridDimX = work.gridDimY = work.gridDimZ = 1;
      work.blockDimX = task.threads, work.blockDimY = work.blockDimZ = 1;
      work.extra = extra;
      CUgraphNode& chain = last[chains_ == 0 ? 0 : i % chains_];
      const bool follows = chains_ != 0 && chain != nullptr;
      const CUgraphNode before = chain;
      check(gpu_->cuGraphAddKernelNode(&chain, graph, &before, follows ? 1 : 0, &work), "adding a node");
    }
    CUgraphExec executable = nullptr;
    check(gpu_->cuGraphInstantiateWithFlags(&executable, graph, 0), "instantiating a graph");
    check(gpu_.upload_graph(executable, streams_[0]), "uploading a graph");
    check(gpu_->cuStreamSynchronize(streams_[0]), "uploading a graph");
    check(gpu_->cuGraphDestroy(graph), "giving a graph up");
    return executable;
  }

  const std::size_t chains_;
  const std::vector<Range> chunks_;
  const Streams streams_;
  CUgraphExec whole_ = nullptr;
  std::vector<CUgraphExec> of_chunks_;
};

}  // namespace

std::unique_ptr<Form> make_graph(const DeviceData& data, bool in_chains) {
  return std::make_unique<GraphForm>(data, in_chains);
}

}  // namespace narrow
