#include "src/session/kernel_names.h"

#include <algorithm>

namespace pergola::session {
namespace {

// "math::scale<float, 3>" -> "math::scale"
std::string_view without_arguments(std::string_view plain) { return plain.substr(0, plain.find('<')); }

// "math::scale" -> "scale"
std::string_view last_part(std::string_view plain) {
  const std::size_t colons = plain.rfind("::");
  return colons == std::string_view::npos ? plain : plain.substr(colons + 2);
}

std::string shown(const KernelName& kernel) {
  return kernel.plain.empty() || kernel.plain == kernel.ptx ? fmt::format("'{}'", kernel.ptx)
                                                            : fmt::format("'{}' ({})", kernel.plain, kernel.ptx);
}

using Form = std::string_view (*)(std::string_view);
constexpr Form kForms[] = {
    [](std::string_view plain) { return plain; },
    [](std::string_view plain) { return without_arguments(plain); },
    [](std::string_view plain) { return last_part(without_arguments(plain)); },
};

}  // namespace

bool may_mean(const KernelName& kernel, std::string_view name) {
  if (kernel.ptx == name) return true;
  return !kernel.plain.empty() &&
         std::any_of(std::begin(kForms), std::end(kForms), [&](Form form) { return form(kernel.plain) == name; });
}

Result<std::size_t> find_kernel(std::span<const KernelName> kernels, std::string_view name, std::string_view module) {
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i].ptx == name) return i;

  for (const Form form : kForms) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < kernels.size(); ++i)
      if (!kernels[i].plain.empty() && form(kernels[i].plain) == name) found.push_back(i);
    if (found.size() == 1) return found.front();
    if (found.empty()) continue;
    std::string list;
    for (const std::size_t i : found) list += (list.empty() ? "" : ", ") + shown(kernels[i]);
    return PERGOLA_ERROR(kInvalidArgument, "Several kernels of '{}' are called '{}': {}. Name one of them in full.",
                         module, name, list);
  }

  if (kernels.empty()) return PERGOLA_ERROR(kNotFound, "There is no kernel '{}' in '{}': it has no kernel at all.", name, module);
  std::string list;
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < kernels.size() && i < kShown; ++i) list += (i == 0 ? "" : ", ") + shown(kernels[i]);
  if (kernels.size() > kShown) list += fmt::format(" and {} more", kernels.size() - kShown);
  return PERGOLA_ERROR(kNotFound, "There is no kernel '{}' in '{}': it has {}.", name, module, list);
}

}  // namespace pergola::session
