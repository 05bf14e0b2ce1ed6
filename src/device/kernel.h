// Loaded modules and their kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/types.h"
#include "src/ptx/signature.h"

namespace pergola::device {

struct KernelResources {
  std::uint32_t registers_per_thread = 0;    // 0 where the device has no notion of it
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint32_t max_threads_per_block = 0;
};

// A kernel of a loaded module; owned by it. Immutable, thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const ptx::KernelSignature& signature() const = 0;
  virtual KernelResources resources() const = 0;
  // Blocks of this shape that one SM can hold at once.
  virtual Result<std::uint32_t> max_resident_blocks_per_sm(std::uint32_t threads,
                                                           std::uint32_t dynamic_shared_bytes) const = 0;
};

// A module's code and its instance of the module-scope variables. Thread-safe. Work in flight keeps it alive.
class Module {
 public:
  virtual ~Module() = default;
  virtual Result<const Kernel*> kernel(std::string_view name) const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  struct Global {
    DeviceAddress address = 0;
    std::size_t size_bytes = 0;
  };
  virtual Result<Global> global(std::string_view name) const = 0;
};

using ModulePtr = std::shared_ptr<Module>;

}  // namespace pergola::device
