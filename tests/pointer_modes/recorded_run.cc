#include "tests/pointer_modes/recorded_run.h"

#include <cstring>
#include <mutex>

#include "src/device/cpu/interpreter/access_recorder.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"

namespace pergola::pointer_modes_test {
namespace {

using analysis::AccessMode;

// Collects accesses for as long as it lives. Blocks of several virtual SMs report at once: under a lock.
class Recording {
 public:
  explicit Recording(const std::vector<device::BufferPtr>& buffers)
      : buffers_(buffers), modes_(buffers.size(), AccessMode::kNeither) {
    device::cpu::set_access_recorder(&recorder_);
  }
  ~Recording() { device::cpu::set_access_recorder(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::vector<AccessMode> modes() const { return modes_; }

 private:
  void note(const device::cpu::MemoryAccess& access) {
    const std::lock_guard lock(mutex_);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const std::uint64_t begin = buffers_[b]->address();
      if (access.address < begin || access.address >= begin + buffers_[b]->size_bytes()) continue;
      modes_[b] = modes_[b] | (access.write ? AccessMode::kWrite : AccessMode::kRead);
    }
  }

  const std::vector<device::BufferPtr>& buffers_;
  std::mutex mutex_;
  std::vector<AccessMode> modes_;  // under mutex_
  device::cpu::AccessRecorder recorder_ = [this](const device::cpu::MemoryAccess& access) { note(access); };
};

AccessMode allowed(const analysis::PointerModes& modes, const Experiment& experiment, std::size_t buffer) {
  AccessMode result = modes.universal;
  for (const Bound& bound : experiment.bound) {
    if (bound.buffer != buffer) continue;
    for (const analysis::PointerParameter& parameter : modes.parameters) {
      if (parameter.parameter != bound.parameter || parameter.offset_bytes != bound.offset_bytes) continue;
      result = result | parameter.mode;
    }
  }
  return result;
}

}  // namespace

void judge(const Experiment& experiment, Outcome& outcome) {
  outcome.is_exact = outcome.modes.universal == AccessMode::kNeither;
  for (std::size_t b = 0; b < outcome.truth.size(); ++b) {
    const AccessMode may = allowed(outcome.modes, experiment, b);
    outcome.is_exact &= may == outcome.truth[b];
    if ((may | outcome.truth[b]) == may) continue;
    outcome.violations +=
        fmt::format("\n  buffer {}: {} is not allowed by {}", b, to_string(outcome.truth[b]), to_string(may));
  }
  if (outcome.violations.empty()) return;
  for (const analysis::PointerParameter& parameter : outcome.modes.parameters) {
    outcome.violations += fmt::format("\n  parameter {}+{}: {} ({})", parameter.parameter, parameter.offset_bytes,
                                      to_string(parameter.mode), parameter.reason);
  }
}

Experiment experiment_of(const ptx_cases::Case& test) {
  Experiment experiment{test.text, test.path, test.kernel, test.config, {}, {}, {}};
  for (const ptx_cases::BufferSpec& spec : test.buffers) experiment.buffers.push_back(spec.initial);
  for (std::uint32_t n = 0; n < test.arguments.size(); ++n) {
    experiment.parameters.push_back(test.arguments[n].buffer.empty() ? test.arguments[n].value
                                                                     : std::vector<std::byte>(8));
    for (std::size_t b = 0; b < test.buffers.size(); ++b) {
      if (test.buffers[b].name == test.arguments[n].buffer) experiment.bound.push_back({n, 0, b});
    }
  }
  return experiment;
}

Result<Outcome> run_experiment(device::Device& device, const Experiment& experiment) {
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(experiment.text, experiment.name));
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, experiment.text, experiment.name}));
  const std::string name = experiment.kernel.empty() ? module->kernel_names().at(0) : experiment.kernel;
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(name));
  Outcome outcome;
  PERGOLA_ASSIGN(outcome.modes, analysis::pointer_modes(parsed, *parsed.find_function(name)));

  PERGOLA_ASSIGN(auto queue, device.create_queue());
  std::vector<device::BufferPtr> buffers;
  for (const auto& initial : experiment.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(initial.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(buffer, 0, initial));
    buffers.push_back(buffer);
  }
  const ptx::KernelSignature& signature = kernel->signature();
  if (signature.parameters.size() != experiment.parameters.size()) {
    return PERGOLA_ERROR(kInvalidArgument, "{}: the kernel has {} parameters, the experiment {}.", experiment.name,
                         signature.parameters.size(), experiment.parameters.size());
  }
  std::vector<std::byte> bytes(signature.parameter_bytes);
  for (std::size_t n = 0; n < experiment.parameters.size(); ++n) {
    const auto& value = experiment.parameters[n];
    const std::size_t size = std::min<std::size_t>(value.size(), signature.parameters[n].size_bytes);
    if (size != 0) std::memcpy(bytes.data() + signature.parameters[n].offset_bytes, value.data(), size);
  }
  for (const Bound& bound : experiment.bound) {
    const std::uint64_t address = buffers[bound.buffer]->address() + bound.position;
    std::memcpy(bytes.data() + signature.parameters[bound.parameter].offset_bytes + bound.offset_bytes, &address, 8);
  }
  PERGOLA_TRY(queue->synchronize());
  {
    Recording recording(buffers);
    PERGOLA_TRY(queue->launch(module, *kernel, experiment.config, bytes));
    PERGOLA_TRY(queue->synchronize());
    outcome.truth = recording.modes();
  }
  judge(experiment, outcome);
  return outcome;
}

}  // namespace pergola::pointer_modes_test
