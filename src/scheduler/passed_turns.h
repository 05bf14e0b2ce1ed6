// Which turns are looked at where looking has been in vain for long: of kPassed + 2 two in a row, so that one of them
// is seen from begin to end.
#pragma once

#include <cstdint>

namespace pergola::scheduler {

class PassedTurns {
 public:
  static constexpr std::uint32_t kPassed = 15;
  // A turn begins; whether it is one of those that are not looked at.
  bool passes() {
    if (at_++ < kPassed) return true;
    if (at_ == kPassed + 2) at_ = 0;
    return false;
  }

 private:
  std::uint32_t at_ = 0;
};

}  // namespace pergola::scheduler
