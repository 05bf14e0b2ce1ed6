#include "src/session/session.h"

#include <algorithm>

#include "src/base/plural.h"

namespace pergola::session {

Result<LaunchShape> for_each_config(const KernelInfo& kernel, std::uint64_t count) {
  constexpr std::uint32_t kUsualThreads = 256;
  constexpr std::uint64_t kMaxBlocks = 0x7fffffff;  // of every compute capability
  std::uint32_t threads = kUsualThreads;
  if (kernel.required_threads) {
    const auto& required = *kernel.required_threads;
    if (required[1] > 1 || required[2] > 1)
      return PERGOLA_ERROR(kInvalidArgument,
                           "Kernel '{}' requires blocks of ({}, {}, {}) threads, which for_each() cannot make: "
                           "launch it with grid().",
                           kernel.name, required[0], required[1], required[2]);
    threads = std::max(1u, required[0]);
  } else if (kernel.max_threads_per_block != 0) {
    threads = std::min(threads, kernel.max_threads_per_block);
  }
  const std::uint64_t blocks = count / threads + (count % threads != 0 ? 1 : 0);
  if (blocks > kMaxBlocks)
    return PERGOLA_ERROR(kInvalidArgument,
                         "for_each({}) needs {} blocks of {} threads and a grid has at most {}: let each thread do "
                         "more.",
                         count, blocks, threads, kMaxBlocks);
  LaunchShape config;
  config.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  config.block = {threads, 1, 1};
  return config;
}

Status Array::fill(std::span<const std::byte> value) {
  if (value.size() != element_bytes())
    return PERGOLA_ERROR(kInvalidArgument, "The fill's value has {} and an element of the array {}.",
                         plural(value.size(), "byte"), element_bytes());
  return fill(0, size_bytes(), value);
}

}  // namespace pergola::session
