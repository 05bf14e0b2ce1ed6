#include "tools/pergola/launch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/ptx/parser.h"
#include "tools/pergola/blocks_svg.h"
#include "tools/pergola/explain_blocks.h"

namespace pergola::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LaunchText, KernelGridBlockAndArguments_AreRead) {
  const auto launch = parse_launch(" add_1 [4x2, (8,4,2)] (x:4K, y, z:8+4, x+512, -3, 1e-3) ");
  ASSERT_TRUE(launch.ok()) << launch.message();
  EXPECT_EQ(launch->kernel, "add_1");
  EXPECT_THAT(launch->grid, ElementsAre(4, 2, 1));
  EXPECT_THAT(launch->block, ElementsAre(8, 4, 2));
  ASSERT_EQ(launch->arguments.size(), 6u);
  EXPECT_EQ(launch->arguments[0].array, "x");
  EXPECT_EQ(launch->arguments[0].bytes, 4096u);
  EXPECT_EQ(launch->arguments[1].bytes, std::nullopt);
  EXPECT_EQ(launch->arguments[2].offset_bytes, 4u);
  EXPECT_EQ(launch->arguments[3].offset_bytes, 512u);
  EXPECT_EQ(launch->arguments[4].number, "-3");
  EXPECT_EQ(launch->arguments[5].number, "1e-3");
  EXPECT_TRUE(parse_launch("k[1,1]()")->arguments.empty());
}

TEST(LaunchText, BytesHaveUnits_SizesAndOffsetsComeInEitherOrder) {
  const auto launch = parse_launch("k[4, 64, 2K](x+32K, y:1T+4M, z + 1G : 2G)");
  ASSERT_TRUE(launch.ok()) << launch.message();
  EXPECT_EQ(launch->shared_bytes, 2048u);
  EXPECT_EQ(launch->arguments[0].offset_bytes, 32768u);
  EXPECT_EQ(launch->arguments[0].bytes, std::nullopt);
  EXPECT_EQ(launch->arguments[1].bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(launch->arguments[1].offset_bytes, std::uint64_t{4} << 20);
  EXPECT_EQ(launch->arguments[2].bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(launch->arguments[2].offset_bytes, std::uint64_t{1} << 30);
  EXPECT_FALSE(parse_launch("k[4,4](x:4:4)").ok());
  EXPECT_FALSE(parse_launch("k[4,4](x+4+4)").ok());
  EXPECT_FALSE(parse_launch("k[4,4](x:4Q)").ok());
  EXPECT_THAT(parse_launch("k[4,4,x](1)").message(), HasSubstr("dynamic shared memory"));
}

TEST(LaunchText, WhatIsWrong_IsNamedWithItsPlace) {
  const auto message = [](std::string_view text) { return std::string(parse_launch(text).message()); };
  EXPECT_THAT(message(""), HasSubstr("a kernel's name is wanted at character 1"));
  EXPECT_THAT(message("k"), HasSubstr("`[grid, block]` is wanted at character 2"));
  EXPECT_THAT(message("k[4 4](1)"), HasSubstr("`, block]` is wanted at character 5"));
  EXPECT_THAT(message("k[4,99999999999](1)"), HasSubstr("a block such as"));
  EXPECT_THAT(message("k[4,4"), HasSubstr("`]`"));
  EXPECT_THAT(message("k[4,4](x:1,)"), HasSubstr("an array such as"));
  EXPECT_THAT(message("k[4,4](1) more"), HasSubstr("the end is wanted at character 11"));
}

TEST(ExplainBlocks, ThatAreNotTwo_AreCounted) {
  const auto message = [](std::vector<std::string> launches) {
    return std::string(explain_blocks({}, "", launches, nullptr, Console()).message());
  };
  EXPECT_THAT(message({"k[1,1]()"}), HasSubstr("--launch is given 1 time; two launches are explained"));
  EXPECT_THAT(message({"k[1,1]()", "k[1,1]()", "k[1,1]()"}), HasSubstr("--launch is given 3 times; two launches"));
}

class LaunchValuesOfText : public ::testing::Test {
 protected:
  LaunchValuesOfText() {
    auto parsed = ptx::parse(
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .f32 f, "
        ".param .u16 h) { ret; }\n");
    module_ = std::move(parsed).value();
    signature_ = *ptx::signature(module_, *module_.find_function("k"));
  }
  Result<analysis::LaunchValues> values(std::string_view text) {
    return launch_values(*parse_launch(text), signature_, arrays_);
  }
  ptx::Module module_;
  ptx::KernelSignature signature_;
  ArrayNames arrays_;
};

TEST_F(LaunchValuesOfText, NumbersHaveTheirParametersTypes) {
  const auto made = values("k[2,32](x:64+8, 1.5, -2)");
  ASSERT_TRUE(made.ok()) << made.message();
  float f = 0;
  std::memcpy(&f, made->parameters.data() + 8, 4);
  EXPECT_EQ(f, 1.5f);
  std::uint16_t h = 0;
  std::memcpy(&h, made->parameters.data() + 12, 2);
  EXPECT_EQ(h, 65534);
  ASSERT_EQ(made->pointers.size(), 1u);
  EXPECT_EQ(made->pointers[0].position, 8);
  EXPECT_EQ(made->pointers[0].allocation_bytes, 64u);
  EXPECT_EQ(arrays_.name(made->pointers[0].allocation), "x");
  EXPECT_TRUE(values("k[2,32](x, 1, 1)").ok());  // its size is known by now
}

TEST_F(LaunchValuesOfText, WhatDoesNotFit_IsRefused) {
  EXPECT_THAT(values("k[1,1](x:4, 1)").message(), HasSubstr("has 3 parameters, and its launch gives 2"));
  EXPECT_THAT(values("k[1,1](x, 1, 1)").message(), HasSubstr("write x:BYTES"));
  EXPECT_THAT(values("k[1,1](x:4, y:4, 1)").message(), HasSubstr("takes no array"));
  EXPECT_THAT(values("k[1,1](x:8, 1, 1)").message(), HasSubstr("4 bytes in one place and 8 in another"));
  for (const std::string bytes :
       {"18446744073709551615", "9223372036854775808", "99999999999G", "257T", "99999999999999999999"})
    EXPECT_THAT(values("k[1,1](huge:" + bytes + ", 1, 1)").message(), HasSubstr("an array has at most 256T")) << bytes;
  EXPECT_TRUE(values("k[1,1](large:256T, 1, 1)").ok());
  EXPECT_THAT(values("k[1,1,228K](x, 1, 1)").message(), HasSubstr("233472 bytes of shared memory: at most 232448"));
  EXPECT_THAT(values("k[1,1](x+5, 1, 1)").message(), HasSubstr("'x+5' is behind the array, which has 4 bytes"));
  EXPECT_TRUE(values("k[1,1](x+4, 1, 1)").ok());  // as a pointer may be
  EXPECT_THAT(values("k[1,1](x, 1, 65536)").message(), HasSubstr("no value of parameter 2"));
  EXPECT_THAT(values("k[1,1](x, 1, 1.5)").message(), HasSubstr(".u16"));
}

TEST(BlocksSvg, LinesAreThePairsOfBlocks) {
  analysis::BlockRelation relation{.pattern = analysis::BlockPattern::kOverlapped, .parents = 3, .children = 2};
  relation.lists = analysis::ParentLists({{0, 1}, {2}});
  const auto count = [](const std::string& text, std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  const std::string svg = blocks_svg(relation, "a<b>", "c");
  EXPECT_EQ(count(svg, "<line"), 3u);
  EXPECT_EQ(count(svg, "<circle"), 5u);
  EXPECT_THAT(svg, HasSubstr("a_b_"));
  EXPECT_THAT(svg, HasSubstr("c: overlapped"));
  EXPECT_EQ(count(blocks_svg(relation, "a", "c", 2), "<line"), 2u);  // the third parent is left out, and said so
  EXPECT_THAT(blocks_svg(relation, "a", "c", 2), HasSubstr("and 1 more"));
  relation.pattern = analysis::BlockPattern::kFull;
  relation.lists = {};
  EXPECT_EQ(count(blocks_svg(relation, "a", "c"), "<line"), 6u);
}

}  // namespace
}  // namespace pergola::tool
