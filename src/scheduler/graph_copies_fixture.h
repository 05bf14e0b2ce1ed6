// For tests: programs whose copies between arrays and their host sides recur with their launches.
#pragma once

#include <functional>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {

class GraphCopies : public GraphTest {
 protected:
  static constexpr std::size_t kCopied = 100'000;  // bytes: 2000 ns. So small an upload does not go at once

  void copy(const std::string& name, bool up) {
    device::BufferPtr &memory = memory_[name], &host = memory_[name + " host"];
    const std::size_t bytes = bytes_.contains(name) ? bytes_[name] : kCopied;
    if (memory == nullptr) memory = *device->allocate(bytes, device::MemoryKind::kDevice);
    if (host == nullptr) host = *device->allocate(bytes, device::MemoryKind::kHostVisible);
    const Access accesses[] = {all(up ? name + " host" : name, Mode::kRead),
                               all(up ? name : name + " host", Mode::kWrite)};
    const CopyCall call{up ? memory : host, up ? host : memory, bytes};
    const Status status =
        scheduler->submit({.kind = up ? WorkKind::kCopyToDevice : WorkKind::kCopyToHost,
                           .site = scheduler->site(up ? "upload" : "download"),
                           .accesses = accesses,
                           .copy = &call,
                           .host_waits = !up},
                          [&](device::Queue& queue) { return queue.copy(call.to, 0, call.from, 0, call.size_bytes); });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Not part of any turn: what comes after it and uses the array waits for it.
  void fill(const std::string& name) {
    const Access access = all(name, Mode::kWrite);
    const Status status =
        scheduler->submit({.kind = WorkKind::kFill, .site = scheduler->site("fill"), .accesses = std::span(&access, 1)},
                          [](device::Queue& queue) { return queue.fill(nullptr, 0, kCopied, 0, 1); });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void upload(const std::string& name) { copy(name, true); }
  void download(const std::string& name) { copy(name, false); }
  void host(const std::string& name, Mode mode) {
    ASSERT_TRUE(scheduler->begin_host_access(all(name + " host", mode)).ok());
  }
  // The program writes x and y, and reads z, in each turn.
  void cold_turn() {
    host("x", Mode::kWrite);
    upload("x");
    launch("a", {"x"}, {"u"}, 1000);
    host("y", Mode::kWrite);
    upload("y");
    launch("b", {"y"}, {"v"}, 3000);
    launch("c", {"u", "v"}, {"z"}, 5000);
    download("z");
    host("z", Mode::kRead);
  }
  // Calls that take longer than what they upload, with small_uploads().
  void small_uploads_turn(const std::function<void()>& in_between = {}) {
    host("p", Mode::kWrite);
    for (const char* name : {"p", "q", "r"}) upload(name);
    launch("a", {"p", "q"}, {"u"});
    if (in_between) in_between();
    launch("b", {"r", "u"}, {"z"});
    download("z");
    host("z", Mode::kRead);
  }
  void small_uploads() { bytes_ = {{"p", 140'000}, {"q", 140'000}, {"r", 140'000}}; }
  void learn_cold() {
    for (int i = 0; i < 40; ++i) {
      cold_turn();
      scheduler->settle_graphs();
    }
    ASSERT_GT(graph_launches(), 0u);
  }
  std::size_t copies() const { return device->state().of(Step::Kind::kCopy).size(); }
  // So often that it is found, and its graphs made.
  template <typename Turn>
  void learn_turns(Turn turn, int count = 60) {
    for (int i = 0; i < count; ++i) {
      turn();
      scheduler->settle_graphs();
    }
  }
  struct Counts {
    std::size_t graphs = 0, copies = 0, kernels = 0;
    bool operator==(const Counts&) const = default;
    friend void PrintTo(const Counts& each, std::ostream* out) {
      *out << each.graphs << " graphs, " << each.copies << " copies and " << each.kernels << " launches alone";
    }
  };
  Counts counts() const { return {graph_launches(), copies(), kernel_launches()}; }
  // Of the next `turns` turns, each.
  template <typename Turn>
  Counts of_each(Turn turn, std::size_t turns = 5) {
    const Counts before = counts();
    for (std::size_t i = 0; i < turns; ++i) turn();
    const Counts now = counts();
    EXPECT_EQ((now.copies - before.copies) % turns, 0u);
    return {(now.graphs - before.graphs) / turns, (now.copies - before.copies) / turns,
            (now.kernels - before.kernels) / turns};
  }

  std::map<std::string, std::size_t> bytes_;  // that an array's copies copy, where it is not kCopied
  std::map<std::string, device::BufferPtr> memory_;
};

}  // namespace pergola::scheduler::testing
