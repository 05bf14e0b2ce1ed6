// Which texts are the one that was kept.
#include "src/base/call_text.h"

#include <gtest/gtest.h>

#include <array>

namespace pergola {
namespace {

constexpr std::array<std::byte, 3> kBytes{std::byte{1}, std::byte{2}, std::byte{3}};

class KeptCallTexts : public ::testing::Test {
 protected:
  CallText text(std::span<const std::byte> config, std::span<const std::byte> arguments) const {
    return {this, config, arguments, &dropped_, dropped_.load()};
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

// Whose address may be null, which memcmp() does not take.
TEST_F(KeptCallTexts, NoArguments_AreTheSameAsNone) {
  kept_.keep(text(kBytes, {}));
  EXPECT_TRUE(kept_.is(text(kBytes, {})));
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes)));
}

TEST_F(KeptCallTexts, WhereAHandleWasDestroyed_NothingIs) {
  kept_.keep(text(kBytes, kBytes));
  const CallText before = text(kBytes, kBytes);
  ++dropped_;
  EXPECT_FALSE(kept_.is(before));
  EXPECT_FALSE(kept_.is(text(kBytes, kBytes)));
  kept_.keep(before);
  EXPECT_FALSE(kept_.is(before)) << "it was destroyed while the text was looked up";
}

}  // namespace
}  // namespace pergola
