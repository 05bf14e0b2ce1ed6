// The device half as PTX: kernel/resident.cu, compiled when Pergola is built.
#pragma once

#include <string_view>

namespace pergola::executor {

std::string_view resident_ptx();

}  // namespace pergola::executor
