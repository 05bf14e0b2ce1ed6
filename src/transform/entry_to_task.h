// A kernel becomes the body of a narrow task: an `.entry` that owns its block becomes a `.func` that some warps of a
// resident block run, side by side with other tasks (Pagoda, paper 000 sections 4 and 5; the kernel's source is
// untouched).
//
//   .entry saxpy(.param ...)                      .func pergola_task_saxpy()
//     %tid %ctaid %ntid %nctaid %warpid ...         from the warp's slot (abi/task_slot.h)
//     ld.param                                      loads from the task's parameter block
//     .shared arrays, static and dynamic            offsets in the block's own allocation
//     bar.sync, bar.arrive, bar.red, any id         barriers of the block: named, mbarrier, or a word
//     (TaskBarrierKind);
//                                                   bar.warp.sync where it has one warp
//     shfl, vote, match, redux ... .sync            their member mask less the lanes that have returned
//     ret, exit                                     a branch to the end, where all 32 lanes meet
//
// Device functions that the kernel calls are rewritten in the same way; they find the slot by themselves, so calls keep
// their parameters. What a body relies on, and what it leaves, is in docs/tasks.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/abi/task_slot.h"
#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

// Whether and how bodies are fenced (fence_accesses.h).
struct FenceConfig {
  std::uint32_t granule_shift = 16;  // of the table: granules of 2^granule_shift bytes are memory or not
  bool merges = true;                // one check for neighbouring accesses, none where one has been made
  bool hoists = true;                // one check at the body's begin for all that it may reach (fence_hoist.h)
};

// What a fence may find at one instruction.
struct FenceSite {
  enum class Kind : std::uint8_t { kRead, kWrite, kAtomic, kTrap, kAssert };
  Kind kind = Kind::kRead;
  std::uint32_t bytes = 0;
  std::string place;        // "blur.cu:77", or the line of the PTX
  std::string instruction;  // "st.global.f32"
  std::string text;         // of an assert: what does not hold, and where it says so
};

struct FenceCounts {
  std::uint32_t accesses = 0, checks = 0, instructions = 0;  // fenced; of what they became: outside of cold paths
  // Groups of them that one check at the begin stands for, and the instructions of that; 0: there is none.
  std::uint32_t hoisted = 0, hoisted_instructions = 0;
};

struct TaskConfig {
  // What the executor can give one block of a task.
  std::uint32_t most_threads = abi::kTaskMostThreads;
  std::uint32_t most_shared_bytes = 48 * 1024;  // static shared memory alone is held against it
  std::uint32_t most_shared_alignment = 256;    // of its allocations
  ptx::Space parameters = ptx::Space::kGlobal;  // or kShared: where the parameter block is
  // The target of the module that is made, where the kernel's own is not newer: "sm_80" at least.
  std::string target = "sm_90";
  // Blocks of this body are of one warp at most: barriers are the warp's own, and TaskBody::barriers is empty.
  bool is_one_warp = false;
  // Lines of the module's text whose loads may stay non-coherent (ld.global.nc): nobody writes what they read while the
  // kernel that runs the body does. Ascending.
  std::vector<std::uint32_t> constant_lines{};
  std::optional<FenceConfig> fences{};
};

enum class TaskBarrierKind : std::uint8_t {
  kMbarrier,  // an mbarrier, made for as many arrivals as the block has warps
  kWord,      // TaskBarrier's own form, made with `expected` = the block's warps and all else 0
};

struct TaskBody {
  ptx::Module module;    // the body, what it calls and uses; `pergola_task_slots` is declared extern
  std::string kernel;    // the entry it was
  std::string function;  // the .func it is: no parameters, no results

  std::uint32_t parameter_bytes = 0;  // laid out as for a launch; 16-byte aligned where it is put
  // A block's allocation: static arrays, from dynamic_shared_offset on the launch's dynamic bytes.
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;
  std::uint32_t shared_align_bytes = 1;
  bool uses_dynamic_shared = false;

  std::vector<TaskBarrierKind> barriers;  // of a block, in the order in which they lie at TaskSlot::barriers
  // Named barriers, neighbours, that a block of whole warps may be given instead (TaskSlot::named_barrier); 0: it may
  // not, for some of its lanes may not arrive.
  std::uint32_t named_barriers = 0;
  // The warps of a block must be resident at once: they share memory, meet at barriers, or may wait for one another.
  // Where it is false each warp of a task can be placed by itself.
  bool needs_block = false;
  bool spawns = false;  // it calls abi::kTaskSpawnFunction, which the executor has
  // Lanes may return while others of their warp are elsewhere: collectives then meet through memory, which is slow.
  bool is_ragged = false;
  std::optional<std::array<std::uint32_t, 3>> required_threads, max_threads;
  // Of a body with fences: TaskSlot::fault names one of these. `pergola_fence_table` is declared extern then.
  std::vector<FenceSite> fences;
  FenceCounts fence_counts;
};

// `kernel` must be an .entry of `module` that the verifier accepts. kUnsupported, with the line and the numbers, where
// it uses what a task cannot have: grid-wide barriers, clusters, griddepcontrol, bulk copies, warpgroup instructions,
// setmaxnreg, textures, module variables that are written or have no initial value, more threads or shared memory than
// `config` allows, instructions that are not understood, `exit` in a device function. Thread-safe.
Result<TaskBody> entry_to_task(const ptx::Module& module, std::string_view kernel, const TaskConfig& config = {});

// What the device's compiler says of a body in an executor, and what a thread of that executor has.
struct TaskRegisters {
  std::uint32_t used = 0, spilled_bytes = 0;  // with the register limit off: what the body wants
  std::uint32_t allowed = 0;                  // of the executor's shape: 32 of 2 x 1024, 64 of 1 x 1024
};
// kUnsupported, with the numbers, where the body wants more registers than the shape has.
Status check_registers(const TaskBody& body, const TaskRegisters& registers);

}  // namespace pergola::transform
