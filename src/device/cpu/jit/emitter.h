// PTX functions -> LLVM IR, for one kernel and what it calls.
//
//   ModuleEmitter ── one llvm::Module per kernel ─┬─ FunctionEmitter: "thread.NAME"(ThreadContext*)      the entry
//                                                 ├─ FunctionEmitter: "func.NAME"(ThreadContext*, ptr…)  each callee
//                                                 └─ "kernel"(BlockContext*, ThreadContext*): the loop over threads,
//                                                    or a call of the thread function for a fiber
//
// A register is an alloca of an integer (or of float/double where most of its uses are); SROA makes values of them.
// Values of 16-bit float types travel as i16 patterns and are computed in float (emit_float.cc).
// A float result that may be a NaN goes through a marker, canonical_nan.cc, so that the GPU's NaN is made where its
// bits are seen and nowhere else.
//
// The emit_*.cc files are families of instructions; each `emit_x(instruction)` returns false where the opcode is not
// of its family. What cannot be compiled throws Refusal, caught by compile_kernel() in compile.cc: it never leaves
// this folder. Thread-compatible.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/base/result.h"
#include "src/device/cpu/block.h"
#include "src/device/cpu/jit/kernel_traits.h"
#include "src/device/cpu/numeric.h"
#include "src/ptx/module.h"
#include "src/ptx/semantics.h"

namespace pergola::device::cpu::jit {

struct Refusal {
  Error error;
};

class ModuleEmitter {
 public:
  ModuleEmitter(llvm::LLVMContext& context, const ptx::Module& source, std::span<const GlobalPlacement> globals,
                const KernelTraits& traits, const std::vector<std::string>& address_taken);

  // Emits `entry`, all it reaches, and "kernel". Throws Refusal.
  std::unique_ptr<llvm::Module> emit_kernel(const ptx::Function& entry, const SharedLayout& shared);
  // Emits `entry` as "thread.NAME" and all it reaches, to be inlined into it: what the vector tier starts from.
  std::unique_ptr<llvm::Module> emit_thread(const ptx::Function& entry, const SharedLayout& shared);
  // Emits every function whose address is taken as external "func.NAME". Throws Refusal.
  std::unique_ptr<llvm::Module> emit_functions(const SharedLayout& shared);

  llvm::LLVMContext& context() { return context_; }
  llvm::Module& llvm_module() { return *llvm_; }
  const ptx::Module& source() const { return source_; }
  const KernelTraits& traits() const { return traits_; }
  const SharedLayout& shared() const { return *shared_; }

  llvm::Function* function_for(const ptx::Function& function);   // declares; emitted later
  llvm::FunctionCallee runtime(const std::string& name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> arguments,
                               bool pure = false);
  const GlobalPlacement* global(const std::string& name) const;
  // The variable's address as an i64 constant: a symbol, never a number, so that the object can be cached on disk.
  llvm::Constant* address_of(const GlobalPlacement& variable);
  std::uint32_t next_site() { return ++sites_; }  // names one instruction of this kernel
  bool is_address_taken(const std::string& name) const { return address_taken_.contains(name); }

 private:
  void emit_pending();
  void emit_loop(llvm::Function* thread_function);

  llvm::LLVMContext& context_;
  const ptx::Module& source_;
  std::unordered_map<std::string, const GlobalPlacement*> globals_;
  const KernelTraits& traits_;
  std::unordered_set<std::string> address_taken_;
  bool emitting_functions_ = false;
  std::uint32_t sites_ = 0;
  const SharedLayout* shared_ = nullptr;
  std::unique_ptr<llvm::Module> llvm_;
  std::unordered_map<std::string, llvm::Function*> functions_;
  std::vector<const ptx::Function*> pending_;
};

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleEmitter& module, const ptx::Function& function, llvm::Function* target);
  void run();

 private:
  using Value = llvm::Value*;
  using Inst = ptx::Instruction;
  struct Place {  // where a variable of this function lives
    ptx::Space space = ptx::Space::kNone;
    Value pointer = nullptr;          // alloca, parameter storage
    bool constant = false;    // a kernel's parameter
    std::uint64_t size_bytes = 0;     // of a variable
  };
  struct Origin {  // a register that always holds the address of a local variable plus a constant
    std::string variable;
    std::int64_t offset = 0;
  };

  // function_emitter.cc
  void find_values();
  void declare_registers();
  void choose_float_registers();
  void find_origins();
  const std::string* indexed_variable(const Inst& in) const;
  void declare_parameters();
  void declare_variable(const ptx::Variable& variable);
  void start_labels();
  void emit_statement(std::size_t index);
  void emit_instruction(const Inst& in, std::size_t index);
  bool turns_back(const Inst& in) const;
  void dispatch(const Inst& in, std::size_t index);
  [[noreturn]] void refuse(const Inst& in, const std::string& why) const;
  [[noreturn]] void refuse_operand(const std::string& why) const;  // of the instruction being emitted
  const Place* find_place(const std::string& name) const;
  llvm::AllocaInst* entry_alloca(llvm::Type* type, const llvm::Twine& name, std::uint32_t align_bytes = 0);

  // operands.cc
  llvm::Type* i(unsigned bits) { return llvm::IntegerType::get(b_.getContext(), bits); }
  llvm::ConstantInt* k(unsigned bits, std::uint64_t value) {
    return llvm::ConstantInt::get(llvm::IntegerType::get(b_.getContext(), bits), value);
  }
  unsigned bits_of(ptx::Type type) const { return type == ptx::Type::kPred ? 1 : 8 * ptx::size_bytes(type); }
  llvm::Type* float_type(unsigned bits) { return bits == 64 ? b_.getDoubleTy() : b_.getFloatTy(); }
  Value to_bits(Value v);                       // float/double/pointer -> iN; integers as they are
  Value resize(Value v, unsigned bits, bool sign = false);
  Value read(const ptx::Operand& o, unsigned bits, bool sign = false);  // iN
  Value read_pred(const ptx::Operand& o) {
    return o.kind == ptx::Operand::Kind::kInteger ? b_.getInt1((o.bits != 0) != o.negated) : read(o, 1);
  }
  Value read_float(const ptx::Operand& o, ptx::Type type, bool ftz = false);  // f32 -> float, f64 -> double; 16-bit types -> float
  llvm::AllocaInst* slot(ptx::RegisterId reg, int component) const;
  llvm::Type* register_type(ptx::RegisterId reg, int component = -1);
  Value read_register(ptx::RegisterId reg, int component = -1);
  void write(const ptx::Operand& o, Value v, bool sign = false);
  void write_register(ptx::RegisterId reg, Value v, bool sign = false, int component = -1);
  void write_float(const ptx::Operand& o, Value v, ptx::Type type);  // rounds 16-bit types, marks NaNs
  Value special(const ptx::Operand& o, const Inst* in);
  Value symbol_address(const std::string& name, std::int64_t offset, const Inst* in);
  Value field(Value base, std::size_t offset, llvm::Type* type, const char* name, bool constant = true);
  Value block() { return block_; }
  Value call_runtime(const std::string& name, llvm::Type* result, llvm::ArrayRef<Value> arguments, bool pure = false);

  // emit_integer.cc, emit_bits.cc
  bool emit_integer(const Inst& in);
  bool emit_carry(const Inst& in);
  bool emit_bits(const Inst& in);
  Value integer_divide(Value a, Value b, bool is_signed, bool remainder);
  Value shift_left(Value a, Value amount);
  Value shift_right(Value a, Value amount, bool arithmetic);
  Value integer_min_max(const Inst& in, Value a, Value b, bool is_signed);
  bool emit_packed_integer(const Inst& in);
  void emit_prmt(const Inst& in);
  void emit_dot(const Inst& in);
  void emit_video(const Inst& in);
  Value video_lane(const Inst& in, Value a, Value b);
  Value field_number(const ptx::Operand& operand, unsigned bits);
  void emit_bfe(const Inst& in);
  void emit_shf(const Inst& in);

  // emit_compare.cc
  bool emit_compare(const Inst& in);
  Value compare(const Inst& in, ptx::Type type, Value a, Value b, ptx::Mod operation);
  ptx::Mod compare_mod(const Inst& in) const;
  Value combine(const Inst& in, Value p, const ptx::Operand& c);
  void emit_setp(const Inst& in);
  void emit_set(const Inst& in);

  // emit_float.cc
  bool emit_float(const Inst& in);
  Value canonical(Value v);               // marks a float/double result
  Value flush(Value v);                   // subnormal -> zero of its sign
  Value flush_half(Value pattern, ptx::Type type);
  Value relu(Value v);
  Value saturate(Value v);                // to [+0, 1], NaN -> +0
  Value flush_tiny(const Inst& in, Value v, llvm::ArrayRef<Value> operands);
  Value float_min_max(const Inst& in, Value a, Value b);
  Value half_to_float(Value pattern, ptx::Type type);
  Value float_to_half(Value v, ptx::Type type);  // round to nearest even; i16
  void emit_float_operation(const Inst& in, ptx::Type type);
  Value float_operation(const Inst& in, ptx::Type type, llvm::ArrayRef<Value> operands);
  Value float_arithmetic(const Inst& in, unsigned bits, llvm::ArrayRef<Value> operands);

  // emit_approx.cc
  Value approximation(const Inst& in, llvm::ArrayRef<Value> operands);
  Value divide_approximately(Value a, Value b);

  // emit_rounding.cc
  struct Exact {  // doubles
    Value near = nullptr, error = nullptr;
  };
  Exact exact_sum(Value a, Value c, Rounding mode);
  Exact exact_result(ptx::Op op, llvm::ArrayRef<Value> operands, Rounding mode);
  Value round_exact(Exact exact, Rounding mode);
  Value rounds_to_tiny(Exact exact, Rounding mode);

  // emit_convert.cc
  bool emit_convert(const Inst& in);
  void emit_cvt(const Inst& in);
  bool emit_packed_cvt(const Inst& in);
  bool emit_cvt_pack(const Inst& in);
  Value convert_int(const Inst& in, ptx::Type to, ptx::Type from, Value a);
  Value int_to_float(const Inst& in, ptx::Type to, ptx::Type from, Value a);
  Value float_to_int(const Inst& in, ptx::Type to, ptx::Type from, Value a);
  Value float_to_float(const Inst& in, ptx::Type to, ptx::Type from, Value a);
  Value converted_nan(const Inst& in, ptx::Type to, ptx::Type from, Value raw, Value v);
  Value round_to_integral(const Inst& in, Value v);
  int rounding(const Inst& in) const;     // 0 nearest even, 1 zero, 2 down, 3 up

  // emit_memory.cc, emit_atomic.cc
  bool emit_memory(const Inst& in);
  bool emit_atomic(const Inst& in);
  Value address(const Inst& in, const ptx::Operand& o, ptx::Space space, std::uint64_t bytes);
  void fault_if(Value bad, const char* function, llvm::ArrayRef<Value> arguments);
  void check_alignment(Value address, std::uint64_t bytes);
  Value shared_pointer(Value offset32, std::uint64_t bytes, bool checked);
  Value local_element(const Place& variable, Value at, std::int64_t offset, ptx::Space space, std::uint64_t bytes);
  llvm::AtomicOrdering load_ordering(const Inst& in) const;
  llvm::AtomicOrdering store_ordering(const Inst& in) const;
  void emit_load(const Inst& in);
  void emit_store(const Inst& in);
  void emit_mov(const Inst& in);
  void emit_cvta(const Inst& in);
  void emit_isspacep(const Inst& in);
  void emit_cp_async(const Inst& in);
  void emit_fence(const Inst& in);
  void emit_mbarrier(const Inst& in);
  void emit_atomic_128(const Inst& in);
  Value atomic_float(const Inst& in, ptx::Type type, Value pointer, Value operand);
  Value atomic_element(const Inst& in, Value pointer, const ptx::Operand& b, const ptx::Operand* c);

  // emit_control.cc, emit_call.cc, emit_warp.cc
  bool emit_control(const Inst& in, std::size_t index);
  void emit_branch(const Inst& in, std::size_t index);
  void emit_branch_table(const Inst& in, std::size_t index);
  void emit_yield();
  void note_wait(const Inst& in);                 // for BlockRun::stands()
  void note_look(const Inst& in, llvm::Value* address);
  void emit_barrier(const Inst& in);
  void emit_exit();
  void emit_return();
  void emit_call(const Inst& in);
  bool emit_known_call(const Inst& in, const std::string& name, llvm::ArrayRef<Value> results,
                       llvm::ArrayRef<Value> parameters);
  bool emit_warp(const Inst& in);

  bool emit_texture(const Inst& in);  // emit_texture.cc

  // emit_stack.cc
  void declare_stack();
  bool emit_stack(const Inst& in);
  llvm::BasicBlock* new_block(const llvm::Twine& name);

  ModuleEmitter& m_;
  const ptx::Function& f_;
  llvm::Function* target_;
  llvm::IRBuilder<> b_;
  Value thread_ = nullptr;  // ThreadContext*
  Value block_ = nullptr;   // BlockContext*
  Value carry_ = nullptr;   // alloca i1
  // Registers that are values at once, without an alloca (find_values): long straight-line code has tens of thousands,
  // and LLVM's promotion of allocas takes the square of their number.
  std::vector<bool> is_value_;
  std::vector<Value> values_;
  std::vector<llvm::AllocaInst*> registers_;
  std::unordered_map<ptx::RegisterId, std::vector<llvm::AllocaInst*>> components_;  // of .v2 and .v4 registers
  std::vector<std::pair<ptx::RegisterId, Value>> result_registers_;  // .reg results and where the caller wants them
  llvm::AllocaInst* stack_ = nullptr;      // what alloca gives pieces of
  llvm::AllocaInst* stack_used_ = nullptr;
  std::vector<bool> prefers_float_;
  std::unordered_map<std::string, llvm::BasicBlock*> labels_;
  std::unordered_map<std::string, std::size_t> label_index_;
  std::unordered_map<std::string, const ptx::BranchTargets*> branch_targets_;
  std::vector<std::unordered_map<std::string, Place>> scopes_;
  std::unordered_map<ptx::RegisterId, Origin> origins_;
  std::unordered_map<ptx::RegisterId, std::string> indexed_;  // registers that point into a local variable, by an index
  const Inst* current_ = nullptr;
  std::uint32_t number_on_line_ = 0;  // of current_, from 1
  llvm::BasicBlock* entry_ = nullptr;
  llvm::AllocaInst* last_alloca_ = nullptr;  // in the entry block, where all of them come first
};

// Lowers the NaN markers of a function once its registers are values. canonical_nan.cc
void lower_canonical_nans(llvm::Function& function);
inline constexpr const char* kCanonicalF32 = "pergola.canonical.f32";

}  // namespace pergola::device::cpu::jit
