#include "src/device/cuda/device_arena.h"

#include <optional>
#include <utility>

#include "src/base/log.h"

namespace pergola::device::cuda {
namespace {

bool has_functions(const Driver& driver) {
  return driver.cuCtxSynchronize != nullptr && driver.cuMemAddressReserve != nullptr &&
         driver.cuMemAddressFree != nullptr && driver.cuMemCreate != nullptr && driver.cuMemRelease != nullptr &&
         driver.cuMemMap != nullptr && driver.cuMemUnmap != nullptr && driver.cuMemSetAccess != nullptr &&
         driver.cuMemGetAllocationGranularity != nullptr;
}

bool has(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

std::shared_ptr<DeviceArena> DeviceArena::create(const std::shared_ptr<const Driver>& driver, CUdevice device) {
  if (!has_functions(*driver) || !has(*driver, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
    return nullptr;
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  std::size_t page = 0, all = 0;
  CUdeviceptr base = 0;
  // Twice as many addresses as there is memory: holes between blocks take addresses alone.
  if (driver->cuMemGetAllocationGranularity(&page, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
      page == 0 || driver->cuDeviceTotalMem(&all, device) != CUDA_SUCCESS ||
      driver->cuMemAddressReserve(&base, all = (2 * all + page - 1) / page * page, 0, 0, 0) != CUDA_SUCCESS) {
    PERGOLA_DEBUG("arrays have pages of their own: the driver reserves no addresses for them");
    return nullptr;
  }
  // As memory of cuMemAlloc() network adapters may be given it, where that is allowed.
  memory.allocFlags.gpuDirectRDMACapable =
      has(*driver, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) ? 1 : 0;
  std::shared_ptr<DeviceArena> arena(new DeviceArena(driver, memory, page, base, all));
  if (arena->can_map()) return arena;
  PERGOLA_DEBUG("arrays have pages of their own: the driver gives no memory for addresses");
  return nullptr;
}

// Tries it by a page that goes again; without what network adapters need, where it is refused with that.
bool DeviceArena::can_map() {
  const ArenaPlaces::Pages first{0, 1};
  CUresult result = map(first);
  if (result != CUDA_SUCCESS && std::exchange(memory_.allocFlags.gpuDirectRDMACapable, 0) != 0) result = map(first);
  if (result == CUDA_SUCCESS) unmap(first);
  return result == CUDA_SUCCESS;
}

DeviceArena::DeviceArena(std::shared_ptr<const Driver> driver, const CUmemAllocationProp& memory,
                         std::size_t page_bytes, CUdeviceptr base, std::size_t bytes)
    : driver_(std::move(driver)),
      memory_(memory),
      page_bytes_(page_bytes),
      base_(base),
      bytes_(bytes),
      places_(page_bytes, bytes / page_bytes) {}

DeviceArena::~DeviceArena() {
  driver_->cuMemAddressFree(base_, bytes_);
}

CUresult DeviceArena::allocate(CUdeviceptr* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::optional<ArenaPlaces::Place> place = places_.take(bytes);
  if (!place) return driver_->cuMemAlloc(address, bytes);
  for (std::size_t n = 0; n < place->missing.size(); ++n) {
    if (place->missing[n].count == 0) continue;
    const CUresult result = map(place->missing[n]);
    if (result == CUDA_SUCCESS) continue;
    for (std::size_t mapped = 0; mapped < n; ++mapped)
      if (place->missing[mapped].count != 0) unmap(place->missing[mapped]);
    places_.give(place->offset_bytes);
    return result;
  }
  *address = base_ + place->offset_bytes;
  return CUDA_SUCCESS;
}

void DeviceArena::free(CUdeviceptr address) {
  if (!owns(address)) {
    driver_->cuMemFree(address);
    return;
  }
  driver_->cuCtxSynchronize();
  const std::lock_guard lock(mutex_);
  for (const ArenaPlaces::Pages& pages : places_.give(address - base_)) unmap(pages);
}

// The memory is the mapping's: its handle need not be kept.
CUresult DeviceArena::map(const ArenaPlaces::Pages& pages) const {
  const CUdeviceptr at = base_ + pages.first * page_bytes_;
  const std::size_t bytes = pages.count * page_bytes_;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver_->cuMemCreate(&handle, bytes, &memory_, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver_->cuMemMap(at, bytes, 0, handle, 0);
  driver_->cuMemRelease(handle);
  if (result != CUDA_SUCCESS) return result;
  const CUmemAccessDesc access{memory_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver_->cuMemSetAccess(at, bytes, &access, 1);
  if (result != CUDA_SUCCESS) driver_->cuMemUnmap(at, bytes);
  return result;
}

void DeviceArena::unmap(const ArenaPlaces::Pages& pages) const {
  driver_->cuMemUnmap(base_ + pages.first * page_bytes_, pages.count * page_bytes_);
}

}  // namespace pergola::device::cuda
