// The control flow of one thread function, as the vector tier walks it: every block once, in one line.
//
//   order     blocks in topological order of the forward edges, each loop's blocks in one run: header first, latch last,
//             the block that returns at the very end
//   leaves    blocks that end in `unreachable` (a trap, a fault): no lane comes back from them, so they count for
//             nothing here; the emitter copies each to the edges that lead to it
//   region(d) the blocks that only some lanes of block d may be in after d has branched: reached from d's successors
//             before its immediate post-dominator, over forward edges
//
// Needs: one latch a loop (LoopSimplify), one returning block (UnifyFunctionExitNodes), no switch. Refuses, by throwing
// Refusal, control flow that is not reducible, and loops that nothing leaves. Block numbers are indices in `order`.
#pragma once

#include <llvm/ADT/BitVector.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>

#include <vector>

namespace pergola::device::cpu::jit {

class VectorFlow {
 public:
  VectorFlow(llvm::Function& function, const llvm::LoopInfo& loops, const llvm::DominatorTree& dominators);

  unsigned size() const { return static_cast<unsigned>(order_.size()); }
  llvm::BasicBlock* block(unsigned n) const { return order_[n]; }
  unsigned index(const llvm::BasicBlock* block) const { return index_.lookup(block); }
  unsigned last() const { return size() - 1; }                       // the block that returns
  static bool is_leaf(const llvm::BasicBlock* block);
  const std::vector<unsigned>& successors(unsigned n) const { return forward_[n]; }  // without leaves and back edges
  const llvm::BitVector& reach(unsigned n) const { return reach_[n]; }               // over forward edges, with n
  const llvm::BitVector& region(unsigned n) const { return region_[n]; }
  bool post_dominates(unsigned a, unsigned b) const { return post_[b].test(a); }     // a is on every way from b
  const llvm::Loop* loop(unsigned n) const { return loops_.getLoopFor(order_[n]); }
  unsigned header(const llvm::Loop* loop) const { return index(loop->getHeader()); }
  unsigned latch(const llvm::Loop* loop) const { return index(loop->getLoopLatch()); }
  // Exit blocks of the loop that are not leaves.
  std::vector<unsigned> exits(const llvm::Loop* loop) const;
  const llvm::LoopInfo& loops() const { return loops_; }
  // Is there a way from `from` to `to` over forward edges that avoids `without`?
  bool avoids(unsigned from, unsigned to, unsigned without) const;

 private:
  void put_in_line(const std::vector<llvm::BasicBlock*>& members, const llvm::Loop* inside);
  void find_post_dominators();
  void find_regions();

  const llvm::LoopInfo& loops_;
  std::vector<llvm::BasicBlock*> order_;
  llvm::DenseMap<const llvm::BasicBlock*, unsigned> index_, rpo_;
  std::vector<std::vector<unsigned>> forward_;
  std::vector<llvm::BitVector> reach_, post_, region_;
};

}  // namespace pergola::device::cpu::jit
