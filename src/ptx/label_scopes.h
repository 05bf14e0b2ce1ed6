// Labels are of the scope that they stand in (ISA 4.3.2: labels in braces hide those outside), and a body may have the
// same one in several: inline assembly that loops, used twice, is the usual case. After this they differ by their names
// alone, which is how everything behind the parser finds them.
#pragma once

#include "src/ptx/module.h"

namespace pergola::ptx {

// Of labels, lists of targets and prototypes with a name that an earlier scope of the body has, makes another name of
// it, here and wherever it is meant. A name that stands twice in one scope stays, for the verifier to refuse. Scopes
// are closed as often as they are opened.
void tell_labels_apart(Function& function);

}  // namespace pergola::ptx
