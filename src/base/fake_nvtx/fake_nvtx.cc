// For tests: an NVTX tool (InitializeInjectionNvtx2) and NVTX 2's library in one, which writes down what it is told.
// The interface is declared again here, not taken from nvtx.cc, so that a mistake there shows.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

std::mutex mutex;
std::string log_text;  // guarded by mutex

void note(const std::string& what) {
  const std::lock_guard lock(mutex);
  log_text += what + ";";
}

using Function = void (*)();
struct Callbacks {
  std::size_t struct_size;
  int (*GetModuleFunctionTable)(int module, Function*** out_table, unsigned* out_size);
};

}  // namespace

FAKE int nvtxRangePushA(const char* message) {
  note(std::string("+") + message);
  return 0;
}
FAKE int nvtxRangePop() {
  note("-");
  return 0;
}
// What has been told since the last call, "+name;" a push and "-;" a pop. Stands until the next call.
FAKE const char* fake_nvtx_log() {
  static std::string taken;
  const std::lock_guard lock(mutex);
  taken.swap(log_text);
  log_text.clear();
  return taken.c_str();
}
FAKE int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(1));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(Callbacks)) return 0;
  for (int module = 1; module <= 6; ++module) {  // a tool looks at all of them
    Function** table = nullptr;
    unsigned size = 0;
    if (callbacks->GetModuleFunctionTable(module, &table, &size) == 0 || table == nullptr || size < 7) return 0;
    for (unsigned i = 1; i < size; ++i)
      if (table[i] == nullptr || *table[i] != nullptr) return 0;
    if (module == 1) {
      if (size != 16) return 0;
      *table[9] = reinterpret_cast<Function>(nvtxRangePushA);
      *table[11] = reinterpret_cast<Function>(nvtxRangePop);
    }
  }
  return callbacks->GetModuleFunctionTable(0, nullptr, nullptr) == 0 ? 1 : 0;
}
