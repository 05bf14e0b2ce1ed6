// What sessions do not use, or seldom: the device's own interface. Each stops at its first error.
#include <cstring>

#include "src/device/device.h"
#include "src/ptx/parser.h"
#include "tests/driver_faults/fault_programs.h"
#include "tests/driver_faults/fault_trial.h"

namespace pergola::driver_faults {
namespace {

using device::BufferPtr;
using device::MemoryKind;
using device::ModulePtr;

constexpr std::uint32_t kCount = 64;

Result<ModulePtr> load(device::Device& device) {
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(kFaultPtx, "fault.ptx"));
  return device.load({.module = &parsed, .text = kFaultPtx, .name = "fault.ptx", .shared_memory_percent = 50});
}

std::vector<std::byte> parameters(const BufferPtr& data) {
  std::vector<std::byte> bytes(12);
  const std::uint64_t address = data->address();
  std::memcpy(bytes.data(), &address, 8);
  std::memcpy(bytes.data() + 8, &kCount, 4);
  return bytes;
}

Status expect(std::span<const std::byte> bytes, std::uint32_t value, Trial& trial) {
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, 4);
    if (word == value) continue;
    trial.problem(fmt::format("word {} is {} and not {}", i / 4, word, value));
    break;
  }
  return {};
}

Status use_queue(device::Device& device, Trial& trial) {
  PERGOLA_ASSIGN(const ModulePtr module, load(device));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel("add_one"));
  PERGOLA_TRY(module->global("counter").status());
  PERGOLA_TRY(kernel->max_resident_blocks_per_sm(128, 0).status());
  PERGOLA_ASSIGN(const BufferPtr buffer, device.allocate(4 * kCount, MemoryKind::kDevice));
  PERGOLA_ASSIGN(const BufferPtr pinned, device.allocate(4 * kCount, MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(const auto queue, device.create_queue());
  PERGOLA_ASSIGN(const auto other, device.create_queue());
  PERGOLA_ASSIGN(const device::GatePtr gate, device.create_gate());
  PERGOLA_ASSIGN(const device::GatePtr second, device.create_gate());
  trial.begin("queue work");
  const std::vector<std::byte> zeros(4 * kCount);
  PERGOLA_TRY(queue->copy_to_device(buffer, 0, zeros));
  for (const std::uint32_t bytes : {1u, 2u, 4u}) PERGOLA_TRY(queue->fill(buffer, 0, 4 * kCount, 0, bytes));
  PERGOLA_ASSIGN(const device::EventPtr start, queue->record());
  PERGOLA_TRY(queue->launch(module, *kernel, {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cooperative = true},
                            parameters(buffer)));
  PERGOLA_ASSIGN(const device::EventPtr end, queue->record());
  gate->open(1);  // before anything waits: an error on the way leaves nothing that waits for ever
  PERGOLA_TRY(other->wait(end));
  PERGOLA_TRY(other->wait_for_gate(gate, 1));
  PERGOLA_TRY(other->copy(pinned, 0, buffer, 0, 4 * kCount));
  PERGOLA_ASSIGN(const device::EventPtr copied, other->record_for_host());
  PERGOLA_TRY(copied->wait());
  PERGOLA_TRY(expect({pinned->host_pointer(), pinned->size_bytes()}, 1, trial));
  PERGOLA_TRY(other->copy_to_device(buffer, 0, {pinned->host_pointer(), pinned->size_bytes()}));
  std::vector<std::byte> back(4 * kCount);
  PERGOLA_TRY(other->copy_to_host(back, buffer, 0));
  PERGOLA_TRY(expect(back, 1, trial));
  PERGOLA_TRY(end->elapsed_ns(*start).status());
  while (const auto status = queue->poll()) {
    PERGOLA_TRY(*status);
    break;
  }
  PERGOLA_ASSIGN(const device::EventPtr timed, queue->record_untimed());
  PERGOLA_TRY(timed->wait(std::chrono::seconds(10)));
  PERGOLA_TRY(queue->synchronize());
  return other->synchronize();
}

Status use_graphs(device::Device& device, Trial& trial) {
  PERGOLA_ASSIGN(const ModulePtr module, load(device));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel("add_one"));
  PERGOLA_ASSIGN(const BufferPtr buffer, device.allocate(4 * kCount, MemoryKind::kDevice));
  PERGOLA_ASSIGN(const BufferPtr pinned, device.allocate(4 * kCount, MemoryKind::kHostVisible));
  PERGOLA_ASSIGN(const auto queue, device.create_queue());
  trial.begin("make a graph");
  const device::KernelNode launch{
      module, kernel, {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cooperative = true}, parameters(buffer)};
  device::GraphSpec spec;
  spec.buffers = {buffer};
  spec.nodes.push_back({device::FillNode{buffer, 0, 4 * kCount, 5, 4}, {}});
  spec.nodes.push_back({launch, {0}});
  spec.nodes.push_back({launch, {}, 1});
  spec.nodes.push_back({device::CopyNode{pinned, 0, buffer, 0, 4 * kCount}, {1, 2}});
  spec.nodes.push_back({device::FillNode{buffer, 0, 0, 5, 4}, {3}});
  PERGOLA_ASSIGN(const auto graph, device.instantiate(std::move(spec)));
  PERGOLA_ASSIGN(const auto second, device.instantiate({.nodes = {{launch, {}}}, .buffers = {buffer}}));
  for (int i = 0; i < 2; ++i) {
    trial.begin("launch a graph");
    PERGOLA_TRY(graph->update_parameters(1, launch.parameters));
    PERGOLA_TRY(graph->launch(*queue));
    PERGOLA_TRY(second->launch(*queue));
    PERGOLA_TRY(queue->synchronize());
    PERGOLA_TRY(expect({pinned->host_pointer(), pinned->size_bytes()}, 7, trial));
  }
  return {};
}

}  // namespace

void use_device(Trial& trial) {
  trial.heard(use_queue(*trial.device(), trial));
}

void use_device_graphs(Trial& trial) {
  trial.heard(use_graphs(*trial.device(), trial));
}

}  // namespace pergola::driver_faults
