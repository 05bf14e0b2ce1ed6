#include "src/analysis/byte_set.h"

#include <algorithm>

#include "src/analysis/affine.h"

namespace pergola::analysis {
namespace {

// stride * m for a whole m in [low, high].
struct Choice {
  std::int64_t stride, low, high;
};

// Whether choices[at...] and a last one of stride 1 can make up `target`. `least` and `most` are what the choices from
// each place on can make at all.
class Search {
 public:
  Search(boost::container::small_vector<Choice, 8> choices, std::int64_t low, std::int64_t high)
      : choices_(std::move(choices)), least_(choices_.size() + 1, low), most_(choices_.size() + 1, high) {
    for (std::size_t i = choices_.size(); i-- > 0;) {
      least_[i] = least_[i + 1] + choices_[i].stride * choices_[i].low;
      most_[i] = most_[i + 1] + choices_[i].stride * choices_[i].high;
    }
  }

  bool reaches(std::int64_t target, std::size_t at = 0) {
    if (target < least_[at] || target > most_[at]) return false;
    if (at == choices_.size()) return true;
    const Choice& choice = choices_[at];
    const std::int64_t first =
        std::max(choice.low, floor_div(target - most_[at + 1] + choice.stride - 1, choice.stride));
    const std::int64_t last = std::min(choice.high, floor_div(target - least_[at + 1], choice.stride));
    for (std::int64_t m = first; m <= last; ++m) {
      if (++trials_ > kMaxTrials) return true;
      if (reaches(target - m * choice.stride, at + 1)) return true;
    }
    return false;
  }

 private:
  boost::container::small_vector<Choice, 8> choices_;
  boost::container::small_vector<std::int64_t, 9> least_, most_;
  std::uint32_t trials_ = 0;
};

bool contains(const ByteShape& shape, std::size_t dimension, std::int64_t at) {
  if (at < 0) return false;
  if (dimension == shape.dimensions.size()) return at < static_cast<std::int64_t>(shape.width);
  std::int64_t rest = static_cast<std::int64_t>(shape.width);
  for (std::size_t i = dimension + 1; i < shape.dimensions.size(); ++i) {
    rest += static_cast<std::int64_t>(shape.dimensions[i].stride * (shape.dimensions[i].count - 1));
  }
  const auto stride = static_cast<std::int64_t>(shape.dimensions[dimension].stride);
  const std::int64_t first = std::max<std::int64_t>(0, floor_div(at - rest + stride, stride));
  const std::int64_t last = std::min(static_cast<std::int64_t>(shape.dimensions[dimension].count) - 1, at / stride);
  for (std::int64_t k = first; k <= last; ++k) {
    if (contains(shape, dimension + 1, at - k * stride)) return true;
  }
  return false;
}

}  // namespace

std::uint64_t ByteShape::extent() const {
  std::uint64_t result = width;
  for (const Dimension& dimension : dimensions) result += dimension.stride * (dimension.count - 1);
  return result;
}

ByteShape normalized(ByteShape shape) {
  std::ranges::sort(shape.dimensions, {}, &ByteShape::Dimension::stride);
  decltype(shape.dimensions) kept;  // ascending
  for (const ByteShape::Dimension& next : shape.dimensions) {
    if (next.count <= 1 || next.stride == 0) continue;
    if (next.stride <= shape.width) {
      shape.width += next.stride * (next.count - 1);
    } else if (!kept.empty() && next.stride % kept.back().stride == 0 &&
               next.stride / kept.back().stride <= kept.back().count) {
      kept.back().count += next.stride / kept.back().stride * (next.count - 1);
    } else {
      kept.push_back(next);
    }
  }
  std::ranges::reverse(kept);
  shape.dimensions = std::move(kept);
  return shape;
}

bool ByteSet::contains(std::int64_t byte) const {
  return analysis::contains(shape, 0, byte - first);
}

bool overlaps(const ByteSet& a, const ByteSet& b) {
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  boost::container::small_vector<Choice, 8> choices;
  const auto add = [&](const ByteShape::Dimension& dimension, bool is_b) {
    const auto stride = static_cast<std::int64_t>(dimension.stride),
               last = static_cast<std::int64_t>(dimension.count) - 1;
    const auto same = std::ranges::find(choices, stride, &Choice::stride);
    Choice& choice = same != choices.end() ? *same : choices.emplace_back(Choice{stride, 0, 0});
    (is_b ? choice.low : choice.high) += is_b ? -last : last;
  };
  for (const auto& dimension : a.shape.dimensions) add(dimension, false);
  for (const auto& dimension : b.shape.dimensions) add(dimension, true);
  std::ranges::sort(choices, std::greater{}, &Choice::stride);
  Search search(std::move(choices), 1 - static_cast<std::int64_t>(b.shape.width),
                static_cast<std::int64_t>(a.shape.width) - 1);
  return search.reaches(b.first - a.first);
}

}  // namespace pergola::analysis
