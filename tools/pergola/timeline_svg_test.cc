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

TEST(TimelineSvg, WhatIsLeftOut_IsTold) {
  EXPECT_THAT(timeline_svg(two_streams(), 1), HasSubstr("1 later computations are left out"));
}

TEST(TimelineSvg, NothingAtAll_IsAPictureToo) {
  EXPECT_THAT(timeline_svg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace pergola::tool
