// Kernels that spawn tasks while they run as tasks (pergola/device/tasks.h) only declare pergola_task_spawn(), which the
// executor has. An ordinary launch of such a kernel spawns nothing, so its module gets a function that says so.
#pragma once

#include <string>
#include <string_view>

namespace pergola::device::cuda {

// The text with the declaration of abi::kTaskSpawnFunction, where there is one, made a definition that returns 0. Every
// other byte, line numbers included, stays.
std::string with_task_spawn(std::string_view ptx);

}  // namespace pergola::device::cuda
