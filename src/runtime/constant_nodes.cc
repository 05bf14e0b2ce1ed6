#include "src/runtime/constant_nodes.h"

#include <algorithm>
#include <map>
#include <set>

namespace pergola::runtime {
namespace {

using Constants = BlockKernel::Constants;

// Each is a kernel to compile.
constexpr std::size_t kMostSets = 4;

struct KernelConstants {
  std::set<Constants> sets;
  Constants common;  // to all of them
};

void add(KernelConstants& kernel, const Constants& constants) {
  if (kernel.sets.empty()) {
    kernel.common = constants;
  } else {
    Constants both;
    std::ranges::set_intersection(kernel.common, constants, std::back_inserter(both));
    kernel.common = std::move(both);
  }
  if (kernel.sets.size() <= kMostSets) kernel.sets.insert(constants);
}

Status take(device::KernelNode& work, std::shared_ptr<BlockKernel>& kernel, const Constants& constants) {
  PERGOLA_ASSIGN(std::shared_ptr<BlockKernel> made, kernel->with_constants(constants));
  PERGOLA_ASSIGN(const BlockKernel::Form form, made->unchanged());
  const std::uint32_t most = form.kernel->resources().max_threads_per_block;
  if (most != 0 && work.config.block.count() > most)
    return PERGOLA_ERROR(kResourceExhausted, "Kernel '{}' runs in blocks of {} threads at most, not {}.",
                         form.kernel->signature().name, most, work.config.block.count());
  work.module = form.module;
  work.kernel = form.kernel;
  kernel = std::move(made);
  return {};
}

}  // namespace

ConstantNodes make_constant(const device::GraphSpec& plain, std::span<const std::shared_ptr<BlockKernel>> kernels) {
  ConstantNodes made;
  made.spec = plain;
  made.kernels.assign(kernels.begin(), kernels.end());
  made.reasons.resize(plain.nodes.size());
  std::vector<Constants> constants(plain.nodes.size());
  std::map<const BlockKernel*, KernelConstants> by_kernel;
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    const auto* const work = std::get_if<device::KernelNode>(&plain.nodes[i].work);
    if (work == nullptr || kernels[i] == nullptr) {
      made.reasons[i] =
          work == nullptr ? "it is no kernel launch" : "its kernel's PTX is not known, or its parameters change";
      continue;
    }
    Result<Constants> own = kernels[i]->constants_of(work->parameters);
    if (own.ok()) {
      constants[i] = std::move(*own);
      add(by_kernel[kernels[i].get()], constants[i]);
    } else {
      made.reasons[i] = own.message();
    }
  }
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    if (!made.reasons[i].empty()) continue;
    const KernelConstants& all = by_kernel.at(kernels[i].get());
    const Status status = take(std::get<device::KernelNode>(made.spec.nodes[i].work), made.kernels[i],
                               all.sets.size() <= kMostSets ? constants[i] : all.common);
    if (status.ok())
      ++made.launches;
    else
      made.reasons[i] = status.message();
  }
  return made;
}

}  // namespace pergola::runtime
