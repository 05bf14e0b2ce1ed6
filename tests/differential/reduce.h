// Makes a random kernel on which two devices disagree small, by leaving lines out while they still disagree.
#pragma once

#include <functional>

#include "tests/ptx_cases/case_file.h"

namespace pergola::differential {

// True where the two devices run `test` and leave different memory.
using Disagree = std::function<bool(const ptx_cases::Case& test)>;

// Only lines of simple statements go: those that set the kernel up, store, synchronise, count loops or make addresses
// stay, so that every candidate ends, stays inside its buffers and reads no register that nothing has written.
ptx_cases::Case reduce(ptx_cases::Case test, const Disagree& disagree);

}  // namespace pergola::differential
