// What the shape of a kernel's code asks of the tier, read off the PTX before anything is emitted.
//
// A kernel runs as a plain loop over its threads where no thread can wait for another: no barrier, no warp operation,
// no loop that could spin (volatile, relaxed, acquire, atomic with a used result, fence, clock, nanosleep on a cycle), no
// `exit` inside a device function. Else each thread gets a fiber.
//
// A cycle through statement x has a backward branch from a statement at or after x to a label at or before x, so
// looking at the textual range of every backward branch finds every loop that could spin.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/ptx/module.h"

namespace pergola::device::cpu::jit {

// What alloca may hand out in one call of a function.
inline constexpr std::uint64_t kAllocaBytes = 16 * 1024;

// How a group of threads waits at the barriers of a kernel, in the vector tier.
enum class GroupWaits : std::uint8_t {
  kNever,    // there is none
  kResumed,  // all are barriers of all threads of the block: vector_resume.h
  kFibers,   // some are of a number, or of some threads, or only announce an arrival
};

struct KernelTraits {
  bool needs_fibers = false;
  std::string reason;  // "bar.sync at line 12", for the log
  // Per function name: body indices of branches before which other threads must get their turn.
  std::unordered_map<std::string, std::unordered_set<std::size_t>> yields;
  std::vector<const ptx::Function*> reachable;  // defined functions, the roots first
  bool needs_warps = false;  // a warp operation in what is reachable
  GroupWaits group_waits = GroupWaits::kNever;
  bool recursive = false;
  bool calls_indirectly = false;
  std::uint64_t local_bytes = 0;  // of all reachable functions' .local variables, and what alloca may take
};

// `roots`: an entry, or functions whose address is taken. An indirect call may reach any of `address_taken`.
KernelTraits kernel_traits(const ptx::Module& module, const std::vector<const ptx::Function*>& roots,
                           const std::vector<std::string>& address_taken);

// Functions of the module whose address is taken by an instruction or an initialiser, in textual order.
std::vector<std::string> address_taken_functions(const ptx::Module& module);

// The function that a call instruction names, null where it calls through a register.
const ptx::Operand* called_function(const ptx::Instruction& call);

}  // namespace pergola::device::cpu::jit
