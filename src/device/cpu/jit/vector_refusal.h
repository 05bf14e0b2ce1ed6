// How the vector tier says that it cannot run a kernel: by throwing, caught where a unit is built (compile.cc), which
// adds the kernel's name. The kernel then runs in the scalar tier.
#pragma once

#include <string>

namespace pergola::device::cpu::jit {

struct VectorRefusal {
  std::string why;  // "its control flow is not reducible"
};

[[noreturn]] inline void refuse_vector(std::string why) { throw VectorRefusal{std::move(why)}; }

}  // namespace pergola::device::cpu::jit
