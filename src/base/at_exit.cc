#include "src/base/at_exit.h"

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "src/base/fork.h"

namespace pergola {

// Never destroyed: objects in static ones go late.
class AtExit::Living {
 public:
  static Living& instance() {
    static auto* const living = new Living;
    return *living;
  }
  void add(const AtExit* one) {
    const std::lock_guard lock(mutex_);
    all_.insert(one);
  }
  bool remove(const AtExit* one) {
    const std::lock_guard lock(mutex_);
    return all_.erase(one) != 0;
  }

 private:
  Living() {
    std::atexit([] { instance().act(); });
  }
  void act() {
    if (is_forked_child()) return;
    const std::lock_guard lock(mutex_);
    for (const AtExit* one : std::exchange(all_, {})) one->act_();
  }

  std::mutex mutex_;  // guards all_, and keeps each there while it acts
  std::set<const AtExit*> all_;
};

AtExit::AtExit(std::function<void()> act) : act_(std::move(act)) {
  Living::instance().add(this);
}

bool AtExit::cancel() {
  return !is_forked_child() && Living::instance().remove(this);
}

}  // namespace pergola
