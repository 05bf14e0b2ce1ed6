// Which PTX instruction a piece of compiled code came from: for messages about faults that only its address tells of.
//
// The table is LLVM's own, in the object that it makes: the row of a load, store or atomic has the PTX's line as line, and
// as column the number of the instruction among those on that line, from 1. It lies in the cached object too, and is read when a fault asks. Code
// that came from several instructions at once has no row; its line is 0.
#pragma once

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Function.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "src/device/cpu/place.h"

namespace pergola::device::cpu::jit {

// Gives `function` the scope that instructions' places refer to; `first_line` is the place of the code that makes its frame,
// where a stack overflows. Its module may have functions with and without.
void add_line_scope(llvm::Function& function, unsigned first_line = 0);
// The place of `line` and `column` in the function of that scope; the null place where the function has none.
llvm::DebugLoc line_place(const llvm::Function& function, unsigned line, unsigned column);

// The row for the code that lies `offset` bytes after the symbol in the object; line 0 where there is none. Thread-safe.
PtxPlace find_line(std::string_view object, std::string_view symbol, std::uint64_t offset);
// A function that the object defines for others, "kernel" where it has that; empty where it defines none.
std::string lookup_symbol(std::string_view object);

}  // namespace pergola::device::cpu::jit
