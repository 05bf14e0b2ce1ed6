// Whether a sanitizer watches: everything takes several times as long then, and under TSan the CPU device interprets.
// Random tests do a fifth of their rounds: what they compare is held by the other builds, which do all.
#pragma once

namespace pergola::test_support {

#if defined(PERGOLA_TSAN) || defined(PERGOLA_ASAN)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#ifdef PERGOLA_TSAN
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

constexpr int rounds(int all) {
  return kSanitized ? (all + 4) / 5 : all;
}

}  // namespace pergola::test_support
