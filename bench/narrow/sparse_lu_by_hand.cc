// SLUD by the driver: on 32 streams that are joined after each phase, and as one graph with each task's own
// dependencies.
#include <algorithm>

#include "../support/report.h"
#include "sparse_lu.h"

namespace narrow {
namespace {

using bench::check;
using namespace bench::cuda;

constexpr std::size_t kStreams = 32;
constexpr unsigned kThreads = 128;

class LuByHand : public Form {
 public:
  LuByHand(const bench::Gpu& gpu, const SparseLu& lu) : gpu_(gpu), lu_(lu), streams_(gpu, kStreams) {
    check(gpu_->cuMemAlloc(&matrix_, lu.bytes()), "allocating the matrix");
    for (const char* kernel : kLuKernels) kernels_.push_back(gpu.function(kernel));
    for (const LuTask& task : lu.tasks()) {
      std::array<std::uint64_t, 3> pointers{};
      for (std::size_t i = 0; i < task.count; ++i) pointers[i] = matrix_ + task.blocks[i] * kBlockBytes;
      parameters_.push_back(pack(pointers));
      parameters_.back().size = task.count * 8u;
    }
  }
  ~LuByHand() override { gpu_->cuMemFree(matrix_); }

  double run(Measure measure) override {
    if (measure == Measure::kCompute) load();  // it is overwritten
    const auto start = std::chrono::steady_clock::now();
    if (measure == Measure::kCopies)
      check(gpu_->cuMemcpyHtoDAsync(matrix_, lu_.in(), lu_.bytes(), streams_[0]), "copying the matrix");
    factorize();
    if (measure == Measure::kCopies)
      check(gpu_->cuMemcpyDtoHAsync(lu_.out(), matrix_, lu_.bytes(), streams_[0]), "copying the factors");
    check(gpu_->cuStreamSynchronize(streams_[0]), "waiting for the factors");
    return bench::ms_since(start);
  }
  void load() override {
    check(gpu_->cuMemcpyHtoDAsync(matrix_, lu_.in(), lu_.bytes(), streams_[0]), "copying the matrix");
    check(gpu_->cuStreamSynchronize(streams_[0]), "copying the matrix");
  }
  void fetch(Measure measure) override {
    if (measure == Measure::kCopies) return;
    check(gpu_->cuMemcpyDtoHAsync(lu_.out(), matrix_, lu_.bytes(), streams_[0]), "copying the factors");
    check(gpu_->cuStreamSynchronize(streams_[0]), "copying the factors");
  }
  void clobber() override {}  // the matrix is copied in before each run

 protected:
  // After what is on streams_[0], and before what follows there.
  virtual void factorize() = 0;
  CUfunction kernel_of(const LuTask& task) const { return kernels_[static_cast<std::size_t>(task.step)]; }

  const bench::Gpu& gpu_;
  const SparseLu& lu_;
  const Streams streams_;
  std::vector<CUfunction> kernels_;
  std::vector<Parameters> parameters_;  // by task
  CUdeviceptr matrix_ = 0;
};

class LuStreams : public LuByHand {
 public:
  LuStreams(const bench::Gpu& gpu, const SparseLu& lu) : LuByHand(gpu, lu), ended_(kStreams) {
    name = "streams";
    params["host_threads"] = 1;
    for (CUevent& event : ended_) check(gpu_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
  }
  ~LuStreams() override {
    for (CUevent event : ended_) gpu_->cuEventDestroy(event);
  }

 private:
  // Stream 0 is what the phases have in common: the others wait for it and it waits for them.
  void factorize() override {
    for (const Range& phase : lu_.phases()) {
      const std::size_t used = std::min(kStreams, phase.last - phase.first);
      if (used > 1) check(gpu_->cuEventRecord(ended_[0], streams_[0]), "recording an event");
      for (std::size_t s = 1; s < used; ++s)
        check(gpu_->cuStreamWaitEvent(streams_[s], ended_[0], 0), "waiting for an event");
      for (std::size_t i = phase.first; i < phase.last; ++i)
        launch(gpu_, kernel_of(lu_.tasks()[i]), kThreads, parameters_[i], streams_[i - phase.first]);
      for (std::size_t s = 1; s < used; ++s) {
        check(gpu_->cuEventRecord(ended_[s], streams_[s]), "recording an event");
        check(gpu_->cuStreamWaitEvent(streams_[0], ended_[s], 0), "waiting for an event");
      }
    }
  }
  std::vector<CUevent> ended_;
};

class LuGraph : public LuByHand {
 public:
  LuGraph(const bench::Gpu& gpu, const SparseLu& lu) : LuByHand(gpu, lu) {
    name = "graph";
    params["shape"] = "each task's dependencies";
    const auto start = std::chrono::steady_clock::now();
    const auto dependencies = lu.dependencies();
    CUgraph graph = nullptr;
    check(gpu_->cuGraphCreate(&graph, 0), "making a graph");
    std::vector<CUgraphNode> nodes(lu.tasks().size()), after;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      after.clear();
      for (const std::uint32_t before : dependencies[i]) after.push_back(nodes[before]);
      add(graph, nodes[i], after, i);
    }
    check(gpu_->cuGraphInstantiateWithFlags(&graph_, graph, 0), "instantiating a graph");
    check(gpu_.upload_graph(graph_, streams_[0]), "uploading a graph");
    check(gpu_->cuStreamSynchronize(streams_[0]), "uploading a graph");
    check(gpu_->cuGraphDestroy(graph), "giving a graph up");
    instantiate_ms = bench::ms_since(start);
  }
  ~LuGraph() override { gpu_->cuGraphExecDestroy(graph_); }

 private:
  void add(CUgraph graph, CUgraphNode& node, const std::vector<CUgraphNode>& after, std::size_t task) {
    std::size_t size = parameters_[task].size;
    void* extra[] = {bench::kParameterBuffer, parameters_[task].bytes.data(), bench::kParameterBufferSize, &size,
                     nullptr};
    CUDA_KERNEL_NODE_PARAMS work{};
    work.func = kernel_of(lu_.tasks()[task]);
    work.gridDimX = work.gridDimY = work.gridDimZ = 1;
    work.blockDimX = kThreads, work.blockDimY = work.blockDimZ = 1;
    work.extra = extra;
    check(gpu_->cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &work), "adding a node");
  }
  void factorize() override { check(gpu_->cuGraphLaunch(graph_, streams_[0]), "launching a graph"); }
  CUgraphExec graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Form> make_lu_streams(const bench::Gpu& gpu, const SparseLu& lu) {
  return std::make_unique<LuStreams>(gpu, lu);
}
std::unique_ptr<Form> make_lu_graph(const bench::Gpu& gpu, const SparseLu& lu) {
  return std::make_unique<LuGraph>(gpu, lu);
}

}  // namespace narrow
