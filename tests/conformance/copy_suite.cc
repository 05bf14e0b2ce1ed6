// Copies and fills: every offset and size, bounds, and who may touch the host's bytes when.
#include <numeric>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Copies);
CONFORMANCE_SUITE(Fills);

std::vector<std::uint8_t> numbered(std::size_t size, unsigned first = 1) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(first + i * 7);
  return bytes;
}

TEST_P(Copies, RoundTrip_OfManySizes) {
  for (std::size_t size : {1ul, 2ul, 3ul, 31ul, 4096ul, 65537ul, 3ul << 20}) {
    const std::vector<std::uint8_t> sent = numbered(size);
    EXPECT_EQ(download<std::uint8_t>(upload(sent)), sent) << size;
  }
}

TEST_P(Copies, EveryOffset_TouchesItsRangeAlone) {
  constexpr std::size_t kSize = 40;
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t size : {0u, 1u, 5u, 16u, 31u}) {
      const BufferPtr buffer = upload(std::vector<std::uint8_t>(kSize, 0xaa));
      const std::vector<std::uint8_t> sent = numbered(size);
      need(queue().copy_to_device(buffer, offset, std::as_bytes(std::span(sent))));
      std::vector<std::uint8_t> want(kSize, 0xaa);
      std::copy(sent.begin(), sent.end(), want.begin() + static_cast<std::ptrdiff_t>(offset));
      EXPECT_EQ(download<std::uint8_t>(buffer), want) << offset << " " << size;
      std::vector<std::uint8_t> back(size);
      need(queue().copy_to_host(std::as_writable_bytes(std::span(back)), buffer, offset));
      need(queue().synchronize());
      EXPECT_EQ(back, sent) << offset << " " << size;
    }
}

TEST_P(Copies, BetweenBuffers_AtOffsets) {
  const std::vector<std::uint8_t> sent = numbered(1000);
  const BufferPtr from = upload(sent), to = zeros<std::uint8_t>(1000);
  need(queue().copy(to, 13, from, 101, 777));
  std::vector<std::uint8_t> want(1000);
  std::copy(sent.begin() + 101, sent.begin() + 878, want.begin() + 13);
  EXPECT_EQ(download<std::uint8_t>(to), want);
}

TEST_P(Copies, WithinOneBuffer_WhereRangesDoNotOverlap) {
  const std::vector<std::uint8_t> sent = numbered(256);
  const BufferPtr buffer = upload(sent);
  need(queue().copy(buffer, 128, buffer, 0, 128));
  std::vector<std::uint8_t> want = sent;
  std::copy(sent.begin(), sent.begin() + 128, want.begin() + 128);
  EXPECT_EQ(download<std::uint8_t>(buffer), want);
}

TEST_P(Copies, OutOfBounds_IsInvalidArgumentWithTheNumbers) {
  const BufferPtr buffer = zeros<std::uint8_t>(100), other = zeros<std::uint8_t>(10);
  std::vector<std::byte> host(101);
  EXPECT_CODE(kInvalidArgument, "101", queue().copy_to_device(buffer, 0, host));
  EXPECT_CODE(kInvalidArgument, "offset 95", queue().copy_to_device(buffer, 95, std::span(host).first(6)));
  EXPECT_CODE(kInvalidArgument, "101", queue().copy_to_host(host, buffer, 0));
  EXPECT_CODE(kInvalidArgument, "offset 18446744073709551615", queue().copy_to_host({host.data(), 2}, buffer, ~std::size_t{0}));
  EXPECT_CODE(kInvalidArgument, "destination", queue().copy(other, 0, buffer, 0, 11));
  EXPECT_CODE(kInvalidArgument, "source", queue().copy(buffer, 0, other, 5, 6));
  EXPECT_CODE(kInvalidArgument, "overlaps", queue().copy(buffer, 10, buffer, 0, 11));
  EXPECT_CODE(kInvalidArgument, "null", queue().copy(nullptr, 0, buffer, 0, 1));
  EXPECT_TRUE(queue().synchronize().ok()) << "a refused copy queues nothing";
}

TEST_P(Copies, PageableSource_MayChangeOnceTheCallReturns) {
  // More than any staging memory, in pieces of all sizes, each overwritten at once.
  const BufferPtr buffer = allocate(9 << 20);
  std::vector<std::uint8_t> host(1 << 20), want(9 << 20);
  std::size_t at = 0;
  for (unsigned i = 0; at < want.size(); ++i) {
    const std::size_t size = std::min<std::size_t>({want.size() - at, host.size(), 1 + 7919u * (i * i % 150)});
    std::fill_n(host.begin(), size, static_cast<std::uint8_t>(i));
    std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(at), size, static_cast<std::uint8_t>(i));
    need(queue().copy_to_device(buffer, at, std::as_bytes(std::span(host).first(size))));
    std::fill_n(host.begin(), size, std::uint8_t{0xff});
    at += size;
  }
  EXPECT_TRUE(download<std::uint8_t>(buffer) == want);
}

TEST_P(Copies, FromAndToHostVisibleMemory_AreInQueueOrder) {
  const BufferPtr pinned = allocate(1 << 20, MemoryKind::kHostVisible), buffer = allocate(1 << 20);
  for (std::size_t i = 0; i < 1 << 20; ++i) pinned->host_pointer()[i] = static_cast<std::byte>(i * 13);
  need(queue().copy_to_device(buffer, 0, {pinned->host_pointer(), 1 << 20}));
  need(queue().fill(pinned, 0, 1 << 20, 0, 4));
  need(queue().copy_to_host({pinned->host_pointer() + 4096, 8192}, buffer, 0));
  const EventPtr event = need(queue().record());
  need(event->wait());
  EXPECT_EQ(pinned->host_pointer()[4095], std::byte{0});
  for (std::size_t i = 0; i < 8192; ++i)
    ASSERT_EQ(pinned->host_pointer()[4096 + i], static_cast<std::byte>(i * 13)) << i;
}

TEST_P(Fills, PatternsOf1And2And4Bytes) {
  struct Case {
    std::uint32_t pattern, bytes;
  };
  for (const Case& each : {Case{0xab, 1}, Case{0xbeef, 2}, Case{0xdeadbeef, 4}, Case{0, 1}, Case{0x0102, 2}}) {
    const BufferPtr buffer = upload(std::vector<std::uint8_t>(64, 0x55));
    need(queue().fill(buffer, 8, 40, each.pattern, each.bytes));
    const std::vector<std::uint8_t> got = download<std::uint8_t>(buffer);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t want = i < 8 || i >= 48 ? 0x55 : each.pattern >> (8 * (i % each.bytes)) & 0xff;
      EXPECT_EQ(got[i], want) << i << " of " << std::hex << each.pattern;
    }
  }
}

TEST_P(Fills, OddOffsetsAndSizes) {
  for (std::size_t offset : {1u, 2u, 3u, 7u})
    for (std::size_t size : {0u, 1u, 3u, 29u}) {
      const BufferPtr buffer = zeros<std::uint8_t>(40);
      need(queue().fill(buffer, offset, size, 0x77, 1));
      const std::vector<std::uint8_t> got = download<std::uint8_t>(buffer);
      for (std::size_t i = 0; i < 40; ++i)
        EXPECT_EQ(got[i], i >= offset && i < offset + size ? 0x77 : 0) << offset << " " << size << " " << i;
    }
}

TEST_P(Fills, BadArguments_AreRefusedByName) {
  const BufferPtr buffer = zeros<std::uint8_t>(64);
  EXPECT_CODE(kInvalidArgument, "65 bytes", queue().fill(buffer, 0, 65, 0, 1));
  EXPECT_CODE(kInvalidArgument, "not 3", queue().fill(buffer, 0, 9, 0, 3));
  EXPECT_CODE(kInvalidArgument, "multiple", queue().fill(buffer, 2, 8, 0, 4));
  EXPECT_CODE(kInvalidArgument, "multiple", queue().fill(buffer, 0, 7, 0, 2));
  EXPECT_CODE(kInvalidArgument, "0x100", queue().fill(buffer, 0, 8, 0x100, 1));
}

}  // namespace
}  // namespace pergola::conformance
