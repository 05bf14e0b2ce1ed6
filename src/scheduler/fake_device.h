// For tests: a device on a virtual clock. Its queues run nothing; they work out when each piece of work would start and
// end if kernels never got in each other's way, and keep a record of it.
//
//   launch   takes parameters[0..8) as nanoseconds (a double), begins when the queue's work before it has ended
//   graph    takes as long as its longest chain of launches; one of a kernel called kInABlock takes the address of its
//            nanoseconds, which are what has been copied there by then
//   copies   one after the other on each of two engines, up and down, at kBytesPerNs
//   wait     the queue goes on when the event has ended
//   host     Event::wait() moves the host's clock to the event's end; poll() looks at the host's clock
//
// So assignments to streams, events and waits can be asserted exactly, and overlap computed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace pergola::scheduler::testing {

struct Step {
  enum class Kind { kLaunch, kGraph, kCopyUp, kCopyDown, kCopy, kFill, kWait, kGate, kRecord };
  Kind kind = Kind::kLaunch;
  std::uint32_t queue = 0;
  double start_ns = 0, end_ns = 0;
  std::uint32_t event = 0;            // of a wait or record; of a gate, the number that is waited for
  device::DeviceAddress address = 0;  // of what a copy up writes; of a graph, the first block that its launches read
  std::vector<double> durations_ns;   // of a graph's launches
};

// What all handles of one device share.
struct FakeState {
  double host_ns = 0;
  double engine_free_ns[2] = {0, 0};
  std::uint32_t queues = 0, events = 0;
  std::size_t questions = 0;       // whether an event or a queue has ended
  std::size_t recorded_again = 0;  // of events
  std::vector<Step> steps;
  std::vector<Status> fail_next;        // taken by the next launches
  std::vector<Status> refuse_launches;  // returned by the next launches of kernels, which do nothing
  std::vector<Status> refuse_waits;     // returned by the next waits of queues, which do nothing
  std::vector<Status> refuse_queues;    // the same of queues that are to be made
  double launch_ns = 0;                 // how long the host takes to queue anything
  double launch_node_ns = 0;            // and for each node of a graph besides
  std::vector<double> graphs_take;      // so much of their time on the queue of this number; 1 on those behind them
  bool tells_once = false;              // a failure is told by the first event behind it, as on the CPU
  bool has_handles = false;             // queues have handles: themselves
  std::function<void()> while_waiting;  // called in Event::wait(), if there is one

  std::vector<Step> of(Step::Kind kind) const {
    std::vector<Step> found;
    std::copy_if(steps.begin(), steps.end(), std::back_inserter(found), [&](const Step& s) { return s.kind == kind; });
    return found;
  }
  double end_ns() const {
    double end = 0;
    for (const Step& step : steps) end = std::max(end, step.end_ns);
    return end;
  }
};

class FakeEvent final : public device::Event {
 public:
  FakeEvent(std::shared_ptr<FakeState> of, std::uint32_t its_number, double its_end_ns, Status its_outcome)
      : state(std::move(of)), number(its_number), at_ns(its_end_ns), outcome(std::move(its_outcome)) {}
  std::optional<Status> poll() override {
    ++state->questions;
    if (at_ns > state->host_ns) return std::nullopt;
    return outcome;
  }
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override {
    if (state->while_waiting) state->while_waiting();
    if (timeout && state->host_ns + static_cast<double>(timeout->count()) < at_ns) {
      state->host_ns += static_cast<double>(timeout->count());
      return PERGOLA_ERROR(kTimeout, "It goes on.");
    }
    state->host_ns = std::max(state->host_ns, at_ns);
    return outcome;
  }
  Result<double> elapsed_ns(const device::Event& start) override {
    if (!timed || !static_cast<const FakeEvent&>(start).timed)
      return PERGOLA_ERROR(kFailedPrecondition, "An event that was recorded for ordering only has no time.");
    return at_ns - static_cast<const FakeEvent&>(start).at_ns;
  }
  bool timed = true;
  const std::shared_ptr<FakeState> state;
  std::uint32_t number;
  double at_ns;
  Status outcome;
};

class FakeBuffer final : public device::Buffer {
 public:
  FakeBuffer(std::size_t size, device::MemoryKind kind, std::shared_ptr<int> alive)
      : bytes_(size), kind_(kind), alive_(std::move(alive)) {}
  device::DeviceAddress address() const override { return reinterpret_cast<device::DeviceAddress>(bytes_.data()); }
  std::size_t size_bytes() const override { return bytes_.size(); }
  device::MemoryKind kind() const override { return kind_; }
  std::byte* host_pointer() const override { return nullptr; }

 private:
  std::vector<std::byte> bytes_;
  const device::MemoryKind kind_;
  const std::shared_ptr<int> alive_;  // use_count() - 1 buffers are alive
};

inline constexpr const char* kInABlock = "in a block";
class FakeKernel final : public device::Kernel {
 public:
  explicit FakeKernel(std::string name = "") { signature_.name = std::move(name); }
  const ptx::KernelSignature& signature() const override { return signature_; }
  device::KernelResources resources() const override { return {}; }
  Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t, std::uint32_t) const override { return 1u; }

 private:
  ptx::KernelSignature signature_;
};

class FakeQueue final : public device::Queue {
 public:
  static constexpr double kBytesPerNs = 50;

  explicit FakeQueue(std::shared_ptr<FakeState> state) : state_(std::move(state)), number_(state_->queues++) {}

  // Not one of the interface: work that takes so long, and fails with the next of fail_next.
  void run(double duration_ns) {
    add(Step::Kind::kLaunch, std::max(ready_ns_, state_->host_ns), duration_ns);
    if (!state_->fail_next.empty()) {
      if (failure_.ok()) failure_ = state_->fail_next.front();
      state_->fail_next.erase(state_->fail_next.begin());
    }
  }
  Status launch(const device::ModulePtr&, const device::Kernel&, const device::LaunchConfig&,
                std::span<const std::byte> parameters) override {
    if (!state_->refuse_launches.empty()) {
      const Status refused = state_->refuse_launches.front();
      state_->refuse_launches.erase(state_->refuse_launches.begin());
      return refused;
    }
    run(duration_of(parameters));
    return {};
  }
  // An event that nobody else has is recorded again, as on a GPU.
  bool records_again() const override { return !state_->tells_once; }
  Status launch_between(Between& between, const device::ModulePtr& module, const device::Kernel& kernel,
                        const device::LaunchConfig& config, std::span<const std::byte> parameters) override {
    device::EventPtr again;
    if (between.behind != nullptr && between.behind->use_count() == 1) again = std::move(*between.behind);
    if (const Status status = Queue::launch_between(between, module, kernel, config, parameters); !status.ok()) {
      if (again != nullptr) *between.behind = std::move(again);
      return status;
    }
    if (again == nullptr || *between.behind == nullptr) return {};
    auto& mine = static_cast<FakeEvent&>(*again);
    const auto& made = static_cast<const FakeEvent&>(**between.behind);
    mine.number = made.number;
    mine.at_ns = made.at_ns;
    mine.outcome = made.outcome;
    *between.behind = std::move(again);
    ++state_->recorded_again;
    return {};
  }
  static double duration_of(std::span<const std::byte> parameters) {
    double duration = 0;
    if (parameters.size() >= sizeof duration) std::memcpy(&duration, parameters.data(), sizeof duration);
    return duration;
  }
  void run_graph(double duration_ns, device::DeviceAddress block, std::vector<double> durations_ns) {
    const double factor = number_ < state_->graphs_take.size() ? state_->graphs_take[number_] : 1;
    add(Step::Kind::kGraph, std::max(ready_ns_, state_->host_ns), duration_ns * factor);
    state_->steps.back().address = block;
    state_->host_ns += state_->launch_node_ns * static_cast<double>(durations_ns.size());
    state_->steps.back().durations_ns = std::move(durations_ns);
  }
  Status copy_to_device(const device::BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override {
    const Status status = transfer(Step::Kind::kCopyUp, 0, source.size());
    if (destination == nullptr) return status;
    state_->steps.back().address = destination->address() + offset_bytes;
    std::memcpy(reinterpret_cast<std::byte*>(destination->address()) + offset_bytes, source.data(), source.size());
    return status;
  }
  Status copy_to_host(std::span<std::byte> destination, const device::BufferPtr&, std::size_t) override {
    return transfer(Step::Kind::kCopyDown, 1, destination.size());
  }
  Status copy(const device::BufferPtr&, std::size_t, const device::BufferPtr&, std::size_t, std::size_t size) override {
    add(Step::Kind::kCopy, std::max(ready_ns_, state_->host_ns), static_cast<double>(size) / kBytesPerNs);
    return {};
  }
  Status fill(const device::BufferPtr&, std::size_t, std::size_t size, std::uint32_t, std::uint32_t) override {
    add(Step::Kind::kFill, std::max(ready_ns_, state_->host_ns), static_cast<double>(size) / kBytesPerNs);
    return {};
  }
  Status wait(const device::EventPtr& event) override {
    if (!state_->refuse_waits.empty()) {
      const Status status = std::move(state_->refuse_waits.front());
      state_->refuse_waits.erase(state_->refuse_waits.begin());
      return status;
    }
    const auto& mine = static_cast<const FakeEvent&>(*event);
    ready_ns_ = std::max(ready_ns_, mine.at_ns);
    if (!mine.outcome.ok() && failure_.ok()) failure_ = PERGOLA_ERROR(kSkipped, "skipped: {}", mine.outcome.message());
    state_->steps.push_back({Step::Kind::kWait, number_, ready_ns_, ready_ns_, mine.number});
    return {};
  }
  // Open: on this clock tasks take no time.
  Status wait_for_gate(const device::GatePtr&, std::uint32_t number) override {
    state_->steps.push_back({Step::Kind::kGate, number_, ready_ns_, ready_ns_, number});
    return {};
  }
  Result<device::EventPtr> record() override {
    const std::uint32_t number = state_->events++;
    const double at = std::max(ready_ns_, state_->host_ns);  // of an idle queue: now
    state_->steps.push_back({Step::Kind::kRecord, number_, at, at, number});
    Status outcome = failure_;
    if (state_->tells_once && !failure_.ok() && std::exchange(told_, true) && failure_.code() != Code::kSkipped)
      outcome = PERGOLA_ERROR(kSkipped, "This work is not run, because work before it failed: {}", failure_.message());
    return device::EventPtr(std::make_shared<FakeEvent>(state_, number, at, std::move(outcome)));
  }
  Result<device::EventPtr> record_untimed() override {
    auto made = record();
    if (made.ok()) static_cast<FakeEvent&>(**made).timed = false;
    return made;
  }
  std::optional<Status> poll() override {
    ++state_->questions;
    if (ready_ns_ > state_->host_ns) return std::nullopt;
    return failure_;
  }
  Status synchronize() override {
    state_->host_ns = std::max(state_->host_ns, ready_ns_);
    told_ = false;
    return std::exchange(failure_, Status());
  }
  Result<void*> native_handle() override { return state_->has_handles ? static_cast<void*>(this) : nullptr; }

 private:
  void add(Step::Kind kind, double start_ns, double duration_ns) {
    ready_ns_ = start_ns + duration_ns;
    state_->steps.push_back({kind, number_, start_ns, ready_ns_});
    state_->host_ns += state_->launch_ns;
  }
  Status transfer(Step::Kind kind, int engine, std::size_t size) {
    const double start = std::max({ready_ns_, state_->host_ns, state_->engine_free_ns[engine]});
    add(kind, start, static_cast<double>(size) / kBytesPerNs);
    state_->engine_free_ns[engine] = ready_ns_;
    return {};
  }

  const std::shared_ptr<FakeState> state_;
  const std::uint32_t number_;
  double ready_ns_ = 0;
  Status failure_;
  bool told_ = false;  // by an event
};

class FakeGraph final : public device::ExecutableGraph {
 public:
  // `slower`: all of it takes so many times as long as its nodes say.
  FakeGraph(device::GraphSpec spec, std::shared_ptr<int> alive, double slower)
      : spec_(std::move(spec)), alive_(std::move(alive)), slower_(slower) {}
  Status update_parameters(device::NodeId, std::span<const std::byte>) override {
    return PERGOLA_ERROR(kUnsupported, "The fake device's graphs do not change.");
  }
  Status launch(device::Queue& queue) override {
    std::vector<double> ends, durations;
    for (const device::GraphNode& node : spec_.nodes) {
      double start = 0;
      for (const device::NodeId earlier : node.after) start = std::max(start, ends[earlier]);
      const auto* const copy = std::get_if<device::CopyNode>(&node.work);
      durations.push_back(copy == nullptr ? duration_of(std::get<device::KernelNode>(node.work))
                                          : static_cast<double>(copy->size_bytes) / FakeQueue::kBytesPerNs);
      ends.push_back(start + durations.back());
    }
    const device::DeviceAddress block = spec_.buffers.empty() ? 0 : spec_.buffers.front()->address();
    const double all_ns = slower_ * *std::max_element(ends.begin(), ends.end());
    static_cast<FakeQueue&>(queue).run_graph(all_ns, block, std::move(durations));
    return {};
  }

 private:
  static double duration_of(const device::KernelNode& node) {
    if (node.kernel->signature().name != kInABlock) return FakeQueue::duration_of(node.parameters);
    device::DeviceAddress address = 0;
    std::memcpy(&address, node.parameters.data(), sizeof address);
    return FakeQueue::duration_of(std::span(reinterpret_cast<const std::byte*>(address), sizeof(double)));
  }

  const device::GraphSpec spec_;
  const std::shared_ptr<int> alive_;  // as FakeBuffer's
  const double slower_;
};

class FakeDevice final : public device::Device {
 public:
  FakeDevice() { info_.id = "fake"; }
  const device::DeviceInfo& info() const override { return info_; }
  Result<device::ModulePtr> load(const device::ModuleSource&) override { return no("modules"); }
  Result<device::BufferPtr> allocate(std::size_t size_bytes, device::MemoryKind kind) override {
    // Not make_shared(): its memory would stay for those that know it weakly, and who looks there later go unseen.
    return device::BufferPtr(std::shared_ptr<FakeBuffer>(new FakeBuffer(size_bytes, kind, alive_)));
  }
  Result<device::TexturePtr> create_texture(const device::TextureDescription&) override { return no("textures"); }
  Result<std::unique_ptr<device::Queue>> create_queue() override {
    if (!state_->refuse_queues.empty()) {
      const Status status = std::move(state_->refuse_queues.front());
      state_->refuse_queues.erase(state_->refuse_queues.begin());
      return status;
    }
    if (state_->queues >= most_queues) return PERGOLA_ERROR(kResourceExhausted, "There are no more queues.");
    return std::unique_ptr<device::Queue>(std::make_unique<FakeQueue>(state_));
  }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec spec) override {
    if (!has_graphs) return no("graphs");
    const double slower = slower_instance ? slower_instance(spec) : 1;
    ++graphs_made_;
    return std::unique_ptr<device::ExecutableGraph>(std::make_unique<FakeGraph>(std::move(spec), graphs_, slower));
  }
  Status health() const override { return {}; }

  FakeState& state() { return *state_; }
  long buffers_alive() const { return alive_.use_count() - 1; }
  long graphs_alive() const { return graphs_.use_count() - 1; }
  std::uint64_t graphs_made() const { return graphs_made_; }
  std::uint32_t most_queues = 1000;
  bool has_graphs = true;
  // How many times as long the graph that is made now takes; none: as its nodes say. Called by whichever thread makes
  // it.
  std::function<double(const device::GraphSpec&)> slower_instance;

 private:
  static Error no(std::string_view what) { return PERGOLA_ERROR(kUnsupported, "The fake device has no {}.", what); }

  device::DeviceInfo info_;
  const std::shared_ptr<FakeState> state_ = std::make_shared<FakeState>();
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0), graphs_ = std::make_shared<int>(0);
  std::atomic<std::uint64_t> graphs_made_ = 0;
};

}  // namespace pergola::scheduler::testing
