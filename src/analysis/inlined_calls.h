// A kernel with the functions that it calls put where they are called, for analyses of one function: each call has the
// values of its own caller then.
//
//   st.param.f64 [param0], %fd1;                 mov.f64 %arg1, %fd1;
//   call (retval0), slow, (param0);     ──▶      { ...body of slow, registers and names anew, `ret` a branch... }
//   ld.param.f64 %fd2, [retval0];                mov.f64 %fd2, %arg2;
//
// Arguments that are passed in .param memory become registers where every access to them is to the same bytes; others
// stay as they are, and their values are unknown. A call that is not followed stays as well: where what it may reach
// touches no global memory that does not matter, else `reason` says what it is.
//
// Bounded: kMaxCallDepth calls in calls, kMaxInlinedStatements in all.
#pragma once

#include <string>
#include <vector>

#include "src/ptx/module.h"

namespace pergola::analysis {

inline constexpr int kMaxCallDepth = 12;
inline constexpr std::size_t kMaxInlinedStatements = 20'000;

struct InlinedCalls {
  ptx::Function function;       // what executes is the entry's; names are not printable PTX
  std::vector<bool> is_called;  // by statement: it is of a function that is called
  std::string reason;           // why some call that may touch global memory is not followed; "" where there is none
};

// Never fails: what is not understood is a reason.
InlinedCalls inline_calls(const ptx::Module& module, const ptx::Function& entry);

// Memory that other blocks and kernels may see, and that a function accesses itself.
bool touches_global(const ptx::Function& function);

}  // namespace pergola::analysis
