#include "src/base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include <utility>

namespace pergola {

Result<DynamicLibrary> DynamicLibrary::open(const std::vector<std::string>& names) {
  std::string attempts;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      link_map* map = nullptr;
      const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
      return DynamicLibrary(handle, known ? map->l_name : name);
    }
    const char* why = dlerror();
    attempts += fmt::format("{}{}", attempts.empty() ? "" : "; ", why != nullptr ? why : name);
  }
  return PERGOLA_ERROR(kNotFound, "No shared library could be opened: {}.", attempts);
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

}  // namespace pergola
