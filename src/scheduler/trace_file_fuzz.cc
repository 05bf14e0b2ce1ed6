// Any bytes: parse_trace() never crashes, and what it accepts can be measured, explained, printed and read again.
#include "src/base/check.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/metrics.h"
#include "src/scheduler/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergola::scheduler;  // NOLINT: a program
  const auto timeline = parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!timeline.ok()) return 0;
  const Overlap found = overlap(*timeline);
  PERGOLA_CHECK(found.ct >= 0 && found.tot >= 0 && found.span_ns >= 0);
  const auto unknown = [](const Slice&) { return std::optional<double>(); };
  PERGOLA_CHECK(critical_path(*timeline, unknown).length_ns >= 0);
  PERGOLA_CHECK(!explain(*timeline).empty());
  const auto again = parse_trace(print_trace(*timeline), "again.json");
  PERGOLA_CHECK(again.ok());
  PERGOLA_CHECK(again->graphs.regions.size() == timeline->graphs.regions.size());
  PERGOLA_CHECK(again->slices.size() == timeline->slices.size() && again->host.size() == timeline->host.size());
  PERGOLA_CHECK(again->tasks.size() == timeline->tasks.size());
  return 0;
}
