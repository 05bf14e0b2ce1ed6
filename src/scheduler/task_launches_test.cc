// Launches that run as tasks: which do, why others do not, and what comes after them. By a pool whose tasks end when
// the test says so, or when somebody waits for them.
#include "src/scheduler/task_launches.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;

class FakeHost final : public TaskHost {
 public:
  Result<bool> check(TaskId id) override {
    if (failed.contains(id)) return failure();
    return !open.contains(id);
  }
  Status wait(TaskId id, std::optional<std::chrono::nanoseconds> timeout) override {
    if (timeout && open.contains(id)) return PERGOLA_ERROR(kTimeout, "late");
    waited.push_back(id);
    EXPECT_TRUE(held == nullptr || *held == 0) << "whoever waits keeps the kernel away";
    open.erase(id);
    return failed.contains(id) ? failure() : Status();
  }
  bool would_start_kernel() const override { return starts; }
  static Status failure() { return PERGOLA_ERROR(kDeviceFault, "wild"); }

  std::set<TaskId> open, failed;
  std::vector<TaskId> waited;
  const int* held = nullptr;
  bool starts = false;
};

class FakeForm final : public TaskForm {
 public:
  explicit FakeForm(FakeHost& host) : host_(host) {}
  State state() override { return state_now; }
  std::string refusal() const override { return "line 7: a grid-wide barrier"; }
  Result<TaskId> try_spawn(std::span<const std::byte>) override {
    if (lacks != 0) return TaskId{0};
    host_.open.insert(++last);
    return last;
  }
  Status get_ready() override {
    if (lacks > 0) --lacks;
    return {};
  }
  State state_now = State::kReady;
  int lacks = 0;  // -1: whatever is done
  TaskId last = 0;

 private:
  FakeHost& host_;
};

class FakeForms final : public TaskForms {
 public:
  explicit FakeForms(std::shared_ptr<FakeForm> form) : form_(std::move(form)) {}
  std::shared_ptr<TaskForm> of(const device::LaunchConfig&) override { return form_; }

 private:
  const std::shared_ptr<FakeForm> form_;
};

class TaskLaunchesTest : public SchedulerTest, protected HeldFromTasks {
 protected:
  void start(const std::string& more = "") {
    open("graphs=off,tasks=small" + more);
    if (scheduler->takes_tasks()) scheduler->set_task_host(host_);
  }
  void release() override { --held_; }
  Status acquire() override {
    ++held_;
    return {};
  }
  // As a session launches: whether it became a task.
  bool launch(const std::string& name, const std::vector<std::string>& in, const std::vector<std::string>& out,
              double ns = 1000) {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back(all(each, Mode::kRead));
    for (const std::string& each : out) accesses.push_back(all(each, Mode::kWrite));
    const KernelCall call{module_, kernel_, config_, std::as_bytes(std::span(&ns, 1))};
    Work work{.site = scheduler->site(name), .accesses = accesses, .universal = universal_, .call = &call};
    ticket_ = 0;
    const Result<bool> task = scheduler->offer_task(work, wants_event_, forms_, &ticket_);
    EXPECT_TRUE(task.ok()) << task.message();
    if (task.ok() && *task) return true;
    EXPECT_TRUE(acquire().ok());
    work.held_from_tasks = this;
    const Status status = scheduler->submit(
        work, [&](device::Queue& queue) { return queue.launch(module_, kernel_, config_, call.parameters); }, nullptr,
        &ticket_);
    EXPECT_TRUE(status.ok()) << status.message();
    release();
    return false;
  }
  // Until its time is known, with one array and with two.
  void learn(const std::string& name, double ns = 1000) {
    for (int n = 0; n < 8; ++n) {
      EXPECT_FALSE(launch(name, n < 4 ? std::vector<std::string>() : std::vector<std::string>{"l1"}, {"l2"}, ns));
      EXPECT_TRUE(scheduler->synchronize().ok());
    }
  }
  std::uint64_t apart(const std::string& name, NoTask why) const {
    for (const TasksReport::Kernel& kernel : scheduler->graphs().tasks.kernels)
      if (kernel.name == name) return kernel.tally.apart[static_cast<std::size_t>(why)];
    return 0;
  }

  const std::shared_ptr<FakeHost> host_ = std::make_shared<FakeHost>();
  const std::shared_ptr<FakeForm> form_ = std::make_shared<FakeForm>(*host_);
  FakeForms forms_{form_};
  device::LaunchConfig config_{{1, 1, 1}, {32, 1, 1}};
  device::ModulePtr module_;
  FakeKernel kernel_;
  Mode universal_ = Mode::kNone;
  bool wants_event_ = false;
  int held_ = 0;
  Ticket ticket_ = 0;
};

TEST_F(TaskLaunchesTest, SmallAndShort_OnceItIsTimed) {
  start();
  learn("k");
  EXPECT_EQ(apart("k", NoTask::kNotTimed), 8u);
  EXPECT_TRUE(launch("k", {"x"}, {"y"}));
  EXPECT_TRUE(launch("k", {"x"}, {"z"})) << "readers of one array are in no order";
  EXPECT_EQ(host_->open.size(), 2u);

  learn("long", 1e6);
  EXPECT_FALSE(launch("long", {"u"}, {"v"}));
  EXPECT_EQ(apart("long", NoTask::kLong), 1u);
  config_.grid.x = 32;
  EXPECT_FALSE(launch("k", {"x"}, {"w"}));
  config_ = {{2, 1, 1}, {993, 1, 1}};
  EXPECT_FALSE(launch("k", {"x"}, {"w"}));
  EXPECT_EQ(apart("k", NoTask::kWide), 2u);
}

TEST_F(TaskLaunchesTest, WhatWouldHaveToWait_GoesToAStream_BehindTheTask) {
  start();
  learn("k");
  host_->held = &held_;
  ASSERT_TRUE(launch("k", {}, {"x"}));
  EXPECT_FALSE(launch("k", {"x"}, {"y"}));
  EXPECT_EQ(apart("k", NoTask::kAfterTask), 1u);
  EXPECT_EQ(host_->waited, std::vector<TaskId>{1}) << "just the one that it comes after";
  EXPECT_FALSE(launch("k", {"y"}, {"z"})) << "a chain stays on its stream";
  EXPECT_EQ(apart("k", NoTask::kAfterLaunch), 1u);
  EXPECT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(launch("k", {"y"}, {"z"}));
}

TEST_F(TaskLaunchesTest, WriterComesAfterReaders) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {"x"}, {"a"}));
  ASSERT_TRUE(launch("k", {"x"}, {"b"}));
  ASSERT_TRUE(run("fill", {}, {"x"}).ok());
  EXPECT_EQ(host_->waited.size(), 2u);
  EXPECT_TRUE(host_->open.empty());
}

TEST_F(TaskLaunchesTest, TheHost_WaitsForJustWhatItUses) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {"x"}, {"y"}));
  ASSERT_TRUE(launch("k", {"x"}, {"z"}));
  EXPECT_TRUE(read("x").ok());
  EXPECT_TRUE(host_->waited.empty());
  EXPECT_FALSE(scheduler->try_host_access(all("y", Mode::kRead)));
  const auto late = scheduler->begin_host_access(all("y", Mode::kRead), std::chrono::steady_clock::now());
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  EXPECT_TRUE(read("y").ok());
  EXPECT_EQ(host_->waited, std::vector<TaskId>{1});
  const auto held = scheduler->begin_host_access(all("y", Mode::kWrite));
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE([&] { return scheduler->try_host_access(all("z", Mode::kRead)) ? true : false; }());
}

TEST_F(TaskLaunchesTest, UniversalWork_ComesAfterAllTasks_AndIsNone) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {}, {"x"}));
  ASSERT_TRUE(launch("k", {}, {"y"}));
  universal_ = Mode::kReadWrite;
  EXPECT_FALSE(launch("k", {}, {}));
  EXPECT_EQ(host_->waited.size(), 2u);
  universal_ = Mode::kNone;
  EXPECT_FALSE(launch("k", {}, {"z"})) << "it comes after work that may use any array";
}

TEST_F(TaskLaunchesTest, RecordSynchronizeAndTickets_KnowOfTasks) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {}, {"x"}));
  const auto event = scheduler->event_of(ticket_);
  ASSERT_TRUE(event.ok()) << event.message();
  EXPECT_FALSE((*event)->poll().has_value());
  EXPECT_EQ((*event)->elapsed_ns(**event).code(), Code::kUnsupported);
  ASSERT_TRUE(scheduler->record().ok());
  EXPECT_TRUE(host_->open.empty());
  EXPECT_TRUE((*event)->poll().has_value());
  ASSERT_TRUE(launch("k", {}, {"x"}));
  EXPECT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(host_->open.empty());
  wants_event_ = true;
  EXPECT_FALSE(launch("k", {}, {"x"}));
  EXPECT_EQ(apart("k", NoTask::kEvent), 1u);
}

TEST_F(TaskLaunchesTest, AFailure_IsToldUntilSynchronizeHas) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {}, {"x"}));
  host_->open.erase(1), host_->failed.insert(1);
  EXPECT_THAT(read("x").message(), HasSubstr("wild"));
  EXPECT_FALSE(launch("k", {}, {"y"})) << "as long as nobody has heard of it";
  EXPECT_THAT(scheduler->synchronize().message(), HasSubstr("wild"));
  EXPECT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(read("x").ok());
  EXPECT_TRUE(launch("k", {}, {"y"}));
}

TEST_F(TaskLaunchesTest, Memory_StaysUntilTheTasksHaveEnded) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {"in"}, {"x"}));
  const auto memory = std::make_shared<int>(1);
  scheduler->retire(std::move(arrays["x"]), memory);
  EXPECT_EQ(memory.use_count(), 2);
  host_->open.clear();
  arrays["y"] = scheduler->create_resource(kBytes);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(TaskLaunchesTest, KernelsThatCannotBeTasks_StayLaunches_AndWhyIsTold) {
  start();
  learn("k");
  form_->state_now = TaskForm::State::kMaking;
  EXPECT_FALSE(launch("k", {}, {"x"}));
  form_->state_now = TaskForm::State::kRefused;
  EXPECT_FALSE(launch("k", {}, {"x"}));
  const TasksReport report = scheduler->graphs().tasks;
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_THAT(explain(report), HasSubstr("tasks: 0 of 10 launches of k ran as tasks"));
  EXPECT_THAT(explain(report), HasSubstr("1 did not: its kernel cannot be a task: line 7: a grid-wide barrier"));
  const GraphsReport all = scheduler->graphs();
  const auto again = parse_graphs(print_graphs(all), "it");
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(*again, all);
}

TEST_F(TaskLaunchesTest, NoRoom_GoesToAStream_AndWhatIsLackingIsSeenTo) {
  start();
  learn("k");
  form_->lacks = -1;
  EXPECT_FALSE(launch("k", {}, {"x"}));
  EXPECT_EQ(apart("k", NoTask::kNoRoom), 1u);
  EXPECT_TRUE(scheduler->synchronize().ok());
  form_->lacks = 1;
  EXPECT_TRUE(launch("k", {}, {"x"}));
}

TEST_F(TaskLaunchesTest, AResidentKernel_IsNotStartedForAFew_NorBesideOtherWork) {
  start();
  learn("k");
  host_->starts = true;
  const TaskBounds bounds{.launches_in_a_row = 3};
  scheduler->set_task_bounds(bounds);
  for (int n = 0; n < 3; ++n) {
    EXPECT_FALSE(launch("k", {}, {"x"}));
    EXPECT_TRUE(scheduler->synchronize().ok());
  }
  EXPECT_EQ(apart("k", NoTask::kFewInARow), 3u);
  ASSERT_TRUE(run("other", {}, {"z"}, 1e6).ok());
  EXPECT_FALSE(launch("k", {}, {"x"}));
  EXPECT_EQ(apart("k", NoTask::kDeviceBusy), 1u);
  EXPECT_TRUE(scheduler->synchronize().ok());
  EXPECT_TRUE(launch("k", {}, {"x"}));
}

// ── Edges ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(TaskLaunchesTest, WhatATaskComesAfter_IsToldByEvents) {
  start();
  ASSERT_TRUE(run("writes", {}, {"x"}, 1000).ok());
  ASSERT_TRUE(run("reads", {"x"}, {"y"}, 1e6).ok());
  const Access read[] = {all("x", Mode::kRead)}, write[] = {all("x", Mode::kWrite)}, other[] = {all("z", Mode::kWrite)};
  const auto to_read = scheduler->predecessors(read, Mode::kNone),
             to_write = scheduler->predecessors(write, Mode::kNone);
  ASSERT_TRUE(to_read.ok() && to_write.ok());
  ASSERT_EQ(to_read->size(), 1u);
  ASSERT_EQ(to_write->size(), 1u);
  EXPECT_TRUE(scheduler->predecessors(other, Mode::kNone)->empty());
  EXPECT_EQ(scheduler->predecessors({}, Mode::kReadWrite)->size(), 1u) << "the last of its stream";
  EXPECT_EQ(device->state().host_ns, 0) << "nobody has waited";
  EXPECT_TRUE((*to_write)[0].end->wait().ok());
  EXPECT_TRUE(scheduler->predecessors(write, Mode::kNone)->empty());
}

TEST_F(TaskLaunchesTest, AFailureThatNobodyHasHeardOf_RefusesTasks) {
  start();
  device->state().fail_next = {PERGOLA_ERROR(kDeviceFault, "wild")};
  ASSERT_TRUE(run("fails", {}, {"x"}).ok());
  const Access read[] = {all("x", Mode::kRead)};
  const auto before = scheduler->predecessors(read, Mode::kNone);
  ASSERT_TRUE(before.ok()) << "it is not known yet";
  EXPECT_FALSE((*before)[0].end->wait().ok());
  EXPECT_THAT(scheduler->predecessors(read, Mode::kNone).message(), HasSubstr("wild"));
  EXPECT_FALSE(scheduler->synchronize().ok());
  EXPECT_TRUE(scheduler->predecessors(read, Mode::kNone)->empty());
}

// The stream waits for those that the gate covers, the host for others; what was before it is told without it.
TEST_F(TaskLaunchesTest, WorkBehindTasks_IsQueuedBehindTheirGate) {
  start();
  learn("k");
  ASSERT_TRUE(launch("k", {}, {"x"}));
  ASSERT_TRUE(launch("k", {}, {"y"}));
  const Access first[] = {all("x", Mode::kWrite)}, both[] = {all("x", Mode::kWrite), all("y", Mode::kRead)};
  EXPECT_TRUE(scheduler->comes_after_tasks({.accesses = first}));
  const BehindTasks behind{nullptr, 7, [](TaskId id) { return id == 1; }};
  ASSERT_TRUE(submit("fill", {.accesses = first, .behind = &behind}, 100).ok());
  EXPECT_TRUE(host_->waited.empty());
  ASSERT_EQ(device->state().of(Step::Kind::kGate).size(), 1u);
  EXPECT_EQ(device->state().of(Step::Kind::kGate)[0].event, 7u);
  ASSERT_TRUE(submit("fill", {.accesses = both, .behind = &behind}, 100).ok());
  EXPECT_EQ(host_->waited, std::vector<TaskId>{2});
  const std::vector<Step>& steps = device->state().steps;
  const auto gate =
      std::find_if(steps.rbegin(), steps.rend(), [](const Step& s) { return s.kind == Step::Kind::kGate; });
  ASSERT_NE(std::next(gate), steps.rend());
  EXPECT_EQ(std::next(gate)->kind, Step::Kind::kRecord) << "the end of the first fill";
}

TEST_F(TaskLaunchesTest, OtherPolicies_SayWhyThereAreNone) {
  start(",execution=sync");
  EXPECT_FALSE(scheduler->takes_tasks());
  EXPECT_THAT(explain(scheduler->graphs()), HasSubstr("no launches become tasks: the policy is execution=sync"));
  open("graphs=off");
  EXPECT_FALSE(scheduler->takes_tasks());
  EXPECT_EQ(explain(scheduler->graphs().tasks), "");
  EXPECT_EQ(print_graphs(scheduler->graphs()).find("\"tasks\""), std::string::npos);
}

}  // namespace
}  // namespace pergola::scheduler::testing
