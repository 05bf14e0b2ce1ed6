// Kernels of loops, branches, indices and accesses at random, for what works out where a kernel's addresses lie. They
// end: a count of rounds leaves every loop. In whatever order threads go, they leave the same memory: all store one
// number.
//
//   kernel(.u64 p, .u64 q, .s32 n, .s32 m, .s32 s)
#pragma once

#include <random>
#include <string>

namespace pergola::tasks {

std::string random_kernel(std::mt19937& random);

}  // namespace pergola::tasks
