#include "src/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pergola {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "pergola: internal error: '%s' does not hold at %s:%d. Please report this.\n", condition, file,
               line);
  std::abort();
}

}  // namespace pergola
