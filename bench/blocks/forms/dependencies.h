// What a program's launches must come after, as a compiler that knows its kernels would find it.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/blocks/program.h"
#include "src/ptx/module.h"

namespace pergola::bench::blocks {

// By launch: the earlier ones that it must come after, ascending, as the buffers that their kernels read and write
// tell. `module` has the program's kernels.
std::vector<std::vector<std::size_t>> dependencies_of(const Program& program, const ptx::Module& module);

}  // namespace pergola::bench::blocks
