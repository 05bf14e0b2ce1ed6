// The device half as PTX: kernel/resident.cu, compiled when Pergola is built.
#pragma once

#include <string_view>

namespace pergola::executor {

// `spawns`: as it is where some body spawns tasks.
std::string_view resident_ptx(bool spawns);

}  // namespace pergola::executor
