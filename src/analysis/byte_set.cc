#include "src/analysis/byte_set.h"

#include <algorithm>
#include <numeric>

namespace pergola::analysis {
namespace {

// Whether the loops of a normal shape, from dimension `at` on, and its width make up `target`.
class Search {
 public:
  Search(const ByteShape& shape, std::uint64_t trials) : shape_(shape), trials_(trials) {
    const std::size_t count = shape.dimensions.size();
    reach_.resize(count + 1, static_cast<std::int64_t>(shape.width));
    divisor_.resize(count + 1, 0);
    for (std::size_t i = count; i-- > 0;) {
      const ByteShape::Dimension& dimension = shape.dimensions[i];
      reach_[i] = reach_[i + 1] + static_cast<std::int64_t>(dimension.stride * (dimension.count - 1));
      divisor_[i] = std::gcd(divisor_[i + 1], static_cast<std::int64_t>(dimension.stride));
    }
  }

  bool reaches(std::int64_t target, std::size_t at = 0) {
    if (target < 0 || target >= reach_[at]) return false;
    if (at == shape_.dimensions.size()) return true;
    if (target % divisor_[at] >= static_cast<std::int64_t>(shape_.width)) return false;
    const auto stride = static_cast<std::int64_t>(shape_.dimensions[at].stride);
    const std::int64_t last = std::min(static_cast<std::int64_t>(shape_.dimensions[at].count) - 1, target / stride);
    const std::int64_t first =
        target < reach_[at + 1] ? 0 : (target - reach_[at + 1]) / stride + 1;  // below it the rest is too short
    for (std::int64_t k = last; k >= first; --k) {
      if (trials_ == 0) {
        is_cut_short_ = true;
        return true;
      }
      --trials_;
      if (reaches(target - k * stride, at + 1)) return true;
    }
    return false;
  }
  bool is_cut_short() const { return is_cut_short_; }

 private:
  const ByteShape& shape_;
  std::uint64_t trials_;  // that are left
  bool is_cut_short_ = false;
  // Of the dimensions from each place on: what they and the width cover, and the divisor of their strides.
  boost::container::small_vector<std::int64_t, 9> reach_, divisor_;
};

// Of a shape of one dimension at most.
bool contains_plainly(const ByteShape& shape, std::int64_t at) {
  if (at < 0) return false;
  if (shape.dimensions.empty()) return at < static_cast<std::int64_t>(shape.width);
  const auto stride = static_cast<std::int64_t>(shape.dimensions[0].stride);
  const std::int64_t k = std::min(at / stride, static_cast<std::int64_t>(shape.dimensions[0].count) - 1);
  return at - k * stride < static_cast<std::int64_t>(shape.width);
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
      continue;
    }
    const auto finer = std::ranges::find_if(kept, [&](const ByteShape::Dimension& dimension) {
      return next.stride % dimension.stride == 0 && next.stride / dimension.stride <= dimension.count;
    });
    if (finer != kept.end()) {
      finer->count += next.stride / finer->stride * (next.count - 1);
    } else {
      kept.push_back(next);
    }
  }
  std::ranges::reverse(kept);
  shape.dimensions = std::move(kept);
  return shape;
}

std::optional<bool> ByteSet::contains_within(std::int64_t byte, std::uint64_t trials) const {
  if (shape.dimensions.size() <= 1) return contains_plainly(shape, byte - first);
  Search search(shape, trials);
  const bool is_in = search.reaches(byte - first);
  return search.is_cut_short() ? std::nullopt : std::optional(is_in);
}

bool ByteSet::contains(std::int64_t byte) const {
  return *contains_within(byte, ~std::uint64_t{0});
}

bool ByteSet::may_contain(std::int64_t byte) const {
  return contains_within(byte, kMaxTrials).value_or(true);
}

// a.first + sum(stride * k) + w = b.first + sum(stride' * k') + w', solved for b.first - a.first; k' and w' are counted
// from their other end, so that all loops count upwards.
ByteSet meeting_distances(const ByteShape& a, const ByteShape& b) {
  ByteShape both = a;
  both.dimensions.insert(both.dimensions.end(), b.dimensions.begin(), b.dimensions.end());
  both.width += b.width - 1;
  return {1 - static_cast<std::int64_t>(b.extent()), normalized(std::move(both))};
}

bool overlaps(const ByteSet& a, const ByteSet& b) {
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  return meeting_distances(a.shape, b.shape).may_contain(b.first - a.first);
}

}  // namespace pergola::analysis
