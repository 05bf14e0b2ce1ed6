// clang as a CUDA compiler where there is no CUDA toolkit at all: a child process and our own small CUDA header.
//
// What differs from NVRTC: <cuda_fp16.h>, cooperative groups and CCCL are not there, and math functions (sinf, pow,
// ...) are declared, not inlined: they are for the CPU device, see include/pergola/device/math_functions.def.
// Searched: $PERGOLA_CLANG (a name or path; alone where set, "none" turns clang off), clang-19, clang-20, clang.
#pragma once

#include <string>

#include "src/source/compiler.h"

namespace pergola::source {

class Clang {
 public:
  // kUnavailable where none is found. Only looks for the file; does not run it.
  static Result<Clang> find();

  const std::string& path() const { return path_; }
  // Changes when the program does: path, size and time. For the cache's key, without running it.
  std::string identity() const;
  Result<std::string> version() const;  // "clang version 19.1.7 (/usr/bin/clang-19)"; runs it

  // kTimeout after two minutes.
  Result<CompileOutput> compile(const SourceRequest& request) const;

 private:
  explicit Clang(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace pergola::source
