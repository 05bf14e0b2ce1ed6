// Any bytes: parse_npy() never crashes, and what it accepts survives printing and reading again.
#include "src/base/check.h"
#include "tools/pergola/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = pergola::tool::parse_npy({reinterpret_cast<const char*>(data), size}, "fuzz.npy");
  if (!array.ok()) return 0;
  const auto again = pergola::tool::parse_npy(pergola::tool::print_npy(*array), "again.npy");
  PERGOLA_CHECK(again.ok());
  PERGOLA_CHECK(again->data == array->data && again->shape == array->shape);
  return 0;
}
