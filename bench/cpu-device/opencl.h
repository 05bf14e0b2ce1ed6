// As much of OpenCL as bench/cpu-device needs, found at run time (libOpenCL.so.1), so that nothing links to it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cpu_device {

// The first CPU device of any platform, its program, and its kernels. Throws std::runtime_error with OpenCL's number.
class OpenCl {
 public:
  // Null where there is no OpenCL or no CPU device in it; `why` says what is missing.
  static std::unique_ptr<OpenCl> open(std::string& why);
  ~OpenCl();

  struct Argument {
    const void* data;
    std::size_t bytes;
  };
  using Buffer = void*;
  using Kernel = void*;

  const std::string& name() const { return name_; }
  void build(const std::string& source, const std::string& options);
  Kernel kernel(const char* name);  // lives as long as this
  Buffer buffer(std::size_t bytes, const void* contents);
  void write(Buffer to, const void* from, std::size_t bytes);
  void read(Buffer from, void* to, std::size_t bytes);
  // Queues, and waits for, one launch.
  void run(Kernel kernel, const std::vector<Argument>& arguments, std::vector<std::size_t> global, std::vector<std::size_t> local);

 private:
  struct Api;
  OpenCl() = default;
  std::unique_ptr<Api> api_;
  void *device_ = nullptr, *context_ = nullptr, *queue_ = nullptr, *program_ = nullptr;
  std::vector<void*> buffers_, kernels_;
  std::string name_;
};

}  // namespace cpu_device
