// Pictures of timelines: rows, boxes and arrows are there, names of any bytes do no harm.
#include "tools/pergola/timeline_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pergola::tool {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

scheduler::Timeline two_streams() {
  scheduler::Timeline timeline;
  timeline.device = "a <GPU>";
  scheduler::Slice first, second;
  first.id = 1;
  first.name = "a&b\"<script>";
  first.end_ns = 500;
  second.id = 2;
  second.name = "second";
  second.stream = 1;
  second.start_ns = 500, second.end_ns = 1000;
  second.parents = {{1, 1, scheduler::Hazard::kReadAfterWrite, scheduler::Order::kEvent}};
  timeline.slices = {first, second};
  return timeline;
}

TEST(TimelineSvg, RowsBoxesAndArrows) {
  const std::string svg = timeline_svg(two_streams());
  EXPECT_THAT(svg, HasSubstr(">stream 0</text>"));
  EXPECT_THAT(svg, HasSubstr(">stream 1</text>"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"120.0\" y=\"30.0\" width=\"500.0\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"620.0\" y=\"64.0\" width=\"500.0\""));
  EXPECT_THAT(svg, HasSubstr("<line x1=\"620.0\" y1=\"41.0\" x2=\"620.0\" y2=\"75.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(TimelineSvg, TasksHaveRowsOfTheirOwn) {
  scheduler::Timeline timeline = two_streams();
  timeline.tasks_are_resident = true;
  timeline.tasks = {{(scheduler::TaskSlice::Id{3} << 48) | 5, "scale", 2, 0, 500},
                    {0, "leaf", 2, 250, 750},  // beside it
                    {7, "scale", 2, 500, 1000}};
  const std::string svg = timeline_svg(timeline);
  EXPECT_THAT(svg, HasSubstr("<text x=\"4\" y=\"113.0\">tasks, block 2</text>"));
  EXPECT_THAT(svg,
              HasSubstr("<title>scale (0x3000000000005): 0.5 us</title><rect x=\"120.0\" y=\"98.0\" width=\"500.0\""));
  EXPECT_THAT(svg, HasSubstr("<title>leaf (spawned by a task): 0.5 us</title><rect x=\"370.0\" y=\"132.0\""));
  EXPECT_THAT(svg, HasSubstr("<title>scale (0x7): 0.5 us</title><rect x=\"620.0\" y=\"98.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("left out")));
  EXPECT_THAT(timeline_svg(timeline, 2), HasSubstr("; 1 task is left out"));
}

TEST(TimelineSvg, WhatIsLeftOut_IsTold) {
  EXPECT_THAT(timeline_svg(two_streams(), 1), HasSubstr("1 later computation is left out"));
}

TEST(TimelineSvg, NothingAtAll_IsAPictureToo) {
  EXPECT_THAT(timeline_svg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace pergola::tool
