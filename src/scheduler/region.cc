#include "src/scheduler/region.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>

#include <fmt/ranges.h>

namespace pergola::scheduler {

Launch::Launch(const Work& work, std::uint64_t its_hash)
    : hash(its_hash),
      module(work.call->module),
      kernel(&work.call->kernel),
      config(work.call->config),
      parameters(work.call->parameters.begin(), work.call->parameters.end()),
      accesses(work.accesses.begin(), work.accesses.end()),
      universal(work.universal),
      site(work.site) {
  for (const Access& access : accesses) resource_ids.push_back(access.resource->id());
}

Work Launch::work() const {
  return {.kind = WorkKind::kKernel, .site = site, .accesses = accesses, .universal = universal};
}

std::uint64_t hash_of(const Work& work) {
  const KernelCall& call = *work.call;
  std::size_t hash = boost::hash_range(reinterpret_cast<const char*>(call.parameters.data()),
                                       reinterpret_cast<const char*>(call.parameters.data()) + call.parameters.size());
  boost::hash_combine(hash, &call.kernel);
  for (const device::Dim3& dim : {call.config.grid, call.config.block}) {
    boost::hash_combine(hash, std::uint64_t{dim.x} << 32 | dim.y);
    boost::hash_combine(hash, dim.z);
  }
  boost::hash_combine(hash, call.config.dynamic_shared_bytes);
  for (const Access& access : work.accesses) boost::hash_combine(hash, access.resource->id());
  return hash;
}

namespace {

bool is_same(const Access& a, const Access& b) {
  return a.resource == b.resource && a.range.begin == b.range.begin && a.range.end == b.range.end && a.mode == b.mode;
}

}  // namespace

bool equals(const Launch& launch, const Work& work) {
  const KernelCall& call = *work.call;
  if (launch.kernel != &call.kernel || launch.module != call.module || launch.universal != work.universal ||
      launch.accesses.size() != work.accesses.size() || !(launch.config == call.config) ||
      !std::equal(launch.parameters.begin(), launch.parameters.end(), call.parameters.begin(), call.parameters.end()))
    return false;
  for (std::size_t i = 0; i < work.accesses.size(); ++i) {
    if (!is_same(launch.accesses[i], work.accesses[i]) || launch.resource_ids[i] != work.accesses[i].resource->id())
      return false;
  }
  return true;
}

bool equals(const Launch& a, const Launch& b) {
  if (a.hash != b.hash || a.kernel != b.kernel || a.module != b.module || a.universal != b.universal ||
      !(a.config == b.config) || a.parameters != b.parameters || a.resource_ids != b.resource_ids)
    return false;
  return std::equal(a.accesses.begin(), a.accesses.end(), b.accesses.begin(), b.accesses.end(), is_same);
}

namespace {

bool any_writes(const Launch& launch) {
  return std::any_of(launch.accesses.begin(), launch.accesses.end(), [](const Access& a) { return writes(a.mode); });
}

bool overlap(const Range& a, const Range& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

bool conflict(const Launch& a, const Launch& b) {
  if (writes(a.universal) || writes(b.universal)) return true;
  if ((reads(a.universal) && any_writes(b)) || (reads(b.universal) && any_writes(a))) return true;
  for (std::size_t i = 0; i < a.accesses.size(); ++i)
    for (std::size_t j = 0; j < b.accesses.size(); ++j)
      if (a.resource_ids[i] == b.resource_ids[j] && overlap(a.accesses[i].range, b.accesses[j].range) &&
          (writes(a.accesses[i].mode) || writes(b.accesses[j].mode)))
        return true;
  return false;
}

std::shared_ptr<Chunk> Region::chunk_of(std::size_t launch) const {
  return *std::partition_point(chunks.begin(), chunks.end(),
                               [&](const std::shared_ptr<Chunk>& chunk) { return chunk->end <= launch; });
}

namespace {

std::string name_of(const Chunk& chunk, const std::vector<Launch>& launches) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string_view> names;
  for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
    const std::string_view name = launches[i].site == nullptr ? std::string_view("?") : launches[i].site->name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  const bool more = names.size() > kMost;
  if (more) names.resize(kMost);
  return fmt::format("graph of {} launches: {}{}", chunk.end - chunk.begin, fmt::join(names, ", "),
                     more ? ", ..." : "");
}

}  // namespace

void Region::cut() {
  const std::vector<std::shared_ptr<Chunk>> before = std::exchange(chunks, {});
  ++cuts;
  for (std::size_t begin = 0; begin < launches.size();) {
    std::size_t stop = begin + 1;  // the next cut that the host made
    while (stop < launches.size() && !cut_before[stop]) ++stop;
    const std::size_t pieces = (stop - begin + most_launches - 1) / most_launches;
    for (std::size_t i = 0; i < pieces; ++i) {
      auto chunk = std::make_shared<Chunk>();
      chunk->begin = begin + (stop - begin) * i / pieces;
      chunk->end = begin + (stop - begin) * (i + 1) / pieces;
      const auto kept = std::find_if(before.begin(), before.end(), [&](const std::shared_ptr<Chunk>& one) {
        return one->begin == chunk->begin && one->end == chunk->end;
      });
      if (kept != before.end()) {  // its graph may be there
        chunks.push_back(*kept);
        continue;
      }
      for (std::size_t k = chunk->begin; k < chunk->end; ++k) {
        chunk->universal = chunk->universal | launches[k].universal;
        for (const Access& access : launches[k].accesses) {
          const auto same = std::find_if(chunk->accesses.begin(), chunk->accesses.end(), [&](const Access& known) {
            return known.resource == access.resource && known.range.begin == access.range.begin &&
                   known.range.end == access.range.end;
          });
          if (same == chunk->accesses.end())
            chunk->accesses.push_back(access);
          else
            same->mode = same->mode | access.mode;
        }
      }
      chunk->name = name_of(*chunk, launches);
      chunks.push_back(std::move(chunk));
    }
    begin = stop;
  }
}

device::GraphSpec Region::spec_of(const Chunk& chunk) const {
  device::GraphSpec spec;
  // before[i]: what comes before node i, by a chain of edges or by one.
  std::vector<std::vector<bool>> before;
  for (std::size_t i = 0; chunk.begin + i < chunk.end; ++i) {
    const Launch& launch = launches[chunk.begin + i];
    device::GraphNode node;
    node.work = device::KernelNode{launch.module, launch.kernel, launch.config, launch.parameters};
    std::vector<bool> ancestors(i, false);
    for (std::size_t j = i; j-- > 0;) {  // the latest first: what it comes after needs no edge of its own
      if (ancestors[j] || !conflict(launches[chunk.begin + j], launch)) continue;
      node.after.push_back(static_cast<device::NodeId>(j));
      ancestors[j] = true;
      for (std::size_t k = 0; k < before[j].size(); ++k)
        if (before[j][k]) ancestors[k] = true;
    }
    before.push_back(std::move(ancestors));
    spec.nodes.push_back(std::move(node));
  }
  return spec;
}

}  // namespace pergola::scheduler
