// What the tiers of the CPU device (interpreter, JIT) share with the virtual GPU that runs their blocks.
//
//   GridRunner (one OS thread per virtual SM)            a tier
//     │ makes a Block per resident block                  │
//     ├────────────── KernelCode::start(block) ──────────▶│ BlockExecution
//     └── step(), round robin over resident blocks ──────▶│   runs threads until all wait, or the budget is spent
//
// Blocks may come in runs: with a Block goes the number of those that follow it in the grid. An execution may run them
// too, each after the one before, and so spares the runner's work for each; or leave them, any time, to the runner.
//
// Addresses: global, const, param and generic addresses are host addresses. A shared address is an offset from
// Block::shared_base, a local one an offset from the thread's own base; both fit in 32 bits, `cvta` adds the base,
// `isspacep` compares with the range.
//
// Ownership and threads: a Block and its BlockExecution belong to one virtual SM's OS thread from start() to the end.
// A Launch is shared by all its blocks: everything in it but `fault` is constant; `fault` is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/device/cpu/stand.h"
#include "src/device/types.h"
#include "src/ptx/module.h"

namespace pergola::device::cpu {

class MemoryMap;   // memory_map.h: which host ranges kernels may touch
class PrintBuffer; // print.h: where vprintf writes
class DeviceHeap;  // heap.h: malloc and free inside kernels

// What a kernel that runs as a task calls by pergola_task_spawn() (pergola/device/tasks.h). Thread-safe.
class TaskSpawner {
 public:
  static constexpr std::size_t kWords = 6;
  virtual ~TaskSpawner() = default;
  // Whether it has been spawned: false where there is no room. An error, the launch's fault, for what is no handle.
  virtual Result<bool> spawn(std::uint64_t handle, std::uint32_t parameter_bytes,
                             std::span<const std::uint64_t, kWords> words) = 0;
};

// The first fault of a launch wins; the others are dropped. Any thread may raise; blocks poll raised() and stop.
class FaultSlot {
 public:
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  // Keeps `error` where it is the first. acq_rel: whoever sees raised() sees the error.
  void raise(Error error);
  Status status() const;

 private:
  std::atomic<bool> claimed_{false};  // written once by the first raiser
  std::atomic<bool> raised_{false};   // set after error_ is complete
  Error error_;
};

// Module-scope variables of a loaded module, at their host addresses, in textual order.
struct GlobalPlacement {
  std::string name;
  std::byte* address = nullptr;
  std::size_t size_bytes = 0;
};

struct Launch {
  std::string kernel_name;
  LaunchConfig config;
  std::span<const std::byte> parameters;   // 16-byte aligned, outlives the launch
  std::uint32_t static_shared_bytes = 0;
  std::uint64_t grid_id = 0;
  std::uint32_t sm_count = 0;
  MemoryMap* memory = nullptr;
  PrintBuffer* print = nullptr;
  DeviceHeap* heap = nullptr;
  FaultSlot* fault = nullptr;
  TaskSpawner* spawner = nullptr;  // of a task; else nothing is spawned
  // What %envreg1 and %envreg2 give the upper and the lower half of: where the grid-wide barrier of a cooperative launch
  // is (GridWorkspace); 0 for other launches. Arrivals are not the runner's: code spins on that memory.
  DeviceAddress grid_workspace = 0;
  bool reads_grid_workspace = false;  // the kernel does
};

// As compilers' code expects it: sync() adds to `barrier` and spins until its top bit turns over.
struct GridWorkspace {
  std::uint32_t size_bytes = sizeof(GridWorkspace);
  std::uint32_t barrier = 0;
};

// What a thread that meets `trap` does, for its message: "traps", and why it may have. Grid-wide barriers trap where there
// is no workspace.
std::string trap_reason(const Launch& launch);

struct Block {
  const Launch* launch = nullptr;
  Dim3 index;                       // %ctaid
  std::uint32_t sm = 0;             // %smid
  std::byte* shared_base = nullptr; // static then dynamic shared memory; 128-byte aligned
  std::uint32_t shared_bytes = 0;
  // Blocks behind this one that the execution may run too: it counts down as it moves on (advance), and the runner may
  // take back what is left between two steps.
  std::uint32_t following = 0;

  // Moves on to the next block of the run; the shared memory is the same.
  void advance(const Dim3& grid) {
    --following;
    if (++index.x < grid.x) return;
    index.x = 0;
    if (++index.y < grid.y) return;
    index.y = 0;
    ++index.z;
  }
};

enum class Progress : std::uint8_t {
  kFinished,  // every thread has exited, or a fault was raised; Block::following blocks are left to the runner
  kRan,       // something ran; call again
  kWaiting,   // every live thread waits for another block or the host (spun, slept): let others go first
};

class BlockExecution {
 public:
  virtual ~BlockExecution() = default;
  // Runs threads for a bounded time (about `budget` instructions or loop turns in all).
  virtual Progress step(std::uint64_t budget) = 0;
  // Where its live lanes stand, between two steps; `block` of each is left to the caller.
  virtual std::vector<Stand> stands() const { return {}; }
};

class KernelCode {
 public:
  virtual ~KernelCode() = default;
  // Never fails for a launch that was checked; what goes wrong is raised in launch->fault. Null only of a tier that is
  // asked before another (engine_choice.h): the block is the other's. `block` outlives the execution.
  virtual std::unique_ptr<BlockExecution> start(Block& block) const = 0;
  virtual std::uint32_t local_bytes_per_thread() const = 0;
};

// One tier's form of a module. Keeps what it needs of the ptx::Module by itself.
class ModuleCode {
 public:
  virtual ~ModuleCode() = default;
  virtual Result<std::shared_ptr<const KernelCode>> kernel(std::string_view entry) const = 0;
  // What `mov.u64 %rd, function` gives in this tier: an initialiser of a module variable may hold it. Asked once,
  // after compile(), before any kernel runs. A tier without indirect calls leaves it refused.
  virtual Result<std::uint64_t> function_address(std::string_view function) const;
};

// A tier. Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;  // "interpreter", "jit"
  // Whether races are faults, so that weak accesses must reach it as they are.
  virtual bool checks_races() const { return false; }
  // `module` is verified and shared; `globals` gives every module-scope .global/.const variable its address.
  // Refuses (kUnsupported, with file:line and the instruction) what it cannot run.
  virtual Result<std::unique_ptr<ModuleCode>> compile(std::shared_ptr<const ptx::Module> module,
                                                      std::span<const GlobalPlacement> globals) = 0;
};

// Byte offsets of the .shared variables that `entry` and the functions it can reach use: statics first, in textual
// order and aligned; every unsized extern one starts at `dynamic_offset`. Both tiers and the runner use this one.
struct SharedLayout {
  struct Slot {
    std::string name;         // module scope: the variable's; function scope: "function/variable"
    std::uint32_t offset_bytes = 0;
  };
  std::vector<Slot> slots;
  std::uint32_t static_bytes = 0;
  std::uint32_t dynamic_offset = 0;  // static_bytes rounded up to 16, or to what an extern one asks for
};
// Reachable are: called functions, the .calltargets of an indirect call, and for one without them every function whose
// address is taken. kUnsupported where two variables of one function have the same name.
Result<SharedLayout> shared_layout(const ptx::Module& module, const ptx::Function& entry);

}  // namespace pergola::device::cpu
