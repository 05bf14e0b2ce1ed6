// Module -> PTX text. parse(print(m)) == m for every m that parse() returned, and for what passes make of it.
#pragma once

#include <string>

#include "src/ptx/module.h"

namespace pergola::ptx {

std::string print(const Module& module);
std::string print(const Function& function);
std::string print(const Instruction& instruction, const Function& function);  // one line, without the newline

}  // namespace pergola::ptx
