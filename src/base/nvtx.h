// Ranges for NVIDIA's tools (NVTX): what a thread is doing, by name, in the timeline of Nsight Systems and its like.
//
//   NVTX_INJECTION64_PATH   the tool's library, which such a tool sets for the programs that it starts: NVTX 3
//   libnvToolsExt.so.1      NVTX 2, for PERGOLA_NVTX=1 without a tool of the kind above
//
// Nothing of NVTX or CUDA is needed to build or run: what its headers would do is done here, and the library is opened
// by name. Where nobody asks, a range is a test for null.
#pragma once

#include <string>

#include "src/base/result.h"

namespace pergola::nvtx {

struct Functions {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

// The process's, looked for at the first call; null where there are none. PERGOLA_NVTX: 1 warns of that, 0 looks for
// nothing; unset looks for a tool alone. Thread-safe.
const Functions* functions();

// A tool's library. It stays loaded. kNotFound where it cannot be opened or is no such library, kUnavailable where the
// tool declines or takes no ranges. Once a process: a second tool is refused with kFailedPrecondition.
Result<Functions> from_tool(const std::string& path);
// NVTX 2's library.
Result<Functions> from_library(const std::string& name = "libnvToolsExt.so.1");

// A range of the calling thread, for as long as it lives. `functions` may be null; `name` is copied by the tool.
class Range {
 public:
  Range(const Functions* functions, const char* name) : functions_(functions) {
    if (functions_ != nullptr) functions_->push(name);
  }
  ~Range() {
    if (functions_ != nullptr) functions_->pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const Functions* const functions_;
};

}  // namespace pergola::nvtx
