#include "src/analysis/footprint_accesses.h"

#include <algorithm>

namespace pergola::analysis {
namespace {

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
  // Of constants far outside every array the distance may not fit.
  constexpr std::int64_t kFar = std::int64_t{1} << 61;
  const auto is_near = [](const SymbolicAccess& access) {
    return access.offset.constant > -kFar && access.offset.constant < kFar;
  };
  const auto is_alike = [&](const SymbolicAccess& a, const SymbolicAccess& b) {
    return is_near(a) && is_near(b) && a.allocation == b.allocation && a.reads == b.reads && a.writes == b.writes &&
           a.offset.parts == b.offset.parts && a.guards == b.guards && a.whole_reason.empty() == b.whole_reason.empty();
  };
  std::vector<SymbolicAccess> result;
  std::vector<bool> is_done(accesses.size());
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<SymbolicAccess> alike;
    for (std::size_t j = i; j < accesses.size(); ++j) {
      if (is_done[j] || (j != i && !is_alike(accesses[i], accesses[j]))) continue;
      is_done[j] = true;
      alike.push_back(accesses[j]);
    }
    for (SymbolicAccess& access : in_steps(terms, side_by_side(std::move(alike)))) result.push_back(std::move(access));
  }
  return result;
}

}  // namespace pergola::analysis
