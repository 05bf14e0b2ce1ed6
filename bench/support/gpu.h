// What hand-written forms ask of the driver: the library's table of its functions and the few more that they need.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/cuda/driver.h"

namespace bench {

namespace cuda = pergola::device::cuda;

// Throws std::runtime_error that says what was being done.
void check(cuda::CUresult result, const char* doing);

// Of a launch's or node's `extra`, for parameters in one piece: {kParameterBuffer, it, kParameterBufferSize, &size,
// nullptr}.
inline void* const kParameterBuffer = reinterpret_cast<void*>(1);
inline void* const kParameterBufferSize = reinterpret_cast<void*>(2);

// The first GPU's primary context and a module of PTX. Used by one thread.
class Gpu {
 public:
  // Throws std::runtime_error without a driver.
  explicit Gpu(const std::string& ptx);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Makes the context current, as the constructor does: the end of a session leaves its thread without one.
  void enter() const { check(driver_->cuCtxSetCurrent(context_), "entering the context"); }
  const cuda::Driver* operator->() const { return driver_.get(); }
  cuda::CUcontext context() const { return context_; }
  cuda::CUfunction function(const std::string& name) const;
  std::size_t free_bytes() const;
  int multiprocessors() const;
  // Of one multiprocessor, that a kernel's blocks of so many threads fill at once; and that it holds at most.
  int resident_warps(cuda::CUfunction kernel, int threads) const;
  int most_warps() const;

  cuda::CUresult (*launch_kernel)(cuda::CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  unsigned, cuda::CUstream, void**, void**) = nullptr;
  cuda::CUresult (*begin_capture)(cuda::CUstream, int mode) = nullptr;
  cuda::CUresult (*end_capture)(cuda::CUstream, cuda::CUgraph*) = nullptr;
  cuda::CUresult (*upload_graph)(cuda::CUgraphExec, cuda::CUstream) = nullptr;

 private:
  std::shared_ptr<const cuda::Driver> driver_;
  cuda::CUresult (*active_blocks_)(int*, cuda::CUfunction, int threads, std::size_t dynamic_shared_bytes) = nullptr;
  cuda::CUresult (*memory_info_)(std::size_t* free, std::size_t* total) = nullptr;
  cuda::CUdevice device_ = 0;
  cuda::CUcontext context_ = nullptr;
  cuda::CUlibrary library_ = nullptr;
  cuda::CUmodule module_ = nullptr;  // of library_
};

// Page-locked, so that copies run beside the host, unless made without a GPU; not initialised. Freed with the object.
class HostMemory {
 public:
  explicit HostMemory(const Gpu* gpu) : gpu_(gpu) {}
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  template <typename T>
  std::span<T> take(std::size_t count) {
    return {static_cast<T*>(take_bytes(count * sizeof(T))), count};
  }

 private:
  void* take_bytes(std::size_t bytes);

  const Gpu* gpu_;
  std::vector<void*> blocks_;
};

}  // namespace bench
