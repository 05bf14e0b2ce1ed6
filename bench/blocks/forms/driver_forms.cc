#include "bench/blocks/forms/driver_forms.h"

#include <algorithm>
#include <array>

#include "bench/blocks/forms/dependencies.h"
#include "bench/support/report.h"

namespace pergola::bench::blocks {
namespace {

using namespace device::cuda;  // the driver's own names
using ::bench::Gpu;

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

constexpr int kCaptureOfThisThread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr std::size_t kMostStreams = 8;

struct Call {
  CUfunction function = nullptr;
  const device::KernelNode* work = nullptr;
  std::size_t bytes = 0;
  std::array<void*, 5> extra{};
  std::size_t stream = 0;
  std::vector<CUevent> waits;
  CUevent record = nullptr;
};

class DriverForm : public Form {
 public:
  DriverForm(const Gpu& gpu, ProgramOnDevice& loaded) : gpu_(gpu), loaded_(loaded), spec_(loaded.chain()) {
    for (const device::GraphNode& node : spec_.nodes) {
      Call call;
      call.work = &std::get<device::KernelNode>(node.work);
      call.function = gpu.function(call.work->kernel->signature().name);
      call.bytes = call.work->parameters.size();
      calls_.push_back(std::move(call));
    }
    for (Call& call : calls_)
      call.extra = {::bench::kParameterBuffer, const_cast<std::byte*>(call.work->parameters.data()),
                    ::bench::kParameterBufferSize, &call.bytes, nullptr};
  }
  ~DriverForm() override {
    gpu_.enter();
    if (executable_ != nullptr) gpu_->cuGraphExecDestroy(executable_);
    for (CUevent event : events_) gpu_->cuEventDestroy(event);
    for (CUstream stream : streams_) gpu_->cuStreamDestroy(stream);
  }
  DriverForm(const DriverForm&) = delete;
  DriverForm& operator=(const DriverForm&) = delete;

  void start_early() { starts_early_ = true; }

  // Gives each launch a stream: that of one it comes after where nothing has come between, else another.
  // False: one stream is all there is to have.
  bool spread(const std::vector<std::vector<std::size_t>>& after) {
    std::vector<std::size_t> last;  // by stream
    std::vector<CUevent> behind(calls_.size());
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      std::size_t stream = last.size();
      for (std::size_t s = 0; s < last.size(); ++s)
        if (std::find(after[i].begin(), after[i].end(), last[s]) != after[i].end()) stream = s;
      if (stream == kMostStreams)  // the one that has waited longest
        stream = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
      if (stream == last.size()) last.push_back(i);
      last[stream] = i;
      calls_[i].stream = stream;
      for (const std::size_t earlier : after[i]) {
        if (calls_[earlier].stream == stream) continue;
        if (behind[earlier] == nullptr) behind[earlier] = calls_[earlier].record = new_event();
        calls_[i].waits.push_back(behind[earlier]);
      }
    }
    add_streams(last.size());
    return last.size() > 1;
  }

  void add_streams(std::size_t count) {
    begin_ = new_event();
    for (std::size_t s = 0; s < count; ++s) {
      streams_.push_back(nullptr);
      ::bench::check(gpu_->cuStreamCreate(&streams_.back(), CU_STREAM_NON_BLOCKING), "making a stream");
      ends_.push_back(new_event());
    }
  }

  void capture() {
    const auto start = std::chrono::steady_clock::now();
    CUgraph graph = nullptr;
    ::bench::check(gpu_.begin_capture(streams_[0], kCaptureOfThisThread), "beginning a capture");
    launch_all();
    ::bench::check(gpu_.end_capture(streams_[0], &graph), "ending a capture");
    ::bench::check(gpu_->cuGraphInstantiateWithFlags(&executable_, graph, 0), "instantiating a graph");
    ::bench::check(gpu_.upload_graph(executable_, streams_[0]), "uploading a graph");
    ::bench::check(gpu_->cuStreamSynchronize(streams_[0]), "uploading a graph");
    instantiate_ms = ::bench::ms_since(start);
    ::bench::check(gpu_->cuGraphDestroy(graph), "destroying a graph");
  }

  void reset() override { must(loaded_.reset()); }
  std::string check() override {
    Result<std::string> wrong = loaded_.check();
    must(wrong.status());
    return *wrong;
  }
  void run() override {
    gpu_.enter();
    if (executable_ != nullptr)
      ::bench::check(gpu_->cuGraphLaunch(executable_, streams_[0]), "launching a graph");
    else
      launch_all();
    ::bench::check(gpu_->cuStreamSynchronize(streams_[0]), "waiting for a stream");
  }

 private:
  // Begins and ends on stream 0.
  void launch_all() {
    if (streams_.size() > 1) ::bench::check(gpu_->cuEventRecord(begin_, streams_[0]), "recording an event");
    for (std::size_t s = 1; s < streams_.size(); ++s)
      ::bench::check(gpu_->cuStreamWaitEvent(streams_[s], begin_, 0), "waiting for an event");
    for (Call& call : calls_) {
      CUstream stream = streams_[call.stream];
      for (CUevent event : call.waits)
        ::bench::check(gpu_->cuStreamWaitEvent(stream, event, 0), "waiting for an event");
      launch(call, stream);
      if (call.record != nullptr) ::bench::check(gpu_->cuEventRecord(call.record, stream), "recording an event");
    }
    for (std::size_t s = 1; s < streams_.size(); ++s) {
      ::bench::check(gpu_->cuEventRecord(ends_[s], streams_[s]), "recording an event");
      ::bench::check(gpu_->cuStreamWaitEvent(streams_[0], ends_[s], 0), "waiting for an event");
    }
  }

  void launch(Call& call, CUstream stream) {
    const device::LaunchConfig& shape = call.work->config;
    if (!starts_early_) {
      ::bench::check(
          gpu_.launch_kernel(call.function, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                             shape.block.z, shape.dynamic_shared_bytes, stream, nullptr, call.extra.data()),
          "launching a kernel");
      return;
    }
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config{shape.grid.x,
                                shape.grid.y,
                                shape.grid.z,
                                shape.block.x,
                                shape.block.y,
                                shape.block.z,
                                shape.dynamic_shared_bytes,
                                stream,
                                &early,
                                1};
    ::bench::check(gpu_->cuLaunchKernelEx(&config, call.function, nullptr, call.extra.data()),
                   "launching a kernel that starts early");
  }

  CUevent new_event() {
    events_.push_back(nullptr);
    ::bench::check(gpu_->cuEventCreate(&events_.back(), CU_EVENT_DISABLE_TIMING), "making an event");
    return events_.back();
  }

  const Gpu& gpu_;
  ProgramOnDevice& loaded_;
  const device::GraphSpec spec_;
  std::vector<Call> calls_;
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_, ends_;
  CUevent begin_ = nullptr;
  CUgraphExec executable_ = nullptr;
  bool starts_early_ = false;
};

}  // namespace

std::unique_ptr<Form> driver_form(const Gpu& gpu, const Program& program, const ptx::Module& module,
                                  ProgramOnDevice& loaded, DriverStyle style) {
  gpu.enter();
  auto form = std::make_unique<DriverForm>(gpu, loaded);
  const bool several = style == DriverStyle::kStreams || style == DriverStyle::kGraphStreams;
  if (several && !form->spread(dependencies_of(program, module))) return nullptr;
  if (!several) form->add_streams(1);
  if (style == DriverStyle::kProgrammatic) form->start_early();
  if (style != DriverStyle::kStream && style != DriverStyle::kStreams) form->capture();
  constexpr const char* kNames[] = {"stream", "streams", "graph", "graph-streams", "graph-programmatic"};
  form->name = kNames[static_cast<int>(style)];
  return form;
}

}  // namespace pergola::bench::blocks
