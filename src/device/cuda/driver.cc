#include "src/device/cuda/driver.h"

#include <filesystem>
#include <map>
#include <mutex>

#include "src/base/file.h"

namespace pergola::device::cuda {
namespace {

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The kernel module's own version ("580.95.05"), which the driver API does not tell; empty where it is hidden.
std::string kernel_module_version() {
  Result<std::string> text = read_file("/sys/module/nvidia/version", 256);
  if (!text.ok()) return {};
  std::string version = std::move(text).value();
  while (!version.empty() && (version.back() == '\n' || version.back() == ' ')) version.pop_back();
  return version;
}

Error initialise_failed(const Driver& driver, CUresult result) {
  if (result == CUDA_ERROR_NO_DEVICE)
    return PERGOLA_ERROR(kUnavailable,
                         "The NVIDIA driver ({}, CUDA {}) finds no GPU; check nvidia-smi, CUDA_VISIBLE_DEVICES, and "
                         "that this container may use the GPU.",
                         driver.path(), cuda_version(driver.version()));
  if (result == CUDA_ERROR_STUB_LIBRARY)
    return PERGOLA_ERROR(kUnavailable,
                         "'{}' is the toolkit's stub, not a driver; install the NVIDIA driver or take the stubs "
                         "folder out of LD_LIBRARY_PATH.",
                         driver.path());
  return PERGOLA_ERROR(kUnavailable, "The NVIDIA driver {} cannot be initialised: {}.", driver.path(),
                       driver.describe(result));
}

}  // namespace

Status Driver::bind(const DynamicLibrary& library) {
  path_ = library.path();
  std::string missing;
#define PERGOLA_CUDA_SYMBOL(member, name, parameters) \
  member = library.function<decltype(member)>(name);  \
  if (member == nullptr) missing += missing.empty() ? name : ", " name;
#define PERGOLA_CUDA_OPTIONAL(member, name, parameters) member = library.function<decltype(member)>(name);
#include "src/device/cuda/driver_symbols.def"
#undef PERGOLA_CUDA_SYMBOL
#undef PERGOLA_CUDA_OPTIONAL
  const CUresult told = cuDriverGetVersion == nullptr ? CUDA_SUCCESS : cuDriverGetVersion(&version_);
  if (cuDriverGetVersion == nullptr || (told != CUDA_SUCCESS && !missing.empty()))
    return PERGOLA_ERROR(kUnavailable, "'{}' is no CUDA driver: it does not tell its version.", path_);
  if (told != CUDA_SUCCESS)
    return PERGOLA_ERROR(kUnavailable, "The CUDA driver '{}' does not tell its version: {}.", path_, describe(told));
  if (version_ < kOldestDriverVersion)
    return PERGOLA_ERROR(kUnavailable, "The NVIDIA driver {} is for CUDA {}, and {} is needed; install a newer driver.",
                         path_, cuda_version(version_), cuda_version(kOldestDriverVersion));
  if (!missing.empty())
    return PERGOLA_ERROR(kUnavailable, "The NVIDIA driver {} (CUDA {}) lacks {}; install a newer driver.", path_,
                         cuda_version(version_), missing);
  return {};
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  static std::mutex mutex;  // guards `opened`
  static std::map<std::string, std::shared_ptr<const Driver>> opened;
  const std::string name = library.empty() ? "libcuda.so.1" : library;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(name); found != opened.end()) return found->second;

  Result<DynamicLibrary> file = DynamicLibrary::open({name});
  if (!file.ok())
    return PERGOLA_ERROR(kUnavailable,
                         "No NVIDIA driver: {} cannot be opened. Install the NVIDIA driver to use the GPU; until then "
                         "PERGOLA_DEVICE=cpu works. ({})",
                         name, file.message());
  auto driver = std::make_shared<Driver>();
  PERGOLA_TRY(driver->bind(*file));
  file->leak();
  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS) return initialise_failed(*driver, result);
  opened[name] = driver;
  return std::shared_ptr<const Driver>(driver);
}

std::string Driver::version_text() const {
  const std::string module = kernel_module_version();
  return fmt::format("CUDA {}{}{}", cuda_version(version_), module.empty() ? "" : ", driver ", module);
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown CUDA error";
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no description";
  return fmt::format("{} ({}): {}", name, static_cast<int>(result), text);
}

}  // namespace pergola::device::cuda
