// One check for all that an access of a body may reach, at the body's begin, in place of one before each access.
//
//   begin:  all addresses of the accesses by each pointer, from the lowest to the highest, lie in one run of known
//           granules (abi/task_fence.h), are aligned, and no index wraps?
//             yes ─▶ a copy of the body whose accesses are not checked, but for those of which nothing is known
//             no  ─▶ the body in which each access is checked
//
// Where the addresses lie is worked out from the parameters and the thread's place (fence_ranges.h); it may be more
// than the body reaches, since a body that is not found known is checked. So what fails, and what is told of it, is as
// without this: only a body none of whose unchecked accesses can be wild is not checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/transform/body_editor.h"
#include "src/transform/fence_groups.h"

namespace pergola::transform {

struct FenceHoist {
  std::vector<bool> is_known;  // by group: those that need no check where the body is known
  std::string text;            // leaves in %pergola_fence_known whether it is; declares further registers
  std::vector<std::pair<std::string, ptx::RegisterId>> arguments;  // of the text: registers of the function
  std::uint32_t instructions = 0;
};

// `begin`: the statement of `function` before which the text is to stand. Nothing where it is not worth a second copy
// of the body, or cannot be had.
std::optional<FenceHoist> hoist_checks(const ptx::Function& function, const analysis::Cfg& cfg,
                                       const std::vector<FenceGroup>& groups, const FenceConfig& config,
                                       std::uint32_t begin);

}  // namespace pergola::transform
