// Any text: parse_signature() answers or refuses; what it accepts prints, and reads back equal.
#include "src/base/check.h"
#include "src/session/signature.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergola::session;
  const auto signature = parse_signature({reinterpret_cast<const char*>(data), size});
  if (!signature.ok()) {
    PERGOLA_CHECK(signature.code() == pergola::Code::kParseError);
    return 0;
  }
  const auto again = parse_signature(to_string(*signature));
  PERGOLA_CHECK(again.ok());
  PERGOLA_CHECK(*again == *signature);
  return 0;
}
