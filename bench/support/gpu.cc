#include "gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <new>
#include <stdexcept>

namespace bench {
namespace {

template <typename F>
void find(void* library, const char* name, F& out) {
  out = reinterpret_cast<F>(dlsym(library, name));
  if (out == nullptr) throw std::runtime_error(std::string("The driver has no ") + name + "; install a newer one.");
}

}  // namespace

void check(cuda::CUresult result, const char* doing) {
  if (result != cuda::CUDA_SUCCESS)
    throw std::runtime_error(std::string("The driver failed with ") + std::to_string(static_cast<int>(result)) +
                             " while " + doing + ".");
}

Gpu::Gpu(const std::string& ptx) {
  auto opened = cuda::Driver::open();
  if (!opened) throw std::runtime_error(opened.message());
  driver_ = *opened;
  void* library = dlopen(driver_->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  find(library, "cuLaunchKernel", launch_kernel);
  find(library, "cuStreamBeginCapture_v2", begin_capture);
  find(library, "cuStreamEndCapture", end_capture);
  find(library, "cuGraphUpload", upload_graph);
  find(library, "cuMemGetInfo_v2", memory_info_);
  find(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", active_blocks_);
  check(driver_->cuDeviceGet(&device_, 0), "finding the first GPU");
  check(driver_->cuDevicePrimaryCtxRetain(&context_, device_), "retaining the context");
  enter();
  check(driver_->cuLibraryLoadData(&library_, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading the kernels");
  check(driver_->cuLibraryGetModule(&module_, library_), "loading the kernels");
}

Gpu::~Gpu() {
  driver_->cuCtxSetCurrent(context_);
  driver_->cuLibraryUnload(library_);
  driver_->cuDevicePrimaryCtxRelease(device_);
}

cuda::CUfunction Gpu::function(const std::string& name) const {
  cuda::CUfunction function = nullptr;
  check(driver_->cuModuleGetFunction(&function, module_, name.c_str()), ("finding the kernel " + name).c_str());
  return function;
}

std::size_t Gpu::free_bytes() const {
  std::size_t free = 0, total = 0;
  check(memory_info_(&free, &total), "asking for free memory");
  return free;
}

int Gpu::multiprocessors() const {
  int count = 0;
  check(driver_->cuDeviceGetAttribute(&count, cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_),
        "asking for the count of multiprocessors");
  return count;
}

int Gpu::resident_warps(cuda::CUfunction kernel, int threads) const {
  int blocks = 0;
  check(active_blocks_(&blocks, kernel, threads, 0), "asking for a kernel's occupancy");
  return blocks * ((threads + 31) / 32);
}

int Gpu::most_warps() const {
  constexpr auto kMaxThreadsPerMultiprocessor = static_cast<cuda::CUdevice_attribute>(39);
  int threads = 0;
  check(driver_->cuDeviceGetAttribute(&threads, kMaxThreadsPerMultiprocessor, device_),
        "asking for the threads of a multiprocessor");
  return threads / 32;
}

HostMemory::~HostMemory() {
  if (gpu_ != nullptr) (*gpu_)->cuCtxSetCurrent(gpu_->context());
  for (void* block : blocks_) {
    if (gpu_ != nullptr)
      (*gpu_)->cuMemFreeHost(block);
    else
      std::free(block);
  }
}

void* HostMemory::take_bytes(std::size_t bytes) {
  void* block = nullptr;
  if (gpu_ != nullptr) {
    gpu_->enter();
    check((*gpu_)->cuMemHostAlloc(&block, bytes, 0), "allocating page-locked memory");
  } else if ((block = std::malloc(bytes)) == nullptr) {
    throw std::bad_alloc();
  }
  blocks_.push_back(block);
  return block;
}

}  // namespace bench
