// Modules put together need what the newest of them needs.
#pragma once

#include "src/ptx/module.h"

namespace pergola::transform {

// `into` gets the version and the target of `other` where they are newer; of one architecture that with a suffix is.
void take_newer_target(const ptx::Module& other, ptx::Module& into);

}  // namespace pergola::transform
