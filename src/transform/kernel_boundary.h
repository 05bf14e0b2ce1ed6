// What a kernel presumes because it begins and ends with a launch, said in its code: for every form of it that overlaps
// or outlives what makes its data (a task of a resident kernel, a kernel launched early, a worker, a part of a fused
// kernel).
//
//   ld.global.nc, ldu.global      data that is constant as long as the kernel runs      ──▶  ld.global
//   the begin of the launch       all that was written before it is seen                ──▶  fence.acq_rel at its first
//   statement the end of the launch         all that it wrote is seen by what comes after         ──▶  fence.acq_rel
//   before each end
//
// A resident kernel runs from before the first task to after the last: a line that the non-coherent path has cached may
// be of an earlier task. (PTX ISA 9.7.9.9, ld.global.nc; 8, memory consistency)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

// The kernel that `module` defines by this name; null where that is none, a function's, or just declared.
const ptx::Function* find_kernel(const ptx::Module& module, std::string_view kernel);

// Loads of a function become coherent, but for those of `constant_lines` of the module's text (ascending), whose data
// nobody writes as long as the form of the kernel runs; returns how many became.
std::size_t make_loads_coherent(ptx::Function& function, std::span<const std::uint32_t> constant_lines = {});

// The same for `kernel` and every device function it may call. kNotFound where `module` defines no such kernel;
// kUnsupported where an instruction is not understood. Thread-compatible.
Status make_kernel_loads_coherent(ptx::Module& module, std::string_view kernel,
                                  std::span<const std::uint32_t> constant_lines = {});

// Takes the other kernels out of `module`, declarations of this one ahead of its definition, and sections of a
// debugger's, which name places in them. kNotFound without such a kernel; kUnsupported where the module is compiled for
// a debugger. Thread-compatible.
Status leave_only_kernel(ptx::Module& module, std::string_view kernel);

enum class BoundaryScope : std::uint8_t { kGpu, kSystem };  // kSystem: the data may be the host's

// Makes the loads of `kernel`, and of every device function it may call, coherent, and puts the fences into the kernel.
// Each thread fences for itself: an executor that orders a whole warp at once wants make_loads_coherent() alone.
// kNotFound where `module` defines no such kernel; kUnsupported where an instruction is not understood.
// Thread-compatible.
Status kernel_boundary(ptx::Module& module, std::string_view kernel, BoundaryScope scope);

}  // namespace pergola::transform
