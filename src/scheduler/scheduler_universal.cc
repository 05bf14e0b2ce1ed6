// Accesses to anything, as of a kernel of which it cannot be told what it accesses: the scheduler's side.
//
// One that writes comes after all before it, and all later work after it; one that reads, after all that wrote, and all
// later writes after it.
#include <algorithm>

#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

void Scheduler::forget_ended_universal() {
  if (universal_writer_ != nullptr && has_ended_well(*universal_writer_)) {
    ended_universal_writer_ = universal_writer_->id;
    pool_.let_go(*std::exchange(universal_writer_, nullptr));
  }
  std::erase_if(universal_readers_, [&](Computation* reader) {
    if (!has_ended_well(*reader)) return false;
    ended_universal_readers_.add(reader->id);
    pool_.let_go(*reader);
    return true;
  });
}

void Scheduler::universal_dependencies(Mode universal, bool any_write, const Computation* who, Dependencies& out,
                                       EndedParents& ended) {
  if (universal_writer_ != nullptr || !universal_readers_.empty()) forget_ended_universal();
  if (universal != Mode::kNone) {
    for (const auto& stream : streams_) {
      if (stream->tail == nullptr || stream->tail == who) continue;
      if (has_ended_well(*stream->tail)) ended.add({stream->tail->id, Hazard::kUniversal, 0});
      add_dependency(stream->tail, Hazard::kUniversal, 0, who, out);
    }
    return;
  }
  // It came after everything before it, so that older parents need not be waited for; and younger ones came after it.
  const std::uint64_t writer = universal_writer_ != nullptr ? universal_writer_->id : ended_universal_writer_;
  if (writer != 0 && (who == nullptr || writer != who->id)) {
    const auto older = std::partition(out.begin(), out.end(),
                                      [&](const Dependency& dependency) { return dependency.parent->id > writer; });
    Dependencies covered(older, out.end());
    out.erase(older, out.end());
    release(covered, pool_);
    ended.drop_older_than(writer);
    if (out.empty() && ended.list().empty()) {
      if (universal_writer_ == nullptr) ended.add({writer, Hazard::kUniversal, 0});
      add_dependency(universal_writer_, Hazard::kUniversal, 0, who, out);
    }
  }
  if (!any_write) return;
  std::uint64_t youngest = 0;  // of the parents that wrote, which came after those readers that are older
  const auto look = [&](Hazard hazard, std::uint64_t id) {
    if (hazard == Hazard::kReadAfterWrite || hazard == Hazard::kWriteAfterWrite) youngest = std::max(youngest, id);
  };
  for (const Dependency& dependency : out) look(dependency.hazard, dependency.parent->id);
  for (const EndedParent& parent : ended.list()) look(parent.hazard, parent.parent);
  ended_universal_readers_.add_to(ended, Hazard::kUniversal, 0, youngest);
  for (Computation* reader : universal_readers_) add_dependency(reader, Hazard::kUniversal, 0, who, out);
}

void Scheduler::become_universal(Mode mode, Computation& who) {
  ++who.holds;
  if (!writes(mode)) {
    if (universal_readers_.size() >= kManyReaders)
      keep_last_of_each_stream(universal_readers_, [&](Computation& reader) { pool_.let_go(reader); });
    universal_readers_.push_back(&who);
    return;
  }
  if (universal_writer_ != nullptr) universal_readers_.push_back(universal_writer_);
  for (Computation* before : universal_readers_) pool_.let_go(*before);
  universal_readers_.clear();
  ended_universal_readers_.clear();
  universal_writer_ = &who;
}

}  // namespace pergola::scheduler
