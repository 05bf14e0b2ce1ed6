// Recordings on the device with a virtual clock: times, edges and files are known exactly.
#include "src/scheduler/recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "src/base/file.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/metrics.h"
#include "src/scheduler/scheduler_fixture.h"
#include "src/scheduler/trace_file.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Recording : public SchedulerTest {
 public:
  Recording() { std::filesystem::create_directories(folder_); }
  ~Recording() override {
    scheduler.reset();
    std::filesystem::remove_all(folder_);
  }
  RecorderOptions options(std::size_t capacity = 100) {
    return {capacity, [state = &device->state()] { return state->host_ns; }};
  }
  // What the file has.
  Timeline traced() const {
    const auto text = read_file(file_);
    EXPECT_TRUE(text.ok()) << text.message();
    const auto timeline = parse_trace(*text, file_);
    EXPECT_TRUE(timeline.ok()) << timeline.message();
    return timeline.ok() ? *timeline : Timeline();
  }
  // "a 0-100": in order of submission.
  static std::string times(const Timeline& timeline) {
    std::string text;
    for (const Slice& slice : timeline.slices)
      text += fmt::format("{}{} {:.0f}-{:.0f}", text.empty() ? "" : ", ", slice.name, slice.start_ns, slice.end_ns);
    return text;
  }
  // The small one of the paper's programs.
  void vec() {
    ASSERT_TRUE(run("square1", {"x"}, {"x1"}, 100).ok());
    ASSERT_TRUE(run("square2", {"y"}, {"y1"}, 150).ok());
    ASSERT_TRUE(run("reduce", {"x1", "y1"}, {"z"}, 50).ok());
  }

 protected:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-recording-{}", ::getpid());
  const std::string file_ = folder_ / "trace.json", history_ = folder_ / "history.json";
};

TEST_F(Recording, TimesStreamsAndEdges_AreThoseOfTheRun) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  vec();
  ASSERT_TRUE(read("z").ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  EXPECT_EQ(times(timeline), "square1 0-100, square2 0-150, reduce 150-200");
  EXPECT_EQ(timeline.slices[1].stream, 1u);
  const Slice& reduce = timeline.slices[2];
  EXPECT_EQ(reduce.stream, 0u);
  EXPECT_EQ(reduce.bytes, 3 * kBytes);
  EXPECT_EQ(reduce.reason, StreamReason::kFirstChild);
  ASSERT_EQ(reduce.parents.size(), 2u);
  EXPECT_EQ(reduce.parents[0].order, Order::kSameStream);
  EXPECT_EQ(reduce.parents[1].parent, 2u);
  EXPECT_EQ(reduce.parents[1].order, Order::kEvent);
  ASSERT_EQ(timeline.host.size(), 2u);
  EXPECT_EQ(timeline.host[0].kind, HostKind::kWait);
  EXPECT_DOUBLE_EQ(timeline.host[0].end_ns, 200);
  EXPECT_EQ(timeline.host[0].parents.at(0).parent, 3u);
  EXPECT_EQ(timeline.host[1].kind, HostKind::kRead);
  const Overlap found = overlap(timeline);
  EXPECT_DOUBLE_EQ(found.cc, 200.0 / 300);
  const auto own = [](const Slice& slice) { return std::optional(slice.duration_ns()); };
  EXPECT_DOUBLE_EQ(critical_path(timeline, own).length_ns, 200);
}

// Of both its sides, which are as large; or of the one that is an array.
TEST_F(Recording, ACopy_HasTheBytesThatItMoves) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  const Access both[] = {all("x", Mode::kRead), all("y", Mode::kWrite)};
  for (const WorkKind kind : {WorkKind::kCopy, WorkKind::kCopyToDevice, WorkKind::kCopyToHost})
    ASSERT_TRUE(submit("copy", {.kind = kind, .accesses = both}, 10).ok());
  ASSERT_TRUE(submit("copy", {.kind = WorkKind::kCopyToHost, .accesses = std::span(both, 1)}, 10).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.slices.size(), 4u);
  for (const Slice& slice : timeline.slices) EXPECT_EQ(slice.bytes, kBytes);
}

TEST_F(Recording, WhoOnlyWaits_IsNoAccess) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  vec();
  ASSERT_TRUE(scheduler->await_contents(all("z", Mode::kRead)).ok());
  ASSERT_TRUE(read("z").ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.host.size(), 2u);
  EXPECT_EQ(timeline.host[0].kind, HostKind::kWait);
  EXPECT_EQ(timeline.host[1].kind, HostKind::kRead);
}

// A wait for what was submitted before the recording began comes after that too.
TEST_F(Recording, AWaitForEarlierWork_CanBeRead) {
  open();
  vec();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(read("z").ok());
  ASSERT_TRUE(run("later", {"z"}, {"w"}).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  EXPECT_EQ(timeline.slices.size(), 1u);
  ASSERT_FALSE(timeline.host.empty());
  EXPECT_EQ(timeline.host[0].last_id, 3u);
  EXPECT_EQ(timeline.host[0].parents.at(0).parent, 3u);
}

// The thread that brings both clocks together may be interrupted while it does so.
TEST_F(Recording, AnInterruptionAtTheBegin_DoesNotShiftTheHostsSlices) {
  open();
  RecorderOptions interrupted = options();
  interrupted.host_clock_ns = [state = &device->state(), looks = 0]() mutable {
    if (++looks == 2) state->host_ns += 300e3;
    return state->host_ns;
  };
  ASSERT_TRUE(scheduler->start_trace(file_, interrupted).ok());
  vec();
  ASSERT_TRUE(read("z").ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.host.size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.host[0].end_ns, timeline.slices[2].end_ns);
  EXPECT_EQ(timeline.host_error_ns, 0);
}

TEST_F(Recording, StreamsAndWaits_AreThoseWithoutOne) {
  open();
  vec();
  const std::string without = streams(), waits_without = waits();
  close();
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  vec();
  EXPECT_EQ(streams(), without);
  EXPECT_EQ(device->state().of(Step::Kind::kWait).size(), 1u);
  EXPECT_EQ(waits_without, "0<1");
}

TEST_F(Recording, NothingIsRecordedBeforeAndAfter) {
  open();
  vec();
  const std::size_t events = device->state().of(Step::Kind::kRecord).size();
  ASSERT_TRUE(scheduler->synchronize().ok());
  const std::size_t before = device->state().of(Step::Kind::kRecord).size();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(run("traced", {}, {"x"}).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  EXPECT_EQ(device->state().of(Step::Kind::kRecord).size(), before + 3) << "the origin, and two around the kernel";
  device->state().steps.clear();
  vec();
  EXPECT_EQ(device->state().of(Step::Kind::kRecord).size(), events) << "as before";
  ASSERT_EQ(traced().slices.size(), 1u);
  EXPECT_EQ(traced().slices[0].name, "traced");
}

TEST_F(Recording, EndOfTheScheduler_WritesTheFile) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  vec();
  EXPECT_EQ(traced().slices.size(), 0u) << "the file is there from the start";
  device->state().host_ns = 1000;  // queues of this device wait for nothing when they go
  for (auto& [name, resource] : arrays) scheduler->retire(std::move(resource), nullptr);
  arrays.clear();
  scheduler.reset();
  EXPECT_EQ(traced().slices.size(), 3u);
}

// In whatever order: the work that goes on was submitted before what has ended.
TEST_F(Recording, ThatEndWhileWorkGoesOn_HaveWhatHasEnded) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(scheduler->start_history(history_, options()).ok());
  const auto tell = [] { return WorkDetail{{4, 1, 1}, {64, 1, 1}, 0, ""}; };
  const FunctionRef<WorkDetail()> detail = tell;
  for (const auto& [name, array, ns] : {std::tuple{"long", "x", 1000}, {"short", "y", 10}, {"behind", "x", 10}}) {
    const std::array accesses{all(array, Mode::kReadWrite)};
    ASSERT_TRUE(submit(name, {.accesses = accesses, .detail = &detail}, ns).ok());
  }
  device->state().host_ns = 500;
  const Status ended = scheduler->end_recordings(std::chrono::steady_clock::now());
  EXPECT_EQ(ended.code(), Code::kTimeout) << ended.message();
  EXPECT_EQ(times(traced()), "short 0-10");
  EXPECT_EQ(traced().without_time, 2u);
  EXPECT_THAT(History::load(history_)->print(), AllOf(HasSubstr("short"), Not(HasSubstr("long"))));
  EXPECT_TRUE(scheduler->end_recordings({}).ok()) << "none is on";
}

TEST_F(Recording, OldestAreDropped_AndCounted) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options(10)).ok());
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(run("k", {}, {"x"}).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const Timeline timeline = traced();
  EXPECT_EQ(timeline.slices.size(), 10u);
  EXPECT_EQ(timeline.slices.front().id, 16u);
  EXPECT_EQ(timeline.dropped, 15u);
  EXPECT_THAT(explain(timeline), HasSubstr("15 older ones were dropped"));
  EXPECT_THAT(explain(timeline), HasSubstr("#15, which is not in this trace"));
}

TEST_F(Recording, FailedWork_IsCounted_AndItsFailureToldAsWithoutOne) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  device->state().fail_next = {PERGOLA_ERROR(kDeviceFault, "It trapped.")};
  ASSERT_TRUE(run("bad", {}, {"x"}).ok());
  ASSERT_TRUE(run("good", {}, {"y"}).ok());
  EXPECT_EQ(read("x").code(), Code::kDeviceFault);
  ASSERT_TRUE(scheduler->end_trace().ok());
  EXPECT_EQ(times(traced()), "good 0-100");
  EXPECT_EQ(traced().without_time, 1u);
  EXPECT_EQ(scheduler->synchronize().code(), Code::kDeviceFault) << "ending a trace clears nothing";
}

TEST_F(Recording, FileThatCannotBeWritten_IsToldAtOnce) {
  open();
  const Status status = scheduler->start_trace(folder_, options());
  EXPECT_EQ(status.code(), Code::kIo) << status.message();
  EXPECT_TRUE(scheduler->end_trace().ok());
}

TEST_F(Recording, InAFolderThatIsMissing_AreRefusedAtOnce) {
  open();
  const std::string folder = folder_ / "mistyped";
  EXPECT_THAT(scheduler->start_trace(folder + "/trace.json", options()).message(), HasSubstr("mistyped"));
  EXPECT_THAT(scheduler->start_history(folder + "/history.json", options()).message(), HasSubstr("mistyped"));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// Whoever reads it gets one trace, not also that which shows that the file can be written. A history is of this run,
// and nothing waits for a reader that may never come.
TEST_F(Recording, IntoAPipe_IsOneText) {
  open();
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto recorded = [&](auto start, auto end) {
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    EXPECT_TRUE(start().ok());
    vec();
    EXPECT_TRUE(end().ok());
    std::string text(60'000, '\0');
    const ssize_t size = ::read(reader, text.data(), text.size());
    ::close(reader);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
  };
  const std::string trace =
      recorded([&] { return scheduler->start_trace(pipe, options()); }, [&] { return scheduler->end_trace(); });
  const auto timeline = parse_trace(trace, pipe);
  ASSERT_TRUE(timeline.ok()) << timeline.message();
  EXPECT_EQ(timeline->slices.size(), 3u);
  const std::string history =
      recorded([&] { return scheduler->start_history(pipe, options()); }, [&] { return scheduler->end_history(); });
  EXPECT_THAT(history, HasSubstr("pergola_history"));
  ASSERT_TRUE(scheduler->start_trace(pipe, options()).ok());
  EXPECT_THAT(scheduler->end_trace().message(), HasSubstr("nobody reads the pipe"));
}

TEST_F(Recording, AnotherTrace_EndsTheFirst) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(run("first", {}, {"x"}).ok());
  ASSERT_TRUE(scheduler->start_trace(folder_ / "second.json", options()).ok());
  EXPECT_EQ(times(traced()), "first 0-100");
}

// The one that ends last would replace the other.
TEST_F(Recording, TwoTracesToOneFile_TheSecondIsRefused) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(run("first", {}, {"x"}).ok());
  std::filesystem::create_symlink(folder_, folder_ / "link");
  auto other = Scheduler::create(device, {});
  ASSERT_TRUE(other.ok()) << other.message();
  for (const std::filesystem::path& same : {folder_ / "trace.json", folder_ / "." / "link" / "trace.json"}) {
    const Status status = (*other)->start_trace(same, options());
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.message();
    EXPECT_EQ(status.message(), fmt::format("A trace to '{}' is on, of this session or another, and a file has one: "
                                            "end that first, or name another file.",
                                            same.string()));
  }
  ASSERT_TRUE((*other)->start_trace(folder_ / "other.json", options()).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  EXPECT_EQ(times(traced()), "first 0-100");
  EXPECT_TRUE((*other)->start_trace(file_, options()).ok()) << "it has been written";
  EXPECT_EQ(scheduler->start_trace(file_, options()).code(), Code::kFailedPrecondition);
  other->reset();
  EXPECT_TRUE(scheduler->start_trace(file_, options()).ok()) << "a session's end writes";
  EXPECT_TRUE(scheduler->start_trace(file_, options()).ok()) << "of one session each ends the one before";
}

TEST_F(Recording, History_HasKernelsBySize_AndGivesEstimates) {
  open();
  ASSERT_TRUE(scheduler->start_history(history_, options()).ok());
  const auto detail = [] { return WorkDetail{{4, 1, 1}, {64, 1, 1}, 0, ""}; };
  const FunctionRef<WorkDetail()> describe = detail;
  const Access access = all("x", Mode::kWrite);
  for (const double ns : {100.0, 300.0})
    ASSERT_TRUE(submit("k", {.accesses = std::span(&access, 1), .detail = &describe}, ns).ok());
  ASSERT_TRUE(run("no shape", {}, {"x"}).ok());
  const SizeClass size = SizeClass::of(256, kBytes);
  EXPECT_FALSE(scheduler->estimate("k", size)) << "nothing has ended";
  ASSERT_TRUE(scheduler->synchronize().ok());
  ASSERT_TRUE(scheduler->estimate("k", size));
  EXPECT_DOUBLE_EQ(scheduler->estimate("k", size)->times.mean_ns, 200);
  EXPECT_FALSE(scheduler->estimate("no shape", size));
  ASSERT_TRUE(scheduler->end_history().ok());
  EXPECT_FALSE(scheduler->estimate("k", size));
  // What was known before counts in the next run.
  ASSERT_TRUE(scheduler->start_history(history_, options()).ok());
  ASSERT_TRUE(submit("k", {.accesses = std::span(&access, 1), .detail = &describe}, 500).ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(scheduler->estimate("k", size)->times.count, 3u);
  ASSERT_TRUE(scheduler->end_history().ok());
  EXPECT_EQ(History::load(history_)->estimate("", "k", size)->times.count, 3u);
}

TEST_F(Recording, TraceAndHistoryTogether_EndEachByItself) {
  open();
  const auto detail = [] { return WorkDetail{{1, 1, 1}, {32, 1, 1}, 0, ""}; };
  const FunctionRef<WorkDetail()> describe = detail;
  const Access access = all("x", Mode::kWrite);
  ASSERT_TRUE(scheduler->start_history(history_, options()).ok());
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(submit("k", {.accesses = std::span(&access, 1), .detail = &describe}, 100).ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  ASSERT_TRUE(submit("k", {.accesses = std::span(&access, 1), .detail = &describe}, 100).ok());
  ASSERT_TRUE(scheduler->end_history().ok());
  EXPECT_EQ(traced().slices.size(), 1u);
  EXPECT_EQ(History::load(history_)->estimate("", "k", SizeClass::of(32, kBytes))->times.count, 2u);
}

// By the event that ended when the device's clock was at a known time, or by the host's own clock.
TEST_F(Recording, Tasks_AreOnTheSameAxis) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  ASSERT_TRUE(run("work", {}, {"x"}, 100).ok());
  const device::EventPtr origin = scheduler->record().value();
  ASSERT_TRUE(origin->wait().ok());
  device::TaskSlices of_device;
  of_device.kernels = {"a", "b"};
  of_device.is_resident = true;
  of_device.origin = origin;
  of_device.origin_ns = 1'800'000'000'000'000'000;  // more digits than a double has
  of_device.slices = {{7, 1, 3, of_device.origin_ns + 11, of_device.origin_ns + 14},
                      {8, 0, 3, of_device.origin_ns + 5, of_device.origin_ns + 6}};
  of_device.dropped = 4;
  scheduler->add_tasks(of_device);
  ASSERT_TRUE(scheduler->end_trace().ok());
  scheduler->add_tasks(of_device);  // in no trace
  const Timeline timeline = traced();
  ASSERT_EQ(timeline.tasks.size(), 2u);
  EXPECT_EQ(timeline.tasks[0].name, "a");
  EXPECT_NEAR(timeline.tasks[0].start_ns, 105, 1e-3);
  EXPECT_EQ(timeline.tasks[1].id, 7u);
  EXPECT_NEAR(timeline.tasks[1].start_ns, 111, 1e-3);
  EXPECT_NEAR(timeline.tasks[1].end_ns, 114, 1e-3);
  EXPECT_EQ(timeline.dropped_tasks, 4u);

  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  device::TaskSlices of_host;
  of_host.kernels = {"c"};
  const auto now = static_cast<std::uint64_t>(device->state().host_ns);
  of_host.slices = {{9, 0, 0, now, now + 10}};
  scheduler->add_tasks(of_host);
  ASSERT_TRUE(scheduler->end_trace().ok());
  ASSERT_EQ(traced().tasks.size(), 1u);
  EXPECT_NEAR(traced().tasks[0].duration_ns(), 10, 1e-3);
  EXPECT_FALSE(traced().tasks_are_resident);
}

TEST_F(Recording, Explain_SaysWhy) {
  open();
  ASSERT_TRUE(scheduler->start_trace(file_, options()).ok());
  vec();
  ASSERT_TRUE(read("z").ok());
  ASSERT_TRUE(scheduler->synchronize().ok());
  ASSERT_TRUE(scheduler->end_trace().ok());
  const std::string text = explain(traced());
  for (const char* line :
       {"#1 square1 (2000 bytes, 0.1 us)\n    stream 0: reused, as it depends on nothing that has not ended and",
        "    stream 1: new, as it depends on nothing that has not ended and no stream was free\n",
        "    stream 0: that of #1 square1: its first child follows it there\n",
        "    after #1 square1: it wrote array 2, which is read here (RAW); stream 0 is in order, no event is needed\n",
        "    after #2 square2: it wrote array 4, which is read here (RAW); stream 0 waits for the event behind it on "
        "stream 1\n",
        "host thread 0 waited 0.2 us for 1000 bytes of array 5\n    for #3 reduce: it wrote array 5, which is read "
        "here (RAW)\n",
        "host thread 0 waited 0.0 us for everything\n",
        "2 streams; 1 wait of streams, 0 of them for more than needed; 1 wait of the host for arrays; 2 "
        "computations"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace pergola::scheduler::testing
