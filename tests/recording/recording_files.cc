#include "tests/recording/recording_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/file.h"
#include "src/scheduler/explain.h"
#include "src/scheduler/history.h"
#include "src/scheduler/metrics.h"
#include "src/scheduler/trace_file.h"

namespace pergola_test::recording {

using ::testing::HasSubstr;
namespace scheduler = pergola::scheduler;
using scheduler::HostKind;
using scheduler::Slice;

std::string text_of(const std::string& path) {
  const auto text = pergola::read_file(path);
  EXPECT_TRUE(text.ok()) << text.message();
  return text.ok() ? *text : "";
}

void expect_the_run(const std::string& path) {
  const auto parsed = scheduler::parse_trace(text_of(path), path);
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  const scheduler::Timeline& timeline = *parsed;
  std::vector<const Slice*> kernels;
  for (const Slice& slice : timeline.slices)
    if (slice.name == "turns") kernels.push_back(&slice);
  ASSERT_EQ(kernels.size(), 4u);
  for (const Slice* kernel : kernels) {
    EXPECT_GT(kernel->duration_ns(), 0);
    EXPECT_EQ(kernel->detail.block.x, 64u);
    EXPECT_EQ(kernel->bytes, 256u);
    EXPECT_THAT(kernel->detail.arguments, HasSubstr("array "));
    EXPECT_THAT(kernel->detail.arguments, HasSubstr("u32 1000"));
  }
  // One axis of time: a chain's second comes behind its first, the host's reads behind both.
  EXPECT_GE(kernels[2]->start_ns, kernels[0]->end_ns);
  // What has ended when its child comes is no parent any more.
  for (const auto& edge : kernels[2]->parents) EXPECT_EQ(edge.parent, kernels[0]->id);
  double read_ns = 0;
  for (const auto& slice : timeline.host)
    if (slice.kind == HostKind::kRead) read_ns = std::max(read_ns, slice.end_ns);
  EXPECT_GT(read_ns + timeline.host_error_ns, kernels[3]->end_ns);
  EXPECT_LT(timeline.host_error_ns, 10e6);
  EXPECT_LT(read_ns, kernels[3]->end_ns + 60e9);
  EXPECT_EQ(timeline.without_time, 0u);
  EXPECT_FALSE(scheduler::explain(timeline).empty());
  const auto measured = [](const Slice& slice) { return std::optional<double>(slice.duration_ns()); };
  const double bound = scheduler::critical_path(timeline, measured).length_ns;
  EXPECT_GT(bound, 0);
  EXPECT_LE(bound, scheduler::overlap(timeline).span_ns * 1.01);
}

void expect_history(const std::string& path, std::uint64_t launches) {
  const auto history = scheduler::History::load(path);
  ASSERT_TRUE(history.ok()) << history.message();
  ASSERT_EQ(history->devices().size(), 1u);
  const auto& sizes = history->devices().begin()->second.at("turns");
  ASSERT_EQ(sizes.size(), 1u);
  EXPECT_EQ(sizes.begin()->second.count, launches);
  EXPECT_EQ(sizes.begin()->first, scheduler::SizeClass::of(64, 256));
}

}  // namespace pergola_test::recording
