// Labels are of the scope that they stand in, as ptxas has it (the ISA says so of variables, 9.7.12: {}), and a body
// may have the same one in several: inline assembly that loops, used twice, is the usual case. After
// tell_labels_apart() they differ by their names alone, which is how everything behind the parser finds them.
#pragma once

#include "src/ptx/module.h"

namespace pergola::ptx {

// The name by which branches and calls mean a statement: a label's, a list of targets', a prototype's; null of others.
std::string* label_name(Statement& statement);
const std::string* label_name(const Statement& statement);

// Of labels, lists of targets and prototypes with a name that an earlier scope of the body has, makes another name of
// it, here and wherever it is meant. A name that stands twice in one scope stays, for the verifier to refuse. Scopes
// are closed as often as they are opened.
void tell_labels_apart(Function& function);

}  // namespace pergola::ptx
