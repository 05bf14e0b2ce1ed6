// PTX -> cubin, by the driver's compiler, remembered on disk.
//
//   PTX ── exact rounding ──▶ key ──▶ cached? ──yes──▶ cubin
//                                        └──no──▶ cuLink ──▶ cubin ──▶ cache
//
// Without a cache the driver compiles and loads at once (and keeps a cache of its own); its linker, which alone gives
// a cubin, is not asked then: docs/driver-faults.md knows of kernels on which it crashes.
// The key is everything the cubin depends on: the text, the GPU's architecture, the driver's version, the options.
// A cubin that the driver refuses (made by a driver that told the same version) is made anew: nothing here trusts the
// cache. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "src/base/disk_cache.h"
#include "src/device/cuda/context.h"

namespace pergola::device::cuda {

struct JitTarget {
  std::uint32_t compute_major = 0, compute_minor = 0;
  bool exact_rounding = true;  // exact_rounding.h
  unsigned optimization_level = 4;  // of the driver's compiler, 0 to 4
};

class Jit {
 public:
  Jit(ContextPtr context, JitTarget target, DiskCache* cache)
      : context_(std::move(context)), target_(target), cache_(cache) {}

  // Compiles and loads; the caller owns the module. The context must be current. kCompileError has the compiler's log,
  // with `name` in place of a file. Loading waits for all kernels that are resident on the GPU.
  Result<CUmodule> load(std::string_view ptx, std::string_view name) const;

 private:
  Result<std::string> compile(const std::string& ptx, std::string_view name) const;
  Error compile_failed(CUresult result, std::string_view name, std::string_view log) const;

  const ContextPtr context_;
  const JitTarget target_;
  DiskCache* const cache_;  // null: none
};

}  // namespace pergola::device::cuda
