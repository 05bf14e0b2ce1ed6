#include "src/transform/newest_target.h"

#include <string_view>
#include <utility>

namespace pergola::transform {
namespace {

unsigned arch_number(std::string_view target) {
  unsigned number = 0;
  for (const char c : target.substr(target.find('_') + 1))
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<unsigned>(c - '0');
  return number;
}

}  // namespace

void take_newer_target(const ptx::Module& other, ptx::Module& into) {
  if (std::pair(other.version_major, other.version_minor) > std::pair(into.version_major, into.version_minor)) {
    into.version_major = other.version_major;
    into.version_minor = other.version_minor;
  }
  if (other.targets.empty()) return;
  const std::string& own = other.targets[0];
  const bool newer = arch_number(own) > arch_number(into.targets[0]);
  if (newer || (arch_number(own) == arch_number(into.targets[0]) && own.size() > into.targets[0].size()))
    into.targets[0] = own;
}

}  // namespace pergola::transform
