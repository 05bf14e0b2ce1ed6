// The device half as PTX: kernel/resident.cu, compiled when Pergola is built.
#pragma once

#include <string_view>

namespace pergola::executor {

struct ResidentForm {
  bool spawns = false;  // some body spawns tasks
  bool traces = false;  // it notes when tasks ran (abi/task_trace.h)
};
std::string_view resident_ptx(ResidentForm form);

}  // namespace pergola::executor
