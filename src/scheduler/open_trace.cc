#include "src/scheduler/open_trace.h"

#include <mutex>
#include <set>

#include "src/base/file.h"

namespace pergola::scheduler {
namespace {

// Never destroyed: sessions may end after what the process's end destroys.
struct OpenPlaces {
  std::mutex mutex;
  std::set<std::string> places;  // guarded by mutex
};
OpenPlaces& open_places() {
  static auto* const places = new OpenPlaces;
  return *places;
}

}  // namespace

Result<OpenTrace> OpenTrace::open(const std::string& path) {
  if (is_written_in_place(path)) return OpenTrace(path, "");
  std::string place = place_of(path).string();
  const std::lock_guard lock(open_places().mutex);
  if (!open_places().places.insert(place).second)
    return PERGOLA_ERROR(kFailedPrecondition,
                         "A trace to '{}' is on, of this session or another, and a file has one: end that first, or "
                         "name another file.",
                         path);
  return OpenTrace(path, std::move(place));
}

OpenTrace& OpenTrace::operator=(OpenTrace&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(place_, other.place_);
  return *this;
}

OpenTrace::~OpenTrace() {
  if (place_.empty()) return;
  const std::lock_guard lock(open_places().mutex);
  open_places().places.erase(place_);
}

}  // namespace pergola::scheduler
