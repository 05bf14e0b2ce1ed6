#include "tests/ptx_cases/run_case.h"

#include <cmath>
#include <cstring>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/transform/parameter_block.h"

namespace pergola::ptx_cases {
namespace {

std::uint64_t element(const std::vector<std::byte>& bytes, std::size_t offset, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + offset, size);
  return bits;
}

double as_number(const std::string& type, std::uint64_t bits) {
  if (type == "f32") {
    float value;
    const auto narrow = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &narrow, 4);
    return value;
  }
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

bool agrees(const Expectation& expectation, std::uint64_t expected, std::uint64_t found) {
  if (expected == found) return true;
  if (expectation.type != "f32" && expectation.type != "f64") return false;
  const double a = as_number(expectation.type, expected), b = as_number(expectation.type, found);
  // The ISA does not fix the bits of f64 NaNs.
  if (expectation.type == "f64" && std::isnan(a) && std::isnan(b)) return true;
  return expectation.tolerance > 0 && std::fabs(a - b) <= expectation.tolerance * std::max(std::fabs(a), 1e-30);
}

}  // namespace

Result<Memory> run_case(device::Device& device, const Case& test, Parameters where) {
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(test.text, test.path.substr(test.path.rfind('/') + 1)));
  std::string text = test.text, name = test.kernel;
  for (const ptx::Function* entry : parsed.entries())
    if (name.empty()) name = entry->name;
  const ptx::Function* const entry = parsed.find_function(name);
  if (entry == nullptr) return PERGOLA_ERROR(kNotFound, "{}: there is no kernel '{}'.", test.path, name);
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(parsed, *entry));
  if (where == Parameters::kInABlock) {
    PERGOLA_TRY(transform::to_parameter_block(parsed, name));
    PERGOLA_TRY(ptx::verify(parsed));
    text = ptx::print(parsed);
  }
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, text, test.path}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(name));

  PERGOLA_ASSIGN(auto queue, device.create_queue());
  std::vector<device::BufferPtr> buffers;
  for (const BufferSpec& spec : test.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(spec.initial.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(buffer, 0, spec.initial));
    buffers.push_back(buffer);
  }
  if (signature.parameters.size() != test.arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "{}: the kernel has {} parameters, the header {} arguments.", test.path,
                         signature.parameters.size(), test.arguments.size());
  std::vector<std::byte> parameters(signature.parameter_bytes);
  for (std::size_t n = 0; n < test.arguments.size(); ++n) {
    const Argument& argument = test.arguments[n];
    std::vector<std::byte> value = argument.value;
    value.resize(signature.parameters[n].size_bytes);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (test.buffers[b].name != argument.buffer) continue;
      const device::DeviceAddress address = buffers[b]->address();
      std::memcpy(value.data(), &address, std::min(value.size(), sizeof address));
    }
    std::copy(value.begin(), value.end(), parameters.begin() + signature.parameters[n].offset_bytes);
  }
  device::BufferPtr block;
  if (where == Parameters::kInABlock) {
    PERGOLA_ASSIGN(block, device.allocate(parameters.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(block, 0, parameters));
    const device::DeviceAddress address = block->address();
    parameters.resize(sizeof address);
    std::memcpy(parameters.data(), &address, sizeof address);
  }
  PERGOLA_TRY(queue->launch(module, *kernel, test.config, parameters));
  PERGOLA_TRY(queue->synchronize());
  Memory memory;
  for (const device::BufferPtr& buffer : buffers) {
    std::vector<std::byte> bytes(buffer->size_bytes());
    PERGOLA_TRY(queue->copy_to_host(bytes, buffer, 0));
    PERGOLA_TRY(queue->synchronize());
    memory.push_back(std::move(bytes));
  }
  return memory;
}

Status check_case(const Case& test, const Result<Memory>& run) {
  if (!test.fault.empty()) {
    if (run.ok()) return PERGOLA_ERROR(kInternal, "The launch succeeded; it should fail with '{}'.", test.fault);
    if (run.message().find(test.fault) == std::string::npos)
      return PERGOLA_ERROR(kInternal, "The launch failed with '{}'; it should be '{}'.", run.message(), test.fault);
    return {};
  }
  if (!run.ok()) return run.status();
  std::string differences;
  int count = 0;
  for (const Expectation& expectation : test.expectations) {
    const std::size_t size = type_bytes(expectation.type);
    for (std::size_t b = 0; b < test.buffers.size(); ++b) {
      if (test.buffers[b].name != expectation.buffer) continue;
      for (std::size_t n = 0; n * size < expectation.values.size(); ++n) {
        const std::uint64_t expected = element(expectation.values, n * size, size);
        const std::uint64_t found = element((*run)[b], (expectation.first + n) * size, size);
        if (agrees(expectation, expected, found) || ++count > 16) continue;
        differences += fmt::format("\n  {}[{}] is {:#x}, not {:#x}", expectation.buffer, expectation.first + n, found, expected);
      }
    }
  }
  if (count == 0) return {};
  return PERGOLA_ERROR(kInternal, "{} values differ:{}", count, differences);
}

}  // namespace pergola::ptx_cases
