// Footprints of launches, and relations between two of them, kept for when the same launches meet again: in the next
// graph of a region, or in another way of the same one.
//
//   (kernel, configuration, parameters, allocations) ──▶ footprint      (footprint, footprint, options) ──▶ relation
//
// What has been kept longest goes when there is more than fits. A kernel that is no longer there is forgotten with its
// footprints; a relation keeps its two.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/footprints.h"

namespace pergola::analysis {

// Thread-safe; works outside its lock, so two threads that ask for the same at once both work it out.
class RelationCache {
 public:
  using FootprintPtr = std::shared_ptr<const LaunchFootprint>;
  using RelationPtr = std::shared_ptr<const BlockRelation>;
  struct Counters {
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t bytes = 0;  // kept now
  };

  explicit RelationCache(std::uint64_t most_bytes = std::uint64_t{64} << 20) : most_bytes_(most_bytes) {}

  // kernel->at(values), or allocations_at() where `by_block` is false; errors are not kept.
  Result<FootprintPtr> footprint(const std::shared_ptr<const KernelFootprints>& kernel, const LaunchValues& values,
                                 bool by_block);
  // block_dependencies() of the two.
  RelationPtr relation(const FootprintPtr& parent, const FootprintPtr& child, const DependencyOptions& options);
  Counters counters() const;

 private:
  struct Entry {
    std::weak_ptr<const KernelFootprints> kernel;  // of a footprint
    FootprintPtr footprint;                        // that it is
    FootprintPtr parent, child;                    // of a relation
    RelationPtr relation;                          // that it is
    std::uint64_t bytes = 0;
  };
  const Entry* find(const std::string& key);  // counts; with the lock
  void keep(std::string key, Entry entry);    // with the lock

  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  boost::unordered_flat_map<std::string, Entry> entries_;
  std::deque<std::string> order_;  // of entries_, the oldest first
  Counters counters_;
};

// cache->relation() of the two, or without a cache block_dependencies().
RelationCache::RelationPtr relation_of(RelationCache* cache, const RelationCache::FootprintPtr& parent,
                                       const RelationCache::FootprintPtr& child, const DependencyOptions& options);

}  // namespace pergola::analysis
