// NVRTC, NVIDIA's run-time compiler, opened with dlopen: no header or library of CUDA is needed to build us.
//
// Searched in this order, the first that loads: $PERGOLA_NVRTC (a file or a folder; alone where set, and "none" turns
// NVRTC off), libnvrtc.so.13, .12, .11.2 by the dynamic linker, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, and the
// packages of pip (nvidia/cu13, nvidia/cuda_nvrtc) for the python3 on PATH.
#pragma once

#include <string>
#include <vector>

#include "src/base/dynamic_library.h"
#include "src/source/compiler.h"

namespace pergola::source {

// Thread-safe; once opened, the library stays for the life of the process.
class Nvrtc {
 public:
  // kUnavailable with each place tried. Reads the environment at each call; a library is opened once.
  static Result<const Nvrtc*> find();

  // The toolkit's folders for #include <cuda_fp16.h> and the like; empty where the library came without them.
  const std::vector<std::string>& include_dirs() const { return include_dirs_; }
  const std::string& version() const { return version_; }  // "NVRTC 13.0 (/path/libnvrtc.so.13)"

  Result<CompileOutput> compile(const SourceRequest& request) const;

 private:
  struct Functions;
  Nvrtc(DynamicLibrary library, const Functions& functions);
  static Result<const Nvrtc*> load(const std::vector<std::string>& names);

  DynamicLibrary library_;
  const Functions* functions_;
  std::string version_;
  std::vector<std::string> include_dirs_;
  std::vector<std::uint32_t> archs_;  // ascending
};

}  // namespace pergola::source
