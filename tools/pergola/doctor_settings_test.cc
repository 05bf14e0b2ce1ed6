// Variables of the environment: which are told, and of those that nothing reads, which was meant.
#include <gmock/gmock.h>

#include "tools/pergola/doctor.h"

namespace pergola::tool {
namespace {

using State = Finding::State;
using ::testing::HasSubstr;

TEST(DoctorSettings, ThoseThatAreSet_ByName) {
  const char* const environment[] = {"PATH=/bin",
                                     "PERGOLA_SCHEDULER=graphs=off,turns=whole",
                                     "PERGOLA_TRACE=",
                                     "PERGOLA_LOG=info",
                                     "MY_PERGOLA_LOG=off",
                                     "PERGOLA_DEVICE",
                                     nullptr};
  const std::vector<Finding> found = find_settings(environment);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "PERGOLA_LOG");
  EXPECT_EQ(found[0].detail, "info");
  EXPECT_EQ(found[1].name, "PERGOLA_SCHEDULER");
  EXPECT_EQ(found[1].detail, "graphs=off,turns=whole");
  for (const Finding& finding : found) {
    EXPECT_EQ(finding.group, "environment");
    EXPECT_EQ(finding.state, State::kRead);
    EXPECT_EQ(finding.mend, "");
  }
}

TEST(DoctorSettings, ThoseThatNothingReads_AreToldWithWhatWasMeant) {
  const char* const environment[] = {"PERGOLA_SHEDULER=graphs=off", "PERGOLA_CPU_SM=4", "PERGOLA_=1",
                                     "PERGOLA_FAVOURITE_COLOUR=red", nullptr};
  const std::vector<Finding> found = find_settings(environment);
  ASSERT_EQ(found.size(), 4u);
  for (const Finding& finding : found) EXPECT_EQ(finding.state, State::kUnread) << finding.name;
  EXPECT_THAT(found[0].mend, HasSubstr("Nothing reads it"));
  EXPECT_EQ(found[1].mend, "Did you mean PERGOLA_CPU_SMS?");
  EXPECT_THAT(found[2].mend, HasSubstr("Nothing reads it"));
  EXPECT_EQ(found[3].mend, "Did you mean PERGOLA_SCHEDULER?");
}

TEST(DoctorSettings, WithoutAny_NothingIsTold) {
  const char* const environment[] = {"HOME=/", nullptr};
  EXPECT_TRUE(find_settings(environment).empty());
  EXPECT_TRUE(find_settings(nullptr).empty());
}

}  // namespace
}  // namespace pergola::tool
