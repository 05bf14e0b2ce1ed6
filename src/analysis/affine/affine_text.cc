#include "src/analysis/affine/affine_text.h"

#include <fmt/format.h>

#include <bit>
#include <set>

namespace pergola::analysis {
namespace {

class Writer {
 public:
  explicit Writer(const SymbolicLaunch& launch) : terms_(launch.terms), bounds_(launch.bounds) {
    for (int axis = 0; axis < 3; ++axis) grid_[axis] = launch.closed.grid[axis];
  }

  std::optional<std::string> write(const SymbolicAccess& access) {
    const bool is_whole = !access.whole_reason.empty();
    const std::uint64_t width = is_whole ? access.allocation_bytes : access.width;
    for (int axis = 0; axis < 3; ++axis) hold(fmt::format("0 <= b{} < {}", axis, grid_[axis]));
    if (is_whole) {
      hold("f = 0");
    } else {
      hold(fmt::format("f = {}", sum(access.offset)));
      hold(fmt::format("0 <= f <= {}", static_cast<std::int64_t>(access.allocation_bytes - width)));
    }
    for (const Affine& guard : access.guards) hold(fmt::format("{} <= 0", sum(guard)));
    if (names_.size() > kMaxAffineTerms) return std::nullopt;
    std::string text = "{ [b0, b1, b2] -> [f] : ";
    if (!names_.empty()) text += fmt::format("exists ({} : ", fmt::join(names_, ", "));
    text += fmt::format("{}", fmt::join(constraints_, " and "));
    return text + (names_.empty() ? " }" : ") }");
  }

 private:
  void hold(std::string constraint) { constraints_.push_back(std::move(constraint)); }

  std::string sum(const Affine& a) {
    std::string text = fmt::format("{}", a.constant);
    for (const Affine::Part& part : a.parts) text += fmt::format(" + {} * {}", part.coefficient, name(part.term));
    return text;
  }

  // Defines the term where it is first met.
  std::string name(TermId id) {
    const Term& term = terms_[id];
    if (term.kind == Term::Kind::kBlock) return fmt::format("b{}", term.index);
    std::string name = fmt::format("t{}", id);
    if (!known_.insert(id).second || names_.size() > kMaxAffineTerms) return name;
    names_.push_back(name);
    keep_within(name, term.range);
    define(id, term, name);
    return name;
  }

  void keep_within(const std::string& name, const Interval& range) {
    if (range.has_low()) hold(fmt::format("{} >= {}", name, range.low));
    if (range.has_high()) hold(fmt::format("{} <= {}", name, range.high));
  }

  void define(TermId id, const Term& term, const std::string& name) {
    const auto one_of = [&] {
      const std::string a = sum(term.a), b = sum(term.b);
      hold(fmt::format("({} = {} or {} = {})", name, a, name, b));
      return std::pair(a, b);
    };
    switch (term.kind) {
      case Term::Kind::kEither: one_of(); return;
      case Term::Kind::kMin:
      case Term::Kind::kMax: {
        const auto [a, b] = one_of();
        const char* const order = term.kind == Term::Kind::kMin ? "<=" : ">=";
        hold(fmt::format("{} {} {} and {} {} {}", name, order, a, name, order, b));
        return;
      }
      case Term::Kind::kQuotient: {
        const std::string a = sum(term.a);
        hold(fmt::format("{} * {} <= {} <= {} * {} + {}", term.divisor, name, a, term.divisor, name, term.divisor - 1));
        return;
      }
      case Term::Kind::kRemainder: {
        if (terms_[term.index].kind != Term::Kind::kQuotient) return;  // a number of accesses side by side
        const Term& quotient = terms_[term.index];
        const std::string a = sum(quotient.a), of = this->name(term.index);
        hold(fmt::format("{} = {} * {} + {}", a, quotient.divisor, of, name));
        return;
      }
      case Term::Kind::kAnd:
      case Term::Kind::kOr:
      case Term::Kind::kXor: {
        const std::string a = sum(term.a), common = common_bits(a, term.divisor);
        if (term.kind == Term::Kind::kAnd) return hold(fmt::format("{} = {}", name, common));
        const int factor = term.kind == Term::Kind::kOr ? 1 : 2;  // a | n = a + n - (a & n)
        return hold(fmt::format("{} = {} + {} - {} * ({})", name, a, term.divisor, factor, common));
      }
      case Term::Kind::kIteration: return bound(id, name);
      default: return;  // its bounds are all that is known
    }
  }

  // a & number: of each run of ones what they leave of a.
  static std::string common_bits(const std::string& a, std::int64_t number) {
    std::string text = "0";
    for (int low = 0; number >> low != 0;) {
      if ((number >> low & 1) == 0) {
        ++low;
        continue;
      }
      const int high = low + std::countr_one(static_cast<std::uint64_t>(number >> low));
      text += fmt::format(" + {0} * floor(({2}) / {0}) - {1} * floor(({2}) / {1})", std::int64_t{1} << low,
                          std::int64_t{1} << high, a);
      low = high;
    }
    return text;
  }

  // Where there is an iteration t above 0, what keeps the loop going held in iteration t - 1.
  void bound(TermId id, const std::string& name) {
    for (const IterationBound& bound : bounds_) {
      if (bound.iteration != id) continue;
      std::string stay = fmt::format("{}", bound.stay.constant);
      for (const Affine::Part& part : bound.stay.parts) {
        const std::string of = part.term == id        ? fmt::format("({} - 1)", name)
                               : is_stable(part.term) ? this->name(part.term)
                                                      : another(part.term);
        stay += fmt::format(" + {} * {}", part.coefficient, of);
      }
      hold(fmt::format("({} = 0 or {} <= 0)", name, stay));
    }
  }

  // Whether a term is one number for a thread, in all iterations of all loops.
  bool is_stable(TermId id) const {
    const Term& term = terms_[id];
    switch (term.kind) {
      case Term::Kind::kThread:
      case Term::Kind::kBlock: return true;
      case Term::Kind::kMin:
      case Term::Kind::kMax:
      case Term::Kind::kAnd:
      case Term::Kind::kOr:
      case Term::Kind::kXor:
      case Term::Kind::kQuotient: {
        for (const Affine* operand : {&term.a, &term.b}) {
          for (const Affine::Part& part : operand->parts) {
            if (!is_stable(part.term)) return false;
          }
        }
        return true;
      }
      default: return false;
    }
  }

  // What the term was in another iteration: its bounds alone are known.
  std::string another(TermId id) {
    std::string name = fmt::format("u{}", names_.size());
    names_.push_back(name);
    keep_within(name, terms_[id].range);
    return name;
  }

  const FootprintTerms& terms_;
  const std::vector<IterationBound>& bounds_;
  std::uint32_t grid_[3] = {};
  std::set<TermId> known_;
  std::vector<std::string> names_, constraints_;
};

}  // namespace

std::optional<std::string> affine_text(const SymbolicLaunch& launch, const SymbolicAccess& access) {
  return Writer(launch).write(access);
}

}  // namespace pergola::analysis
