#include "src/executor/host_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

namespace pergola::executor {
namespace {

// The device's side, a step at a time: reads what is there in order, ends what it has read in any.
class Block {
 public:
  explicit Block(std::mt19937_64& random) : random_(random) { ring_.attach(&records_, &answer_); }
  HostRing& ring() { return ring_; }

  // The words of the next record, if it is there as a whole.
  std::optional<std::vector<std::uint64_t>> read() {
    std::vector<std::uint64_t> words;
    const abi::TaskRecord& record = records_.records[next_ % abi::kRingRecords];
    const std::uint64_t head = record.words[0];
    for (std::size_t n = 0; n < abi::kRecordWords; ++n) {
      std::uint64_t word = record.words[n];
      if (word >> 63 != abi::phase_of(next_)) return std::nullopt;
      if (n != 0) word = (word & ~(std::uint64_t{1} << 63)) | (head >> (abi::kRecordDisplacedShift + n) & 1) << 63;
      words.push_back(word);
    }
    open_.push_back(next_++);
    return words;
  }
  // Ends one that is open; returns its position.
  std::uint64_t end_one() {
    const std::size_t which = random_() % open_.size();
    const std::uint64_t position = open_[which];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    answer_.done[position % abi::kRingRecords / 32] ^= 1u << position % 32;
    if (open_.empty() && random_() % 2 == 0)
      answer_.frontier = static_cast<std::uint32_t>(next_) & ((1u << abi::kFrontierBits) - 1);
    return position;
  }
  bool has_open() const { return !open_.empty(); }

 private:
  std::mt19937_64& random_;
  abi::TaskRing records_{};
  abi::TaskAnswer answer_{};
  HostRing ring_;
  std::uint64_t next_ = 0;
  std::deque<std::uint64_t> open_;
};

TEST(HostRingTest, RandomSteps_EveryRecordArrivesOnce_AndIsDoneWhenItIs) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  auto block = std::make_unique<Block>(random);
  HostRing& ring = block->ring();
  std::vector<std::vector<std::uint64_t>> sent;
  std::vector<bool> done;
  std::size_t received = 0;
  for (int step = 0; step < 20000; ++step) {
    switch (random() % 3) {
      case 0: {
        const auto depth = static_cast<std::uint32_t>(1 + random() % abi::kRingRecords);
        const auto open = static_cast<std::uint32_t>(std::count(done.begin(), done.end(), false));
        const std::size_t first = static_cast<std::size_t>(std::find(done.begin(), done.end(), false) - done.begin());
        const bool fits = open < depth && done.size() - first < abi::kRingRecords;
        ASSERT_EQ(ring.has_room(depth), fits) << open << " open, depth " << depth;
        if (!fits) break;
        std::vector<std::byte> bytes(random() % (abi::kRecordParameterBytes + 1));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
        const auto kind = static_cast<std::uint32_t>(random() % abi::kMostKinds);
        const auto piece = static_cast<std::uint32_t>(random());
        ASSERT_EQ(ring.push(kind, piece, bytes), sent.size());
        std::vector<std::uint64_t> words(abi::kRecordWords - 1);  // zeros where there are no parameters
        std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(words)).begin());
        words.insert(words.begin(), std::uint64_t{kind} << 32 | piece);
        sent.push_back(words);
        done.push_back(false);
        break;
      }
      case 1: {
        const auto words = block->read();
        ASSERT_EQ(words.has_value(), received < sent.size());
        if (!words) break;
        const std::uint64_t mask = (std::uint64_t{abi::kMostKinds - 1} << 32) | 0xffffffffu;
        ASSERT_EQ(words->at(0) & mask, sent[received][0]);
        ASSERT_TRUE(std::equal(words->begin() + 1, words->end(), sent[received].begin() + 1));
        ++received;
        break;
      }
      default:
        if (block->has_open()) done[block->end_one()] = true;
    }
    if (sent.empty()) continue;
    const std::size_t asked = random() % sent.size();
    ASSERT_EQ(ring.is_done(asked), done[asked]) << asked << " of " << sent.size();
    const auto first = static_cast<std::uint64_t>(std::find(done.begin(), done.end(), false) - done.begin());
    ASSERT_EQ(ring.are_done(asked), asked <= first);
    ASSERT_EQ(ring.frontier(), first);
  }
  EXPECT_GT(sent.size(), 10 * abi::kRingRecords) << "too few laps to say anything";
}

// What the answer's frontier tells is done with, and its place stays as it is until its bit has been told.
TEST(HostRingTest, APlaceIsGivenOutAgain_OnceItsBitIsTold) {
  const auto records = std::make_unique<abi::TaskRing>();
  abi::TaskAnswer answer{};
  HostRing ring;
  ring.attach(records.get(), &answer);
  const auto push_all = [&] {
    std::size_t pushed = 0;
    for (; ring.has_room(abi::kRingRecords); ++pushed) ring.push(0, 0, {});
    return pushed;
  };
  EXPECT_EQ(push_all(), abi::kRingRecords);
  answer.frontier = abi::kRingRecords;  // all, and the bits come later
  EXPECT_TRUE(ring.is_done(abi::kRingRecords - 1));
  EXPECT_EQ(ring.frontier(), abi::kRingRecords);
  EXPECT_EQ(ring.known_room(abi::kRingRecords), 0u);
  EXPECT_EQ(push_all(), 0u);
  answer.done[0] = 0x3ff;
  EXPECT_EQ(push_all(), 10u);
  answer.done[0] = answer.done[1] = ~0u;
  EXPECT_EQ(push_all(), abi::kRingRecords - 10);
  EXPECT_EQ(ring.frontier(), abi::kRingRecords);
  for (std::uint64_t position = abi::kRingRecords; position < ring.head(); ++position)
    ASSERT_FALSE(ring.is_done(position)) << position;
}

}  // namespace
}  // namespace pergola::executor
