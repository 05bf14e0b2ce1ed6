#include "src/analysis/box_patterns.h"

#include <algorithm>

namespace pergola::analysis {
namespace {

using Family = ParentLists::Family;

// Calls `visit` with the distance of each list of a family and how many children have it; false ends it.
template <class Visit>
bool for_each_list(const Family& family, const Visit& visit) {
  std::uint32_t count[3], children = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const std::uint32_t extent = family.children.extent(axis);
    count[axis] = family.shift[axis] == 0 ? 1 : extent;
    children *= family.shift[axis] == 0 ? extent : 1;
  }
  for (std::uint32_t z = 0; z < count[2]; ++z) {
    for (std::uint32_t y = 0; y < count[1]; ++y) {
      for (std::uint32_t x = 0; x < count[0]; ++x) {
        if (!visit(x * family.shift[0] + y * family.shift[1] + z * family.shift[2], children)) return false;
      }
    }
  }
  return true;
}

// Which of the lists known so far a parent is in; each is in one at most, or there is no answer.
class Owners {
 public:
  explicit Owners(std::uint32_t parents) : owner_(parents) {}

  // False: one of its parents is in another list, too.
  bool add(const Family& family, std::int64_t distance) {
    const std::uint32_t first = owner_[static_cast<std::size_t>(family.list.front().begin + distance)];
    if (first != 0) return is_same(known_[first - 1], family, distance);
    known_.push_back({&family, distance});
    const auto number = static_cast<std::uint32_t>(known_.size());
    for (const BlockInterval& range : family.list) {
      for (std::int64_t p = range.begin + distance; p < range.end + distance; ++p) {
        std::uint32_t& owner = owner_[static_cast<std::size_t>(p)];
        if (owner != 0) return false;
        owner = number;
      }
    }
    return true;
  }

 private:
  struct Known {
    const Family* family;
    std::int64_t distance;
  };
  static bool is_same(const Known& known, const Family& family, std::int64_t distance) {
    return std::ranges::equal(known.family->list, family.list, [&](const BlockInterval& a, const BlockInterval& b) {
      return a.begin + known.distance == b.begin + distance && a.end + known.distance == b.end + distance;
    });
  }

  std::vector<std::uint32_t> owner_;  // 0: of none
  std::vector<Known> known_;
};

bool has_one_child(const BoxRelation& boxes, const BlockRelation& relation) {
  if (relation.edges > relation.parents) return false;  // one of them has two
  std::vector<bool> seen(relation.parents);
  for (const Family& family : boxes.families) {
    const bool is_once = for_each_list(family, [&](std::int64_t distance, std::uint32_t children) {
      for (const BlockInterval& range : family.list) {
        for (std::int64_t p = range.begin + distance; p < range.end + distance; ++p) {
          if (children > 1 || seen[static_cast<std::size_t>(p)]) return false;
          seen[static_cast<std::size_t>(p)] = true;
        }
      }
      return true;
    });
    if (!is_once) return false;
  }
  return true;
}

bool are_groups(const BoxRelation& boxes, std::uint32_t parents) {
  Owners owners(parents);
  return std::ranges::all_of(boxes.families, [&](const Family& family) {
    return family.list.empty() ||
           for_each_list(family, [&](std::int64_t distance, auto) { return owners.add(family, distance); });
  });
}

}  // namespace

bool are_all(const BoxRelation& boxes, std::uint32_t parents) {
  return std::ranges::all_of(boxes.families, [&](const Family& family) {
    return family.list.size() == 1 && family.list.front() == BlockInterval{0, parents};
  });
}

void classify(const BoxRelation& boxes, BlockRelation& relation) {
  relation.edges = 0;
  relation.max_degree = 0;
  for (const Family& family : boxes.families) {
    const std::uint32_t degree = size(family.list);
    relation.max_degree = std::max(relation.max_degree, degree);
    relation.edges += degree * family.children.blocks();
  }
  if (relation.max_degree == 0) {
    relation.pattern = BlockPattern::kIndependent;
  } else if (relation.max_degree == 1) {
    relation.pattern = has_one_child(boxes, relation) ? BlockPattern::kOneToOne : BlockPattern::kOneToN;
  } else if (has_one_child(boxes, relation)) {
    relation.pattern = BlockPattern::kNToOne;
  } else if (relation.edges == std::uint64_t{relation.parents} * relation.children) {
    relation.pattern = BlockPattern::kFull;
  } else {
    relation.pattern = are_groups(boxes, relation.parents) ? BlockPattern::kGroups : BlockPattern::kOverlapped;
  }
}

}  // namespace pergola::analysis
