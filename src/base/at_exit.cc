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
    // In one of the process's last functions, too, after the others have acted.
    if (!std::exchange(is_registered_, true)) std::atexit([] { instance().act(); });
  }
  bool remove(const AtExit* one, const std::function<void()>& act) {
    const std::lock_guard lock(mutex_);
    if (all_.erase(one) == 0) return false;
    if (act) act();
    return true;
  }

 private:
  void act() {
    if (is_forked_child()) return;
    const std::lock_guard lock(mutex_);
    is_registered_ = false;
    for (const AtExit* one : std::exchange(all_, {})) one->act_();
  }

  std::mutex mutex_;  // guards the rest, and keeps each there while it acts
  std::set<const AtExit*> all_;
  bool is_registered_ = false;
};

AtExit::AtExit(std::function<void()> act) : act_(std::move(act)) {
  Living::instance().add(this);
}

bool AtExit::cancel(const std::function<void()>& act) {
  return !is_forked_child() && Living::instance().remove(this, act);
}

}  // namespace pergola
