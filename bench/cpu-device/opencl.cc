#include "opencl.h"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace cpu_device {

// The functions by their C types; OpenCL's handles are pointers, its flags 64-bit numbers, its errors 32-bit ones.
struct OpenCl::Api {
  using Error = std::int32_t;
  using Count = std::uint32_t;
  Error (*clGetPlatformIDs)(Count, void**, Count*);
  Error (*clGetDeviceIDs)(void*, std::uint64_t, Count, void**, Count*);
  Error (*clGetDeviceInfo)(void*, Count, std::size_t, void*, std::size_t*);
  void* (*clCreateContext)(const std::intptr_t*, Count, void* const*, void (*)(const char*, const void*, std::size_t, void*), void*, Error*);
  void* (*clCreateCommandQueue)(void*, void*, std::uint64_t, Error*);
  void* (*clCreateProgramWithSource)(void*, Count, const char**, const std::size_t*, Error*);
  Error (*clBuildProgram)(void*, Count, void* const*, const char*, void (*)(void*, void*), void*);
  Error (*clGetProgramBuildInfo)(void*, void*, Count, std::size_t, void*, std::size_t*);
  void* (*clCreateKernel)(void*, const char*, Error*);
  Error (*clSetKernelArg)(void*, Count, std::size_t, const void*);
  void* (*clCreateBuffer)(void*, std::uint64_t, std::size_t, void*, Error*);
  Error (*clEnqueueReadBuffer)(void*, void*, Count, std::size_t, std::size_t, void*, Count, void* const*, void**);
  Error (*clEnqueueWriteBuffer)(void*, void*, Count, std::size_t, std::size_t, const void*, Count, void* const*, void**);
  Error (*clEnqueueNDRangeKernel)(void*, void*, Count, const std::size_t*, const std::size_t*, const std::size_t*, Count, void* const*, void**);
  Error (*clFinish)(void*);
  Error (*clReleaseMemObject)(void*);
  Error (*clReleaseKernel)(void*);
};

namespace {

constexpr std::uint64_t kDeviceTypeCpu = 2, kReadWrite = 1, kCopyHostPointer = 32;
constexpr std::uint32_t kDeviceName = 0x102b, kDeviceVersion = 0x102f, kBuildLog = 0x1183;

void check(std::int32_t error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + " gives OpenCL error " + std::to_string(error));
}

template <typename F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("libOpenCL has no ") + name);
}

}  // namespace

std::unique_ptr<OpenCl> OpenCl::open(std::string& why) {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW);  // for the whole process
  if (library == nullptr) {
    why = "libOpenCL.so.1 is not installed";
    return nullptr;
  }
  std::unique_ptr<OpenCl> out(new OpenCl);
  out->api_ = std::make_unique<Api>();
  Api& api = *out->api_;
#define FIND(name) find(library, #name, api.name)
  FIND(clGetPlatformIDs), FIND(clGetDeviceIDs), FIND(clGetDeviceInfo), FIND(clCreateContext), FIND(clCreateCommandQueue);
  FIND(clCreateProgramWithSource), FIND(clBuildProgram), FIND(clGetProgramBuildInfo), FIND(clCreateKernel), FIND(clSetKernelArg);
  FIND(clCreateBuffer), FIND(clEnqueueReadBuffer), FIND(clEnqueueWriteBuffer), FIND(clEnqueueNDRangeKernel), FIND(clFinish);
  FIND(clReleaseMemObject), FIND(clReleaseKernel);
#undef FIND
  void* platforms[8] = {};
  std::uint32_t count = 0;
  if (api.clGetPlatformIDs(8, platforms, &count) != 0) count = 0;
  for (std::uint32_t n = 0; n < count && n < 8 && out->device_ == nullptr; ++n) {
    if (api.clGetDeviceIDs(platforms[n], kDeviceTypeCpu, 1, &out->device_, nullptr) != 0) out->device_ = nullptr;
  }
  if (out->device_ == nullptr) {
    why = "OpenCL has no CPU device here (Debian: apt-get install pocl-opencl-icd)";
    return nullptr;
  }
  char text[512] = {}, version[512] = {};
  api.clGetDeviceInfo(out->device_, kDeviceName, sizeof text, text, nullptr);
  api.clGetDeviceInfo(out->device_, kDeviceVersion, sizeof version, version, nullptr);
  out->name_ = std::string(version) + ", " + text;
  std::int32_t error = 0;
  out->context_ = api.clCreateContext(nullptr, 1, &out->device_, nullptr, nullptr, &error);
  check(error, "clCreateContext");
  out->queue_ = api.clCreateCommandQueue(out->context_, out->device_, 0, &error);
  check(error, "clCreateCommandQueue");
  return out;
}

OpenCl::~OpenCl() {
  for (void* kernel : kernels_) api_->clReleaseKernel(kernel);
  for (void* buffer : buffers_) api_->clReleaseMemObject(buffer);
}

void OpenCl::build(const std::string& source, const std::string& options) {
  const char* text = source.c_str();
  const std::size_t bytes = source.size();
  std::int32_t error = 0;
  program_ = api_->clCreateProgramWithSource(context_, 1, &text, &bytes, &error);
  check(error, "clCreateProgramWithSource");
  if (api_->clBuildProgram(program_, 1, &device_, options.c_str(), nullptr, nullptr) == 0) return;
  std::string log(64 * 1024, '\0');
  api_->clGetProgramBuildInfo(program_, device_, kBuildLog, log.size(), log.data(), nullptr);
  throw std::runtime_error("OpenCL cannot compile the kernels: " + log);
}

OpenCl::Kernel OpenCl::kernel(const char* name) {
  std::int32_t error = 0;
  kernels_.push_back(api_->clCreateKernel(program_, name, &error));
  check(error, "clCreateKernel");
  return kernels_.back();
}

OpenCl::Buffer OpenCl::buffer(std::size_t bytes, const void* contents) {
  std::int32_t error = 0;
  buffers_.push_back(api_->clCreateBuffer(context_, kReadWrite | (contents != nullptr ? kCopyHostPointer : 0), bytes,
                                          const_cast<void*>(contents), &error));
  check(error, "clCreateBuffer");
  return buffers_.back();
}

void OpenCl::write(Buffer to, const void* from, std::size_t bytes) {
  check(api_->clEnqueueWriteBuffer(queue_, to, 1, 0, bytes, from, 0, nullptr, nullptr), "clEnqueueWriteBuffer");
}
void OpenCl::read(Buffer from, void* to, std::size_t bytes) {
  check(api_->clEnqueueReadBuffer(queue_, from, 1, 0, bytes, to, 0, nullptr, nullptr), "clEnqueueReadBuffer");
}

void OpenCl::run(Kernel kernel, const std::vector<Argument>& arguments, std::vector<std::size_t> global,
                 std::vector<std::size_t> local) {
  for (std::uint32_t n = 0; n < arguments.size(); ++n) {
    check(api_->clSetKernelArg(kernel, n, arguments[n].bytes, arguments[n].data), "clSetKernelArg");
  }
  check(api_->clEnqueueNDRangeKernel(queue_, kernel, static_cast<std::uint32_t>(global.size()), nullptr, global.data(), local.data(), 0,
                                     nullptr, nullptr), "clEnqueueNDRangeKernel");
  check(api_->clFinish(queue_), "clFinish");
}

}  // namespace cpu_device
