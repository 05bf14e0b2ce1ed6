// Bodies of tasks put into the kernel that runs them: each under its number, where the kernel's text calls a marker.
//
//   mov.u32 %pergola_body, ...;              brx.idx %pergola_body, { case 0, case 1, ... };
//   call pergola_run_body;          ──▶      case 0: { body 0 } bra end;   case 1: { body 1 } bra end;   end:
//
// (Why not called through a table: inline_body.h.)
#pragma once

#include <span>
#include <string_view>

#include "src/transform/entry_to_task.h"

namespace pergola::transform {

inline constexpr std::string_view kBodyMarker = "pergola_run_body";
inline constexpr std::string_view kBodyNumber = "%pergola_body";  // a register of the kernel's, 32 bits wide

// Each call of the marker in `kernel` becomes the bodies, and its declaration goes; what bodies bring with them
// (functions, variables) comes before the kernel, under names of their own. The module gets the newest version and
// target among them. kNotFound without such a kernel. The module is unspecified where it fails. Thread-compatible.
Status put_bodies(ptx::Module& module, std::string_view kernel, std::span<const TaskBody* const> bodies);

}  // namespace pergola::transform
