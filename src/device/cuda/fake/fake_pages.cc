// The fake driver's virtual memory management: addresses of the host, which cannot be touched where nothing is mapped.
#include <sys/mman.h>

#include "src/device/cuda/fake/fake_state.h"

namespace pergola::device::cuda {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

bool is_whole(CUdeviceptr address, std::size_t bytes) {
  return address % kPage == 0 && bytes % kPage == 0 && bytes != 0;
}

}  // namespace

FAKE cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  ENTER("cuMemGetAllocationGranularity");
  *bytes = kPage;
  return CUDA_SUCCESS;
}
FAKE cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  ENTER("cuMemAddressReserve");
  if (bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  // A page more, of which the begin and the end go again.
  void* const all = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<CUdeviceptr>(all);
  *address = (begin + kPage - 1) / kPage * kPage;
  if (*address != begin) munmap(all, *address - begin);
  munmap(host(*address + bytes), begin + kPage - *address);
  const std::lock_guard lock(fake().mutex);
  fake().reserved[*address] = bytes;
  return CUDA_SUCCESS;
}
FAKE cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const CUresult result = fake().enter("cuMemAddressFree");
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().reserved.find(address);
  if (found == fake().reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  fake().reserved.erase(found);
  munmap(host(address), bytes);
  return result;
}
FAKE cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* memory,
                 unsigned long long) {
  ENTER("cuMemCreate");
  const std::lock_guard lock(fake().mutex);
  if (bytes % kPage != 0 || memory->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      memory->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (fake().used_bytes + static_cast<std::int64_t>(bytes) > fake().memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  static CUmemGenericAllocationHandle last = 0;
  *handle = ++last;
  fake().pages[*handle] = bytes;
  fake().used_bytes += static_cast<std::int64_t>(bytes);
  return CUDA_SUCCESS;
}
// Memory that is mapped goes when it is no more.
FAKE cuMemRelease(CUmemGenericAllocationHandle handle) {
  const CUresult result = fake().enter("cuMemRelease");
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().pages.find(handle);
  if (found == fake().pages.end()) return CUDA_ERROR_INVALID_VALUE;
  fake().used_bytes -= static_cast<std::int64_t>(found->second);
  fake().pages.erase(found);
  return result;
}
FAKE cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset_bytes, CUmemGenericAllocationHandle handle,
              unsigned long long) {
  ENTER("cuMemMap");
  const std::lock_guard lock(fake().mutex);
  const auto memory = fake().pages.find(handle);
  if (!is_whole(address, bytes) || offset_bytes != 0 || memory == fake().pages.end() || memory->second != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [at, size] : fake().mapped)
    if (at < address + bytes && address < at + size) return CUDA_ERROR_INVALID_VALUE;
  fake().mapped[address] = bytes;
  fake().used_bytes += static_cast<std::int64_t>(bytes);
  return CUDA_SUCCESS;
}
FAKE cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  ENTER("cuMemSetAccess");
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().mapped.find(address);
  if (found == fake().mapped.end() || found->second != bytes || count != 1 ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  return mprotect(host(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FAKE cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  const CUresult result = fake().enter("cuMemUnmap");
  fake().settle_if_lost();
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().mapped.find(address);
  if (found == fake().mapped.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  fake().mapped.erase(found);
  fake().used_bytes -= static_cast<std::int64_t>(bytes);
  mmap(host(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return result;
}

}  // namespace pergola::device::cuda
