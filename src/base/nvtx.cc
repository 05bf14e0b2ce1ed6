#include "src/base/nvtx.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "src/base/dynamic_library.h"
#include "src/base/environment.h"
#include "src/base/log.h"

namespace pergola::nvtx {
namespace {

// The binary interface between a program and a tool (nvtx3/nvtxDetail/nvtxTypes.h). The tool asks for a table of the
// program's function pointers by module, and writes its own functions into those that it wants.
using Function = void (*)();
enum Module : int { kCore = 1, kModules = 7 };
enum CoreFunction : int { kRangePushA = 9, kRangePop = 11 };
constexpr std::array<unsigned, kModules> kFunctions = {0, 16, 9, 15, 7, 16, 7};  // of each module, with an unused first
constexpr unsigned kMostFunctions = 16;
enum ExportTable : std::uint32_t { kCallbacks = 1, kVersionInfo = 3 };

struct Slots {
  std::array<Function, kMostFunctions> functions{};       // what the tool writes
  std::array<Function*, kMostFunctions + 1> addresses{};  // where
};

std::array<Slots, kModules>& slots() {
  static auto* const all = new std::array<Slots, kModules>;  // the tool may write at any time
  return *all;
}

int module_functions(int module, Function*** table, unsigned* size) {
  if (module < kCore || module >= kModules) return 0;
  Slots& mine = slots()[static_cast<std::size_t>(module)];
  const unsigned count = kFunctions[static_cast<std::size_t>(module)];
  for (unsigned i = 1; i < count; ++i) mine.addresses[i] = &mine.functions[i];
  if (table != nullptr) *table = mine.addresses.data();
  if (size != nullptr) *size = count;
  return 1;
}

const void* export_table(std::uint32_t id) {
  struct Callbacks {
    std::size_t struct_size = sizeof(Callbacks);
    int (*module_functions)(int module, Function*** table, unsigned* size) = nvtx::module_functions;
  };
  struct VersionInfo {
    std::size_t struct_size = sizeof(VersionInfo);
    std::uint32_t version = 3, reserved = 0;
    void (*set_tool_version)(std::uint32_t) = [](std::uint32_t) {};
  };
  static const Callbacks callbacks;
  static const VersionInfo version_info;
  if (id == kCallbacks) return &callbacks;
  return id == kVersionInfo ? &version_info : nullptr;
}

using Initialize = int (*)(const void* (*)(std::uint32_t));

const Functions* find() {
  const auto asked = choice_setting("PERGOLA_NVTX", {"0", "1"});
  if (!asked.ok()) PERGOLA_WARN("{} It is taken as not set.", asked.message());
  const auto tool = setting("NVTX_INJECTION64_PATH");
  const bool wants = asked.ok() && *asked ? **asked == 1 : tool.has_value();
  if (!wants) return nullptr;
  const Result<Functions> found = tool ? from_tool(std::string(*tool)) : from_library();
  if (found.ok()) return new Functions(*found);
  PERGOLA_WARN("There are no NVTX ranges: {}{}", found.message(),
               tool ? "" : " Run the program under a tool (nsys profile), which sets NVTX_INJECTION64_PATH.");
  return nullptr;
}

}  // namespace

Result<Functions> from_tool(const std::string& path) {
  static std::atomic<bool> attached{false};  // relaxed: only one may go on
  PERGOLA_ASSIGN(DynamicLibrary library, DynamicLibrary::open({path}));
  const auto initialize = library.function<Initialize>("InitializeInjectionNvtx2");
  if (initialize == nullptr)
    return PERGOLA_ERROR(kNotFound, "'{}' is no NVTX tool: it has no InitializeInjectionNvtx2.", path);
  if (attached.exchange(true, std::memory_order_relaxed))
    return PERGOLA_ERROR(kFailedPrecondition, "The process has an NVTX tool already, and '{}' is another.", path);
  library.leak();  // it may have threads
  if (initialize(export_table) == 0) return PERGOLA_ERROR(kUnavailable, "The NVTX tool '{}' declines to attach.", path);
  const Slots& core = slots()[kCore];
  Functions functions;
  functions.push = reinterpret_cast<int (*)(const char*)>(core.functions[kRangePushA]);
  functions.pop = reinterpret_cast<int (*)()>(core.functions[kRangePop]);
  if (functions.push == nullptr || functions.pop == nullptr)
    return PERGOLA_ERROR(kUnavailable, "The NVTX tool '{}' takes no ranges.", path);
  return functions;
}

Result<Functions> from_library(const std::string& name) {
  PERGOLA_ASSIGN(DynamicLibrary library, DynamicLibrary::open({name}));
  Functions functions;
  functions.push = library.function<int (*)(const char*)>("nvtxRangePushA");
  functions.pop = library.function<int (*)()>("nvtxRangePop");
  if (functions.push == nullptr || functions.pop == nullptr)
    return PERGOLA_ERROR(kNotFound, "'{}' has no nvtxRangePushA and nvtxRangePop.", name);
  library.leak();
  return functions;
}

const Functions* functions() {
  static const Functions* const found = find();
  return found;
}

}  // namespace pergola::nvtx
