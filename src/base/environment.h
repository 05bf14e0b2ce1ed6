// Settings from the process's environment (docs/environment.md): one that is not there, or is empty, leaves what is
// usual; one that cannot be read is kInvalidArgument, which names the variable, its value and what it can be.
//
// Whoever changes the environment beside a thread that reads it races, as ever with getenv().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "src/base/result.h"

namespace pergola {

// Of the environment itself: until it is changed.
std::optional<std::string_view> setting(const char* name);

// Decimal. `unit` stands in the error: "a number of milliseconds from 1 to 1000".
Result<std::optional<std::uint64_t>> number_setting(const char* name, std::uint64_t least, std::uint64_t most,
                                                    std::string_view unit = "");

// The place among `choices`, of which there are two or more.
Result<std::optional<std::size_t>> choice_setting(const char* name, std::initializer_list<std::string_view> choices);

}  // namespace pergola
