// What sanitizers must know where a host thread changes stacks.
//
// A function from which another stack may be entered, or that may never be returned to, is PERGOLA_SWITCHES_STACK:
// uninstrumented, so that no sanitizer keeps an entry for a frame that is left for good. AddressSanitizer is told the
// bounds of the stack that is entered.
#pragma once

#include <cstddef>

#define PERGOLA_SWITCHES_STACK __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
// The same as part of a caller that is PERGOLA_SWITCHES_STACK: every frame between generated code and the switch is a
// return that the processor predicts wrongly, because the calls before it were another stack's.
#define PERGOLA_SWITCHES_STACK_INLINE __attribute__((no_sanitize("address", "thread", "undefined"), always_inline)) inline

#ifdef PERGOLA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace pergola::device::cpu::jit {

#ifdef PERGOLA_ASAN
inline void forget_stack_frames(void* bottom, std::size_t bytes) { __asan_unpoison_memory_region(bottom, bytes); }
__attribute__((no_sanitize("address"))) inline void before_switch(void** fake, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
__attribute__((no_sanitize("address"))) inline void after_switch(void* fake, const void** bottom, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
#else
inline void forget_stack_frames(void*, std::size_t) {}
inline void before_switch(void**, const void*, std::size_t) {}
inline void after_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace pergola::device::cpu::jit
