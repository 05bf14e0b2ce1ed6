#include "src/device/cpu/jit/vector_flow.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <set>

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
  reach_.assign(size(), llvm::BitVector(size()));
  for (unsigned n = size(); n-- > 0;) {
    reach_[n].set(n);
    for (const unsigned next : forward_[n]) reach_[n] |= reach_[next];
  }
  find_post_dominators();
  find_regions();
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
  while (placed.size() < nodes.size()) {
    llvm::BasicBlock* chosen = nullptr;
    for (llvm::BasicBlock* candidate : nodes) {  // in reverse post-order: the first that is ready
      if (placed.contains(candidate) || (returns(candidate) && placed.size() + 1 < nodes.size())) continue;
      const auto& before = waits[candidate];
      if (std::all_of(before.begin(), before.end(), [&](const llvm::BasicBlock* b) { return placed.contains(b); })) {
        chosen = candidate;
        break;
      }
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

// The classic sets, over all edges but those to leaves.
void VectorFlow::find_post_dominators() {
  post_.assign(size(), llvm::BitVector(size(), true));
  post_[last()].reset();
  post_[last()].set(last());
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned n = last(); n-- > 0;) {
      llvm::BitVector now(size(), true);
      bool any = false;
      for (llvm::BasicBlock* next : llvm::successors(order_[n])) {
        if (is_leaf(next)) continue;
        now &= post_[index(next)];
        any = true;
      }
      if (!any) now.reset();
      now.set(n);
      if (now == post_[n]) continue;
      post_[n] = now;
      changed = true;
    }
  }
  for (unsigned n = 0; n < size(); ++n) {
    if (!reach_[n].test(last()) && loop(n) == nullptr) refuse_vector("a loop of it has no end");
    if (!post_[n].test(last())) refuse_vector("a loop of it has no end");
  }
}

void VectorFlow::find_regions() {
  region_.assign(size(), llvm::BitVector(size()));
  for (unsigned n = 0; n < size(); ++n) {
    unsigned immediate = last();  // the post-dominator that all others post-dominate
    for (const unsigned candidate : post_[n].set_bits()) {
      if (candidate != n && post_[candidate].count() + 1 == post_[n].count()) immediate = candidate;
    }
    llvm::BitVector& region = region_[n];
    std::vector<unsigned> stack(forward_[n].begin(), forward_[n].end());
    while (!stack.empty()) {
      const unsigned at = stack.back();
      stack.pop_back();
      if (at == immediate || region.test(at)) continue;
      region.set(at);
      stack.insert(stack.end(), forward_[at].begin(), forward_[at].end());
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
