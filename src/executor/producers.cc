#include "src/executor/producers.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "src/base/fork.h"
#include "src/executor/process_fence.h"

namespace pergola::executor {
namespace {

// A thread that has not spawned for so many looks of the keeper gives its rings to those that have.
constexpr std::uint64_t kQuietLooks = 8;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{1};  // relaxed: only distinct values are wanted
  return counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// A thread's producers, one for each set of rings that it has spawned into.
struct Producers::OfThread {
  struct One {
    std::uint64_t id;
    std::weak_ptr<Producers> of;
    std::shared_ptr<Producer> producer;
  };
  std::vector<One> all;
  ~OfThread() {
    last_id = 0;
    last = nullptr;
    is_over = true;
    if (is_forked_child()) return;  // others may have held the locks at the fork
    for (const One& one : all)
      if (const auto producers = one.of.lock()) producers->end(one.producer);
  }
};

Producers::Producers(std::uint32_t rings, bool fences)
    : id_(next_id()), fences_(fences), unowned_(rings), rings_(rings) {
  std::iota(unowned_.rbegin(), unowned_.rend(), 0u);
}

// The model once more: compiled together with uses of them, a definition's word counts.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t Producers::last_id = 0;
[[gnu::tls_model("initial-exec")]] constinit thread_local Producer* Producers::last = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool Producers::is_over = false;

Producer& Producers::mine() {
  if (last_id == id_) [[likely]]
    return *last;
  if (is_over) {  // a destructor of the thread's spawns: this one stays until the rings go
    const std::lock_guard lock(mutex_);
    return *all_.emplace_back(std::make_shared<Producer>());
  }
  static thread_local OfThread mine;
  std::erase_if(mine.all, [](const OfThread::One& one) { return one.of.expired(); });
  auto found = std::find_if(mine.all.begin(), mine.all.end(), [&](const auto& one) { return one.id == id_; });
  if (found == mine.all.end()) {
    auto made = std::make_shared<Producer>();
    const std::lock_guard lock(mutex_);
    all_.push_back(made);
    found = mine.all.insert(mine.all.end(), {id_, weak_from_this(), std::move(made)});
  }
  last_id = id_;
  last = found->producer.get();
  return *last;
}

void Producers::end(const std::shared_ptr<Producer>& producer) {
  const std::lock_guard lock(mutex_);
  unowned_.insert(unowned_.end(), producer->owned.begin(), producer->owned.end());
  producer->owned.clear();
  std::erase(all_, producer);
}

void Producers::freeze(const Producer* but) {
  for (const auto& one : all_)
    if (one.get() != but) one->frozen.store(true, std::memory_order_relaxed);
  process_fence();
  for (const auto& one : all_)
    while (one.get() != but && (one->uses.load(std::memory_order_acquire) & 1) != 0) std::this_thread::yield();
}

void Producers::thaw() {
  for (const auto& one : all_) {
    if (one->at >= one->owned.size()) one->at = 0;
    if (one->owned.empty()) one->left = 0;
    one->frozen.store(false, std::memory_order_release);
  }
}

void Producers::share(Producer& producer) {
  const std::lock_guard lock(mutex_);
  freeze(&producer);
  std::size_t owners = 1, rings = unowned_.size() + producer.owned.size();
  for (const auto& one : all_) {
    if (one.get() == &producer) continue;
    owners += !one->owned.empty();
    rings += one->owned.size();
  }
  const std::size_t part = std::max<std::size_t>(1, rings / owners);
  while (producer.owned.size() < part) {
    std::vector<std::uint32_t>* from = &unowned_;
    if (unowned_.empty()) {
      // Of who has most; and, where all have one, of who has waited longest to be taken from.
      const auto most = std::max_element(all_.begin(), all_.end(), [&](const auto& a, const auto& b) {
        return (a.get() == &producer ? 0 : a->owned.size()) < (b.get() == &producer ? 0 : b->owned.size());
      });
      from = &(*most)->owned;
      if (from->empty() || from == &producer.owned) break;
      if (from->size() == 1) std::rotate(most, most + 1, all_.end());
    }
    producer.owned.push_back(from->back());
    from->pop_back();
  }
  thaw();
}

bool Producers::use_rings(std::uint32_t count, FunctionRef<bool()> may) {
  const std::lock_guard lock(mutex_);
  freeze(nullptr);
  const bool changes = may();
  if (changes) {
    const auto is_gone = [&](std::uint32_t ring) { return ring >= count; };
    for (const auto& one : all_) std::erase_if(one->owned, is_gone);
    std::erase_if(unowned_, is_gone);
    for (std::uint32_t ring = rings_; ring < count; ++ring) unowned_.push_back(ring);
    rings_ = count;
  }
  thaw();
  return changes;
}

bool Producers::balance() {
  const std::lock_guard lock(mutex_);
  bool any = false, moves = !unowned_.empty();
  for (const auto& one : all_) {
    const std::uint64_t uses = one->uses.load(std::memory_order_relaxed) & ~std::uint64_t{1};
    const bool spawns = uses != one->seen;
    one->quiet_looks = spawns ? 0 : one->quiet_looks + 1;
    one->seen = uses;
    any |= spawns;
    moves |= one->quiet_looks > kQuietLooks && !one->owned.empty();
  }
  if (!any || !moves) return any;
  freeze(nullptr);
  std::vector<Producer*> active;
  for (const auto& one : all_) {
    if (one->quiet_looks == 0) active.push_back(one.get());
    if (one->quiet_looks <= kQuietLooks) continue;
    unowned_.insert(unowned_.end(), one->owned.begin(), one->owned.end());
    one->owned.clear();
  }
  for (std::size_t n = 0; !unowned_.empty(); ++n) {
    active[n % active.size()]->owned.push_back(unowned_.back());
    unowned_.pop_back();
  }
  thaw();
  return any;
}

}  // namespace pergola::executor
