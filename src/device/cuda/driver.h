// The CUDA driver's functions, found in libcuda.so.1 when the first device is asked for.
//
// Nothing here is linked: without a driver the library loads and works, and open() says what is missing.
#pragma once

#include <memory>
#include <string>

#include "src/base/dynamic_library.h"
#include "src/base/result.h"
#include "src/device/cuda/cuda_driver_types.h"

namespace pergola::device::cuda {

// Immutable once opened, thread-safe; never unloaded, since the driver keeps threads of its own.
class Driver {
 public:
  // Opens `library` (empty: libcuda.so.1), checks its version and initialises it. kUnavailable says what is wrong and
  // how to mend it. The library is opened once a process and name; failures are tried again.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library = {});

  int version() const { return version_; }               // 13000 for CUDA 13.0
  const std::string& path() const { return path_; }      // the file that was loaded
  std::string version_text() const;                      // "CUDA 13.0, driver 580.95.05"
  std::string describe(CUresult result) const;           // "CUDA_ERROR_X (700): an illegal ..."

#define PERGOLA_CUDA_SYMBOL(member, name, parameters) CUresult(*member) parameters = nullptr;
#define PERGOLA_CUDA_OPTIONAL(member, name, parameters) CUresult(*member) parameters = nullptr;
#include "src/device/cuda/driver_symbols.def"
#undef PERGOLA_CUDA_SYMBOL
#undef PERGOLA_CUDA_OPTIONAL

 private:
  Status bind(const DynamicLibrary& library);
  int version_ = 0;
  std::string path_;
};

// The oldest driver that has every function used here: CUDA 12.0.
inline constexpr int kOldestDriverVersion = 12000;

}  // namespace pergola::device::cuda
