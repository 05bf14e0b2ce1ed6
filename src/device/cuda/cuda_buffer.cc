#include "src/device/cuda/cuda_buffer.h"

#include <algorithm>

namespace pergola::device::cuda {
Result<std::shared_ptr<CudaBuffer>> CudaBuffer::create(ContextPtr context, std::size_t size_bytes, MemoryKind kind,
                                                       bool packed) {
  PERGOLA_TRY(context->enter());
  context->free_kept();
  const Driver& driver = context->driver();
  const std::size_t bytes = std::max<std::size_t>(size_bytes, 1);  // the driver refuses 0
  const std::string doing = fmt::format("allocating {} bytes", size_bytes);
  CUdeviceptr address = 0;
  if (kind == MemoryKind::kDevice) {
    const auto take = [&] {
      DeviceArena* const arena = packed ? context->arena().get() : nullptr;
      return arena != nullptr ? arena->allocate(&address, bytes) : driver.cuMemAlloc(&address, bytes);
    };
    PERGOLA_TRY(context->check(context->allocate(take), doing));
    const void* const piece =
        context->arena() != nullptr && context->arena()->owns(address) ? context->arena().get() : nullptr;
    return std::shared_ptr<CudaBuffer>(new CudaBuffer(std::move(context), address, nullptr, size_bytes, kind, piece));
  }
  return create_on_host(std::move(context), size_bytes, packed);
}

Result<std::shared_ptr<CudaBuffer>> CudaBuffer::create_on_host(ContextPtr context, std::size_t size_bytes,
                                                               bool packed) {
  const Driver& driver = context->driver();
  HostSlabs* const slabs = packed ? context->slabs().get() : nullptr;
  std::byte* host = nullptr;
  const auto take = [&] {
    constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    const std::size_t bytes = std::max<std::size_t>(size_bytes, 1);
    if (slabs != nullptr) return slabs->allocate(&host, bytes, kFlags);
    void* own = nullptr;
    const CUresult result = driver.cuMemHostAlloc(&own, bytes, kFlags);
    host = static_cast<std::byte*>(own);
    return result;
  };
  PERGOLA_TRY(context->check(context->allocate(take), "allocating {} bytes", size_bytes));
  CUdeviceptr address = 0;
  if (const CUresult result = driver.cuMemHostGetDevicePointer(&address, host, 0); result != CUDA_SUCCESS) {
    slabs != nullptr ? slabs->free(host) : static_cast<void>(driver.cuMemFreeHost(host));
    return context->check(result, "mapping host memory");
  }
  const Context* range_owner = context.get();
  const void* const piece = slabs != nullptr ? slabs->slab_of(host) : nullptr;
  std::shared_ptr<CudaBuffer> buffer(
      new CudaBuffer(std::move(context), address, host, size_bytes, MemoryKind::kHostVisible, piece));
  range_owner->add_host_range(buffer->host_, size_bytes, buffer);
  return buffer;
}

Result<std::shared_ptr<CudaBuffer>> CudaBuffer::create_managed(ContextPtr context, std::size_t size_bytes,
                                                               ManagedAccess access) {
  PERGOLA_TRY(context->enter());
  context->free_kept();
  CUdeviceptr address = 0;
  const unsigned flags = access == ManagedAccess::kConcurrent ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_HOST;
  const auto managed = [&] {
    return context->driver().cuMemAllocManaged(&address, std::max<std::size_t>(size_bytes, 1), flags);
  };
  PERGOLA_TRY(context->check(context->allocate(managed), "allocating {} bytes of managed memory", size_bytes));
  auto* host = reinterpret_cast<std::byte*>(address);
  return std::shared_ptr<CudaBuffer>(
      new CudaBuffer(std::move(context), address, host, size_bytes, MemoryKind::kManaged));
}

std::shared_ptr<CudaBuffer> CudaBuffer::adopt(ContextPtr context, const ForeignMemory& memory) {
  std::shared_ptr<CudaBuffer> buffer(
      new CudaBuffer(std::move(context), memory.address, nullptr, memory.size_bytes, MemoryKind::kDevice));
  buffer->owner_ = memory.owner;
  return buffer;
}

CudaBuffer::~CudaBuffer() {
  KnownMemory::instance().remove(address_, size_bytes_);
  if (owner_ != nullptr) {
    context_->let_go(std::move(owner_));
    return;
  }
  const std::shared_ptr<const Driver>& driver = context_->shared_driver();
  if (kind_ == MemoryKind::kHostVisible) {
    context_->remove_host_range(host_);
    context_->free([driver, slabs = context_->slabs(), host = host_] {
      slabs != nullptr ? slabs->free(host) : static_cast<void>(driver->cuMemFreeHost(host));
    });
  } else if (kind_ == MemoryKind::kDevice && context_->arena() != nullptr) {
    context_->free([arena = context_->arena(), address = address_] { arena->free(address); });
  } else {
    context_->free([driver, address = address_] { driver->cuMemFree(address); });
  }
}

}  // namespace pergola::device::cuda
