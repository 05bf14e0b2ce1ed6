// Which launch is told of a margin that changed: the one that watched it, alone or not; what is told only once.
#include "src/device/cpu/buffer_margins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

namespace pergola::device::cpu {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class BufferMarginsTest : public testing::Test {
 protected:
  // 100 bytes at [64, 164) of 256, with margins of 64 and 92 bytes.
  struct Memory {
    alignas(256) std::byte bytes[256];
    std::byte* data() { return bytes + 64; }
  };
  using Watch = BufferMargins::Watch;

  Memory& buffer() {
    Memory& memory = memories.emplace_back();
    margins.add({begin(memory), 100, 64, 92, fmt::format("buffer {} (100 bytes)", memories.size())});
    return memory;
  }
  static std::uintptr_t begin(Memory& memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }
  static std::span<const std::byte> parameters(const std::vector<std::uintptr_t>& words) {
    return std::as_bytes(std::span(words));
  }

  BufferMargins margins;
  std::deque<Memory> memories;
};

TEST_F(BufferMarginsTest, PatternIsNaN_InEveryType_AtEveryAlignment) {
  Memory& memory = buffer();
  for (std::size_t at = 104; at + 8 <= 192; at += 8) {
    double wide;
    float narrow;
    std::uint16_t half;
    std::int32_t number;
    std::memcpy(&wide, memory.data() + at, sizeof wide);
    std::memcpy(&narrow, memory.data() + at, sizeof narrow);
    std::memcpy(&half, memory.data() + at, sizeof half);
    std::memcpy(&number, memory.data() + at, sizeof number);
    EXPECT_TRUE(std::isnan(wide) && std::isnan(narrow));
    EXPECT_TRUE((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0);  // of f16
    EXPECT_TRUE((half & 0x7F80) == 0x7F80 && (half & 0x7F) != 0);   // of bf16
    EXPECT_LT(number, 0);
  }
}

TEST_F(BufferMarginsTest, WriteDuringALaunch_FailsIt_AndOnlyIt) {
  Memory& memory = buffer();
  const std::vector<std::uintptr_t> words{7, begin(memory) + 100};  // one past the end is its pointer too
  {
    Watch watch(margins, "right", parameters(words));
    EXPECT_TRUE(watch.end().ok());
  }
  {
    Watch watch(margins, "wrong", parameters(words));
    memory.data()[102] = std::byte{1};
    memory.data()[105] = std::byte{2};
    const Status status = watch.end();
    EXPECT_EQ(status.code(), Code::kDeviceFault);
    EXPECT_THAT(status.message(),
                HasSubstr("Kernel 'wrong' wrote outside buffer 1 (100 bytes), 2 to 5 bytes past its end"));
  }
  CaptureStderr();
  {
    Watch watch(margins, "right", parameters(words));
    EXPECT_TRUE(watch.end().ok());
  }
  margins.remove(begin(memory));
  EXPECT_EQ(GetCapturedStderr(), "");  // told once
}

TEST_F(BufferMarginsTest, WriteBeforeTheStart) {
  Memory& memory = buffer();
  Watch watch(margins, "wrong", {});
  memory.data()[-1] = memory.data()[-8] = std::byte{0};
  EXPECT_THAT(watch.end().message(), HasSubstr("outside buffer 1 (100 bytes), 8 to 1 bytes before its start"));
}

TEST_F(BufferMarginsTest, OldDamage_IsNotTheLaunchs) {
  Memory& memory = buffer();
  memory.data()[100] = std::byte{0};
  CaptureStderr();
  Watch watch(margins, "later", {});
  EXPECT_THAT(
      GetCapturedStderr(),
      HasSubstr(
          "Before kernel 'later' began, another or the host wrote outside buffer 1 (100 bytes), 0 bytes past"));
  EXPECT_TRUE(watch.end().ok());
  memory.data()[101] = std::byte{0};  // mended, so that it is watched again
  EXPECT_THAT(watch.end().message(), HasSubstr("1 byte past"));
}

TEST_F(BufferMarginsTest, LaunchesAtTheSameTime_BothFail_AndSayThatItMayBeTheOther) {
  Memory& memory = buffer();
  {
    Watch one(margins, "one", {});
    Watch two(margins, "two", {});
    memory.data()[100] = std::byte{0};
    EXPECT_THAT(one.end().message(), HasSubstr("Kernel 'one', or another that ran at the same time, wrote"));
    Watch three(margins, "three", {});  // mends nothing: 'two' is still to find it
    EXPECT_TRUE(three.end().ok());
    EXPECT_THAT(two.end().message(), HasSubstr("Kernel 'two', or another that ran at the same time, wrote"));
  }
  Watch four(margins, "four", {});
  memory.data()[100] = std::byte{0};
  EXPECT_THAT(four.end().message(), HasSubstr("Kernel 'four' wrote"));
}

TEST_F(BufferMarginsTest, OfManyBuffers_ThoseOfTheParametersAreAlwaysWatched_TheOthersInTurn) {
  for (int n = 0; n < 50; ++n) buffer();
  Memory& memory = memories[17];
  const std::vector<std::uintptr_t> words{begin(memory) + 40};
  for (int n = 0; n < 20; ++n) {
    Watch watch(margins, "wrong", parameters(words));
    memory.data()[100] = std::byte{0};
    EXPECT_THAT(watch.end().message(), HasSubstr("outside buffer 18 (100 bytes)"));
  }
  {
    Watch mends(margins, "right", parameters(words));
  }
  int found = 0;
  for (int n = 0; n < 13; ++n) {  // 13 launches of 4 are more than 50: it has its turn
    Watch watch(margins, "unknown", {});
    memory.data()[100] = std::byte{0};
    found += watch.end().ok() ? 0 : 1;
    memory.data()[100] = memory.data()[102];  // whole again
  }
  EXPECT_GE(found, 1);
  EXPECT_LE(found, 2);
}

TEST_F(BufferMarginsTest, FreedDuringALaunch_IsNotLookedAt_AndWarnedOf) {
  Memory& memory = buffer();
  Watch watch(margins, "k", {});
  memory.data()[100] = std::byte{0};
  CaptureStderr();
  margins.remove(begin(memory));
  EXPECT_THAT(GetCapturedStderr(),
              HasSubstr("wrote outside buffer 1 (100 bytes), 0 bytes past its end; it is freed now"));
  EXPECT_TRUE(watch.end().ok());
}

}  // namespace
}  // namespace pergola::device::cpu
