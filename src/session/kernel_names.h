// Which kernel a user's name means.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace pergola::session {

// A kernel's PTX name and the plain C++ name it was made from ("scale<float>", "math::norm"), where one is known.
struct KernelName {
  std::string ptx;
  std::string plain;  // "": the same
};

// The index of the kernel called `name`: by its PTX name; else by its plain name; else by its plain name without
// template arguments and namespaces, where just one kernel has it. kNotFound lists what is there; kInvalidArgument,
// for an ambiguous name, what it could mean.
Result<std::size_t> find_kernel(std::span<const KernelName> kernels, std::string_view name, std::string_view module);

// Whether `name` may mean that kernel, though others may be meant as well.
bool may_mean(const KernelName& kernel, std::string_view name);

}  // namespace pergola::session
