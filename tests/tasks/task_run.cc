#include "tests/tasks/task_run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"
#include "src/transform/inline_body.h"

namespace pergola::tasks {
namespace {

using transform::TaskBarrierKind;
using transform::TaskBody;

constexpr auto kLimit = std::chrono::seconds(60);
constexpr std::uint32_t kPadding = 256;  // in front of the first allocation, so that no block's memory begins at 0

std::uint32_t aligned(std::uint32_t value, std::uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

Result<std::vector<std::byte>> pack(const ptx::KernelSignature& signature, const Launch& launch,
                                    const std::vector<device::BufferPtr>& buffers) {
  if (signature.parameters.size() != launch.arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "{}: '{}' has {} parameters, the launch {} arguments.", launch.label,
                         launch.kernel, signature.parameters.size(), launch.arguments.size());
  std::vector<std::byte> bytes(signature.parameter_bytes);
  for (std::size_t n = 0; n < launch.arguments.size(); ++n) {
    const Argument& argument = launch.arguments[n];
    std::vector<std::byte> value = argument.value;
    if (argument.array >= 0) {
      const device::DeviceAddress address = buffers[static_cast<std::size_t>(argument.array)]->address();
      value.resize(sizeof address);
      std::memcpy(value.data(), &address, sizeof address);
    }
    std::memcpy(bytes.data() + signature.parameters[n].offset_bytes, value.data(),
                std::min<std::size_t>(value.size(), signature.parameters[n].size_bytes));
  }
  return bytes;
}

Result<std::vector<device::BufferPtr>> upload(device::Device& device, device::Queue& queue, const Launch& launch) {
  std::vector<device::BufferPtr> buffers;
  for (const auto& bytes : launch.arrays) {
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(bytes.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue.copy_to_device(buffer, 0, bytes));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

Result<Memory> finish(device::Queue& queue, const std::vector<device::BufferPtr>& buffers) {
  PERGOLA_ASSIGN(const device::EventPtr done, queue.record());
  PERGOLA_TRY(done->wait(kLimit));
  PERGOLA_TRY(queue.synchronize());
  Memory memory;
  for (const device::BufferPtr& buffer : buffers) {
    memory.emplace_back(buffer->size_bytes());
    PERGOLA_TRY(queue.copy_to_host(memory.back(), buffer, 0));
    PERGOLA_TRY(queue.synchronize());
  }
  return memory;
}

// For whoever has ptxas and no patience for this program: each probe as a file in $PERGOLA_TASK_PTX.
void keep(const Launch& launch, const std::string& text) {
  const char* folder = std::getenv("PERGOLA_TASK_PTX");
  if (folder == nullptr) return;
  std::string name = launch.label + "-" + launch.kernel;
  for (char& c : name)
    if (c == '/' || c == '.') c = '_';
  std::ofstream(std::string(folder) + "/" + name + ".ptx") << text;
}

// How the launch's blocks lie in those of the probe.
struct Shape {
  std::uint32_t threads = 0, warps = 0;           // of a block of the task
  std::uint32_t groups = 0, physical_blocks = 0;  // of warps in a block of the probe
  std::uint32_t blocks = 0;
  std::uint32_t allocation = 0;  // shared bytes of a group
  std::uint32_t near_bytes = 0;  // of a group's parameter block in shared memory; 0: it is in global memory
  bool named = false;
};

Shape shape_of(const TaskBody& body, const device::LaunchConfig& launch, const ProbeOptions& options) {
  Shape shape;
  shape.threads = launch.block.x * launch.block.y * launch.block.z;
  shape.warps = (shape.threads + 31) / 32;
  shape.allocation =
      aligned(body.dynamic_shared_offset + launch.dynamic_shared_bytes, std::max(body.shared_align_bytes, 256u));
  shape.groups = std::min(options.groups, 31 / shape.warps);
  while (shape.groups > 1 && shape.groups * shape.allocation > 40000) --shape.groups;
  shape.blocks = launch.grid.x * launch.grid.y * launch.grid.z;
  shape.physical_blocks = std::min(2u, (shape.blocks + shape.groups - 1) / shape.groups);
  shape.named = options.gives_named_barriers && body.named_barriers != 0 && shape.threads % 32 == 0 &&
                1 + shape.groups + shape.groups * body.named_barriers <= 16;
  if (options.config.parameters == ptx::Space::kShared)
    shape.near_bytes = aligned(std::max(body.parameter_bytes, 16u), 16);
  return shape;
}

std::string variables_text(const TaskBody& body, const Shape& shape) {
  return fmt::format(
      ".shared .align 8 .b8 probe_barriers[{}];\n.shared .align 256 .b8 probe_shared[{}];\n"
      ".shared .align 16 .b8 probe_near[{}];\n",
      std::max<std::size_t>(8u, shape.groups * body.barriers.size() * 8),
      kPadding + std::max(16u, shape.groups * shape.allocation), std::max(16u, shape.groups * shape.near_bytes));
}

// Who each thread is, and up to where the first block of its group is known.
std::string head_text(const TaskBody& body, const Shape& shape) {
  return fmt::format(
      R"(
.visible .entry pergola_probe(.param .u64 probe_parameters)
{{
  .reg .pred %one, %first, %over;
  .reg .b32 %thread, %warp, %group, %lane, %slot, %block, %x, %y, %z, %shared, %barriers, %named, %meet;
  .reg .b64 %global, %parameters, %word;
  ld.param.u64 %global, [probe_parameters];
  cvta.to.global.u64 %global, %global;
  mov.u32 %thread, %tid.x;
  shr.u32 %warp, %thread, 5;
  mov.u32 %slot, pergola_task_slots;
  mad.lo.u32 %slot, %warp, {slot_bytes}, %slot;
  div.u32 %group, %warp, {warps};
  rem.u32 %warp, %warp, {warps};
  mov.u32 %lane, %laneid;
  setp.eq.u32 %one, %lane, 0;
  setp.eq.and.u32 %first, %warp, 0, %one;
  mov.u32 %barriers, probe_barriers;
  mad.lo.u32 %barriers, %group, {barrier_bytes}, %barriers;
  mov.u32 %shared, probe_shared;
  mad.lo.u32 %shared, %group, {allocation}, %shared;
  add.u32 %shared, %shared, {padding};
  mov.u64 %parameters, {parameters};
  mul.wide.u32 %word, %group, {near_bytes};
  add.s64 %parameters, %parameters, %word;
  mad.lo.u32 %named, %group, {named_each}, {named_first};
  add.u32 %meet, %group, 1;
  mov.u32 %block, %ctaid.x;
  mad.lo.u32 %block, %block, {groups}, %group;
$probe_next:
  setp.ge.u32 %over, %block, {blocks};
  @%over bra $probe_end;
)",
      fmt::arg("slot_bytes", sizeof(abi::TaskSlot)), fmt::arg("warps", shape.warps),
      fmt::arg("barrier_bytes", body.barriers.size() * 8), fmt::arg("allocation", shape.allocation),
      fmt::arg("padding", kPadding), fmt::arg("parameters", shape.near_bytes != 0 ? "probe_near" : "%global"),
      fmt::arg("near_bytes", shape.near_bytes), fmt::arg("named_each", shape.named ? body.named_barriers : 0),
      fmt::arg("named_first", shape.named ? 1 + shape.groups : 0), fmt::arg("groups", shape.groups),
      fmt::arg("blocks", shape.blocks));
}

std::string init_text(const TaskBody& body, const Shape& shape) {
  std::string text;
  for (std::size_t n = 0; n < body.barriers.size(); ++n)
    text += body.barriers[n] == TaskBarrierKind::kMbarrier
                ? fmt::format("  @%first mbarrier.init.shared.b64 [%barriers+{}], {};\n", 8 * n, shape.warps)
                : fmt::format("  @%first st.shared.u64 [%barriers+{}], {};\n", 8 * n,
                              shape.warps << abi::kTaskBarrierExpectedShift);
  return text;
}

// The parameter block, into the group's own shared memory where the body wants it there.
std::string fetch_text(const TaskBody& body, const Shape& shape) {
  std::string text;
  for (std::uint32_t at = 0; shape.near_bytes != 0 && at < body.parameter_bytes; at += 8)
    text += fmt::format(
        "  @%first ld.global.u64 %word, [%global+{0}];\n  @%first st.shared.u64 [%parameters+{0}], %word;\n", at);
  return text;
}

std::string fill_text(const device::LaunchConfig& launch, const Shape& shape) {
  using Slot = abi::TaskSlot;
  const device::Dim3 block = launch.block, grid = launch.grid;
  std::string text = fmt::format(
      "  rem.u32 %x, %block, {0};\n  div.u32 %y, %block, {0};\n  div.u32 %z, %y, {1};\n  rem.u32 %y, %y, {1};\n",
      grid.x, grid.y);
  const auto store = [&](const std::string& value, std::size_t offset) {
    text += fmt::format("  @%one st.shared.u32 [%slot+{}], {};\n", offset, value);
  };
  store(std::to_string(block.x), offsetof(Slot, block_x));
  store(std::to_string(block.y), offsetof(Slot, block_y));
  store(std::to_string(block.z), offsetof(Slot, block_z));
  store(std::to_string(shape.threads), offsetof(Slot, threads));
  store("%x", offsetof(Slot, index_x));
  store("%y", offsetof(Slot, index_y));
  store("%z", offsetof(Slot, index_z));
  store("%warp", offsetof(Slot, warp));
  store(std::to_string(grid.x), offsetof(Slot, grid_x));
  store(std::to_string(grid.y), offsetof(Slot, grid_y));
  store(std::to_string(grid.z), offsetof(Slot, grid_z));
  store("%shared", offsetof(Slot, shared_base));
  store("%barriers", offsetof(Slot, barriers));
  store("%named", offsetof(Slot, named_barrier));
  store(std::to_string(launch.dynamic_shared_bytes), offsetof(Slot, dynamic_shared_bytes));
  store("0", offsetof(Slot, here));
  return text + fmt::format("  @%one st.shared.u64 [%slot+{}], %parameters;\n  @%one st.shared.u64 [%slot+{}], 7;\n",
                            offsetof(Slot, parameters), offsetof(Slot, task_id));
}

std::string call_text(const TaskBody& body, const Shape& shape) {
  return fmt::format(R"(  bar.sync %meet, {threads};
  call {body};
  bar.sync %meet, {threads};
  add.u32 %block, %block, {step};
  bra $probe_next;
$probe_end:
  ret;
}}
)",
                     fmt::arg("threads", shape.warps * 32), fmt::arg("body", body.function),
                     fmt::arg("step", shape.physical_blocks * shape.groups));
}

// In place of the probe's call of `name`: the body twice, under a branch by the group's number.
Result<std::string> with_inlined_body(const std::string& text, const std::string& name) {
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(text, "probe"));
  const ptx::Function body = *module.find_function(name);
  ptx::Function& probe = *module.find_function("pergola_probe");
  ptx::RegisterId group = 0;
  while (probe.registers.at(group).name != "%group") ++group;
  transform::BodyEditor editor(probe);
  const transform::BodyEditor::Argument arguments[] = {{"%group", ptx::Type::kB32, ptx::Operand::make_register(group)}};
  transform::Statements made;
  for (ptx::Statement& statement : probe.body) {
    const ptx::Instruction* in = statement.instruction();
    if (in == nullptr || in->op != ptx::Op::kCall) {
      made.push_back(std::move(statement));
      continue;
    }
    const auto add = [&](const transform::Statements& part) { made.insert(made.end(), part.begin(), part.end()); };
    PERGOLA_ASSIGN(const auto branch, editor.statements(".reg .b32 %pg_odd;\nand.b32 %pg_odd, %group, 1;\n"
                                                        "$probe_cases: .branchtargets $probe_even, $probe_odd;\n"
                                                        "brx.idx %pg_odd, $probe_cases;\n",
                                                        arguments));
    PERGOLA_ASSIGN(const auto even, transform::inline_body(probe, body, "$even"));
    PERGOLA_ASSIGN(const auto odd, transform::inline_body(probe, body, "$odd"));
    // The labels stand outside of the branch's scope.
    add(branch);
    made.push_back({ptx::Label{"$probe_even"}, {}});
    add(even);
    PERGOLA_ASSIGN(const auto over, editor.statements("bra $probe_back;\n"));
    add(over);
    made.push_back({ptx::Label{"$probe_odd"}, {}});
    add(odd);
    made.push_back({ptx::Label{"$probe_back"}, {}});
  }
  probe.body = std::move(made);
  std::erase_if(module.items, [&](const ptx::Item& item) {
    const auto* function = std::get_if<ptx::Function>(&item.node);
    return function != nullptr && function->name == name;
  });
  return ptx::print(module);
}

}  // namespace

Launch launch_of(const ptx_cases::Case& test) {
  Launch launch{test.text, test.path.substr(test.path.rfind('/') + 1), test.kernel, test.config, {}, {}};
  for (const ptx_cases::BufferSpec& buffer : test.buffers) launch.arrays.push_back(buffer.initial);
  for (const ptx_cases::Argument& given : test.arguments) {
    Argument argument{-1, given.value};
    for (std::size_t b = 0; b < test.buffers.size(); ++b)
      if (!given.buffer.empty() && test.buffers[b].name == given.buffer) argument.array = static_cast<int>(b);
    launch.arguments.push_back(std::move(argument));
  }
  return launch;
}

Launch launch_of(const std::string& text, const std::string& label, const corpus::RunLine& line) {
  Launch launch{text, label, line.kernel, line.config, {}, {}};
  for (const corpus::RunArgument& given : line.arguments) {
    Argument argument{-1, given.bytes};
    if (given.is_array) {
      argument.array = static_cast<int>(launch.arrays.size());
      launch.arrays.push_back(given.bytes);
    }
    launch.arguments.push_back(std::move(argument));
  }
  return launch;
}

Result<Memory> run_plain(device::Device& device, const Launch& launch) {
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(launch.text, launch.label));
  PERGOLA_ASSIGN(const device::ModulePtr module, device.load({&parsed, launch.text, launch.label}));
  const std::string name = launch.kernel.empty() ? module->kernel_names().at(0) : launch.kernel;
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(name));
  PERGOLA_ASSIGN(auto queue, device.create_queue());
  PERGOLA_ASSIGN(const auto buffers, upload(device, *queue, launch));
  PERGOLA_ASSIGN(const auto parameters, pack(kernel->signature(), launch, buffers));
  PERGOLA_TRY(queue->launch(module, *kernel, launch.config, parameters));
  return finish(*queue, buffers);
}

Result<Memory> run_as_task(device::Device& device, const Launch& launch, const ProbeOptions& options, TaskBody* made) {
  PERGOLA_ASSIGN(const ptx::Module original, ptx::parse(launch.text, launch.label));
  const std::string name = launch.kernel.empty() ? original.entries().at(0)->name : launch.kernel;
  PERGOLA_ASSIGN(const TaskBody body, transform::entry_to_task(original, name, options.config));
  if (made != nullptr) *made = body;
  PERGOLA_TRY(ptx::verify(body.module));
  PERGOLA_ASSIGN(const Probe probe, make_probe(body, launch.config, options));
  keep(launch, probe.text);
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(probe.text, "task of " + launch.label));
  PERGOLA_TRY(ptx::verify(parsed));
  PERGOLA_ASSIGN(const device::ModulePtr module, device.load({&parsed, probe.text, "task of " + launch.label}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel("pergola_probe"));

  PERGOLA_ASSIGN(auto queue, device.create_queue());
  PERGOLA_ASSIGN(const auto buffers, upload(device, *queue, launch));
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(original, *original.find_function(name)));
  PERGOLA_ASSIGN(auto parameters, pack(signature, launch, buffers));
  parameters.resize((std::max<std::size_t>(parameters.size(), 16) + 7) / 8 * 8);  // the probe copies words
  PERGOLA_ASSIGN(const device::BufferPtr block, device.allocate(parameters.size(), device::MemoryKind::kDevice));
  PERGOLA_TRY(queue->copy_to_device(block, 0, parameters));
  const device::DeviceAddress address = block->address();
  std::vector<std::byte> own(sizeof address);
  std::memcpy(own.data(), &address, sizeof address);
  PERGOLA_TRY(queue->launch(module, *kernel, probe.config, own));
  return finish(*queue, buffers);
}

Result<Probe> make_probe(const TaskBody& body, const device::LaunchConfig& launch, const ProbeOptions& options) {
  if (launch.block.x * launch.block.y * launch.block.z > abi::kTaskMostThreads)
    return PERGOLA_ERROR(kUnsupported, "A block of a task has {} threads at most, the launch has {}.",
                         abi::kTaskMostThreads, launch.block.x * launch.block.y * launch.block.z);
  const Shape shape = shape_of(body, launch, options);
  ptx::Module module = body.module;
  for (ptx::Item& item : module.items)
    if (auto* slots = std::get_if<ptx::Variable>(&item.node); slots != nullptr && slots->name == "pergola_task_slots")
      slots->linkage = ptx::Linkage::kNone;
  Probe probe;
  probe.config.grid = {shape.physical_blocks, 1, 1};
  probe.config.block = {shape.groups * shape.warps * 32, 1, 1};
  probe.text = ptx::print(module) + variables_text(body, shape) + head_text(body, shape) + init_text(body, shape) +
               fetch_text(body, shape) + fill_text(launch, shape) + call_text(body, shape);
  if (options.inlines) {
    PERGOLA_ASSIGN(probe.text, with_inlined_body(probe.text, body.function));
  }
  return probe;
}

}  // namespace pergola::tasks
