#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DagSvg : public SchedulerTest {
 protected:
  struct Box {
    int left = 0, top = 0;
  };
  // By what stands in its title up to the comma, "K1 #1".
  static std::map<std::string, Box> boxes(const std::string& svg) {
    std::map<std::string, Box> found;
    const std::regex box("<title>([^,<]*),[^<]*</title><rect x=\"(\\d+)\" y=\"(\\d+)\"");
    for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at)
      found[(*at)[1]] = {std::stoi((*at)[2]), std::stoi((*at)[3])};
    return found;
  }
  static std::ptrdiff_t count(const std::string& text, const std::string& part) {
    std::ptrdiff_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
};

// Two squares, their sum, and the host's read of it.
TEST_F(DagSvg, EachBoxStandsInItsStreamsRowBehindWhatItComesAfter) {
  open("fork-cost=0");
  ASSERT_TRUE(run("square", {}, {"x"}).ok());
  ASSERT_TRUE(run("square", {}, {"y"}).ok());
  ASSERT_TRUE(run("sum", {"x", "y"}, {"z"}).ok());
  ASSERT_TRUE(read("z").ok());
  const std::string svg = scheduler->picture().svg();
  const auto at = boxes(svg);
  ASSERT_EQ(at.size(), 4u) << svg;
  EXPECT_EQ(at.at("square #1").left, at.at("square #2").left);
  EXPECT_NE(at.at("square #1").top, at.at("square #2").top);
  EXPECT_GT(at.at("sum #3").left, at.at("square #1").left);
  EXPECT_GT(at.at("host read #4").left, at.at("sum #3").left);
  EXPECT_GT(at.at("host read #4").top, std::max(at.at("square #1").top, at.at("square #2").top));
  EXPECT_EQ(count(svg, "marker-end"), 3);
  EXPECT_THAT(svg, HasSubstr(">stream 0</text>"));
  EXPECT_THAT(svg, HasSubstr(">the host</text>"));
  EXPECT_THAT(svg, HasSubstr("RAW</text>"));
}

TEST_F(DagSvg, BoxesNeverLieOnEachOther) {
  open();
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(run("k", {"a" + std::to_string(i * 7 % 11)}, {"a" + std::to_string(i * 5 % 13)}).ok());
  std::set<std::pair<int, int>> taken;
  for (const auto& [name, box] : boxes(scheduler->picture().svg()))
    EXPECT_TRUE(taken.emplace(box.left, box.top).second) << name;
  EXPECT_EQ(taken.size(), 200u);
}

TEST_F(DagSvg, NamesOfUsers_AreText) {
  open();
  ASSERT_TRUE(run("a<b>&\"c\" that is too long for its box", {}, {"x"}).ok());
  const std::string svg = scheduler->picture().svg();
  EXPECT_THAT(svg, HasSubstr("<title>a&lt;b&gt;&amp;&quot;c&quot; that is too long for its box #1"));
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&gt;&amp;&quot;c&quot; that is …</text>"));
}

TEST_F(DagSvg, OfNothing_IsAPictureToo) {
  open();
  const std::string svg = scheduler->picture().svg();
  EXPECT_THAT(svg, HasSubstr("<svg "));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("\"-")));
}

TEST_F(DagSvg, WhatIsForgotten_IsSaid) {
  open();
  for (int i = 0; i < 1100; ++i) ASSERT_TRUE(run("k", {"x"}, {"x"}).ok());
  EXPECT_THAT(scheduler->picture().svg(), HasSubstr("76 pieces of work before these are not shown"));
}

}  // namespace
}  // namespace pergola::scheduler::testing
