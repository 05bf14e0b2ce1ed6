// `pergola explain FILE --launch A --launch B`: what two launches have to do with each other, and how a graph of the
// two would be made (docs/blocks.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/device/device.h"
#include "src/ptx/module.h"
#include "tools/pergola/console.h"

namespace pergola::tool {

// Two launches (launch_text.h), the later after the earlier; `ptx` is the module's text. `device`: whose limits count,
// where it is a GPU (launch_pair.h).
Status explain_blocks(const ptx::Module& module, std::string_view ptx, const std::vector<std::string>& launches,
                      const device::DevicePtr& device, const Console& console);

}  // namespace pergola::tool
