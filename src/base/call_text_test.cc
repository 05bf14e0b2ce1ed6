// Which texts are the one that was kept.
#include "src/base/call_text.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace pergola {
namespace {

constexpr std::array<std::byte, 3> kBytes{std::byte{1}, std::byte{2}, std::byte{3}};

class KeptCallTexts : public ::testing::Test {
 protected:
  CallText text(std::span<const std::byte> config, std::span<const std::byte> arguments) const {
    return {this, config, arguments, &dropped_, dropped_.load(), {}};
  }
  CallText text(std::span<const std::byte> config, std::span<const std::byte> arguments,
                std::span<const std::byte> types) const {
    return {this, config, arguments, &dropped_, dropped_.load(), types};
  }
  std::atomic<std::uint64_t> dropped_{0};
  KeptCallText kept_;
};

TEST_F(KeptCallTexts, TheSameBytes_AreTheSame) {
  const std::array<std::byte, 3> copy = kBytes;
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes))) << "nothing is kept";
  kept_.keep(text(kBytes, kBytes));
  EXPECT_TRUE(kept_.is(text(copy, copy)));
  kept_.forget();
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes)));
}

TEST_F(KeptCallTexts, OtherBytes_OrTheSameElsewhere_AreNot) {
  const std::span<const std::byte> all = kBytes;
  kept_.keep(text(all.first(2), all.last(1)));
  EXPECT_TRUE(kept_.is(text(all.first(2), all.last(1))));
  EXPECT_FALSE(kept_.is(text(all.first(1), all.last(2)))) << "one after the other they are the same bytes";
  EXPECT_FALSE(kept_.is(text(all.first(2), all.first(1))));
  EXPECT_FALSE(kept_.is(text(all.last(2), all.last(1))));
  EXPECT_FALSE(kept_.is(text(all.first(2), {})));
}

TEST_F(KeptCallTexts, OtherTypes_AreNot) {
  const std::span<const std::byte> all = kBytes;
  kept_.keep(text(all.first(1), all.subspan(1, 1), all.last(1)));
  EXPECT_TRUE(kept_.is(text(all.first(1), all.subspan(1, 1), all.last(1))));
  EXPECT_FALSE(kept_.is(text(all.first(1), all.subspan(1, 1), all.first(1))));
  EXPECT_FALSE(kept_.is(text(all.first(1), all.last(1), all.subspan(1, 1)))) << "the two have changed places";
  EXPECT_FALSE(kept_.is(text(all.first(1), all.last(2))));
  EXPECT_FALSE(kept_.is(text(all.first(1), {}, all.last(2))));
}

// Of every length, as short ones and ends of long ones are compared in other ways.
TEST_F(KeptCallTexts, AnyByte_IsLookedAt) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 40u, 95u, 96u, 97u, 320u, 1000u}) {
    std::vector<std::byte> bytes(size, std::byte{7});
    kept_.keep(text(bytes, bytes, bytes));
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<std::byte> other = bytes;
      other[at] = std::byte{8};
      ASSERT_FALSE(kept_.is(text(other, bytes, bytes))) << size << " bytes, " << at;
      ASSERT_FALSE(kept_.is(text(bytes, other, bytes))) << size << " bytes, " << at;
      ASSERT_FALSE(kept_.is(text(bytes, bytes, other))) << size << " bytes, " << at;
    }
    ASSERT_TRUE(kept_.is(text(bytes, bytes, bytes)));
  }
}

// Whose address may be null, which memcmp() does not take.
TEST_F(KeptCallTexts, NoArguments_AreTheSameAsNone) {
  kept_.keep(text(kBytes, {}));
  EXPECT_TRUE(kept_.is(text(kBytes, {})));
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes)));
}

TEST_F(KeptCallTexts, WhereAHandleWasDestroyed_NothingIs) {
  kept_.keep(text(kBytes, kBytes));
  const CallText before = text(kBytes, kBytes);
  EXPECT_TRUE(kept_.stands(before));
  ++dropped_;
  EXPECT_FALSE(kept_.stands(before));
  EXPECT_FALSE(kept_.is(before));
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes)));
  kept_.keep(before);
  EXPECT_FALSE(kept_.is(before)) << "it was destroyed while the text was looked up";
  kept_.keep(text(kBytes, kBytes));
  EXPECT_TRUE(kept_.stands(text(kBytes, kBytes)));
  kept_.forget();
  EXPECT_FALSE(kept_.stands(text(kBytes, kBytes)));
}

}  // namespace
}  // namespace pergola
