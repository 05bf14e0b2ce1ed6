// PERGOLA_CHECK: an invariant of our own, checked in every build.
//
// It ends the process with the condition and its line. It is for bugs of Pergola alone: no text, byte or message
// from outside may be able to reach it; those end in an Error (result.h).
#pragma once

namespace pergola {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define PERGOLA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::pergola::check_failed(#condition, __FILE__, __LINE__))
