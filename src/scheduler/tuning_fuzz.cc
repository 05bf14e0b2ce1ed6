// Any bytes: Tuning::parse() never crashes, and what it accepts survives printing, reading and merging.
#include "src/base/check.h"
#include "src/scheduler/tuning.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using pergola::scheduler::Tuning;
  auto tuning = Tuning::parse({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!tuning.ok()) return 0;
  PERGOLA_CHECK(!tuning->table().empty());
  const auto again = Tuning::parse(tuning->print(), "again.json");
  PERGOLA_CHECK(again.ok());
  tuning->merge(*again);
  PERGOLA_CHECK(Tuning::parse(tuning->print(), "merged.json").ok());
  return 0;
}
