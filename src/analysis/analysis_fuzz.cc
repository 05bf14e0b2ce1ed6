// Any text that the parser and the verifier accept must be analysed without a crash, a hang or a check of our own.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/analysis/cfg.h"
#include "src/analysis/liveness.h"
#include "src/analysis/pointer_modes.h"
#include "src/analysis/resources.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergola;
  const auto module = ptx::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!module.ok() || !ptx::verify(*module).ok()) return 0;
  for (const ptx::Function* function : module->functions()) {
    const auto cfg = analysis::build_cfg(*function);
    if (cfg.ok()) (void)analysis::compute_liveness(*function, *cfg);
  }
  for (const ptx::Function* entry : module->entries()) {
    (void)analysis::pointer_modes(*module, *entry);
    (void)analysis::resources(*module, *entry);
  }
  return 0;
}
