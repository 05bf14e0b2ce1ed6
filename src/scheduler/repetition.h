// A launch behind its like: the same kernel on the same bytes, one after the other on one stream, and nothing between.
//
//   launch   1     2        3            4            5 ...
//            x ──▶ x ─────▶ x ────────▶ x ────────▶ x
//                  kept     compared    repeated
//
// What placing a launch finds depends on who is in its bytes, and placing it changes that. Where 3 came behind 2 as 2
// had come behind 1, with edges to just that one (and to work that had ended before, the same for both), its bytes are
// as they were but that 3 is where 2 was. So 4 will find the same, one launch later: nothing is looked for, and the
// computation of 3 becomes that of 4, in its places (Scheduler::repeat()).
//
// Guarded by the scheduler's lock.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>

#include "src/scheduler/dag_log.h"
#include "src/scheduler/region.h"
#include "src/scheduler/size_class.h"

namespace pergola::scheduler {

class Repetition {
 public:
  // Whether `launch` comes behind its like and will find what that found. `last_id`: of the computation submitted last.
  bool is_next(const Launch& launch, std::uint64_t last_id) const {
    return repeats_ && last_id_ == last_id && hash_ == launch.hash && is_like(launch);
  }
  bool begins() const { return repeats_; }  // with what placed() was called with last: more may be repeated
  SizeClass size() const { return size_; }
  bool reads_only() const { return reads_only_; }  // some of its bytes, of which it stays a reader then
  // It has been placed as any other, and is the last of `log`, as computation `id`.
  void placed(const Launch& launch, std::uint64_t id, const DagLog& log);
  // It has been repeated.
  void repeated(std::uint64_t id) { last_id_ = id; }

 private:
  bool is_like(const Launch& launch) const {
    return site_ == launch.site && std::ranges::equal(accesses_, launch.accesses);
  }

  std::uint64_t last_id_ = 0;  // of the latest
  std::uint64_t hash_ = 0;     // Launch::hash of it: what differs in that is not even kept
  bool repeats_ = false;
  const WorkSite* site_ = nullptr;  // of those that were kept; null: none
  SizeClass size_;
  bool reads_only_ = false;
  boost::container::small_vector<Access, 4> accesses_;
};

}  // namespace pergola::scheduler
