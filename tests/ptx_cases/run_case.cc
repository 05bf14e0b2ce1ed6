#include "tests/ptx_cases/run_case.h"

#include <cmath>
#include <cstring>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/transform/constant_parameters.h"
#include "src/transform/merged_launches.h"
#include "src/transform/packed_blocks.h"
#include "src/transform/parameter_block.h"

namespace pergola::ptx_cases {
bool is_merged(Form form) {
  return form == Form::kMerged || form == Form::kMergedInALargerGrid || form == Form::kMergedInARow;
}

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

constexpr std::uint32_t kMergedLaunches = 3;

// A launch's buffers with what they begin with, and the parameters that name them.
struct Prepared {
  std::vector<device::BufferPtr> buffers;
  std::vector<std::byte> parameters;
};

Result<Prepared> prepare(device::Device& device, device::Queue& queue, const Case& test,
                         const ptx::KernelSignature& signature) {
  Prepared made;
  for (const BufferSpec& spec : test.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(spec.initial.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue.copy_to_device(buffer, 0, spec.initial));
    made.buffers.push_back(buffer);
  }
  if (signature.parameters.size() != test.arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "{}: the kernel has {} parameters, the header {} arguments.", test.path,
                         signature.parameters.size(), test.arguments.size());
  made.parameters.resize(signature.parameter_bytes);
  for (std::size_t n = 0; n < test.arguments.size(); ++n) {
    const Argument& argument = test.arguments[n];
    std::vector<std::byte> value = argument.value;
    value.resize(signature.parameters[n].size_bytes);
    for (std::size_t b = 0; b < made.buffers.size(); ++b) {
      if (test.buffers[b].name != argument.buffer) continue;
      const device::DeviceAddress address = made.buffers[b]->address();
      std::memcpy(value.data(), &address, std::min(value.size(), sizeof address));
    }
    std::copy(value.begin(), value.end(), made.parameters.begin() + signature.parameters[n].offset_bytes);
  }
  return made;
}

constexpr std::uint32_t kPackedBlocks = 3;

Result<transform::PackedShape> packed_shape(const Case& test) {
  const device::LaunchConfig& config = test.config;
  const bool is_plain = !config.cooperative && config.cluster == device::Dim3{0, 0, 0};
  if (!is_plain || kPackedBlocks * config.block.count() > 1024)
    return PERGOLA_ERROR(kUnsupported, "blocks of {} cannot be packed: this launch is not one of small blocks.",
                         test.path);
  return transform::PackedShape{config.block.x, config.block.y, config.block.z, kPackedBlocks};
}

// The grid behind the parameters, and the blocks of the device's.
std::vector<std::byte> packed_parameters(std::vector<std::byte> parameters, const device::Kernel& kernel,
                                         const transform::PackedShape& shape, device::LaunchConfig& config) {
  const std::uint32_t own[] = {config.grid.x, config.grid.y, config.grid.z};
  const std::uint32_t offset = kernel.signature().parameters.back().offset_bytes;
  parameters.resize(offset + sizeof own);
  std::memcpy(parameters.data() + offset, own, sizeof own);
  const auto blocks = static_cast<std::uint32_t>(config.grid.count());
  config.grid = {(blocks + shape.blocks - 1) / shape.blocks, 1, 1};
  config.block = {shape.threads() * shape.blocks, 1, 1};
  return parameters;
}

transform::MergedShape shape_of(const Case& test, Form form) {
  const device::Dim3& grid = test.config.grid;
  if (form == Form::kMergedInARow) return {.launches = 4, .deep = grid.y * grid.z > 1, .flat = true};
  return {.launches = kMergedLaunches, .deep = test.config.grid.z > 1, .bounded = form == Form::kMergedInALargerGrid};
}

Status transform_into(ptx::Module& module, const std::string& kernel, const Case& test, Form form,
                      std::span<const std::byte> parameters) {
  if (form == Form::kInABlock) PERGOLA_TRY(transform::to_parameter_block(module, kernel));
  if (is_merged(form)) PERGOLA_TRY(transform::merge_launches(module, kernel, shape_of(test, form)));
  if (form == Form::kPacked) {
    PERGOLA_ASSIGN(const transform::PackedShape shape, packed_shape(test));
    PERGOLA_TRY(transform::pack_blocks(module, kernel, shape));
  }
  if (form == Form::kConstants) {
    PERGOLA_ASSIGN(const auto places, transform::constant_places(module, kernel));
    const auto constants = transform::constants_at(places, parameters);
    if (constants.empty())
      return PERGOLA_ERROR(kUnsupported, "whole numbers of '{}' cannot be constants: there are none.", test.path);
    PERGOLA_TRY(transform::make_constant(module, kernel, constants));
  }
  return ptx::verify(module);
}

// The launches' parameters one behind the other, and the grid of all.
std::vector<std::byte> merged_parameters(const std::vector<Prepared>& launches, const ptx::KernelSignature& signature,
                                         const Case& test, Form form, device::LaunchConfig& config) {
  const transform::MergedShape shape = shape_of(test, form);
  const transform::MergedLayout layout = transform::merged_layout(signature, shape);
  const device::Dim3 own = config.grid;
  if (shape.bounded) config.grid = {own.x + 1, own.y + 1, own.z + (shape.deep ? 1 : 0)};
  transform::MergedHeader header{own.x, own.y, own.z, config.grid.z};
  config.grid.z *= kMergedLaunches;
  if (shape.flat) config.grid = {static_cast<std::uint32_t>(own.count()) * kMergedLaunches, 1, 1};
  std::vector<std::byte> all(std::size_t{shape.launches} * layout.stride_bytes);
  for (std::size_t n = 0; n < shape.launches; ++n) {
    std::byte* const at = all.data() + n * layout.stride_bytes;
    if (shape.flat) header.place = static_cast<std::uint32_t>(own.count() * n);
    if (n >= launches.size()) {
      header.place = transform::MergedHeader::kNoLaunch;
      std::memcpy(at, &header, sizeof header);
      continue;
    }
    if (shape.has_header()) std::memcpy(at, &header, sizeof header);
    std::copy(launches[n].parameters.begin(), launches[n].parameters.end(), at + layout.parameters_offset);
  }
  return all;
}

// What a fault may say. Launches that are one all fault, each in blocks of its own, and which is first is the device's
// affair: its workers run blocks side by side.
std::vector<std::string> faults_of(const Case& test, Form form) {
  static constexpr std::string_view kFirstBlock = "block (0,0,0)";
  const std::size_t at = test.fault.find(kFirstBlock);
  if (!is_merged(form) || at == std::string::npos) return {test.fault};
  const transform::MergedShape shape = shape_of(test, form);
  const device::Dim3& own = test.config.grid;
  std::vector<std::string> faults;
  for (std::uint32_t n = 0; n < kMergedLaunches; ++n) {
    const std::string block = shape.flat ? fmt::format("block ({},0,0)", own.count() * n)
                                         : fmt::format("block (0,0,{})", (own.z + (shape.bounded && shape.deep)) * n);
    faults.push_back(test.fault);
    faults.back().replace(at, kFirstBlock.size(), block);
  }
  return faults;
}

}  // namespace

Result<Memory> run_case(device::Device& device, const Case& test, Form form) {
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(test.text, test.path.substr(test.path.rfind('/') + 1)));
  std::string text = test.text, name = test.kernel;
  for (const ptx::Function* entry : parsed.entries())
    if (name.empty()) name = entry->name;
  const ptx::Function* const entry = parsed.find_function(name);
  if (entry == nullptr) return PERGOLA_ERROR(kNotFound, "{}: there is no kernel '{}'.", test.path, name);
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(parsed, *entry));
  PERGOLA_ASSIGN(auto queue, device.create_queue());
  std::vector<Prepared> launches;
  while (launches.size() < (is_merged(form) ? kMergedLaunches : 1u)) {
    PERGOLA_ASSIGN(Prepared one, prepare(device, *queue, test, signature));
    launches.push_back(std::move(one));
  }
  std::vector<std::byte> parameters = launches.back().parameters;
  if (form != Form::kAsWritten) {
    PERGOLA_TRY(transform_into(parsed, name, test, form, parameters));
    text = ptx::print(parsed);
    if (is_merged(form)) name = transform::merged_kernel(name);
    if (form == Form::kPacked) name = transform::packed_kernel(name);
    if (form == Form::kConstants) name = transform::constant_kernel(name);
  }
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, text, test.path}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(name));

  device::LaunchConfig config = test.config;
  device::BufferPtr block;
  if (form == Form::kInABlock) {
    PERGOLA_ASSIGN(block, device.allocate(parameters.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(block, 0, parameters));
    const device::DeviceAddress address = block->address();
    parameters.resize(sizeof address);
    std::memcpy(parameters.data(), &address, sizeof address);
  } else if (is_merged(form)) {
    parameters = merged_parameters(launches, signature, test, form, config);
  } else if (form == Form::kPacked) {
    PERGOLA_ASSIGN(const transform::PackedShape shape, packed_shape(test));
    parameters = packed_parameters(std::move(parameters), *kernel, shape, config);
  }
  PERGOLA_TRY(queue->launch(module, *kernel, config, parameters));
  PERGOLA_TRY(queue->synchronize());
  Memory memory;
  for (const device::BufferPtr& buffer : launches.back().buffers) {
    std::vector<std::byte> bytes(buffer->size_bytes());
    PERGOLA_TRY(queue->copy_to_host(bytes, buffer, 0));
    PERGOLA_TRY(queue->synchronize());
    memory.push_back(std::move(bytes));
  }
  return memory;
}

Status check_case(const Case& test, const Result<Memory>& run, Form form) {
  if (!test.fault.empty()) {
    if (run.ok()) return PERGOLA_ERROR(kInternal, "The launch succeeded; it should fail with '{}'.", test.fault);
    for (const std::string& fault : faults_of(test, form))
      if (run.message().find(fault) != std::string::npos) return {};
    return PERGOLA_ERROR(kInternal, "The launch failed with '{}'; it should be '{}'.", run.message(), test.fault);
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
        differences +=
            fmt::format("\n  {}[{}] is {:#x}, not {:#x}", expectation.buffer, expectation.first + n, found, expected);
      }
    }
  }
  if (count == 0) return {};
  return PERGOLA_ERROR(kInternal, "{} values differ:{}", count, differences);
}

}  // namespace pergola::ptx_cases
