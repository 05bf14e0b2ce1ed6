#include "src/scheduler/array_slots.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>

#include "src/base/check.h"
#include "src/scheduler/recurrence.h"

namespace pergola::scheduler {

void ArraySlots::add(std::span<const Access> accesses, std::span<const std::uint64_t> ids, bool rebinds) {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const Bytes bytes{ids[i], accesses[i].range};
    const auto known = std::ranges::find_if(slots_, [&](const Slot& slot) { return slot.met.is(bytes); });
    const auto number = static_cast<std::uint32_t>(known - slots_.begin());
    if (known == slots_.end()) {
      slots_.push_back({bytes, false});
      modes_.push_back(Mode::kNone);
    }
    modes_[number] = modes_[number] | accesses[i].mode;
    if (!rebinds && !slots_[number].fixed) {
      slots_[number].fixed = true;
      fixed_.push_back(accesses[i]);
      fixed_of_.push_back(number);
    }
    of_.push_back(number);
  }
  begins_.push_back(of_.size());
}

void ArraySlots::begin() {
  place_.assign(slots_.size(), kUnbound);
  bound_.clear();
  for (std::size_t i = 0; i < fixed_.size(); ++i) {
    place_[fixed_of_[i]] = static_cast<std::uint32_t>(bound_.size());
    bound_.push_back({slots_[fixed_of_[i]].met, fixed_[i], fixed_of_[i]});
  }
}

bool ArraySlots::bind(std::size_t launch, std::span<const Access> accesses) {
  PERGOLA_CHECK(accesses.size() == begins_[launch + 1] - begins_[launch] && place_.size() == slots_.size());
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const std::uint32_t slot = of_[begins_[launch] + i];
    const Bytes bytes{accesses[i].resource->id(), accesses[i].range};
    if (slots_[slot].met.is_empty() && !bytes.is_empty()) return false;  // within which nothing was ordered
    if (place_[slot] != kUnbound) {
      if (!bound_[place_[slot]].bytes.is(bytes)) return false;
      continue;
    }
    if (!may_bind(slot, bytes)) return false;
    place_[slot] = static_cast<std::uint32_t>(bound_.size());
    bound_.push_back({bytes, accesses[i], slot});
  }
  return true;
}

bool ArraySlots::may_bind(std::uint32_t slot, const Bytes& bytes) const {
  return std::ranges::all_of(bound_, [&](const Binding& other) {
    if (!bytes.overlaps(other.bytes)) return true;
    return !writes(modes_[slot] | modes_[other.slot]) || slots_[slot].met.overlaps(slots_[other.slot].met);
  });
}

void ArraySlots::collect(std::vector<Access>& out) const {
  PERGOLA_CHECK(bound_.size() == slots_.size());
  for (const Binding& binding : bound_) {
    out.push_back(binding.access);
    out.back().mode = modes_[binding.slot];
  }
}

namespace {

enum class Relation : std::uint8_t { kFirst, kSame, kOverlapping, kApart };

Relation relation(const Range& before, const Range& now) {
  if (before.begin == now.begin && before.end == now.end) return Relation::kSame;
  return before.overlaps(now) ? Relation::kOverlapping : Relation::kApart;
}

}  // namespace

std::uint64_t pattern_of(const Work& work, std::uint64_t number) {
  const KernelCall& call = *work.call;
  std::size_t hash = call.parameters.size();
  boost::hash_combine(hash, &call.kernel);
  for (const device::Dim3& dim : {call.config.grid, call.config.block}) {
    boost::hash_combine(hash, std::uint64_t{dim.x} << 32 | dim.y);
    boost::hash_combine(hash, dim.z);
  }
  boost::hash_combine(hash, call.config.dynamic_shared_bytes);
  boost::hash_combine(hash, static_cast<std::uint64_t>(work.universal));
  for (const Access& access : work.accesses) {
    Resource::LastUse& last = access.resource->last_use();
    const std::uint64_t ago = number - last.launch;
    const bool is_known = last.launch != 0 && ago <= Recurrence::kLongestPeriod;
    const Relation is = is_known ? relation(last.range, access.range) : Relation::kFirst;
    boost::hash_combine(hash, (is_known ? ago : 0) << 8 | static_cast<std::uint64_t>(is) << 4 |
                                  static_cast<std::uint64_t>(access.mode));
    last = {number, access.range};
  }
  return hash;
}

}  // namespace pergola::scheduler
