// The median of measured times: the upper one of an even number. At least one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pergola::scheduler {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace pergola::scheduler
