// For tests: a scheduler on the device with a virtual clock, and programs written as users write them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "src/scheduler/fake_device.h"
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler::testing {

class SchedulerTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 1000;

  // Turns are timed by the device's clock.
  void open(std::string_view policy = "", std::shared_ptr<GraphLowerer> lowerer = nullptr) {
    const auto parsed = parse_policy(policy);
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    auto made = Scheduler::create(device, *parsed, std::move(lowerer));
    ASSERT_TRUE(made.ok()) << made.message();
    scheduler = std::move(*made);
    scheduler->set_turn_clock([state = &device->state()] { return state->host_ns; });
  }
  // Launches are held for ever, so that only what a test does is seen.
  void open_patient(std::string_view policy, std::shared_ptr<GraphLowerer> lowerer = nullptr) {
    open(policy, std::move(lowerer));
    scheduler->set_graph_patience(std::chrono::hours(1));
  }
  void open_always(const std::string& more = "") { open_patient("graphs=always" + (more.empty() ? "" : "," + more)); }
  std::size_t graph_launches() const { return device->state().of(Step::Kind::kGraph).size(); }
  std::size_t kernel_launches() const { return device->state().of(Step::Kind::kLaunch).size(); }
  // The array of this name, made when it is first spoken of.
  Resource& array(const std::string& name) {
    auto& resource = arrays[name];
    if (resource == nullptr) resource = scheduler->create_resource(kBytes);
    return *resource;
  }
  Access all(const std::string& name, Mode mode) { return {&array(name), {0, kBytes}, mode}; }

  // A kernel: what it reads and writes, by the names of arrays, and for how long it runs.
  Status run(const char* name, std::vector<std::string> in, std::vector<std::string> out, double ns = 100) {
    std::vector<Access> accesses;
    for (const std::string& each : in) {
      const bool both = std::find(out.begin(), out.end(), each) != out.end();
      accesses.push_back(all(each, both ? Mode::kReadWrite : Mode::kRead));
    }
    for (const std::string& each : out)
      if (std::find(in.begin(), in.end(), each) == in.end()) accesses.push_back(all(each, Mode::kWrite));
    return submit(name, {.accesses = accesses}, ns);
  }
  Status submit(std::string_view name, Work work, double ns, device::EventPtr* event = nullptr) {
    work.site = scheduler->site(name);
    if (!predict) work.site->prediction = {};
    return scheduler->submit(
        work,
        [&](device::Queue& queue) {
          static_cast<FakeQueue&>(queue).run(ns);
          return Status();
        },
        event);
  }
  Status read(const std::string& name) { return scheduler->begin_host_access(all(name, Mode::kRead)).status(); }

  // Streams by kernel, in order of submission: "k1:0 k2:1 k3:0".
  std::string streams() const {
    std::string text;
    for (const DagVertex& vertex : scheduler->picture().vertices)
      if (vertex.is_on_stream()) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", vertex.name, vertex.stream);
    return text;
  }
  // The names of a computation's parents, by the place of the child in the order of submission, from 1.
  // Those that have to be waited for, or those that had ended.
  std::multiset<std::string> parents(std::uint64_t child, bool ended = false) const {
    const DagPicture picture = scheduler->picture();
    std::map<std::uint64_t, const DagVertex*> by_number;
    std::vector<const DagVertex*> on_streams;
    for (const DagVertex& vertex : picture.vertices) {
      by_number[vertex.id] = &vertex;
      if (vertex.is_on_stream()) on_streams.push_back(&vertex);
    }
    std::multiset<std::string> names;
    const DagVertex& vertex = *on_streams.at(child - 1);
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      if ((vertex.edges[i].order == Order::kEnded) == ended)
        names.insert(
            fmt::format("{} {}", by_number.at(vertex.edges[i].parent)->name, to_string(vertex.edges[i].hazard)));
    return names;
  }
  // Which computation each wait of a stream is for, in order: "1<0" is stream 1 waiting for an event of stream 0.
  std::string waits() const {
    std::map<std::uint32_t, std::uint32_t> recorded_on;
    for (const Step& step : device->state().of(Step::Kind::kRecord)) recorded_on[step.event] = step.queue;
    std::string text;
    for (const Step& step : device->state().of(Step::Kind::kWait))
      text += fmt::format("{}{}<{}", text.empty() ? "" : " ", step.queue, recorded_on.at(step.event));
    return text;
  }

  // The next open() begins a test anew: with other arrays, on a device that has done nothing.
  void close() {
    scheduler.reset();
    arrays.clear();
    device->state() = FakeState();
  }

  const std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::map<std::string, std::unique_ptr<Resource>> arrays;  // go after the scheduler, without retire()
  std::unique_ptr<Scheduler> scheduler;
  bool predict = false;  // learn which events are of use
};

}  // namespace pergola::scheduler::testing
