#include "src/analysis/footprint_accesses.h"

#include <algorithm>
#include <cstdlib>

namespace pergola::analysis {
namespace {

// All terms that are in an access.
std::vector<TermId> terms_in(const SymbolicAccess& access) {
  std::vector<TermId> found;
  const auto add = [&](const Affine& a) {
    for (const Affine::Part& part : a.parts) found.push_back(part.term);
  };
  add(access.offset);
  for (const Affine& guard : access.guards) add(guard);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

// One for each quotient, so that accesses that differ in their constants alone stay alike.
TermId remainder_of(FootprintTerms& terms, TermId quotient) {
  for (TermId id = 0; id < terms.size(); ++id) {
    if (terms[id].kind == Term::Kind::kRemainder && terms[id].index == quotient) return id;
  }
  return terms.add({.kind = Term::Kind::kRemainder, .index = quotient, .range = {0, terms[quotient].divisor - 1}});
}

void substitute(SymbolicAccess& access, TermId id, const Affine& by) {
  if (auto offset = substituted(access.offset, id, by)) access.offset = std::move(*offset);
  std::erase_if(access.guards, [&](Affine& guard) {
    auto other = substituted(guard, id, by);
    if (other) guard = std::move(*other);
    return !other;
  });
}

// Works out one access in one block after another.
class BlockAccess {
 public:
  BlockAccess(const SymbolicAccess& access, const FootprintTerms& terms, std::span<const IterationBound> bounds)
      : access_(access), terms_(terms), ranges_(terms, bounds), ids_(terms_in(access)), intervals_(ids_.size()) {
    for (const Affine::Part& part : access.offset.parts) in_offset_.push_back(index_of(part.term));
    for (const Affine& guard : access.guards) {
      auto& indices = in_guards_.emplace_back();
      for (const Affine::Part& part : guard.parts) indices.push_back(index_of(part.term));
    }
  }

  // Whether a block in which no guard says anything differs from another such one by its place alone.
  bool is_uniform() const {
    return access_.whole_reason.empty() && std::ranges::all_of(ids_, [&](TermId id) {
             return !terms_[id].is_by_block || terms_[id].kind == Term::Kind::kBlock;
           });
  }

  // Of a uniform access: whether all its guards hold for every thread of the block, or one of them for none.
  enum class Guards : std::uint8_t { kHold, kFail, kNarrow };
  Guards guards_in(const std::uint32_t (&block)[3]) {
    if (uniform_guards_.empty() && !access_.guards.empty()) {
      for (const Affine& guard : access_.guards) uniform_guards_.push_back(split(guard));
    }
    Guards result = Guards::kHold;
    for (const ByBlock& guard : uniform_guards_) {
      const std::int64_t moved = guard.moved(block);
      if (guard.range.has_low() && guard.range.low + moved > 0) return Guards::kFail;
      if (!guard.range.has_high() || guard.range.high + moved > 0) result = Guards::kNarrow;
    }
    return result;
  }

  // Whether the last block's bytes were cut at the ends of the allocation.
  bool is_clipped() const { return is_clipped_; }

  // An expression that is linear in the block's index: its bounds at block 0, and what each axis adds.
  struct ByBlock {
    Interval range;
    std::int64_t per_block[3] = {0, 0, 0};
    std::int64_t moved(const std::uint32_t (&block)[3]) const {
      return block[0] * per_block[0] + block[1] * per_block[1] + block[2] * per_block[2];
    }
  };
  ByBlock split(const Affine& a) const {
    ByBlock result{.range = Interval::point(a.constant)};
    for (const Affine::Part& part : a.parts) {
      const Term& term = terms_[part.term];
      if (term.kind == Term::Kind::kBlock) {
        result.per_block[term.index] = part.coefficient;
      } else {
        result.range = sum(result.range, product(term.range, part.coefficient));
      }
    }
    // Numbers that could overflow on the way are no bounds.
    constexpr std::int64_t kMost = std::int64_t{1} << 60, kMostPerBlock = std::int64_t{1} << 36;
    bool is_small = true;
    for (const std::int64_t step : result.per_block) is_small &= step < kMostPerBlock && step > -kMostPerBlock;
    if (!is_small || result.range.low < -kMost || result.range.low > kMost) result.range.low = Interval::kLowest;
    if (!is_small || result.range.high < -kMost || result.range.high > kMost) result.range.high = Interval::kHighest;
    return result;
  }

  // False: this block does not make the access.
  bool at(const std::uint32_t (&block)[3], ByteSet& set, bool& is_whole) {
    ranges_.enter(block);
    for (std::size_t i = 0; i < ids_.size(); ++i) intervals_[i] = ranges_.of(ids_[i]);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t g = 0; g < in_guards_.size(); ++g) {
        if (!tighten(access_.guards[g], in_guards_[g])) return false;
      }
    }
    is_whole = !access_.whole_reason.empty() || !place(set);
    if (is_whole) {
      set = {0, {{}, access_.allocation_bytes}};
      return true;
    }
    return clip(set, is_whole);
  }

 private:
  std::size_t index_of(TermId id) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ids_, id) - ids_.begin());
  }

  // Each term of a guard has the room that the least of the others leaves it.
  bool tighten(const Affine& guard, const boost::container::small_vector<std::size_t, 6>& indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      Interval others = Interval::point(guard.constant);
      for (std::size_t j = 0; j < indices.size(); ++j) {
        if (j != i) others = sum(others, product(intervals_[indices[j]], guard.parts[j].coefficient));
      }
      if (!others.has_low()) continue;
      const std::int64_t coefficient = guard.parts[i].coefficient;
      Interval& interval = intervals_[indices[i]];
      if (coefficient > 0) {
        interval.high = std::min(interval.high, floor_div(-others.low, coefficient));
      } else if (-coefficient > 0) {
        interval.low = std::max(interval.low, -floor_div(-others.low, -coefficient));
      }
      if (interval.is_empty()) return false;
    }
    return !indices.empty() || guard.constant <= 0;
  }

  // False: some term has no bounds.
  bool place(ByteSet& set) const {
    set.first = access_.offset.constant;
    set.shape.dimensions.clear();
    set.shape.width = access_.width;
    Interval reach = Interval::point(access_.offset.constant);
    for (std::size_t i = 0; i < in_offset_.size(); ++i) {
      const Interval& interval = intervals_[in_offset_[i]];
      const std::int64_t coefficient = access_.offset.parts[i].coefficient;
      if (!interval.is_bounded()) return false;
      reach = sum(reach, product(interval, coefficient));
      if (!reach.is_bounded()) return false;
      set.first += coefficient * (coefficient > 0 ? interval.low : interval.high);
      const auto count = static_cast<std::uint64_t>(interval.high) - static_cast<std::uint64_t>(interval.low) + 1;
      if (count > 1) set.shape.dimensions.push_back({static_cast<std::uint64_t>(std::abs(coefficient)), count});
    }
    return true;
  }

  // What lies outside the allocation is not accessed. False: nothing is left.
  bool clip(ByteSet& set, bool& is_whole) {
    is_clipped_ = false;
    const auto bytes = static_cast<std::int64_t>(access_.allocation_bytes);
    if (set.begin() >= 0 && set.end() <= bytes) {
      set.shape = normalized(std::move(set.shape));
      return true;
    }
    is_clipped_ = true;
    if (terms_.find_unknown(access_.offset) != nullptr) {
      is_whole = true;
      set = {0, {{}, access_.allocation_bytes}};
      return true;
    }
    for (ByteShape::Dimension& dimension : set.shape.dimensions) {
      const auto stride = static_cast<std::int64_t>(dimension.stride);
      const auto rest =
          static_cast<std::int64_t>(set.shape.extent()) - stride * (static_cast<std::int64_t>(dimension.count) - 1);
      // Rounds that end at or before the first byte, and those that begin behind the last one.
      if (set.first + rest <= 0) {
        const std::int64_t away = std::min<std::int64_t>(floor_div(-(set.first + rest), stride) + 1,
                                                         static_cast<std::int64_t>(dimension.count) - 1);
        set.first += away * stride;
        dimension.count -= static_cast<std::uint64_t>(away);
      }
      if (set.first + stride * (static_cast<std::int64_t>(dimension.count) - 1) >= bytes && set.first < bytes) {
        dimension.count = static_cast<std::uint64_t>((bytes - 1 - set.first) / stride + 1);
      }
    }
    if (set.begin() >= bytes || set.end() <= 0) return false;
    set.shape = normalized(std::move(set.shape));
    return true;
  }

  const SymbolicAccess& access_;
  const FootprintTerms& terms_;
  BlockRanges ranges_;
  std::vector<TermId> ids_;
  std::vector<Interval> intervals_;  // by index into ids_
  boost::container::small_vector<std::size_t, 6> in_offset_;
  std::vector<boost::container::small_vector<std::size_t, 6>> in_guards_;
  std::vector<ByBlock> uniform_guards_;
  bool is_clipped_ = false;
};

std::vector<SymbolicAccess> side_by_side(std::vector<SymbolicAccess> alike) {
  std::ranges::sort(alike, {}, [](const SymbolicAccess& access) { return access.offset.constant; });
  std::vector<SymbolicAccess> result;
  for (SymbolicAccess& next : alike) {
    const std::int64_t gap = result.empty() ? 0 : next.offset.constant - result.back().offset.constant;
    if (!result.empty() && gap <= static_cast<std::int64_t>(result.back().width)) {
      result.back().width = std::max(result.back().width, static_cast<std::uint64_t>(gap) + next.width);
    } else {
      result.push_back(std::move(next));
    }
  }
  return result;
}

// c, c + step, c + 2 step, ... of one width, sorted: one access with a number in it.
std::vector<SymbolicAccess> in_steps(FootprintTerms& terms, std::vector<SymbolicAccess> alike) {
  std::vector<SymbolicAccess> result;
  for (std::size_t first = 0; first < alike.size();) {
    std::size_t last = first;
    std::int64_t step = 0;
    while (last + 1 < alike.size() && alike[last + 1].width == alike[first].width) {
      const std::int64_t next = alike[last + 1].offset.constant - alike[last].offset.constant;
      if (last > first && next != step) break;
      step = next;
      ++last;
    }
    result.push_back(std::move(alike[first]));
    if (last > first) {
      const TermId number =
          terms.add({.kind = Term::Kind::kRemainder, .range = {0, static_cast<std::int64_t>(last - first)}});
      result.back().offset = *sum(result.back().offset, Affine::term(number, step));
    }
    first = last + 1;
  }
  return result;
}

std::uint32_t shape_number(AccessFootprint& footprint, const ByteShape& shape) {
  for (std::size_t i = footprint.shapes.size(); i > 0; --i) {
    if (footprint.shapes[i - 1] == shape) return static_cast<std::uint32_t>(i - 1);
  }
  footprint.shapes.push_back(shape);
  return static_cast<std::uint32_t>(footprint.shapes.size() - 1);
}

}  // namespace

void split_indices(FootprintTerms& terms, SymbolicAccess& access) {
  // By number, as substituting changes the parts that are being looked through.
  for (TermId id = 0, count = static_cast<TermId>(terms.size()); id < count; ++id) {
    if (terms[id].kind != Term::Kind::kQuotient || access.offset.coefficient(id) == 0) continue;
    const Affine numerator = terms[id].a;
    const std::int64_t divisor = terms[id].divisor;
    for (const Affine::Part& part : numerator.parts) {
      if (part.coefficient != 1 || terms[part.term].kind != Term::Kind::kThread) continue;
      if (access.offset.coefficient(part.term) == 0) continue;
      const Interval range = terms[part.term].range;
      const TermId remainder = remainder_of(terms, id);
      // index = divisor * quotient + remainder - what else is in the numerator
      const auto others = sum(numerator, Affine::term(part.term), -1);
      auto index = others ? sum(Affine::term(id, divisor), Affine::term(remainder)) : std::nullopt;
      index = index ? sum(*index, *others, -1) : std::nullopt;
      if (!index) continue;
      substitute(access, part.term, *index);
      if (auto below = scaled(*index, -1)) access.guards.push_back(std::move(*below));
      if (auto above = sum(*index, Affine::number(1), -range.high)) access.guards.push_back(std::move(*above));
      break;
    }
  }
}

void drop_certain_guards(const FootprintTerms& terms, SymbolicAccess& access) {
  std::erase_if(access.guards, [&](const Affine& guard) {
    const Interval range = terms.range(guard);
    return range.has_high() && range.high <= 0;
  });
}

std::vector<SymbolicAccess> fused(FootprintTerms& terms, std::vector<SymbolicAccess> accesses) {
  const auto is_alike = [](const SymbolicAccess& a, const SymbolicAccess& b) {
    return a.allocation == b.allocation && a.reads == b.reads && a.writes == b.writes &&
           a.offset.parts == b.offset.parts && a.guards == b.guards && a.whole_reason.empty() == b.whole_reason.empty();
  };
  std::vector<SymbolicAccess> result;
  std::vector<bool> is_done(accesses.size());
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<SymbolicAccess> alike;
    for (std::size_t j = i; j < accesses.size(); ++j) {
      if (is_done[j] || !is_alike(accesses[i], accesses[j])) continue;
      is_done[j] = true;
      alike.push_back(accesses[j]);
    }
    for (SymbolicAccess& access : in_steps(terms, side_by_side(std::move(alike)))) result.push_back(std::move(access));
  }
  return result;
}

AccessFootprint footprint_of(const SymbolicAccess& access, const FootprintTerms& terms,
                             std::span<const IterationBound> bounds, const std::uint32_t (&grid)[3]) {
  AccessFootprint footprint{.allocation = access.allocation, .reads = access.reads, .writes = access.writes};
  footprint.line = access.line;
  footprint.whole_reason = access.whole_reason;
  footprint.places.resize(std::size_t{grid[0]} * grid[1] * grid[2]);
  BlockAccess worker(access, terms, bounds);
  // Where no guard and no end of the allocation cuts it, a block is as the first such one, moved.
  const bool is_uniform = worker.is_uniform();
  std::int64_t per_block[3] = {0, 0, 0};
  for (const Affine::Part& part : access.offset.parts) {
    if (terms[part.term].kind == Term::Kind::kBlock) per_block[terms[part.term].index] = part.coefficient;
  }
  ByteSet model;  // as of block 0
  std::uint32_t model_shape = 0;
  bool has_model = false, is_whole = false;
  std::size_t index = 0;
  for (std::uint32_t z = 0; z < grid[2]; ++z) {
    for (std::uint32_t y = 0; y < grid[1]; ++y) {
      for (std::uint32_t x = 0; x < grid[0]; ++x, ++index) {
        const std::uint32_t block[3] = {x, y, z};
        AccessFootprint::Place& place = footprint.places[index];
        const auto guards = is_uniform ? worker.guards_in(block) : BlockAccess::Guards::kNarrow;
        if (guards == BlockAccess::Guards::kFail) continue;
        const bool is_plain = guards == BlockAccess::Guards::kHold;
        if (has_model && is_plain) {
          const std::int64_t first = model.first + x * per_block[0] + y * per_block[1] + z * per_block[2];
          if (first >= 0 && first + static_cast<std::int64_t>(model.shape.extent()) <=
                                static_cast<std::int64_t>(access.allocation_bytes)) {
            place = {first, model_shape};
            continue;
          }
        }
        ByteSet set;
        if (!worker.at(block, set, is_whole)) continue;
        if (is_whole && footprint.whole_reason.empty()) {
          const Term* unknown = terms.find_unknown(access.offset);
          footprint.whole_reason =
              unknown != nullptr ? "an index is unknown: " + unknown->reason : "an index has no bounds";
        }
        place = {set.first, shape_number(footprint, set.shape)};
        if (is_plain && !has_model && !is_whole && !worker.is_clipped()) {
          model = set;
          model.first -= x * per_block[0] + y * per_block[1] + z * per_block[2];
          model_shape = place.shape;
          has_model = true;
        }
      }
    }
  }
  return footprint;
}

}  // namespace pergola::analysis
