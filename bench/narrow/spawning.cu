// Tasks that spawn tasks (narrow_spawn_bench.cc).
#include <pergola/device/tasks.h>

typedef unsigned long long Handle;

// A lane that finds no room tries again for a while: the host begins few enough of these that others get on meanwhile.
constexpr int kTries = 100000;

extern "C" {

__global__ void leaf(unsigned* unused) {}
__global__ void counting_leaf(unsigned* counters, unsigned index) {
  if (threadIdx.x == 0) atomicAdd(counters + index, 1u);
}

__global__ void spawn_leaves(unsigned each, Handle leaves, unsigned* refused) {
  unsigned without = 0;
  for (unsigned n = 0; n < each; ++n) {
    int tries = 0;
    while (!pergola::spawn<decltype(leaf)>(leaves, (unsigned*)nullptr) && ++tries < kTries) __nanosleep(200);
    without += tries == kTries;
  }
  if (without != 0) atomicAdd(refused, without);
}
__global__ void spawn_counting_leaves(unsigned* counters, unsigned first, unsigned each, Handle leaves,
                                      unsigned* refused) {
  first += threadIdx.x * each;
  for (unsigned n = first; n < first + each; ++n) {
    int tries = 0;
    while (!pergola::spawn<decltype(counting_leaf)>(leaves, counters, n) && ++tries < kTries) __nanosleep(200);
    if (tries == kTries) atomicAdd(refused, 1u);
  }
}

// Node n of a binary tree has the children 2n and 2n + 1. A child that finds no room is gone through by who found none.
struct Tree {
  unsigned* counters;
  Handle self;
  unsigned nodes;
};
__global__ void tree(const Tree* tree, unsigned node) {
  if (threadIdx.x != 0) return;
  unsigned open[64], n = 0;
  open[n++] = node;
  while (n != 0) {
    const unsigned at = open[--n];
    atomicAdd(tree->counters + at, 1u);
    for (unsigned child = 2 * at; child < 2 * at + 2 && child < tree->nodes; ++child)
      if (!pergola::spawn<void(const Tree*, unsigned)>(tree->self, tree, child)) open[n++] = child;
  }
}

}  // extern "C"
