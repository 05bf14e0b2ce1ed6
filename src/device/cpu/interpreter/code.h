// What the decoder makes of a module and the machine runs: flat arrays of decoded instructions.
//
//   ptx::Function ──decoder──▶ FunctionCode { code[], constants[], frame layout }   one a function, shared by all kernels
//                                        └── KernelImage: per entry, the constants with its shared offsets filled in
//
// An operand is an index: >= 0 a 64-bit cell of the thread's current register frame, < 0 the constant ~index.
// A narrow value lies zero-extended in its cell; a b128 register takes two cells, a .v4 one four.
// Everything here is immutable after decoding and shared between threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/ptx/module.h"

namespace pergola::device::cpu::interp {

class Machine;
struct Thread;
struct Warp;
struct Inst;
struct FunctionCode;
struct CallSite;

using LaneMask = std::uint32_t;
// kLane: computes for one thread; the next instruction follows. kControl: sets the thread's pc (or ends it).
// kGroup: is given all lanes that arrive together, and moves or blocks each.
using LaneFn = void (*)(Machine&, Thread&, const Inst&);
using GroupFn = void (*)(Machine&, Warp&, LaneMask, const Inst&);
enum class Kind : std::uint8_t { kLane, kControl, kGroup };

// How an address operand becomes a host address.
enum class Region : std::uint8_t {
  kGeneric,     // host address: anything, with the shared and local windows
  kGlobal,      // host address in the memory map
  kConst,       // the same, read-only
  kShared,      // offset in the block's shared memory
  kLocal,       // offset in the thread's stack
  kFrame,       // offset in the current frame: checked when decoded
  kEntryParam,  // host address in the parameter buffer
};

inline constexpr std::int32_t kNoCell = INT32_MIN;

struct Inst {
  union {
    LaneFn lane = nullptr;
    GroupFn group;
  };
  Kind kind = Kind::kLane;
  bool guard_negated = false;
  Region region = Region::kGeneric;
  std::uint8_t width = 1;         // elements of a vector
  std::uint8_t mode = 0;          // meaning is the handler's: rounding, compare, boolean operator, ...
  std::uint8_t mode2 = 0;
  std::uint16_t flags = 0;        // ftz, sat, ...: exec.h
  std::int32_t guard = kNoCell;
  std::int32_t dst = kNoCell, dst2 = kNoCell;
  std::int32_t src[4] = {kNoCell, kNoCell, kNoCell, kNoCell};
  std::uint32_t extra = 0;        // first index into FunctionCode::extra: vector elements, branch tables
  std::uint64_t imm = 0;          // address offset, branch target, table size, call site
  const ptx::Instruction* source = nullptr;
};

struct FrameSlot {
  std::uint32_t offset = 0, size = 0;
  std::int32_t cell = kNoCell;    // where the parameter is a register
};

struct FunctionCode {
  const ptx::Function* source = nullptr;
  std::uint32_t index = 0;                 // in ModuleImage::functions
  std::vector<Inst> code;
  std::vector<std::int32_t> extra;
  std::vector<std::uint64_t> constants;
  std::vector<std::pair<std::uint32_t, std::string>> shared_relocations;  // constant index -> SharedLayout slot name
  std::vector<std::unique_ptr<CallSite>> calls;
  std::vector<FrameSlot> parameters, results;
  std::uint32_t cell_count = 0;
  std::uint32_t frame_bytes = 0;           // 16-byte aligned
  bool calls_indirectly = false;
  bool allocates_stack = false;            // alloca
  mutable std::atomic<bool> address_taken{false};  // set while decoding and by initialisers, before any kernel runs
  Status refusal;                          // why no kernel that reaches it can run
};

// A function the module calls and does not define: vprintf, malloc, sinf, ...
using Builtin = void (*)(Machine&, Thread&, const Inst&, const CallSite&);

struct CallSite {
  struct Value {
    bool in_frame = false;       // a .param variable, else a cell or constant
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
    std::int32_t cell = kNoCell;
  };
  const FunctionCode* target = nullptr;  // null: builtin or indirect
  Builtin builtin = nullptr;
  void* native = nullptr;                // for builtins that wrap a host function
  std::string signature;
  std::int32_t address = kNoCell;        // indirect: the cell with the function's address
  std::vector<Value> arguments, results;
};

// A function's address is the address of its handle: the same for every kernel of the module.
struct FunctionHandle {
  const FunctionCode* code = nullptr;
};

struct ModuleImage {
  std::shared_ptr<const ptx::Module> module;
  std::vector<std::unique_ptr<FunctionCode>> functions;
  std::unordered_map<std::string, std::uint32_t> function_index;
  std::unique_ptr<FunctionHandle[]> handles;        // one a function, by index
  std::unordered_map<std::string, GlobalPlacement> globals;
  std::vector<GlobalPlacement> constants;           // of these, those in .const
  std::uint32_t module_local_bytes = 0;             // module-scope .local variables, at the bottom of each stack
  std::unordered_map<std::string, std::uint32_t> module_locals;

  const FunctionCode* function_at(std::uint64_t address) const;
};

struct KernelImage {
  std::shared_ptr<const ModuleImage> module;
  const FunctionCode* entry = nullptr;
  std::vector<std::vector<std::uint64_t>> constants;  // by function index
  std::uint32_t stack_bytes = 0;                      // a thread's .local memory and call frames
  SharedLayout shared;
  bool checked = false;                               // watches shared memory (shared_check.h)
};

}  // namespace pergola::device::cpu::interp
