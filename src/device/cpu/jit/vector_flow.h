// The control flow of one thread function, as the vector tier walks it: every block once, in one line.
//
//   order     blocks in topological order of the forward edges, each loop's blocks in one run: header first, latch last,
//             the block that returns at the very end
//   leaves    blocks that end in `unreachable` (a trap, a fault): no lane comes back from them, so they count for
//             nothing here; the emitter copies each to the edges that lead to it
//   parting(d)  lanes that block d sends different ways, empty where it has one:
//       region  the blocks that only some of them may be in before all meet again
//       loops   the loops that they leave in different turns, for d sends some of them out or past the exit while
//               others go round; innermost first. Then their ways are all the loops' exits, and they meet behind.
//
//       H ─▶ d ─▶ L ─▶ H      d: "continue"     region {L, X, …}, loops {H}: X is not passed in every turn,
//            └──▶ X ─▶ L                        though on every way to the end
//                 └──▶ out
//
// Needs: one latch a loop (LoopSimplify), no switch, one returning block that holds nothing else: who is sent there has
// returned, and barriers do not wait for it. Refuses, by throwing VectorRefusal, control flow that is not reducible, and
// loops that nothing leaves. Block numbers are indices in `order`.
#pragma once

#include <llvm/ADT/BitVector.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>

#include <map>
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
  struct Parting {
    llvm::BitVector region;
    std::vector<const llvm::Loop*> loops;
  };
  const Parting& parting(unsigned n) const { return partings_[n]; }
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
  void check_ends() const;
  const llvm::BitVector& certain_from(const llvm::Loop* inside, llvm::BasicBlock* next);
  const llvm::BitVector& certain_behind(const llvm::Loop* loop);
  void find_certain();
  void find_partings();

  const llvm::LoopInfo& loops_;
  std::vector<llvm::BasicBlock*> order_;
  llvm::DenseMap<const llvm::BasicBlock*, unsigned> index_, rpo_;
  std::vector<std::vector<unsigned>> forward_;
  std::vector<llvm::BitVector> certain_;                // of each block, what lanes pass for certain in the same turn
  std::map<const llvm::Loop*, llvm::BitVector> behind_;  // certain_behind()
  llvm::BitVector none_;
  std::vector<Parting> partings_;
};

}  // namespace pergola::device::cpu::jit
