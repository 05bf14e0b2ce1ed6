// One program of the executor: the resident kernel with the bodies of the tasks that it is to run in it, each under its
// number. New bodies make a new generation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/transform/entry_to_task.h"

namespace pergola::executor {

// The entry of a generation, and the parameters it takes: abi::TaskExecutorParameters.
inline constexpr std::string_view kExecutorKernel = "pergola_executor";

// Bodies whose parameters fit a record read them from shared memory, others from global memory.
transform::TaskConfig task_config(std::uint32_t parameter_bytes, std::uint32_t most_shared_bytes);

// The PTX, for `blocks_per_sm` resident blocks of 1024 threads, which is what bounds its registers. `traces`: it notes
// when tasks ran (abi/task_trace.h). Thread-safe.
Result<std::string> generation_text(std::span<const transform::TaskBody> bodies, std::uint32_t blocks_per_sm,
                                    bool traces = false);

}  // namespace pergola::executor
