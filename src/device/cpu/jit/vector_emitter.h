// One thread function (LLVM IR, as the scalar tier emits it) -> the same for a group of lanes at once.
//
//   thread(ThreadContext*)  ──▶  group(ThreadContext* of the first lane, i32 count of lanes, BlockContext*)
//
// The block is an argument, so that what is loaded through it leaves the loop over groups.
//
// Values follow vector_shape.h: scalars where lanes agree, bases where they differ by a stride, else vectors.
//
// Control flow follows vector_flow.h's line of blocks. Each block that not all lanes need be in has a mask, the lanes
// that are on their way to it. Blocks run in the order of the line, each once all who may come have come, so lanes wait
// where their ways join; a block nobody goes to is skipped; a loop turns while its header's mask holds lanes.
//
//   if (p) A; else B; C        A's mask = m & p, B's mask = m & !p    →  A (if any)  →  B (if any)  →  C
//   uniform p                  a plain branch
//
// `deferred_[n]` holds the blocks, further down the line, that lanes may be waiting in while block n runs; so the
// next block of a jump is the first of the deferred ones and the jump's own target.
//
// Invariants: a block's code runs only where its mask holds a lane; what lanes outside the mask hold is garbage, never
// poison that decides anything (flags that make poison are dropped, masks are combined by select). Values that cross
// blocks live in allocas, which LLVM makes values again.
//
// What it cannot do throws VectorRefusal. Thread-compatible.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <set>
#include <vector>

#include "src/device/cpu/jit/kernel_traits.h"
#include "src/device/cpu/jit/vector_flow.h"
#include "src/device/cpu/jit/vector_refusal.h"
#include "src/device/cpu/jit/vector_shape.h"

namespace pergola::device::cpu::jit {

class VectorEmitter {
 public:
  // `target` is empty, of type void(ptr, i32, ptr); its further arguments are left to make_resumable().
  VectorEmitter(llvm::Function& scalar, const VectorFlow& flow, const VectorShapes& shapes, llvm::Function& target, GroupWaits waits);
  void run();

 private:
  using Value = llvm::Value*;
  struct Slot {
    llvm::AllocaInst *base = nullptr, *guard = nullptr, *vector = nullptr;
  };
  struct Known {  // what the current block has at hand
    llvm::DenseMap<const llvm::Value*, Value> base, guard, vector;
  };

  // vector_control.cc
  void check_convergence();
  void begin_block(unsigned n);
  void emit_terminator(unsigned n);
  void emit_conditional(unsigned n, const llvm::BranchInst& branch);
  void set_edge(unsigned from, unsigned to, Value lanes);
  void jump(unsigned from, const std::vector<unsigned>& targets);
  void go_to(unsigned from, unsigned to);  // all lanes of the current mask
  bool is_back_edge(unsigned from, unsigned to) const { return to <= from; }
  bool blends(unsigned from, unsigned to) const;
  llvm::BasicBlock* new_block(const char* name);

  // vector_faults.cc
  void emit_leaf_edge(const llvm::BasicBlock* from, llvm::BasicBlock* leaf, Value condition);
  void emit_fault(const llvm::CallInst& call);
  bool emit_bounds_check(unsigned n, const llvm::BranchInst& branch);
  llvm::MDNode* rarely();  // of the first way of a branch

  // vector_values.cc
  llvm::VectorType* wide(llvm::Type* type) const { return llvm::FixedVectorType::get(type, lanes_); }
  Value base(const llvm::Value* v);
  Value guard(const llvm::Value* v);   // null: always holds
  Value vector(const llvm::Value* v);
  Value splat(Value scalar) { return b_.CreateVectorSplat(lanes_, scalar); }
  Value lane_numbers(llvm::Type* element);
  Value add_strides(Value base, std::int64_t stride);  // base + lane × stride, as a vector
  void keep(const llvm::Instruction& in, Value base, Value guard, Value vector);
  void keep_vector(const llvm::Instruction& in, Value v) { keep(in, nullptr, nullptr, v); }
  llvm::AllocaInst* entry_alloca(llvm::Type* type, const llvm::Twine& name, bool zeroed);
  Slot slot(const llvm::Instruction& in);
  void emit_instruction(const llvm::Instruction& in);
  void emit_plain(const llvm::Instruction& in);
  Value rebuild(const llvm::Instruction& in, llvm::ArrayRef<Value> operands, bool is_wide, bool keeps_flags);
  Value divide(const llvm::Instruction& in, Value a, Value b);
  Value widening_guard(const llvm::CastInst& cast, Value base, std::int64_t stride);
  Value both(Value a, Value b);        // masks
  Value without(Value mask, Value lanes);
  Value bits_of(Value mask);           // as an integer of `lanes_` bits
  Value any(Value mask);
  bool is_everyone(Value mask) const;
  std::vector<Value> per_lane(Value mask, llvm::ArrayRef<Value> operands, llvm::ArrayRef<llvm::Type*> results,
                              const std::function<std::vector<Value>(llvm::ArrayRef<Value>, Value lane)>& body);

  // vector_memory.cc
  void emit_load(const llvm::LoadInst& load);
  void emit_store(const llvm::StoreInst& store);
  void emit_variable(const llvm::AllocaInst& variable);
  void emit_read_modify_write(const llvm::AtomicRMWInst& in);
  void emit_compare_exchange(const llvm::AtomicCmpXchgInst& in);
  Value load_contiguous(const llvm::LoadInst& load, Value base);
  Value load_scattered(const llvm::LoadInst& load);
  void store_contiguous(const llvm::StoreInst& store, Value base, Value v);
  void store_scattered(const llvm::StoreInst& store, Value v);
  Value last_lane(Value v);
  bool is_shared_memory(const llvm::Value* pointer) const;

  // vector_calls.cc
  void emit_call(const llvm::CallInst& call);
  bool emit_intrinsic(const llvm::CallInst& call);
  void emit_barrier(const llvm::CallInst& call);
  void emit_resumed_barrier(const llvm::CallInst& call, Value truths);
  void emit_collective(const llvm::CallInst& call);
  void emit_generic_call(const llvm::CallInst& call);
  Value shuffle(const llvm::CallInst& call, Value v, unsigned mode);
  Value live_bits();
  Value runtime(const char* name, llvm::Type* result, llvm::ArrayRef<Value> arguments);

  llvm::Function& scalar_;
  const VectorFlow& flow_;
  const VectorShapes& shapes_;
  llvm::Function& target_;
  const unsigned lanes_;
  const GroupWaits waits_;
  llvm::IRBuilder<> b_;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr;   // allocas go before it
  Value thread_ = nullptr;                   // ThreadContext* of the group
  Value everyone_ = nullptr;                 // the lanes that the group began with
  Value mask_ = nullptr;                     // of the current block
  std::vector<llvm::BasicBlock*> heads_;     // where others jump to, with a test of the mask
  std::vector<llvm::BasicBlock*> bodies_;    // behind that test
  std::vector<llvm::AllocaInst*> masks_;     // lanes on their way to the block; null where it is full
  std::vector<std::set<unsigned>> deferred_;
  std::vector<bool> maybe_empty_;
  Known known_;
  llvm::DenseMap<const llvm::Value*, Slot> slots_;
  llvm::AllocaInst* fault_thread_ = nullptr;  // the context of the lane that faults
  llvm::AllocaInst* indices_[3] = {};        // tid of each lane, for LaneLayout::Kind::kLinear
};

// The runtime functions that make lanes wait for each other, which the emitter treats by themselves.
bool is_barrier(const llvm::Instruction& in);
bool is_collective(const llvm::Instruction& in);

}  // namespace pergola::device::cpu::jit
