#include "src/device/cuda/host_slabs.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "src/base/check.h"

namespace pergola::device::cuda {

HostSlabs::~HostSlabs() {
  for (const auto& [memory, slab] : slabs_) driver_->cuMemFreeHost(memory);
}

void HostSlabs::release() {
  std::vector<std::byte*> going;
  {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    std::erase_if(slabs_, [&](const auto& each) {
      if (each.second.taken.empty()) going.push_back(each.first);
      return each.second.taken.empty();
    });
  }
  for (std::byte* const each : going) driver_->cuMemFreeHost(each);
}

bool HostSlabs::is_empty() const {
  const std::lock_guard lock(mutex_);
  return slabs_.empty();
}

HostSlabs::Slabs::const_iterator HostSlabs::holding(const std::byte* memory) const {
  const auto after = std::ranges::upper_bound(slabs_, memory, {}, [](const auto& slab) { return slab.first; });
  if (after == slabs_.begin()) return slabs_.end();
  const auto found = std::prev(after);
  return memory < found->first + found->second.bytes ? found : slabs_.end();
}

std::byte* HostSlabs::slab_of(const std::byte* memory) const {
  const std::lock_guard lock(mutex_);
  const auto found = holding(memory);
  return found == slabs_.end() ? nullptr : found->first;
}

// Twice as large as the largest there is, and as `needed` where that is more.
CUresult HostSlabs::add_slab(std::size_t needed, unsigned flags) {
  std::size_t bytes = std::bit_ceil(std::max(kFirstSlabBytes, needed));
  for (const auto& [memory, slab] : slabs_) bytes = std::max(bytes, std::min(2 * slab.bytes, kMostSlabBytes));
  void* memory = nullptr;
  const CUresult result = driver_->cuMemHostAlloc(&memory, bytes, flags);
  if (result == CUDA_SUCCESS) slabs_[static_cast<std::byte*>(memory)] = {bytes, FreeRanges(0, bytes), {}};
  return result;
}

CUresult HostSlabs::allocate(std::byte** memory, std::size_t bytes, unsigned flags) {
  const std::size_t needed = (std::max<std::size_t>(bytes, 1) + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  const auto alone = [&] {
    void* own = nullptr;
    const CUresult result = driver_->cuMemHostAlloc(&own, bytes, flags);
    *memory = static_cast<std::byte*>(own);
    return result;
  };
  if (needed > kMostBytes) return alone();
  const std::lock_guard lock(mutex_);
  const auto take = [&] {
    return std::ranges::any_of(slabs_, [&](auto& each) {
      const std::optional<std::uint64_t> offset = each.second.free.take(needed);
      if (!offset) return false;
      each.second.taken[*offset] = needed;
      *memory = each.first + *offset;
      return true;
    });
  };
  if (take()) return CUDA_SUCCESS;
  const CUresult result = add_slab(needed, flags);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return alone();
  if (result != CUDA_SUCCESS) return result;
  PERGOLA_CHECK(take());
  return CUDA_SUCCESS;
}

void HostSlabs::free(std::byte* memory) {
  std::byte* const slab_begin = slab_of(memory);
  if (slab_begin == nullptr) {
    driver_->cuMemFreeHost(memory);
    return;
  }
  driver_->cuCtxSynchronize();
  std::byte* going = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto at = slabs_.find(slab_begin);
    Slab& slab = at->second;
    const auto block = slab.taken.find(static_cast<std::uint64_t>(memory - at->first));
    PERGOLA_CHECK(block != slab.taken.end());
    slab.free.give(block->first, block->second);
    slab.taken.erase(block);
    if (slab.taken.empty()) going = take_spare(at);
  }
  if (going != nullptr) driver_->cuMemFreeHost(going);  // which may wait, and others want blocks
}

// Of two slabs that are empty the larger one stays. `emptied` has just become so.
std::byte* HostSlabs::take_spare(Slabs::iterator emptied) {
  const auto is_other = [&](const auto& each) { return each.first != emptied->first && each.second.taken.empty(); };
  const auto other = std::find_if(slabs_.begin(), slabs_.end(), is_other);
  if (other == slabs_.end() && !is_released_) return nullptr;
  const auto goes =
      other != slabs_.end() && other->second.bytes < emptied->second.bytes && !is_released_ ? other : emptied;
  std::byte* const memory = goes->first;
  slabs_.erase(goes);
  return memory;
}

}  // namespace pergola::device::cuda
