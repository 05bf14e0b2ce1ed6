#include "src/base/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "src/base/end_grace.h"
#include "src/base/log.h"

namespace pergola {
namespace {

constexpr const char* kName = "PERGOLA_ENVIRONMENT_TEST";

class Environment : public ::testing::Test {
 protected:
  ~Environment() override { ::unsetenv(kName); }
  static void set(const char* value) { ::setenv(kName, value, 1); }
  static std::string number_error(const char* value) {
    set(value);
    const auto number = number_setting(kName, 3, 40, "milliseconds");
    return number.ok() ? "" : std::string(number.message());
  }
};

TEST_F(Environment, WhatIsNotThereOrEmpty_IsNotSet) {
  EXPECT_EQ(setting(kName), std::nullopt);
  EXPECT_EQ(number_setting(kName, 3, 40).value(), std::nullopt);
  EXPECT_EQ(choice_setting(kName, {"on", "off"}).value(), std::nullopt);
  set("");
  EXPECT_EQ(setting(kName), std::nullopt);
  EXPECT_EQ(number_setting(kName, 3, 40).value(), std::nullopt);
  EXPECT_EQ(choice_setting(kName, {"on", "off"}).value(), std::nullopt);
}

TEST_F(Environment, Numbers_AreWhole_AndWithinTheirBounds) {
  for (const char* value : {"3", "40", "007"}) {
    set(value);
    EXPECT_EQ(number_setting(kName, 3, 40).value(), std::strtoull(value, nullptr, 10)) << value;
  }
  for (const char* value : {"2", "41", "-3", "+3", " 3", "3 ", "3x", "x", "0x10", "3.0", "99999999999999999999"})
    EXPECT_EQ(number_error(value), std::string(kName) + " is '" + value +
                                       "'; it can be a number of milliseconds from 3 to 40.");
  set("2");
  EXPECT_EQ(number_setting(kName, 3, 40).message(), std::string(kName) + " is '2'; it can be a number from 3 to 40.");
}

TEST_F(Environment, Choices_AreByName) {
  set("off");
  EXPECT_EQ(choice_setting(kName, {"on", "off"}).value(), 1u);
  set("Off");
  EXPECT_EQ(choice_setting(kName, {"on", "off"}).message(), std::string(kName) + " is 'Off'; it can be 'on' or 'off'.");
  EXPECT_EQ(choice_setting(kName, {"a", "b", "c"}).message(),
            std::string(kName) + " is 'Off'; it can be 'a', 'b' or 'c'.");
}

TEST_F(Environment, EndGrace_IsAsAsked) {
  ::unsetenv("PERGOLA_END_GRACE_MS");
  EXPECT_EQ(end_grace_from_environment().value(), kEndGrace);
  ::setenv("PERGOLA_END_GRACE_MS", "50", 1);
  EXPECT_EQ(end_grace_from_environment().value(), std::chrono::milliseconds(50));
  ::setenv("PERGOLA_END_GRACE_MS", "0", 1);
  EXPECT_THAT(end_grace_from_environment().message(), ::testing::HasSubstr("PERGOLA_END_GRACE_MS is '0'"));
  ::unsetenv("PERGOLA_END_GRACE_MS");
}

// In a process of its own, as the level is read once.
TEST(LogLevelDeathTest, AnUnknownLevel_IsToldOf_AndHidesNoWarning) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto warn_with = [](const char* level) {
    ::setenv("PERGOLA_LOG", level, 1);
    PERGOLA_WARN("seen");
    PERGOLA_INFO("not asked for");
    std::_Exit(0);
  };
  EXPECT_EXIT(warn_with("verbose"), ::testing::ExitedWithCode(0),
              "PERGOLA_LOG is 'verbose'; it can be 'debug', 'info', 'warn', 'error' or 'off'.*taken as 'warn'.*\n.*seen\n$");
  EXPECT_EXIT(warn_with("info"), ::testing::ExitedWithCode(0), "^[^\n]*seen\n[^\n]*not asked for\n$");
  EXPECT_EXIT(warn_with("off"), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace pergola
