#include "src/executor/generation.h"

#include <algorithm>
#include <vector>

#include "src/abi/task_ring.h"
#include "src/executor/resident_ptx.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/transform/body_cases.h"

namespace pergola::executor {
transform::TaskConfig task_config(std::uint32_t parameter_bytes, std::uint32_t most_shared_bytes) {
  transform::TaskConfig config;
  config.most_shared_bytes = most_shared_bytes;
  config.parameters = parameter_bytes <= abi::kRecordParameterBytes ? ptx::Space::kShared : ptx::Space::kGlobal;
  return config;
}

Result<std::string> generation_text(std::span<const transform::TaskBody> bodies, std::uint32_t blocks_per_sm) {
  const bool spawns = std::any_of(bodies.begin(), bodies.end(), [](const auto& body) { return body.spawns; });
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(resident_ptx(spawns), "the executor"));
  std::vector<const transform::TaskBody*> all;
  for (const transform::TaskBody& body : bodies) all.push_back(&body);
  PERGOLA_TRY(transform::put_bodies(module, kExecutorKernel, all));
  module.find_function(kExecutorKernel)->min_blocks_per_sm = blocks_per_sm;
  return ptx::print(module);
}

}  // namespace pergola::executor
