// Where tests find the files of the checkout: $PERGOLA_SOURCE_DIR where it is set (a bundle on another machine), else
// the folder they were built from. PERGOLA_SOURCE_DIR is also a macro that CMake defines for every test program.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace pergola::test_support {

inline std::filesystem::path source_path(std::string_view relative) {
  const char* folder = std::getenv("PERGOLA_SOURCE_DIR");
  return std::filesystem::path(folder != nullptr ? folder : PERGOLA_SOURCE_DIR) / relative;
}

}  // namespace pergola::test_support
