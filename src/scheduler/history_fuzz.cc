// Any bytes: History::parse() never crashes, and what it accepts survives printing, reading and merging.
#include "src/base/check.h"
#include "src/scheduler/history.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using pergola::scheduler::History;
  auto history = History::parse({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!history.ok()) return 0;
  PERGOLA_CHECK(!history->table().empty());
  const auto again = History::parse(history->print(), "again.json");
  PERGOLA_CHECK(again.ok());
  history->merge(*again);
  PERGOLA_CHECK(History::parse(history->print(), "merged.json").ok());
  return 0;
}
