// A body put where it is run instead of called: calls through a table make nearly every kernel save or spill registers,
// so an executor has its bodies under one `brx.idx`, each in a scope of its own.
//
//   .func pergola_task_k() { R; S; ret; }      ──▶      { R'; S'; }      in the executor's kernel
//
// Registers are numbered anew, and labels and .local variables get a prefix: control-flow graphs have one table of
// labels a function. Control leaves the scope at its end.
#pragma once

#include <string_view>

#include "src/transform/body_editor.h"

namespace pergola::transform {

// The statements that do in `into` what a call of `body` does. `prefix` must differ between the bodies of one function:
// "$case_3". Adds registers to `into`; inserts nothing. kInvalidArgument where `body` has parameters or results, ends a
// thread, or holds instructions that are not understood.
Result<Statements> inline_body(ptx::Function& into, const ptx::Function& body, std::string_view prefix);

}  // namespace pergola::transform
