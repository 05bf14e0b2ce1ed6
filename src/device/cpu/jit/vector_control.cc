// The vector tier's control flow: masks, the line of blocks, branches and loops.
#include <llvm/IR/CFG.h>

#include <algorithm>

#include "src/device/cpu/jit/vector_emitter.h"

namespace pergola::device::cpu::jit {

using llvm::BasicBlock;
using Value = llvm::Value*;

VectorEmitter::VectorEmitter(llvm::Function& scalar, const VectorFlow& flow, const VectorShapes& shapes, llvm::Function& target,
                             GroupWaits waits)
    : scalar_(scalar), flow_(flow), shapes_(shapes), target_(target), lanes_(shapes.layout().lanes), waits_(waits),
      b_(target.getContext()) {}

BasicBlock* VectorEmitter::new_block(const char* name) { return BasicBlock::Create(target_.getContext(), name, &target_); }

void VectorEmitter::run() {
  check_convergence();
  target_.setSubprogram(scalar_.getSubprogram());  // instructions keep their places, and the scalar function goes
  scalar_.setSubprogram(nullptr);
  entry_ = new_block("entry");
  b_.SetInsertPoint(entry_);
  thread_ = target_.getArg(0);
  everyone_ = llvm::Constant::getAllOnesValue(wide(b_.getInt1Ty()));
  entry_end_ = b_.CreateFence(llvm::AtomicOrdering::Acquire);  // a mark, erased below
  if (shapes_.layout().kind != LaneLayout::Kind::kRows) {
    everyone_ = b_.CreateICmpULT(lane_numbers(b_.getInt32Ty()), splat(target_.getArg(1)));
  }
  if (shapes_.layout().kind == LaneLayout::Kind::kLinear) {
    for (auto& index : indices_) index = entry_alloca(wide(b_.getInt32Ty()), "tid", false);
    runtime("pergola_jit_group_indices", b_.getVoidTy(), {thread_, b_.getInt32(lanes_), indices_[0], indices_[1], indices_[2]});
  }
  heads_.resize(flow_.size());
  bodies_.resize(flow_.size());
  masks_.resize(flow_.size());
  deferred_.resize(flow_.size());
  maybe_empty_.resize(flow_.size());
  for (unsigned n = 0; n < flow_.size(); ++n) {
    heads_[n] = new_block("block");
    if (!shapes_.is_full(n)) masks_[n] = entry_alloca(wide(b_.getInt1Ty()), "lanes", true);
  }
  if (masks_[0] != nullptr) b_.CreateStore(everyone_, masks_[0]);
  b_.CreateBr(heads_[0]);
  for (unsigned n = 0; n < flow_.size(); ++n) {
    b_.SetInsertPoint(heads_[n]);
    begin_block(n);
    for (const llvm::Instruction& in : *flow_.block(n)) {
      if (in.isTerminator()) break;
      if (!llvm::isa<llvm::PHINode>(in)) emit_instruction(in);
    }
    emit_terminator(n);
  }
  entry_end_->eraseFromParent();
}

void VectorEmitter::begin_block(unsigned n) {
  known_ = Known();
  if (const llvm::Loop* loop = flow_.loop(n); loop != nullptr && flow_.header(loop) == n && shapes_.diverges(loop)) {
    for (const unsigned exit : flow_.exits(loop)) deferred_[n].insert(exit);
  }
  bodies_[n] = heads_[n];
  mask_ = everyone_;
  if (masks_[n] == nullptr) return;
  auto* type = masks_[n]->getAllocatedType();
  if (maybe_empty_[n] && !deferred_[n].empty()) {
    bodies_[n] = new_block("body");
    auto* skip = new_block("skip");
    b_.CreateCondBr(any(b_.CreateLoad(type, masks_[n])), bodies_[n], skip);
    b_.SetInsertPoint(skip);
    jump(n, {});
    b_.SetInsertPoint(bodies_[n]);
  }
  mask_ = b_.CreateLoad(type, masks_[n]);
  if (n != flow_.last()) b_.CreateStore(llvm::Constant::getNullValue(type), masks_[n]);
}

// Goes to the first block of those that lanes wait in or go to.
void VectorEmitter::jump(unsigned from, const std::vector<unsigned>& targets) {
  std::set<unsigned> all = deferred_[from];
  all.insert(targets.begin(), targets.end());
  const unsigned next = *all.begin();
  const bool sure = targets.size() == 1 && targets.front() == next;
  all.erase(all.begin());
  deferred_[next].insert(all.begin(), all.end());
  if (!sure) maybe_empty_[next] = true;
  b_.CreateBr(heads_[next]);
}

// Must a lane that comes to `to` over this edge leave alone what others have brought there?
bool VectorEmitter::blends(unsigned from, unsigned to) const {
  if (is_back_edge(from, to)) return false;
  const llvm::Loop* inside = flow_.loop(to);
  if (inside != nullptr && flow_.header(inside) == to) return false;  // one entry, one latch
  for (const llvm::Loop* loop = flow_.loop(from); loop != nullptr && !loop->contains(flow_.block(to)); loop = loop->getParentLoop()) {
    if (shapes_.diverges(loop)) return true;
  }
  unsigned before = 0;
  for (const BasicBlock* block : llvm::predecessors(flow_.block(to))) {
    (void)block;
    ++before;
  }
  return before > 1;
}

// `lanes` take the edge: the target's mask and its phis learn of it.
void VectorEmitter::set_edge(unsigned from, unsigned to, Value lanes) {
  if (masks_[to] != nullptr) {
    Value now = lanes;
    if (blends(from, to)) now = b_.CreateOr(b_.CreateLoad(masks_[to]->getAllocatedType(), masks_[to]), lanes);
    b_.CreateStore(now, masks_[to]);
  }
  struct Write {
    Value v;
    llvm::AllocaInst* to;
  };
  std::vector<Write> writes;  // all are read before any is written
  const bool blend = blends(from, to) && !is_everyone(lanes);
  for (const llvm::PHINode& phi : flow_.block(to)->phis()) {
    const llvm::Value* value = phi.getIncomingValueForBlock(flow_.block(from));
    const Shape shape = shapes_.of(&phi);
    if (llvm::isa<llvm::UndefValue>(value)) continue;
    const Slot s = slot(phi);
    if (shape.has_base()) writes.push_back({base(value), s.base});
    if (shape.is_guarded()) {
      Value holds = guard(value);
      writes.push_back({holds == nullptr ? b_.getTrue() : holds, s.guard});
    }
    if (shape.is_guarded() || shape.is_varying()) {
      Value v = vector(value);
      if (blend) v = b_.CreateSelect(lanes, v, b_.CreateLoad(s.vector->getAllocatedType(), s.vector));
      writes.push_back({v, s.vector});
    }
  }
  for (const Write& write : writes) b_.CreateStore(write.v, write.to);
}

void VectorEmitter::go_to(unsigned from, unsigned to) {
  set_edge(from, to, mask_);
  if (is_back_edge(from, to)) {
    b_.CreateBr(bodies_[to]);
  } else {
    jump(from, {to});
  }
}

void VectorEmitter::emit_terminator(unsigned n) {
  const llvm::Instruction* end = flow_.block(n)->getTerminator();
  b_.SetCurrentDebugLocation(end->getDebugLoc());
  if (llvm::isa<llvm::ReturnInst>(end)) {
    b_.CreateRetVoid();
    return;
  }
  const auto* branch = llvm::dyn_cast<llvm::BranchInst>(end);
  if (branch == nullptr) refuse_vector("it ends a block in a way that is not implemented");
  if (branch->isConditional()) return emit_conditional(n, *branch);
  BasicBlock* next = branch->getSuccessor(0);
  if (VectorFlow::is_leaf(next)) return emit_leaf_edge(flow_.block(n), next, nullptr);
  go_to(n, flow_.index(next));
}

void VectorEmitter::emit_conditional(unsigned n, const llvm::BranchInst& branch) {
  BasicBlock *yes = branch.getSuccessor(0), *no = branch.getSuccessor(1);
  if (yes == no) return go_to(n, flow_.index(yes));
  if (VectorFlow::is_leaf(yes) != VectorFlow::is_leaf(no) && emit_bounds_check(n, branch)) {
    return go_to(n, flow_.index(VectorFlow::is_leaf(yes) ? no : yes));
  }
  const bool uniform = !shapes_.diverges(n);
  Value condition = uniform ? base(branch.getCondition()) : vector(branch.getCondition());
  if (VectorFlow::is_leaf(yes)) {
    emit_leaf_edge(flow_.block(n), yes, condition);
    if (VectorFlow::is_leaf(no)) return emit_leaf_edge(flow_.block(n), no, nullptr);
    return go_to(n, flow_.index(no));
  }
  if (VectorFlow::is_leaf(no)) {
    emit_leaf_edge(flow_.block(n), no, b_.CreateNot(condition));
    return go_to(n, flow_.index(yes));
  }
  if (uniform) {
    auto *then = new_block("then"), *otherwise = new_block("else");
    b_.CreateCondBr(condition, then, otherwise);
    const Known before = known_;
    b_.SetInsertPoint(then);
    go_to(n, flow_.index(yes));
    known_ = before;
    b_.SetInsertPoint(otherwise);
    go_to(n, flow_.index(no));
    return;
  }
  Value yes_lanes = both(mask_, condition), no_lanes = without(mask_, condition);
  const unsigned yes_index = flow_.index(yes), no_index = flow_.index(no);
  const bool turns = is_back_edge(n, yes_index);
  // The edge back comes second: it writes the header's phis for the next turn, and who leaves takes along this turn's.
  if (turns) set_edge(n, no_index, no_lanes);
  set_edge(n, yes_index, yes_lanes);
  if (!turns) set_edge(n, no_index, no_lanes);
  if (!turns && !is_back_edge(n, no_index)) return jump(n, {yes_index, no_index});
  auto* leave = new_block("leave");
  b_.CreateCondBr(any(turns ? yes_lanes : no_lanes), bodies_[turns ? yes_index : no_index], leave);
  b_.SetInsertPoint(leave);
  jump(n, {turns ? no_index : yes_index});
}

// Where lanes wait for each other, those that are not there must not be waiting for the same in this group:
//   a warp operation   no lane may go round a loop past it while others are at it: it would belong to a later turn
//   a barrier          besides, no lane that will not return next may be waiting further down the line; nor may it have
//                      gone past a warp operation that waits for those at the barrier
void VectorEmitter::check_convergence() {
  for (unsigned n = 0; n < flow_.size(); ++n) {
    bool barrier = false, collective = false;
    for (const llvm::Instruction& in : *flow_.block(n)) {
      barrier |= is_barrier(in);
      collective |= is_collective(in);
    }
    if (!barrier && !collective) continue;
    const auto bad = [&](unsigned from, unsigned divergent) {
      for (const llvm::Loop* loop = flow_.loop(n); loop != nullptr; loop = loop->getParentLoop()) {
        if (!loop->contains(flow_.block(divergent)) || !loop->contains(flow_.block(from))) continue;
        if (flow_.avoids(from, flow_.latch(loop), n)) return true;
      }
      if (!barrier) return false;
      for (unsigned later = n + 1; later < flow_.last(); ++later) {
        if (flow_.avoids(from, later, n)) return true;
      }
      for (unsigned earlier = from; earlier < n; ++earlier) {
        const llvm::BasicBlock& block = *flow_.block(earlier);
        if (!std::any_of(block.begin(), block.end(), is_collective) || !flow_.avoids(from, earlier, n)) continue;
        if (!flow_.avoids(earlier, n, flow_.last())) return true;
      }
      return false;
    };
    for (const llvm::Loop* loop = flow_.loop(n); barrier && loop != nullptr; loop = loop->getParentLoop()) {
      if (!shapes_.diverges(loop)) continue;
      for (const unsigned exit : flow_.exits(loop)) {
        if (exit != flow_.last()) refuse_vector("a barrier stands in a loop that lanes of a warp leave in different turns");
      }
    }
    for (unsigned d = 0; d < flow_.size(); ++d) {
      if (!shapes_.diverges(d) || d == n) continue;
      const VectorFlow::Parting& parting = flow_.parting(d);
      const auto holds = [&](const llvm::Loop* loop) { return loop->contains(flow_.block(n)); };
      const auto within = std::find_if(parting.loops.begin(), parting.loops.end(), holds);  // they wait behind it
      if (!parting.region.test(n) && within == parting.loops.end()) continue;
      std::vector<unsigned> ways = flow_.successors(d);
      for (const llvm::Loop* loop : parting.loops) {
        for (const unsigned exit : flow_.exits(loop)) ways.push_back(exit);
      }
      for (const unsigned next : ways) {
        if (within != parting.loops.end() && !(*within)->contains(flow_.block(next))) continue;
        if (bad(next, d)) {
          refuse_vector(barrier ? "a barrier stands where only some lanes of a warp may be"
                                : "a warp operation stands in a loop that some of its lanes may pass by");
        }
      }
    }
  }
}

}  // namespace pergola::device::cpu::jit
