// SLUD by tasks that spawn those that wait for them alone: nobody but the device knows when a task may begin.
#include "kernels.cu"

#include <pergola/device/tasks.h>

extern "C" {

struct Lu {
  float* matrix;
  const uint4* tasks;  // the step, then the blocks
  const unsigned *first_successor, *successors;
  unsigned* waiting_for;  // by task: how many have not ended that must have
  unsigned long long self;
  unsigned* lost;
};

// The task, and then one of those that it was the last to be waited for by, and so on; the others are spawned. 128
// threads.
__global__ void slud_task(const Lu* lu, unsigned task) {
  constexpr unsigned kNone = ~0u;
  constexpr int kTries = 100000;  // for room: there are never as many tasks to begin as the device has room for
  __shared__ unsigned next;
  while (task != kNone) {
    const uint4 work = lu->tasks[task];
    const auto block = [&](unsigned number) { return lu->matrix + number * 1024ull; };
    switch (work.x) {
      case 0: slud_lu0_body(block(work.y)); break;
      case 1: slud_fwd_body(block(work.y), block(work.z)); break;
      case 2: slud_bdiv_body(block(work.y), block(work.z)); break;
      default: slud_bmod_body(block(work.y), block(work.z), block(work.w)); break;
    }
    if (threadIdx.x == 0) next = kNone;
    __threadfence();
    __syncthreads();
    for (unsigned s = lu->first_successor[task] + threadIdx.x; s < lu->first_successor[task + 1]; s += blockDim.x) {
      const unsigned successor = lu->successors[s];
      if (atomicSub(lu->waiting_for + successor, 1u) != 1) continue;
      __threadfence();
      if (atomicCAS(&next, kNone, successor) == kNone) continue;
      int tries = 0;
      while (!pergola::spawn<decltype(slud_task)>(lu->self, lu, successor) && ++tries < kTries) __nanosleep(200);
      if (tries == kTries) atomicAdd(lu->lost, 1u);
    }
    __syncthreads();
    task = next;
    __threadfence();  // what those before it have written
    __syncthreads();
  }
}

}  // extern "C"
