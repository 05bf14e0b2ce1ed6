#include "src/executor/generation.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "src/abi/task_ring.h"
#include "src/executor/resident_ptx.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/transform/body_cases.h"
#include "src/transform/fence_accesses.h"

namespace pergola::executor {
transform::TaskConfig task_config(std::uint32_t parameter_bytes, std::uint32_t most_shared_bytes) {
  transform::TaskConfig config;
  config.most_shared_bytes = most_shared_bytes;
  config.parameters = parameter_bytes <= abi::kRecordParameterBytes ? ptx::Space::kShared : ptx::Space::kGlobal;
  return config;
}

namespace {

// In the kernel itself the address of the fences' table is a constant of the launch, which costs no register: only
// device functions read it from shared memory.
void read_fence_table_from_parameters(ptx::Function& kernel) {
  for (ptx::Statement& statement : kernel.body) {
    ptx::Instruction* in = statement.instruction();
    if (in == nullptr || in->op != ptx::Op::kLd) continue;
    ptx::Operand& address = in->operands.at(1);
    if (address.elements.at(0).name != transform::kFenceTableName) continue;
    std::replace(in->mods.begin(), in->mods.end(), ptx::Mod::kShared, ptx::Mod::kParam);
    address = ptx::Operand::make_address(ptx::Operand::make_symbol(kernel.parameters.at(0).name),
                                         offsetof(abi::TaskExecutorParameters, fence_table));
  }
}

}  // namespace

Result<std::string> generation_text(std::span<const transform::TaskBody> bodies, std::uint32_t blocks_per_sm,
                                    bool traces) {
  const bool spawns = std::any_of(bodies.begin(), bodies.end(), [](const auto& body) { return body.spawns; });
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(resident_ptx({spawns, traces}), "the executor"));
  std::vector<const transform::TaskBody*> all;
  for (const transform::TaskBody& body : bodies) all.push_back(&body);
  PERGOLA_TRY(transform::put_bodies(module, kExecutorKernel, all));
  ptx::Function& kernel = *module.find_function(kExecutorKernel);
  read_fence_table_from_parameters(kernel);
  kernel.min_blocks_per_sm = blocks_per_sm;
  return ptx::print(module);
}

}  // namespace pergola::executor
