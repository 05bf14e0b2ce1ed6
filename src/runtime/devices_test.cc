#include "src/runtime/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace pergola::runtime {
namespace {

using device::DeviceKind;
using ::testing::HasSubstr;

// Sets PERGOLA_DEVICE for a scope; null unsets it.
class ScopedDevice {
 public:
  explicit ScopedDevice(const char* value) {
    if (const char* old = std::getenv("PERGOLA_DEVICE")) old_ = old;
    value == nullptr ? ::unsetenv("PERGOLA_DEVICE") : ::setenv("PERGOLA_DEVICE", value, 1);
  }
  ~ScopedDevice() { old_.empty() ? ::unsetenv("PERGOLA_DEVICE") : ::setenv("PERGOLA_DEVICE", old_.c_str(), 1); }

 private:
  std::string old_;
};

TEST(DeviceName, EveryName_HasItsMeaning) {
  EXPECT_EQ(parse_device_name("cpu")->kind, DeviceKind::kCpu);
  EXPECT_FALSE(parse_device_name("cpu")->any);
  EXPECT_EQ(parse_device_name("null")->kind, DeviceKind::kNull);
  EXPECT_EQ(parse_device_name("cuda")->index, 0);
  EXPECT_EQ(parse_device_name("cuda:12")->index, 12);
  EXPECT_EQ(parse_device_name("cuda:12")->kind, DeviceKind::kCuda);
  EXPECT_TRUE(parse_device_name("")->any);
}

TEST(DeviceName, OtherNames_AreRefused) {
  for (const char* name : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU", "cpu "}) {
    const auto choice = parse_device_name(name);
    ASSERT_EQ(choice.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(choice.message(), HasSubstr("'cpu', 'cuda:N'"));
  }
  EXPECT_EQ(parse_device_name("shared").code(), Code::kUnsupported);
}

TEST(OpenDevice, Environment_DecidesWhereNoNameIsGiven) {
  const ScopedDevice scope("null");
  EXPECT_EQ((*open_device(""))->info().kind, DeviceKind::kNull);
  EXPECT_EQ((*open_device("cpu"))->info().kind, DeviceKind::kCpu) << "a name is stronger";
}

TEST(OpenDevice, NothingNamed_ThereIsAlwaysADevice) {
  const ScopedDevice scope(nullptr);
  const auto device = open_device("");
  ASSERT_TRUE(device.ok()) << device.message();
  EXPECT_NE((*device)->info().kind, DeviceKind::kNull);
}

TEST(OpenDevice, NamedGpuThatIsNotThere_IsNotReplaced) {
  const ScopedDevice scope("cuda:63");
  EXPECT_FALSE(open_device("").ok());
}

}  // namespace
}  // namespace pergola::runtime
