// From a parsed kernel to what a caller may know of it: its signature, what it needs, what it does with its memory.
#pragma once

#include "src/device/kernel.h"
#include "src/ptx/module.h"
#include "src/session/types.h"

namespace pergola::runtime {

// `kernel` is `entry` as the device loaded it. Where the analysis fails, accesses are kUnknown and say why.
session::KernelInfo describe(const ptx::Module& module, const ptx::Function& entry,
                             const ptx::KernelSignature& signature, const device::KernelResources& resources);

}  // namespace pergola::runtime
