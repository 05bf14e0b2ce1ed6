#include "src/device/cpu/jit_loader.h"

#include <dlfcn.h>

#include <filesystem>

#include "src/base/dynamic_library.h"
#include "src/base/environment.h"

namespace pergola::device::cpu {
namespace {

constexpr const char* kLibraryName = "libpergola_cpu_jit.so";

// The folder of the executable or library that this code was linked into; empty where it is unknown.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  // An executable started by a bare name is known by that name alone: the system knows the path.
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  if (error) file = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : file.parent_path();
}

}  // namespace

std::vector<std::string> jit_library_candidates() {
  if (const auto path = setting("PERGOLA_CPU_JIT")) return {std::string(*path)};
  std::vector<std::string> out;
  if (const std::filesystem::path folder = own_folder(); !folder.empty()) {
    out.push_back((folder / kLibraryName).string());
    out.push_back((folder.parent_path() / "lib" / kLibraryName).string());
  }
  out.emplace_back(kLibraryName);
  return out;
}

Result<std::shared_ptr<Engine>> load_jit_engine(VectorUse vector) {
  Result<DynamicLibrary> opened = DynamicLibrary::open(jit_library_candidates());
  if (!opened.ok()) {
    return PERGOLA_ERROR(kUnavailable, "The CPU device's JIT is not there ({}) Build it with LLVM 19, or set PERGOLA_CPU_JIT "
                         "to its file; the interpreter needs neither.", opened.message());
  }
  DynamicLibrary library = std::move(opened).value();
  const std::string path = library.path();
  const auto abi = library.function<int (*)()>("pergola_cpu_jit_abi");
  const auto create = library.function<Engine* (*)(int)>("pergola_create_jit_engine");
  if (abi == nullptr || create == nullptr) {
    return PERGOLA_ERROR(kUnavailable, "'{}' is no JIT of Pergola: it has no '{}'.", path,
                         abi == nullptr ? "pergola_cpu_jit_abi" : "pergola_create_jit_engine");
  }
  if (const int version = abi(); version != kJitAbiVersion) {
    return PERGOLA_ERROR(kUnavailable, "'{}' is of another build of Pergola: its interface is version {}, and {} is needed.",
                         path, version, kJitAbiVersion);
  }
  library.leak();  // LLVM keeps state and threads that outlive any one engine
  std::shared_ptr<Engine> engine(create(static_cast<int>(vector)));
  if (engine == nullptr) return PERGOLA_ERROR(kUnavailable, "The JIT in '{}' does not work on this processor.", path);
  return engine;
}

}  // namespace pergola::device::cpu
