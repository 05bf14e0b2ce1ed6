#include "hand_written.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "../support/report.h"

namespace dag {
namespace {

using namespace pergola::device::cuda;  // the driver's own names

constexpr int kCaptureOfThisThread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr unsigned kRepeatThreads = 256;

// A step with what its driver call takes.
struct Prepared {
  Step step;
  CUfunction function = nullptr;
  std::vector<std::uint64_t> values;  // of the arguments
  std::vector<void*> pointers;        // to them
  CUdeviceptr address = 0;            // of a copy, as the next two
  void* host = nullptr;
  std::size_t bytes = 0;
};

struct Call {
  enum class Kind { kStep, kRecord, kWait, kLaunchGraph, kSynchronize };
  Kind kind = Kind::kStep;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  Prepared* step = nullptr;
  CUgraphExec graph = nullptr;
};

using TimePoint = std::chrono::steady_clock::time_point;
TimePoint now() {
  return std::chrono::steady_clock::now();
}

// Which events a table of streams needs.
struct Synchronisation {
  std::vector<std::vector<int>> waits;  // by step: the steps on other streams that it waits for
  std::vector<bool> is_waited_for;
  std::vector<int> ends;  // the last steps of the streams that nobody waits for
};

Synchronisation synchronisation_of(const Plan& plan) {
  const auto& steps = plan.steps();
  const int streams = plan.stream_count();
  using Clock = std::vector<int>;  // by stream: its last step that has ended
  std::vector<Clock> of_stream(streams, Clock(streams, -1)), of_step(steps.size());
  Synchronisation result{std::vector<std::vector<int>>(steps.size()), std::vector<bool>(steps.size()), {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Clock& clock = of_stream[steps[i].stream];
    std::vector<int> after = steps[i].after;
    std::sort(after.begin(), after.end(), std::greater<>());  // later ones imply earlier ones
    for (const int other : after) {
      if (clock[steps[other].stream] >= other || steps[other].stream == steps[i].stream) continue;
      result.waits[i].push_back(other);
      result.is_waited_for[other] = true;
      for (int s = 0; s < streams; ++s) clock[s] = std::max(clock[s], of_step[other][s]);
    }
    clock[steps[i].stream] = static_cast<int>(i);
    of_step[i] = clock;
  }
  for (int s = 0; s < streams; ++s) {
    bool implied = of_stream[s][s] < 0;
    for (int other = 0; other < streams; ++other) implied |= other != s && of_stream[other][s] == of_stream[s][s];
    if (!implied) result.ends.push_back(of_stream[s][s]);
  }
  return result;
}

class HandWritten : public Form {
 public:
  HandWritten(const Gpu& gpu, const Plan& plan, Style style) : gpu_(gpu), plan_(plan) {
    for (const Plan::Array& array : plan.arrays()) {
      addresses_.push_back(0);
      check(gpu_->cuMemAlloc(&addresses_.back(), array.bytes), "allocating device memory");
      if (array.is_zeroed) check(gpu_->cuMemsetD8Async(addresses_.back(), 0, array.bytes, nullptr), "filling");
    }
    check(gpu_->cuStreamSynchronize(nullptr), "filling");
    for (int i = 0; i < plan.stream_count(); ++i) {
      streams_.push_back(nullptr);
      check(gpu_->cuStreamCreate(&streams_.back(), CU_STREAM_NON_BLOCKING), "making a stream");
    }
    if (!plan.is_tiled()) prepare(cold_, plan, style);
    prepare(resident_, plan.resident(), style);
    instantiate_ms = resident_.instantiate_ms;
  }
  ~HandWritten() override {
    for (CUgraphExec graph : graphs_) gpu_->cuGraphExecDestroy(graph);
    for (CUevent event : events_) gpu_->cuEventDestroy(event);
    for (CUstream stream : streams_) gpu_->cuStreamDestroy(stream);
    for (const CUdeviceptr address : addresses_) gpu_->cuMemFree(address);
  }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;

  void run(Measure measure) override {
    const Schedule& schedule = measure == Measure::kCold ? cold_ : resident_;
    const TimePoint start = now();
    for (const Call& call : schedule.calls) make(call);
    if (measure == Measure::kResident && !schedule.ends.empty()) submit_ms = bench::ms_since(start);
    for (CUstream stream : schedule.ends) check(gpu_->cuStreamSynchronize(stream), "waiting for a stream");
  }
  void load() override {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const Plan::Array& array = plan_.arrays()[i];
      if (array.host != nullptr && !array.is_output) fill(addresses_[i], array);
    }
    check(gpu_->cuStreamSynchronize(nullptr), "copying to the device");
  }
  void fetch(std::size_t piece) override {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const Plan::Array& array = plan_.arrays()[i];
      if (array.is_output)
        check(gpu_->cuMemcpyDtoHAsync(array.host, addresses_[i] + piece * array.host_bytes, array.host_bytes, nullptr),
              "copying from the device");
    }
    check(gpu_->cuStreamSynchronize(nullptr), "copying from the device");
  }
  std::vector<std::span<std::byte>> on_host() const override {
    std::vector<std::span<std::byte>> all;
    for (const Plan::Array& array : plan_.arrays())
      if (array.host != nullptr) all.emplace_back(static_cast<std::byte*>(array.host), array.host_bytes);
    return all;
  }
  void clobber() override {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const Plan::Array& array = plan_.arrays()[i];
      if (array.is_output) check(gpu_->cuMemsetD8Async(addresses_[i], 0xff, array.bytes, nullptr), "filling");
    }
    check(gpu_->cuStreamSynchronize(nullptr), "filling");
  }

 private:
  struct Schedule {
    std::vector<Prepared> steps;
    std::vector<Call> calls;
    std::vector<CUstream> ends;  // that the host waits for after the calls
    double instantiate_ms = 0;
  };

  void prepare(Schedule& schedule, const Plan& plan, Style style) {
    for (const Step& step : plan.steps()) schedule.steps.push_back(prepared(step));
    for (Prepared& step : schedule.steps)
      for (std::uint64_t& value : step.values) step.pointers.push_back(&value);
    using enum Call::Kind;
    switch (style) {
      case Style::kSerial:
        for (Prepared& step : schedule.steps) {
          schedule.calls.push_back({kStep, streams_[0], nullptr, &step});
          schedule.calls.push_back({kSynchronize, streams_[0]});
        }
        return;
      case Style::kStreams: schedule.calls = in_streams(schedule, plan, false); return;
      case Style::kCapture:
      case Style::kGraph: break;
    }
    const std::vector<Call> captured =
        style == Style::kCapture ? in_streams(schedule, plan, true) : std::vector<Call>{};
    const TimePoint start = now();
    CUgraph graph = style == Style::kCapture ? capture(captured) : explicit_graph(schedule.steps);
    CUgraphExec executable = nullptr;
    check(gpu_->cuGraphInstantiateWithFlags(&executable, graph, 0), "instantiating a graph");
    graphs_.push_back(executable);
    check(gpu_.upload_graph(executable, streams_[0]), "uploading a graph");
    check(gpu_->cuStreamSynchronize(streams_[0]), "uploading a graph");
    schedule.instantiate_ms = bench::ms_since(start);
    check(gpu_->cuGraphDestroy(graph), "destroying a graph");
    schedule.calls = {{kLaunchGraph, streams_[0], nullptr, nullptr, executable}};
    schedule.ends = {streams_[0]};
  }

  // What the host has of an input, and on the device what that is repeated to.
  void fill(CUdeviceptr to, const Plan::Array& array) {
    const Tiling& tiling = array.tiling;
    if (!tiling.is_tiled())
      return check(gpu_->cuMemcpyHtoDAsync(to, array.host, array.bytes, nullptr), "copying to the device");
    const std::size_t tile_bytes = array.host_bytes / tiling.parts, part_bytes = array.bytes / tiling.parts;
    for (std::size_t part = 0; part < tiling.parts; ++part) {
      CUdeviceptr at = to + part * part_bytes;
      const auto* const tile = static_cast<const std::byte*>(array.host) + part * tile_bytes;
      check(gpu_->cuMemcpyHtoDAsync(at, tile, tile_bytes, nullptr), "copying to the device");
      std::uint64_t elements_of_tile = tile_bytes / array.element_bytes, elements = part_bytes / array.element_bytes;
      auto shift = static_cast<std::uint64_t>(tiling.shift);
      const auto blocks = static_cast<unsigned>((elements + kRepeatThreads - 1) / kRepeatThreads);
      void* arguments[] = {&at, &elements_of_tile, &elements, &shift};
      check(gpu_.launch_kernel(gpu_.function(array.element_bytes == 4 ? "repeat_int" : "repeat_long"), blocks, 1, 1,
                               kRepeatThreads, 1, 1, 0, nullptr, arguments, nullptr),
            "repeating a tile");
    }
  }

  Prepared prepared(const Step& step) {
    Prepared result;
    result.step = step;
    if (step.kind == StepKind::kKernel) {
      result.function = gpu_.function(step.kernel);
      for (const Argument& argument : step.arguments)
        result.values.push_back(argument.array < 0 ? argument.bits : addresses_[argument.array]);
    } else {
      const Plan::Array& array = plan_.arrays()[step.array];
      result.address = addresses_[step.array];
      result.host = array.host;
      result.bytes = array.bytes;
    }
    return result;
  }

  // To be captured, the calls begin and end on stream 0; else the host waits at the end.
  std::vector<Call> in_streams(Schedule& schedule, const Plan& plan, bool captured) {
    std::vector<Prepared>& steps = schedule.steps;
    using enum Call::Kind;
    const Synchronisation needed = synchronisation_of(plan);
    std::vector<Call> calls;
    if (captured) {
      calls.push_back({kRecord, streams_[0], event()});
      for (int i = 1; i < plan.stream_count(); ++i) calls.push_back({kWait, streams_[i], calls[0].event});
    }
    std::vector<CUevent> behind(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CUstream stream = streams_[steps[i].step.stream];
      for (const int other : needed.waits[i]) calls.push_back({kWait, stream, behind[other]});
      calls.push_back({kStep, stream, nullptr, &steps[i]});
      if (needed.is_waited_for[i]) calls.push_back({kRecord, stream, behind[i] = event()});
    }
    for (const int last : needed.ends) {
      CUstream stream = streams_[steps[last].step.stream];
      if (!captured) {
        schedule.ends.push_back(stream);
      } else if (stream != streams_[0]) {
        calls.push_back({kRecord, stream, event()});
        calls.push_back({kWait, streams_[0], calls.back().event});
      }
    }
    return calls;
  }

  CUgraph capture(const std::vector<Call>& calls) {
    CUgraph graph = nullptr;
    check(gpu_.begin_capture(streams_[0], kCaptureOfThisThread), "beginning a capture");
    for (const Call& call : calls) make(call);
    check(gpu_.end_capture(streams_[0], &graph), "ending a capture");
    return graph;
  }

  CUgraph explicit_graph(std::vector<Prepared>& steps) {
    CUgraph graph = nullptr;
    check(gpu_->cuGraphCreate(&graph, 0), "making a graph");
    std::vector<CUgraphNode> nodes(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Prepared& step = steps[i];
      std::vector<CUgraphNode> after;
      for (const int other : step.step.after) after.push_back(nodes[other]);
      if (step.step.kind == StepKind::kKernel) {
        const pergola::Grid& shape = step.step.shape;
        const CUDA_KERNEL_NODE_PARAMS work{
            step.function,        shape.blocks.x,  shape.blocks.y,  shape.blocks.z,
            shape.threads.x,      shape.threads.y, shape.threads.z, shape.dynamic_shared_bytes,
            step.pointers.data(), nullptr,         nullptr,         nullptr};
        check(gpu_->cuGraphAddKernelNode(&nodes[i], graph, after.data(), after.size(), &work), "adding a kernel");
      } else {
        CUDA_MEMCPY3D work{};
        const bool in = step.step.kind == StepKind::kCopyIn;
        work.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        work.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        (in ? work.dstDevice : work.srcDevice) = step.address;
        if (in)
          work.srcHost = step.host;
        else
          work.dstHost = step.host;
        work.WidthInBytes = step.bytes;
        work.Height = work.Depth = 1;
        check(gpu_->cuGraphAddMemcpyNode(&nodes[i], graph, after.data(), after.size(), &work, gpu_.context()),
              "adding a copy");
      }
    }
    return graph;
  }

  CUevent event() {
    events_.push_back(nullptr);
    check(gpu_->cuEventCreate(&events_.back(), CU_EVENT_DISABLE_TIMING), "making an event");
    return events_.back();
  }

  void make(const Call& call) {
    switch (call.kind) {
      case Call::Kind::kStep: return make_step(*call.step, call.stream);
      case Call::Kind::kRecord: return check(gpu_->cuEventRecord(call.event, call.stream), "recording an event");
      case Call::Kind::kWait: return check(gpu_->cuStreamWaitEvent(call.stream, call.event, 0), "waiting for an event");
      case Call::Kind::kLaunchGraph: return check(gpu_->cuGraphLaunch(call.graph, call.stream), "launching a graph");
      case Call::Kind::kSynchronize: return check(gpu_->cuStreamSynchronize(call.stream), "waiting for a stream");
    }
  }
  void make_step(Prepared& step, CUstream stream) {
    const pergola::Grid& shape = step.step.shape;
    switch (step.step.kind) {
      case StepKind::kCopyIn:
        return check(gpu_->cuMemcpyHtoDAsync(step.address, step.host, step.bytes, stream), "copying to the device");
      case StepKind::kCopyOut:
        return check(gpu_->cuMemcpyDtoHAsync(step.host, step.address, step.bytes, stream), "copying from the device");
      case StepKind::kKernel:
        return check(gpu_.launch_kernel(step.function, shape.blocks.x, shape.blocks.y, shape.blocks.z, shape.threads.x,
                                        shape.threads.y, shape.threads.z, shape.dynamic_shared_bytes, stream,
                                        step.pointers.data(), nullptr),
                     "launching a kernel");
    }
  }

  const Gpu& gpu_;
  const Plan plan_;
  std::vector<CUdeviceptr> addresses_;
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_;
  std::vector<CUgraphExec> graphs_;
  Schedule cold_, resident_;
};

}  // namespace

std::unique_ptr<Form> hand_written(const Gpu& gpu, const Plan& plan, Style style) {
  auto form = std::make_unique<HandWritten>(gpu, plan, style);
  switch (style) {
    case Style::kSerial: form->name = "serial"; break;
    case Style::kStreams: form->name = "streams"; break;
    case Style::kCapture: form->name = "capture"; break;
    case Style::kGraph: form->name = "graph"; break;
  }
  return form;
}

}  // namespace dag
