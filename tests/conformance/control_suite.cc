// Control flow, warps, local memory, calls, generic addresses.
#include <algorithm>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Control);

TEST_P(Control, LoopsOfDifferentLength_InOneWarp) {
  const BufferPtr out = zeros<std::uint32_t>(512);
  run(load("control"), "collatz", {.grid = {4, 1, 1}, .block = {128, 1, 1}}, Arguments(out));
  const auto got = download<std::uint32_t>(out);
  for (std::uint64_t i = 0; i < 512; ++i) {
    std::uint32_t want = 0;
    for (std::uint64_t n = i + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++want;
    EXPECT_EQ(got[i], want) << i;
  }
}

TEST_P(Control, SwitchesBreaksAndFallsThrough) {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[std::size_t(i)] = i * 5 % 11;
  const BufferPtr out = zeros<int>(32);
  run(load("control"), "switches", {.block = {32, 1, 1}}, Arguments(upload(in), out));
  const std::vector<int> got = download<int>(out);
  for (int thread = 0; thread < 32; ++thread) {
    const int x = in[std::size_t(thread)];
    const int cases[] = {17, x * 31, in[std::size_t(thread + 1) & 31], x ^ 99, x ^ 99, -x, x << 7};
    int y = x < 7 ? cases[x] : 1000;
    for (int i = 0; i < std::min(x, 6); ++i) y += i == 3 ? 0 : i * (thread + 1);
    EXPECT_EQ(got[std::size_t(thread)], y) << thread << " takes case " << x;
  }
}

TEST_P(Control, Shuffles_OfEveryModeAndWidth) {
  const BufferPtr out = zeros<int>(8 * 96);
  run(load("control"), "shuffles", {.block = {96, 1, 1}}, Arguments(out));
  const std::vector<int> got = download<int>(out);
  for (int thread = 0; thread < 96; ++thread) {
    const int lane = thread & 31, warp = thread - lane;
    const auto value = [&](int from) { return (warp + from) * 10; };
    const int want[] = {value(5),
                        value(lane / 8 * 8 + (lane + 1) % 8),
                        value(lane < 3 ? lane : lane - 3),
                        value(lane % 16 < 2 ? lane : lane - 2),
                        value(lane + 7 > 31 ? lane : lane + 7),
                        value(lane % 4 == 3 ? lane : lane + 1),
                        value(lane ^ 21),
                        // A width of 8 with a mask of 12: from a lane of a later part, a thread keeps its own.
                        value((lane ^ 12) / 8 > lane / 8 ? lane : lane ^ 12)};
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got[std::size_t(8 * thread + i)], want[i]) << thread << " value " << i;
  }
}

TEST_P(Control, WarpSum) {
  std::vector<int> in(4 * 128);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = int(i) * 3 - 700;
  const BufferPtr out = zeros<int>(4);
  run(load("control"), "warp_sum", {.grid = {4, 1, 1}, .block = {128, 1, 1}}, Arguments(upload(in), out));
  const std::vector<int> got = download<int>(out);
  for (std::size_t block = 0; block < 4; ++block) {
    int want = 0;
    for (std::size_t i = 0; i < 128; ++i) want += in[block * 128 + i];
    EXPECT_EQ(got[block], want);
  }
}

TEST_P(Control, VotesAndMatches) {
  const BufferPtr out = zeros<std::uint32_t>(8 * 128);
  run(load("control"), "votes", {.block = {128, 1, 1}}, Arguments(out));
  const auto got = download<std::uint32_t>(out);
  std::uint32_t thirds = 0;
  for (std::uint32_t lane = 0; lane < 32; lane += 3) thirds |= 1u << lane;
  for (std::uint32_t thread = 0; thread < 128; ++thread) {
    const std::uint32_t lane = thread & 31;
    std::uint32_t match = 0;
    for (std::uint32_t other = 0; other < 32; ++other)
      if (other / 5 == lane / 5) match |= 1u << other;
    const std::uint32_t want[] = {thirds, thread < 64, thread < 32, 1, match, lane & 1 ? 0xaaaa0000u : 0, 32, 0xaaaa0000u};
    for (std::uint32_t i = 0; i < 8; ++i) {
      if (i == 6) {  // how many threads are converged is the device's own affair
        EXPECT_GE(got[8 * thread + i], 1u) << thread;
        EXPECT_LE(got[8 * thread + i], 32u) << thread;
      } else {
        EXPECT_EQ(got[8 * thread + i], want[i]) << thread << " value " << i;
      }
    }
  }
}

TEST_P(Control, LocalArrays_IndexedAtRunTime) {
  std::vector<int> in(64 * 16);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = int(i * 40503u % 1009) - 500;
  const BufferPtr out = zeros<int>(in.size());
  run(load("control"), "local_sort", {.block = {64, 1, 1}}, Arguments(upload(in), out));
  for (std::size_t i = 0; i < in.size(); i += 16) std::sort(in.begin() + std::ptrdiff_t(i), in.begin() + std::ptrdiff_t(i + 16));
  EXPECT_EQ(download<int>(out), in);
}

TEST_P(Control, Recursion) {
  const BufferPtr out = zeros<std::uint32_t>(64);
  run(load("control"), "recursion", {.block = {64, 1, 1}}, Arguments(out));
  std::vector<std::uint32_t> fibonacci{0, 1}, want;
  while (fibonacci.size() < 13) fibonacci.push_back(fibonacci.end()[-1] + fibonacci.end()[-2]);
  for (std::size_t i = 0; i < 64; ++i) want.push_back(fibonacci[i % 13]);
  EXPECT_EQ(download<std::uint32_t>(out), want);
}

TEST_P(Control, CallsWithStructures) {
  const BufferPtr out = zeros<int>(40);
  run(load("control"), "calls", {.block = {40, 1, 1}}, Arguments(out));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(got[std::size_t(i)], i * 2 + int((i + 0.5) * 3.0) + i * 100) << i;
}

TEST_P(Control, FunctionPointers) {
  const BufferPtr out = zeros<int>(64);
  run(load("pointers"), "function_pointers", {.block = {64, 1, 1}}, Arguments(out));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 64; ++i) {
    const int want[] = {i + 11, i - 11, i * 11, std::min(i, 11)};
    EXPECT_EQ(got[std::size_t(i)], want[i * 7 & 3]) << i;
  }
}

TEST_P(Control, GenericPointers_IntoThreeSpaces) {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[std::size_t(i)] = 1000 + i;
  const BufferPtr out = zeros<int>(64);
  run(load("control"), "generic_pointers", {.block = {32, 1, 1}}, Arguments(upload(in), out));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 32; ++i) {
    const int want[] = {1000 + i, (i ^ 1) * 5, i * 7 + 2};
    EXPECT_EQ(got[std::size_t(i)], want[i % 3] + 1) << i;
    EXPECT_EQ(got[std::size_t(32 + i)], 1 << i % 3) << i;
  }
}

TEST_P(Control, VectorLoadsAndStores) {
  std::vector<float> in(4 * 16), want;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = float(i) + 0.5f;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 4; ++j) want.push_back(in[4 * i + 3 - j]);
  const BufferPtr out = zeros<float>(64), bytes = zeros<std::uint8_t>(64);
  run(load("control"), "vectors", {.block = {16, 1, 1}}, Arguments(upload(in), out, bytes));
  EXPECT_EQ(download<float>(out), want);
  const auto truncated = download<std::uint8_t>(bytes);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(truncated[i], i);
}

TEST_P(Control, ReturnsInTheMiddle) {
  std::vector<int> in(100);
  for (int i = 0; i < 100; ++i) in[std::size_t(i)] = i % 7 == 0 ? -i - 1 : i;
  const BufferPtr out = zeros<int>(128);
  run(load("control"), "early_return", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, Arguments(upload(in), out, 100));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 128; ++i) {
    const int want = i >= 100 ? 0 : i % 7 == 0 ? -1 : 2 * i;
    EXPECT_EQ(got[std::size_t(i)], want) << i;
  }
}

}  // namespace
}  // namespace pergola::conformance
