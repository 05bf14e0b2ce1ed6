#include "src/session/kernel_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pergola::session {
namespace {

using ::testing::HasSubstr;

const std::vector<KernelName> kKernels = {{"saxpy", ""},
                                          {"_Z5scaleIfEvPT_i", "scale<float>"},
                                          {"_Z5scaleIdEvPT_i", "scale<double>"},
                                          {"_ZN4math4normEPf", "math::norm"},
                                          {"_Z4blurPf", "blur"}};

std::size_t found(std::string_view name) {
  const auto index = find_kernel(kKernels, name, "k.cu");
  EXPECT_TRUE(index.ok()) << index.message();
  return index.ok() ? *index : ~std::size_t{0};
}

TEST(FindKernel, EveryFormOfAName_FindsIt) {
  EXPECT_EQ(found("saxpy"), 0u);
  EXPECT_EQ(found("_Z4blurPf"), 4u);
  EXPECT_EQ(found("blur"), 4u);
  EXPECT_EQ(found("scale<double>"), 2u);
  EXPECT_EQ(found("math::norm"), 3u);
  EXPECT_EQ(found("norm"), 3u);
}

TEST(FindKernel, AmbiguousName_ListsWhatItCouldMean) {
  const auto index = find_kernel(kKernels, "scale", "k.cu");
  ASSERT_EQ(index.code(), Code::kInvalidArgument);
  EXPECT_EQ(index.message(),
            "Several kernels of 'k.cu' are called 'scale': 'scale<float>' (_Z5scaleIfEvPT_i), 'scale<double>' "
            "(_Z5scaleIdEvPT_i). Name one of them in full.");
}

TEST(FindKernel, MayMean_TakesEveryForm) {
  for (const char* name : {"_Z5scaleIfEvPT_i", "scale<float>", "scale"}) EXPECT_TRUE(may_mean(kKernels[1], name));
  for (const char* name : {"scale<double>", "scal", ""}) EXPECT_FALSE(may_mean(kKernels[1], name)) << name;
  EXPECT_TRUE(may_mean(kKernels[0], "saxpy"));
  EXPECT_TRUE(may_mean(kKernels[3], "norm"));
}

TEST(FindKernel, MissingName_ListsWhatIsThere) {
  const auto index = find_kernel(kKernels, "sacpy", "k.cu");
  ASSERT_EQ(index.code(), Code::kNotFound);
  EXPECT_THAT(index.message(), HasSubstr("There is no kernel 'sacpy' in 'k.cu': it has 'saxpy', 'scale<float>'"));
  EXPECT_EQ(find_kernel({}, "k", "k.cu").message(), "There is no kernel 'k' in 'k.cu': it has no kernel at all.");
}

}  // namespace
}  // namespace pergola::session
