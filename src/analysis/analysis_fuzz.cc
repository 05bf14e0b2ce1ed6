// Any text that the parser and the verifier accept must be analysed without a crash, a hang or a check of our own.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/cfg.h"
#include "src/analysis/footprints.h"
#include "src/analysis/liveness.h"
#include "src/analysis/pointer_modes.h"
#include "src/analysis/resources.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"

namespace {

// Footprints of a launch whose 8-byte parameters are pointers and whose others are small numbers, related to
// themselves.
void relate(const pergola::ptx::Module& module, const pergola::ptx::Function& entry) {
  using namespace pergola;
  const auto signature = ptx::signature(module, entry);
  const auto kernel = analysis::KernelFootprints::of(module, entry);
  if (!signature.ok() || !kernel.ok() || signature->parameter_bytes > 4096) return;
  analysis::LaunchValues values{
      .grid = {3, 2, 1}, .block = {33, 2, 1}, .parameters = {}, .pointers = {}, .variables = {}};
  values.parameters.resize(signature->parameter_bytes, std::byte{5});
  for (const ptx::Parameter& parameter : signature->parameters) {
    if (parameter.size_bytes == 8)
      values.pointers.push_back({parameter.offset_bytes, parameter.offset_bytes / 16, 4, 4096});
  }
  const auto footprint = kernel->at(values);
  if (footprint.ok()) (void)analysis::block_dependencies(*footprint, *footprint);
}

}  // namespace

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
    relate(*module, *entry);
  }
  return 0;
}
