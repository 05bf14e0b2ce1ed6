#include "src/executor/task_traces.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "src/abi/task_trace.h"
#include "src/executor/executor.h"

namespace pergola::executor {

Result<std::unique_ptr<TaskTraces>> TaskTraces::create(device::Device& device, device::Queue& copies,
                                                       std::uint32_t blocks) {
  auto traces = std::make_unique<TaskTraces>();
  traces->has_hosts_clock_ = device.info().kind == device::DeviceKind::kCpu;
  PERGOLA_ASSIGN(traces->memory_, device.allocate_apart(blocks * sizeof(abi::TaskTrace), device::MemoryKind::kDevice));
  PERGOLA_TRY(traces->clear(copies));
  return traces;
}

Status TaskTraces::launches(device::Queue& queue, std::uint32_t blocks) {
  if (!has_hosts_clock_) {
    PERGOLA_ASSIGN(origin_, queue.record());
  }
  launched_ = blocks;
  return {};
}

Status TaskTraces::clear(device::Queue& copies) {
  PERGOLA_TRY(copies.fill(memory_, 0, memory_->size_bytes(), 0, 4));
  PERGOLA_TRY(copies.synchronize());
  origin_ = nullptr;
  launched_ = 0;
  return {};
}

namespace {

// Of a record of a ring that has had `head`, whose position's low 32 bits are `low`.
TaskId id_of(std::size_t ring, std::uint64_t head, std::uint32_t low) {
  const std::uint64_t position = head - 1 - static_cast<std::uint32_t>(static_cast<std::uint32_t>(head - 1) - low);
  return TaskId{ring + 1} << kIdRingShift | position;
}

template <typename Clock>
std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

}  // namespace

Result<device::TaskSlices> TaskTraces::read(device::Queue& copies, std::span<const std::uint64_t> heads) const {
  device::TaskSlices read;
  if (launched_ == 0) return read;
  std::vector<abi::TaskTrace> traces(memory_->size_bytes() / sizeof(abi::TaskTrace));
  PERGOLA_TRY(copies.copy_to_host(std::as_writable_bytes(std::span(traces)), memory_, 0));
  PERGOLA_TRY(copies.synchronize());
  read.is_resident = true;
  read.origin = origin_;
  std::uint64_t shift_ns = 0;
  if (has_hosts_clock_) {  // the system's there, and the steady one here
    shift_ns = now_ns<std::chrono::steady_clock>() - now_ns<std::chrono::system_clock>();
  } else {
    read.origin_ns = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t n = 0; n < launched_; ++n) read.origin_ns = std::min(read.origin_ns, traces[n].started_ns);
  }
  for (std::size_t n = 0; n < traces.size(); ++n) {
    const abi::TaskTrace& trace = traces[n];
    const std::uint32_t kept = std::min(trace.count, abi::kTraceRecords);
    read.dropped += trace.count - kept;
    for (std::uint32_t at = trace.count - kept; at != trace.count; ++at) {
      const abi::TaskTraceRecord& record = trace.records[at % abi::kTraceRecords];
      const bool is_spawned = (record.task & abi::kTraceSpawned) != 0;
      const TaskId id = is_spawned ? 0 : id_of(n, heads[n], static_cast<std::uint32_t>(record.task));
      read.slices.push_back({id, static_cast<std::uint32_t>(record.body), static_cast<std::uint32_t>(n),
                             record.begun_ns + shift_ns, record.ended_ns + shift_ns});
    }
  }
  return read;
}

}  // namespace pergola::executor
