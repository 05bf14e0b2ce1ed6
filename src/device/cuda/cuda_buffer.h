// GPU memory, ours or another library's, managed memory, and page-locked host memory that the GPU addresses.
//
// Device memory of ours lies in the context's arena, where it has one (device_arena.h), small host memory in its slabs
// (host_slabs.h).
//
// Dropping the last handle calls cuMemFree or cuMemFreeHost, or waits for the context and unmaps pages of the arena: all
// wait for every kernel that is resident on the GPU. Work that never ends (the resident executor) must therefore own pools that were made before it started.
// cuMemAlloc, cuMemHostAlloc and mapping pages do not wait.
#pragma once

#include "src/device/cuda/context.h"
#include "src/device/known_memory.h"

namespace pergola::device::cuda {

class CudaBuffer final : public Buffer {
 public:
  // In the context's arena or slabs, where that has any and `packed`.
  static Result<std::shared_ptr<CudaBuffer>> create(ContextPtr context, std::size_t size_bytes, MemoryKind kind,
                                                    bool packed = true);
  // kManaged; where access is restricted, visible to the host at first.
  static Result<std::shared_ptr<CudaBuffer>> create_managed(ContextPtr context, std::size_t size_bytes,
                                                            ManagedAccess access);
  // Device memory that another library allocated, and frees once the owner is dropped.
  static std::shared_ptr<CudaBuffer> adopt(ContextPtr context, const ForeignMemory& memory);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  DeviceAddress address() const override { return address_; }
  std::size_t size_bytes() const override { return size_bytes_; }
  MemoryKind kind() const override { return kind_; }
  std::byte* host_pointer() const override { return host_; }
  const void* piece() const override { return piece_ != nullptr ? piece_ : this; }
  const Context* context() const { return context_.get(); }

 private:
  static Result<std::shared_ptr<CudaBuffer>> create_on_host(ContextPtr context, std::size_t size_bytes, bool packed);
  CudaBuffer(ContextPtr context, CUdeviceptr address, std::byte* host, std::size_t size_bytes, MemoryKind kind,
             const void* piece = nullptr)
      : context_(std::move(context)),
        address_(address),
        host_(host),
        size_bytes_(size_bytes),
        kind_(kind),
        piece_(piece) {
    KnownMemory::instance().add(address_, size_bytes_);
  }

  const ContextPtr context_;
  const CUdeviceptr address_;
  std::byte* const host_;
  const std::size_t size_bytes_;
  const MemoryKind kind_;
  const void* const piece_;  // the arena or slab that it lies in; null: it is the driver's own
  std::shared_ptr<void> owner_;  // of memory that is not ours; set before the buffer is shared
};

}  // namespace pergola::device::cuda
