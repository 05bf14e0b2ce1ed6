#include "src/analysis/relation_cache.h"

#include <type_traits>

namespace pergola::analysis {
namespace {

// Everything that decides an answer, one after the other. Lengths stand before what may have several.
class Key {
 public:
  template <typename T>
  Key& add(const T& value) {
    static_assert(std::is_scalar_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Key& add_bytes(const void* data, std::size_t size) {
    add(size);
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

std::uintptr_t address(const void* object) {
  return reinterpret_cast<std::uintptr_t>(object);
}

std::string footprint_key(const KernelFootprints* kernel, const LaunchValues& values, bool by_block) {
  Key key;
  key.add('f').add(address(kernel)).add(by_block);
  key.add_bytes(values.grid, sizeof values.grid).add_bytes(values.block, sizeof values.block);
  key.add_bytes(values.parameters.data(), values.parameters.size()).add(values.pointers.size());
  for (const LaunchValues::Pointer& pointer : values.pointers)
    key.add(pointer.offset_bytes).add(pointer.allocation).add(pointer.position).add(pointer.allocation_bytes);
  for (const LaunchValues::ModuleVariable& variable : values.variables)
    key.add_bytes(variable.name.data(), variable.name.size()).add(variable.allocation).add(variable.allocation_bytes);
  return key.take();
}

std::string relation_key(const LaunchFootprint* parent, const LaunchFootprint* child,
                         const DependencyOptions& options) {
  return Key()
      .add('r')
      .add(address(parent))
      .add(address(child))
      .add(options.max_degree)
      .add(options.max_edges)
      .add(options.raw_only)
      .add(options.by_boxes)
      .take();
}

std::uint64_t bytes_of(const LaunchFootprint& footprint) {
  std::uint64_t bytes = sizeof footprint + footprint.instructions.size() * sizeof(LaunchFootprint::Instruction);
  for (const AccessFootprint& access : footprint.accesses)
    bytes += sizeof access + access.places.regions().size() * sizeof(BlockPlaces::Region) +
             access.shapes.size() * sizeof(ByteShape);
  return bytes;
}

std::uint64_t bytes_of(const BlockRelation& relation) {
  return sizeof relation + relation.lists.bytes();
}

}  // namespace

Result<RelationCache::FootprintPtr> RelationCache::footprint(const std::shared_ptr<const KernelFootprints>& kernel,
                                                             const LaunchValues& values, bool by_block) {
  std::string key = footprint_key(kernel.get(), values, by_block);
  {
    const std::lock_guard lock(mutex_);
    // Another kernel may lie where one was that is gone.
    if (const Entry* const known = find(key); known != nullptr && known->kernel.lock() == kernel)
      return known->footprint;
  }
  PERGOLA_ASSIGN(LaunchFootprint made, by_block ? kernel->at(values) : kernel->allocations_at(values));
  Entry entry;
  entry.bytes = bytes_of(made);
  entry.kernel = kernel;
  entry.footprint = std::make_shared<const LaunchFootprint>(std::move(made));
  FootprintPtr result = entry.footprint;
  const std::lock_guard lock(mutex_);
  keep(std::move(key), std::move(entry));
  return result;
}

RelationCache::RelationPtr RelationCache::relation(const FootprintPtr& parent, const FootprintPtr& child,
                                                   const DependencyOptions& options) {
  std::string key = relation_key(parent.get(), child.get(), options);
  {
    const std::lock_guard lock(mutex_);
    // Its footprints are kept with it, so the same addresses are the same footprints.
    if (const Entry* const known = find(key); known != nullptr) return known->relation;
  }
  Entry entry;
  entry.parent = parent;
  entry.child = child;
  entry.relation = std::make_shared<const BlockRelation>(block_dependencies(*parent, *child, options));
  entry.bytes = bytes_of(*entry.relation);
  RelationPtr result = entry.relation;
  const std::lock_guard lock(mutex_);
  keep(std::move(key), std::move(entry));
  return result;
}

RelationCache::Counters RelationCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

const RelationCache::Entry* RelationCache::find(const std::string& key) {
  const auto found = entries_.find(key);
  ++(found == entries_.end() ? counters_.misses : counters_.hits);
  return found == entries_.end() ? nullptr : &found->second;
}

void RelationCache::keep(std::string key, Entry entry) {
  if (entry.bytes + key.size() > most_bytes_) return;
  entry.bytes += key.size();
  counters_.bytes += entry.bytes;
  const auto [place, is_new] = entries_.try_emplace(key);
  counters_.bytes -= place->second.bytes;
  place->second = std::move(entry);
  if (is_new) order_.push_back(std::move(key));
  while (counters_.bytes > most_bytes_) {
    const auto oldest = entries_.find(order_.front());
    counters_.bytes -= oldest->second.bytes;
    entries_.erase(oldest);
    order_.pop_front();
  }
}

RelationCache::RelationPtr relation_of(RelationCache* cache, const RelationCache::FootprintPtr& parent,
                                       const RelationCache::FootprintPtr& child, const DependencyOptions& options) {
  if (cache != nullptr) return cache->relation(parent, child, options);
  return std::make_shared<const BlockRelation>(block_dependencies(*parent, *child, options));
}

}  // namespace pergola::analysis
