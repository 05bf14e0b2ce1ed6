// Memory of the device in which arrays lie one behind the other, whatever their sizes. The driver gives memory in pages
// (2 MiB on all GPUs so far), and of cuMemAlloc() each block of a megabyte and more has pages of its own: of twenty
// arrays of 4.8 MiB a fifth is nobody's. Here the driver reserves addresses alone, and a page has memory from the first
// block in it to the last (CUDA's virtual memory management; arena_places.h has the arithmetic).
//
// Thread-safe. Freeing waits for all work in the context, as cuMemFree() does: cuMemUnmap() waits for none, and others
// than the session may still use the memory (another library's stream, or work that outlasts what is waited for it).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "src/device/cuda/arena_places.h"
#include "src/device/cuda/driver.h"

namespace pergola::device::cuda {

class DeviceArena {
 public:
  // In the current context, that of `device`. Null where the driver or the GPU has no such memory, or gives none.
  static std::shared_ptr<DeviceArena> create(const std::shared_ptr<const Driver>& driver, CUdevice device);
  ~DeviceArena();  // all blocks have gone, or the device is lost
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // As cuMemAlloc() and cuMemFree(), which they are where the addresses do not suffice. free() frees what that gave,
  // too, and is called in the context.
  CUresult allocate(CUdeviceptr* address, std::size_t bytes);
  void free(CUdeviceptr address);
  bool owns(CUdeviceptr address) const { return address >= base_ && address < base_ + bytes_; }

 private:
  DeviceArena(std::shared_ptr<const Driver> driver, const CUmemAllocationProp& memory, std::size_t page_bytes,
              CUdeviceptr base, std::size_t bytes);
  bool can_map();
  CUresult map(const ArenaPlaces::Pages& pages) const;
  void unmap(const ArenaPlaces::Pages& pages) const;

  const std::shared_ptr<const Driver> driver_;
  CUmemAllocationProp memory_;  // as the first page could be had
  const std::size_t page_bytes_;
  const CUdeviceptr base_;
  const std::size_t bytes_;
  std::mutex mutex_;  // guards the next, and is held while pages come and go
  ArenaPlaces places_;
};

}  // namespace pergola::device::cuda
