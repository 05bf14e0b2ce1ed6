// The two functions by which jit_loader.cc finds the engine in libpergola_cpu_jit.so.
#include "src/base/log.h"
#include "src/device/cpu/jit/engine.h"
#include "src/device/cpu/jit_loader.h"

#define PERGOLA_EXPORT extern "C" __attribute__((visibility("default")))

PERGOLA_EXPORT int pergola_cpu_jit_abi();
PERGOLA_EXPORT pergola::device::cpu::Engine* pergola_create_jit_engine(int vector);

int pergola_cpu_jit_abi() { return pergola::device::cpu::kJitAbiVersion; }

// Null where LLVM cannot compile for this host; the log says why.
pergola::device::cpu::Engine* pergola_create_jit_engine(int vector) {
  auto engine = pergola::device::cpu::jit::create_engine(static_cast<pergola::device::cpu::VectorUse>(vector));
  if (engine.ok()) return std::move(engine).value().release();
  PERGOLA_WARN("{}", engine.message());
  return nullptr;
}
