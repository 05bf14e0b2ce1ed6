// For tests: what the files of recordings should have. Apart from those tests, as pergola.hpp and the library's own
// headers have names in common.
#pragma once

#include <cstdint>
#include <string>

namespace pergola_test::recording {

// The trace of the program in recording_test.cc.
void expect_the_run(const std::string& path);
// Its kernel was launched so often, in one size, on one device.
void expect_history(const std::string& path, std::uint64_t launches);
std::string text_of(const std::string& path);

}  // namespace pergola_test::recording
