// How each value of a thread function differs between the lanes of one group, and which branches lanes take differently.
//
//   uniform   the same in every lane: kept as one scalar
//   affine    base + lane × stride, modulo the type's width: kept as its scalar base
//   guarded   as affine where no carry was lost on the way (a 32-bit index that was widened): a base, a flag that says
//             whether it holds now, and the vector
//   varying   a vector
//
// Values are what lanes that are in a block together see: a value that lanes got by different ways, or in different
// turns of a loop, is varying where the ways join. The analysis starts from "nothing differs" and adds what does until
// nothing changes, so it ends: a value only ever moves down the list, and alignments only fall.
#pragma once

#include <llvm/IR/Instructions.h>

#include <cstdint>
#include <set>

#include "src/device/cpu/jit/lane_layout.h"
#include "src/device/cpu/jit/vector_flow.h"

namespace pergola::device::cpu::jit {

struct Shape {
  enum class Kind : std::uint8_t { kUnknown, kSame, kAffine, kGuarded, kVarying };
  Kind kind = Kind::kUnknown;
  std::int64_t stride = 0;   // of affine and guarded
  unsigned aligned = 0;      // base is a multiple of 2^aligned; of uniform and affine
  bool operator==(const Shape&) const = default;

  static Shape uniform(unsigned aligned = 0) { return {Kind::kSame, 0, aligned}; }
  static Shape affine(std::int64_t stride, unsigned aligned) {
    return stride == 0 ? uniform(aligned) : Shape{Kind::kAffine, stride, aligned};
  }
  static Shape varying() { return {Kind::kVarying}; }
  bool is_unknown() const { return kind == Kind::kUnknown; }
  bool is_uniform() const { return kind == Kind::kSame; }
  bool is_affine() const { return kind == Kind::kAffine; }
  bool is_guarded() const { return kind == Kind::kGuarded; }
  bool is_varying() const { return kind == Kind::kVarying; }
  bool has_base() const { return is_uniform() || is_affine() || is_guarded(); }
};

// What a load from the thread's or the block's context gives.
enum class ContextField : std::uint8_t { kNone, kTidX, kTidY, kTidZ, kLinear, kNtidX, kBlock, kOfThread, kOfBlock };

class VectorShapes {
 public:
  VectorShapes(llvm::Function& thread, const VectorFlow& flow, const LaneLayout& layout);

  Shape of(const llvm::Value* value) const;
  bool diverges(unsigned block) const { return divergent_.test(block); }  // lanes may leave it by different edges
  bool diverges(const llvm::Loop* loop) const { return loops_.contains(loop); }  // lanes may leave it in different turns
  // Every lane that the group began with, and that has not returned, is here whenever any is, and none has returned.
  bool is_full(unsigned block) const { return full_.test(block); }
  ContextField field(const llvm::LoadInst& load) const;
  const LaneLayout& layout() const { return layout_; }
  static bool is_low_half(const llvm::CastInst& cast);  // zext nneg
  // Bytes that one lane has of an alloca, the lanes' parts following each other.
  static std::uint64_t slot_bytes(const llvm::AllocaInst& variable);

 private:
  Shape transfer(const llvm::Instruction& in) const;
  Shape of_phi(const llvm::PHINode& phi) const;
  Shape of_load(const llvm::LoadInst& load) const;
  Shape of_address(const llvm::GetElementPtrInst& address) const;
  Shape of_compare(const llvm::ICmpInst& compare) const;
  Shape of_binary(const llvm::BinaryOperator& in) const;
  Shape widen(const llvm::CastInst& cast, Shape a) const;
  Shape sum(Shape a, Shape b, bool subtract) const;
  Shape join(Shape a, Shape b) const;
  // Lanes do not carry out of the base's low zero bits, of which `bits` count: all of the type, but the sign where that
  // matters.
  bool within(const Shape& s, unsigned bits) const;
  void mark_divergence(unsigned block);
  void find_full();

  const VectorFlow& flow_;
  const LaneLayout layout_;
  const llvm::Value* thread_ = nullptr;
  unsigned lane_bits_ = 5;
  llvm::DenseMap<const llvm::Value*, Shape> shapes_;
  llvm::BitVector divergent_, joins_, full_;
  std::set<const llvm::Loop*> loops_;
};

}  // namespace pergola::device::cpu::jit
