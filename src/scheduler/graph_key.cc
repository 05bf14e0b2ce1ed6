#include "src/scheduler/graph_key.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "src/base/check.h"
#include "src/base/disk_cache.h"

namespace pergola::scheduler {
namespace {

// Bytes that are hashed; numbers have eight.
class HashedText {
 public:
  void add(std::uint64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add(const device::Dim3& dim) {
    for (const std::uint32_t each : {dim.x, dim.y, dim.z}) add(each);
  }
  void add(std::string_view text) {
    add(text.size());
    bytes_ += text;
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void add_kernel(HashedText& text, const Launch& launch, bool varies) {
  const device::KernelResources resources = launch.kernel->resources();
  text.add(launch.kernel->signature().name);
  for (const std::uint32_t each : {resources.registers_per_thread, resources.static_shared_bytes,
                                   resources.local_bytes_per_thread, launch.config.dynamic_shared_bytes})
    text.add(each);
  text.add(launch.config.grid);
  text.add(launch.config.block);
  text.add(launch.config.cluster);
  text.add((launch.config.cooperative ? 2u : 0u) + (launch.config.programmatic ? 1u : 0u));
  text.add(varies ? 1u : 0u);
  if (varies) return;
  text.add(launch.scalars.size());
  const std::string_view parameters(reinterpret_cast<const char*>(launch.parameters.data()), launch.parameters.size());
  for (const ByteRange& scalar : launch.scalars) {
    text.add(scalar.begin);
    text.add(parameters.substr(scalar.begin, scalar.end - scalar.begin));
  }
}

}  // namespace

std::string graph_key(const device::GraphSpec& plain, std::span<const Launch* const> launches,
                      std::span<const bool> varies) {
  PERGOLA_CHECK(varies.size() == launches.size());
  HashedText text;
  text.add(std::string_view(PERGOLA_VERSION));               // another may have other ways
  std::unordered_map<std::uint64_t, std::uint64_t> numbers;  // of resources, in the order in which they are met
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = *launches[i];
    text.add(static_cast<std::uint64_t>(launch.kind));
    text.add(static_cast<std::uint64_t>(launch.universal));
    text.add(launch.accesses.size());
    for (std::size_t k = 0; k < launch.accesses.size(); ++k) {
      const Access& access = launch.accesses[k];
      text.add(numbers.emplace(launch.resource_ids[k], numbers.size()).first->second);
      text.add(access.range.begin);
      text.add(access.range.end);
      text.add(static_cast<std::uint64_t>(access.mode));
    }
    if (launch.copy)
      text.add(launch.copy->size_bytes);
    else
      add_kernel(text, launch, varies[i]);
  }
  for (const device::GraphNode& node : plain.nodes) {
    text.add(node.after.size());
    for (const device::NodeId after : node.after) text.add(after);
  }
  return cache_key("graph", {text.bytes()}).hex();
}

}  // namespace pergola::scheduler
