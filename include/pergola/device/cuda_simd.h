// Arithmetic on the two halves or the four bytes of a word, for clang (pergola_cuda.h): the __v... functions of CUDA.
// Ordinary arithmetic part by part: clang makes of it what it can.
#pragma once

// f(x, y) for each part of `bits` bits, as an integer of its sign; the low bits of each result, in its place.
template <int bits, bool is_signed, class F>
PERGOLA_FN unsigned int pergola_parts(unsigned int a, unsigned int b, F f) {
  unsigned int result = 0;
#pragma unroll
  for (int at = 0; at < 32; at += bits) {
    const unsigned int mask = (1u << bits) - 1;
    const int up = 32 - bits;
    const int x = is_signed ? static_cast<int>(a << (up - at)) >> up : static_cast<int>((a >> at) & mask);
    const int y = is_signed ? static_cast<int>(b << (up - at)) >> up : static_cast<int>((b >> at) & mask);
    result |= (static_cast<unsigned int>(f(x, y)) & mask) << at;
  }
  return result;
}
PERGOLA_FN int pergola_clamped(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

#define PERGOLA_PARTS(name, bits, is_signed, expression)                                                  \
  PERGOLA_FN unsigned int name(unsigned int a, unsigned int b) {                                          \
    return pergola_parts<bits, is_signed>(a, b, [](int x, int y) __attribute__((device)) { return static_cast<int>(expression); }); \
  }
#define PERGOLA_PART(name, bits, is_signed, expression)                                                   \
  PERGOLA_FN unsigned int name(unsigned int a) {                                                          \
    return pergola_parts<bits, is_signed>(a, a, [](int x, int) __attribute__((device)) { return static_cast<int>(expression); }); \
  }
// All of 2 halves (16 bits) or 4 bytes (8); low and high are the signed limits, most the unsigned one.
#define PERGOLA_FAMILY(n, bits, low, high, most)                             \
  PERGOLA_PARTS(__vadd##n, bits, false, x + y)                               \
  PERGOLA_PARTS(__vsub##n, bits, false, x - y)                               \
  PERGOLA_PARTS(__vaddss##n, bits, true, pergola_clamped(x + y, low, high))  \
  PERGOLA_PARTS(__vaddus##n, bits, false, pergola_clamped(x + y, 0, most))   \
  PERGOLA_PARTS(__vsubss##n, bits, true, pergola_clamped(x - y, low, high))  \
  PERGOLA_PARTS(__vsubus##n, bits, false, pergola_clamped(x - y, 0, most))   \
  PERGOLA_PARTS(__vmaxs##n, bits, true, x > y ? x : y)                       \
  PERGOLA_PARTS(__vmaxu##n, bits, false, x > y ? x : y)                      \
  PERGOLA_PARTS(__vmins##n, bits, true, x < y ? x : y)                       \
  PERGOLA_PARTS(__vminu##n, bits, false, x < y ? x : y)                      \
  PERGOLA_PARTS(__vavgs##n, bits, true, (x + y + (x + y >= 0)) >> 1)         \
  PERGOLA_PARTS(__vavgu##n, bits, false, (x + y + 1) >> 1)                   \
  PERGOLA_PARTS(__vhaddu##n, bits, false, (x + y) >> 1)                      \
  PERGOLA_PARTS(__vabsdiffs##n, bits, true, x > y ? x - y : y - x)           \
  PERGOLA_PARTS(__vabsdiffu##n, bits, false, x > y ? x - y : y - x)          \
  PERGOLA_PART(__vabs##n, bits, true, x < 0 ? -x : x)                        \
  PERGOLA_PART(__vneg##n, bits, true, -x)                                    \
  PERGOLA_PART(__vabsss##n, bits, true, x == low ? high : x < 0 ? -x : x)    \
  PERGOLA_PART(__vnegss##n, bits, true, x == low ? high : -x)                \
  PERGOLA_PARTS(__vcmpeq##n, bits, false, x == y ? -1 : 0)                   \
  PERGOLA_PARTS(__vcmpne##n, bits, false, x != y ? -1 : 0)                   \
  PERGOLA_PARTS(__vseteq##n, bits, false, x == y)                            \
  PERGOLA_PARTS(__vsetne##n, bits, false, x != y)                            \
  PERGOLA_COMPARE(n, bits, gt, >)                                            \
  PERGOLA_COMPARE(n, bits, ge, >=)                                           \
  PERGOLA_COMPARE(n, bits, lt, <)                                            \
  PERGOLA_COMPARE(n, bits, le, <=)                                           \
  PERGOLA_FN unsigned int __vsads##n(unsigned int a, unsigned int b) { return pergola_sum##n(__vabsdiffs##n(a, b)); } \
  PERGOLA_FN unsigned int __vsadu##n(unsigned int a, unsigned int b) { return pergola_sum##n(__vabsdiffu##n(a, b)); }
#define PERGOLA_COMPARE(n, bits, name, op)                             \
  PERGOLA_PARTS(__vcmp##name##s##n, bits, true, x op y ? -1 : 0)       \
  PERGOLA_PARTS(__vcmp##name##u##n, bits, false, x op y ? -1 : 0)      \
  PERGOLA_PARTS(__vset##name##s##n, bits, true, x op y)                \
  PERGOLA_PARTS(__vset##name##u##n, bits, false, x op y)
PERGOLA_FN unsigned int pergola_sum2(unsigned int a) { return (a & 0xffffu) + (a >> 16); }
PERGOLA_FN unsigned int pergola_sum4(unsigned int a) { return (a & 255u) + (a >> 8 & 255u) + (a >> 16 & 255u) + (a >> 24); }
PERGOLA_FAMILY(2, 16, -32768, 32767, 65535)
PERGOLA_FAMILY(4, 8, -128, 127, 255)
#undef PERGOLA_FAMILY
#undef PERGOLA_COMPARE
#undef PERGOLA_PARTS
#undef PERGOLA_PART
