#include "src/device/cpu/jit/vector_flow.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/device/cpu/jit/vector_emitter.h"
#include "src/device/cpu/jit/vector_refusal.h"

namespace pergola::device::cpu::jit {

bool VectorFlow::is_leaf(const llvm::BasicBlock* block) {
  return llvm::isa<llvm::UnreachableInst>(block->getTerminator()) && !block->isEntryBlock();
}

VectorFlow::VectorFlow(llvm::Function& function, const llvm::LoopInfo& loops, const llvm::DominatorTree& dominators)
    : loops_(loops) {
  std::vector<llvm::BasicBlock*> blocks;
  llvm::ReversePostOrderTraversal<llvm::Function*> traversal(&function);
  for (llvm::BasicBlock* block : traversal) {
    if (is_leaf(block)) continue;
    rpo_[block] = static_cast<unsigned>(blocks.size());
    blocks.push_back(block);
  }
  for (llvm::BasicBlock* block : blocks) {
    for (llvm::BasicBlock* next : llvm::successors(block)) {
      if (is_leaf(next) || rpo_.lookup(next) > rpo_.lookup(block)) continue;
      const llvm::Loop* loop = loops.getLoopFor(next);
      const bool back_edge = loop != nullptr && loop->getHeader() == next && dominators.dominates(next, block);
      if (!back_edge) refuse_vector("its control flow is not reducible");
      if (loop->getLoopLatch() != block) refuse_vector("a loop has more than one back edge");
    }
  }
  put_in_line(blocks, nullptr);
  for (unsigned n = 0; n < size(); ++n) index_[order_[n]] = n;
  forward_.resize(size());
  for (unsigned n = 0; n < size(); ++n) {
    for (llvm::BasicBlock* next : llvm::successors(order_[n])) {
      if (is_leaf(next) || index(next) <= n) continue;
      if (std::find(forward_[n].begin(), forward_[n].end(), index(next)) == forward_[n].end()) forward_[n].push_back(index(next));
    }
  }
  if (!llvm::isa<llvm::ReturnInst>(order_.back()->getTerminator())) refuse_vector("it does not end");
  PERGOLA_CHECK(order_.back()->size() == 1);  // the block that returns does nothing else
  check_ends();
  find_certain();
  find_partings();
}

// Puts `members` (all blocks of `inside`, or of the function) into `order_`: an inner loop counts as one node.
void VectorFlow::put_in_line(const std::vector<llvm::BasicBlock*>& members, const llvm::Loop* inside) {
  const auto node = [&](const llvm::BasicBlock* block) -> const llvm::BasicBlock* {
    const llvm::Loop* loop = loops_.getLoopFor(block);
    if (loop == inside || loop == nullptr) return block;
    while (loop->getParentLoop() != inside) loop = loop->getParentLoop();
    return loop->getHeader();
  };
  std::vector<llvm::BasicBlock*> nodes;
  llvm::DenseMap<const llvm::BasicBlock*, std::set<const llvm::BasicBlock*>> waits;  // node -> nodes before it
  for (llvm::BasicBlock* block : members) {
    if (node(block) == block) nodes.push_back(block);
    for (llvm::BasicBlock* next : llvm::successors(block)) {
      if (is_leaf(next) || (inside != nullptr && (!inside->contains(next) || next == inside->getHeader()))) continue;
      if (node(next) != node(block)) waits[node(next)].insert(node(block));
    }
  }
  std::set<const llvm::BasicBlock*> placed;
  const auto returns = [](const llvm::BasicBlock* block) { return llvm::isa<llvm::ReturnInst>(block->getTerminator()); };
  std::set<const llvm::BasicBlock*> meetings;  // nodes where lanes wait for each other
  for (llvm::BasicBlock* block : members) {
    const auto meets = [](const llvm::Instruction& in) { return is_barrier(in) || is_collective(in); };
    if (std::any_of(block->begin(), block->end(), meets)) meetings.insert(node(block));
  }
  while (placed.size() < nodes.size()) {
    llvm::BasicBlock* chosen = nullptr;
    for (llvm::BasicBlock* candidate : nodes) {  // in reverse post-order: the first that is ready
      if (placed.contains(candidate) || (returns(candidate) && placed.size() + 1 < nodes.size())) continue;
      const auto& before = waits[candidate];
      if (!std::all_of(before.begin(), before.end(), [&](const llvm::BasicBlock* b) { return placed.contains(b); })) continue;
      if (chosen == nullptr) chosen = candidate;
      if (meetings.contains(candidate)) continue;  // comes last: who goes past it to the return is done by then
      chosen = candidate;
      break;
    }
    if (chosen == nullptr) refuse_vector("its control flow is not reducible");
    placed.insert(chosen);
    const llvm::Loop* loop = loops_.getLoopFor(chosen);
    if (loop == inside || loop == nullptr) {
      order_.push_back(chosen);
      continue;
    }
    while (loop->getParentLoop() != inside) loop = loop->getParentLoop();
    std::vector<llvm::BasicBlock*> body;
    for (llvm::BasicBlock* block : members) {
      if (loop->contains(block)) body.push_back(block);
    }
    put_in_line(body, loop);
  }
}

// From every block a way leads to the one that returns.
void VectorFlow::check_ends() const {
  llvm::BitVector ends(size());
  std::vector<unsigned> stack{last()};
  while (!stack.empty()) {
    const unsigned at = stack.back();
    stack.pop_back();
    if (ends.test(at)) continue;
    ends.set(at);
    for (const llvm::BasicBlock* before : llvm::predecessors(order_[at])) {
      if (index_.contains(before)) stack.push_back(index(before));
    }
  }
  if (!ends.all()) refuse_vector("a loop of it has no end");
}

// What a lane passes for certain in this turn of `inside` (null: of the function) once it goes to `next`.
const llvm::BitVector& VectorFlow::certain_from(const llvm::Loop* inside, llvm::BasicBlock* next) {
  if (inside != nullptr && (next == inside->getHeader() || !inside->contains(next))) return none_;
  const llvm::Loop* at = loops_.getLoopFor(next);
  return at == inside ? certain_[index(next)] : certain_behind(at);
}

// What a lane that is in `loop` passes for certain in this turn of the loop around it: the header, and what comes
// behind each exit.
const llvm::BitVector& VectorFlow::certain_behind(const llvm::Loop* loop) {
  if (const auto known = behind_.find(loop); known != behind_.end()) return known->second;
  llvm::BitVector all(size(), true);
  llvm::SmallVector<llvm::BasicBlock*, 4> exits;
  loop->getExitBlocks(exits);
  for (llvm::BasicBlock* exit : exits) {
    if (!is_leaf(exit)) all &= certain_from(loop->getParentLoop(), exit);
  }
  all.set(header(loop));
  return behind_.emplace(loop, std::move(all)).first->second;
}

// Post-dominators within one turn: the edge back and the edges out end a loop's turn. A block's successors in the line
// are done before it, so one pass is enough.
void VectorFlow::find_certain() {
  none_.resize(size());
  certain_.assign(size(), none_);
  for (unsigned n = size(); n-- > 0;) {
    llvm::BitVector all(size(), n != last());
    for (llvm::BasicBlock* next : llvm::successors(order_[n])) {
      if (!is_leaf(next)) all &= certain_from(loop(n), next);
    }
    all.set(n);
    certain_[n] = std::move(all);
  }
}

// Lanes that part in d meet at the next block that all of them pass in this turn. Where there is none, some leave the
// loop before others: they meet behind it, and every exit of it is one of their ways.
void VectorFlow::find_partings() {
  partings_.assign(size(), {llvm::BitVector(size()), {}});
  for (unsigned d = 0; d < last(); ++d) {
    std::set<const llvm::BasicBlock*> alive;
    for (const llvm::BasicBlock* next : llvm::successors(order_[d])) {
      if (!is_leaf(next)) alive.insert(next);
    }
    if (alive.size() < 2) continue;  // whoever goes on goes the same way
    Parting& parting = partings_[d];
    std::vector<unsigned> ways = forward_[d];
    int meeting = certain_[d].find_next(d);
    for (const llvm::Loop* left = loop(d); meeting < 0 && left != nullptr; left = left->getParentLoop()) {
      parting.loops.push_back(left);
      for (const unsigned exit : exits(left)) ways.push_back(exit);
      meeting = certain_behind(left).find_next(header(left));
    }
    while (!ways.empty()) {
      const unsigned at = ways.back();
      ways.pop_back();
      if (static_cast<int>(at) == meeting || parting.region.test(at)) continue;
      parting.region.set(at);
      ways.insert(ways.end(), forward_[at].begin(), forward_[at].end());
    }
  }
}

std::vector<unsigned> VectorFlow::exits(const llvm::Loop* loop) const {
  llvm::SmallVector<llvm::BasicBlock*, 4> blocks;
  loop->getUniqueExitBlocks(blocks);
  std::vector<unsigned> out;
  for (llvm::BasicBlock* block : blocks) {
    if (!is_leaf(block)) out.push_back(index(block));
  }
  return out;
}

bool VectorFlow::avoids(unsigned from, unsigned to, unsigned without) const {
  llvm::BitVector seen(size());
  std::vector<unsigned> stack{from};
  while (!stack.empty()) {
    const unsigned at = stack.back();
    stack.pop_back();
    if (at == without || seen.test(at)) continue;
    if (at == to) return true;
    seen.set(at);
    stack.insert(stack.end(), forward_[at].begin(), forward_[at].end());
  }
  return false;
}

}  // namespace pergola::device::cpu::jit
