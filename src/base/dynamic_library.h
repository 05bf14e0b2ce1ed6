// A shared library opened at run time: how CUDA, NVRTC and our LLVM module are reached without being required.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"

namespace pergola {

// Move-only; closes the library when destroyed unless leak() was called. Thread-compatible.
class DynamicLibrary {
 public:
  // Opens the first of `names` (paths or sonames) that loads. kNotFound quotes what each attempt said.
  static Result<DynamicLibrary> open(const std::vector<std::string>& names);

  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  ~DynamicLibrary();

  void* symbol(const char* name) const;  // null where absent
  template <typename F>
  F function(const char* name) const {
    return reinterpret_cast<F>(symbol(name));
  }
  const std::string& path() const { return path_; }  // the file that was loaded
  void leak() { handle_ = nullptr; }                 // never dlclose: for libraries with threads of their own

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace pergola
