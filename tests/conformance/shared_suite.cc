// Shared memory, barriers, atomics, and blocks that wait for each other.
#include <algorithm>
#include <numeric>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Shared);

std::vector<int> numbers(std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<int>(i * 2654435761u);
  return values;
}

TEST_P(Shared, Static_IsOneABlock) {
  const ModulePtr module = load("shared");
  const std::vector<int> in = numbers(256 * 9);
  const BufferPtr out = zeros<int>(in.size());
  run(module, "static_shared", {.grid = {9, 1, 1}, .block = {256, 1, 1}}, Arguments(upload(in), out));
  std::vector<int> want = in;
  for (std::size_t block = 0; block < 9; ++block)
    std::reverse(want.begin() + std::ptrdiff_t(block * 256), want.begin() + std::ptrdiff_t(block * 256 + 256));
  EXPECT_EQ(download<int>(out), want);
}

TEST_P(Shared, Dynamic_UpToAllThatTheDeviceHas) {
  const ModulePtr module = load("shared");
  for (std::uint32_t bytes : {64u, 4096u, 48u << 10, device().info().max_shared_bytes_per_block}) {
    const std::vector<int> in = numbers(bytes / 4);
    const BufferPtr out = zeros<int>(in.size());
    run(module, "dynamic_shared", {.block = {128, 1, 1}, .dynamic_shared_bytes = bytes},
        Arguments(upload(in), out, static_cast<int>(in.size())));
    std::vector<int> want(in.rbegin(), in.rend());
    EXPECT_TRUE(download<int>(out) == want) << bytes;
  }
}

TEST_P(Shared, StaticAndDynamic_LieApart) {
  const ModulePtr module = load("shared");
  const BufferPtr out = zeros<int>(96);
  run(module, "static_and_dynamic", {.block = {96, 1, 1}, .dynamic_shared_bytes = 96 * 4}, Arguments(out, 96));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 96; ++i) EXPECT_EQ(got[std::size_t(i)], 1000 + (i & 31) + (i + 1) % 96) << i;
}

TEST_P(Shared, BarrierInALoop_SumsByHalving) {
  const ModulePtr module = load("shared");
  for (std::uint32_t threads : {1u, 2u, 32u, 64u, 256u, 1024u}) {
    const std::vector<int> in = numbers(threads * 5);
    const BufferPtr out = zeros<int>(5);
    run(module, "tree_sum", {.grid = {5, 1, 1}, .block = {threads, 1, 1}}, Arguments(upload(in), out));
    const std::vector<int> got = download<int>(out);
    for (std::size_t block = 0; block < 5; ++block) {
      std::uint32_t want = 0;
      for (std::size_t i = 0; i < threads; ++i) want += static_cast<std::uint32_t>(in[block * threads + i]);
      EXPECT_EQ(static_cast<std::uint32_t>(got[block]), want) << threads << " threads, block " << block;
    }
  }
}

TEST_P(Shared, NamedBarriers_PassValuesToAndFro) {
  const ModulePtr module = load("shared");
  const BufferPtr out = zeros<int>(64);
  run(module, "named_barriers", {.block = {128, 1, 1}}, Arguments(out, 10));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 64; ++i) {
    int want = i;
    for (int round = 0; round < 10; ++round) want = (want + 1) * 2;
    EXPECT_EQ(got[std::size_t(i)], want) << i;
  }
}

TEST_P(Shared, BarrierReductions) {
  const ModulePtr module = load("shared");
  for (int limit : {0, 1, 50, 100}) {
    const BufferPtr out = zeros<int>(300);
    run(module, "barrier_reductions", {.block = {100, 1, 1}}, Arguments(out, limit));
    const std::vector<int> got = download<int>(out);
    for (std::size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(got[3 * i], limit);
      EXPECT_EQ(got[3 * i + 1] != 0, limit == 100);
      EXPECT_EQ(got[3 * i + 2] != 0, limit > 0);
    }
  }
}

TEST_P(Shared, ThreadsThatLeft_DoNotHoldUpABarrier) {
  const ModulePtr module = load("shared");
  // 64 of 256: whole warps leave, which every architecture allows.
  const BufferPtr out = zeros<int>(64);
  run(module, "early_exit", {.block = {256, 1, 1}}, Arguments(out, 64));
  EXPECT_EQ(download<int>(out), std::vector<int>(64, 64));
}

TEST_P(Shared, Atomics_LoseNothing) {
  const ModulePtr module = load("shared");
  constexpr std::uint32_t kThreads = 16 * 128;
  std::vector<std::uint32_t> u(12);
  u[1] = 5000;
  u[2] = ~0u;
  u[4] = ~0u;
  u[8] = 3;
  u[9] = 1;
  const BufferPtr unsigneds = upload(u), signeds = zeros<std::int32_t>(3), longs = zeros<std::uint64_t>(2),
                  floats = zeros<float>(1);
  run(module, "atomics", {.grid = {16, 1, 1}, .block = {128, 1, 1}}, Arguments(unsigneds, signeds, longs, floats));
  const auto got = download<std::uint32_t>(unsigneds);
  std::uint32_t low = ~0u, high = 0, xors = 0, product = 1;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    low = std::min(low, i * 2654435761u);
    high = std::max(high, i * 2654435761u);
    xors ^= i;
    product = product * 3 % 65521;
  }
  EXPECT_EQ(got[0], kThreads * (kThreads - 1) / 2);
  EXPECT_EQ(got[1], 5000 - kThreads);
  EXPECT_EQ(got[2], low);
  EXPECT_EQ(got[3], high);
  EXPECT_EQ(got[4], 0x55555555u);
  EXPECT_EQ(got[5], 0x0f0f0f0fu);
  EXPECT_EQ(got[6], xors);
  EXPECT_EQ(got[7], kThreads % 100);
  EXPECT_EQ(got[8], (3 + 100 * 100 - kThreads) % 100);
  EXPECT_EQ(got[9], product);
  EXPECT_EQ(got[10] + got[11], kThreads * (kThreads + 1) / 2);
  EXPECT_EQ(download<std::int32_t>(signeds), (std::vector<std::int32_t>{-500, int(kThreads) - 501,
                                                                        -int(kThreads * (kThreads - 1) / 2)}));
  const auto wide = download<std::uint64_t>(longs);
  EXPECT_EQ(wide[0], (std::uint64_t{kThreads} << 20) + kThreads * (kThreads - 1) / 2);
  EXPECT_EQ(wide[1], std::uint64_t{kThreads - 1} << 32);
  EXPECT_EQ(download<float>(floats)[0], float(kThreads));
}

TEST_P(Shared, AtomicsInSharedMemory_MakeAHistogram) {
  const ModulePtr module = load("shared");
  std::vector<std::uint8_t> data(20000);
  std::vector<std::uint32_t> want(256);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::uint8_t>(i * i >> 3);
    ++want[data[i]];
  }
  const BufferPtr bins = zeros<std::uint32_t>(256);
  run(module, "shared_histogram", {.grid = {4, 1, 1}, .block = {96, 1, 1}},
      Arguments(upload(data), static_cast<int>(data.size()), bins));
  EXPECT_EQ(download<std::uint32_t>(bins), want);
}

TEST_P(Shared, CooperativeGrid_MeetsAtGridWideBarriers) {
  const ModulePtr module = load("shared");
  const device::Kernel* kernel = need(module->kernel("grid_barrier"));
  const std::uint32_t per_sm = need(kernel->max_resident_blocks_per_sm(64, 0));
  const std::uint32_t blocks = std::min<std::uint32_t>(per_sm * device().info().sm_count, 64);
  const int rounds = 8;
  const BufferPtr counter = zeros<std::uint32_t>(1), data = zeros<int>(blocks * (rounds + 1));
  run(module, "grid_barrier", {.grid = {blocks, 1, 1}, .block = {64, 1, 1}, .cooperative = true},
      Arguments(counter, data, rounds));
  const std::vector<int> got = download<int>(data);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], int(i / blocks)) << i;
}

// cooperative_groups::this_grid().sync(), as compilers write it.
TEST_P(Shared, GridGroup_SyncsInEveryShape) {
  const ModulePtr module = load("grid");
  const device::Dim3 shapes[][2] = {{{1, 1, 1}, {32, 1, 1}},  {{2, 1, 1}, {256, 1, 1}}, {{7, 1, 1}, {33, 1, 1}},
                                    {{3, 2, 2}, {8, 4, 2}},   {{8, 1, 1}, {1, 1, 1}},   {{2, 3, 1}, {5, 5, 5}},
                                    {{16, 1, 1}, {64, 1, 1}}, {{1, 1, 4}, {1024, 1, 1}}};
  for (const auto& [grid, block] : shapes) {
    for (const int rounds : {1, 2, 9}) {
      constexpr int kN = 1000;
      std::vector<unsigned> a(kN), b(kN);
      for (int i = 0; i < kN; ++i) a[i] = static_cast<unsigned>(i * i);
      const BufferPtr first = upload(a), second = zeros<unsigned>(kN);
      run(module, "grid_ring", {.grid = grid, .block = block, .cooperative = true}, Arguments(first, second, kN, rounds));
      for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < kN; ++i) b[i] = a[(i + kN - 1) % kN] + 3 * a[i] + a[(i + 1) % kN];
        std::swap(a, b);
      }
      ASSERT_EQ(download<unsigned>(rounds % 2 == 0 ? first : second), a) << grid.count() << " blocks of " << block.count() << ", " << rounds << " rounds";
    }
  }
}

TEST_P(Shared, GridGroup_OneBlocksResult_IsSeenByAll) {
  const ModulePtr module = load("grid");
  std::vector<unsigned> data(5000);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += data[i] = static_cast<unsigned>(i % 61 + 1);
  const BufferPtr buffer = upload(data), sums = zeros<unsigned>(12);
  run(module, "grid_shares", {.grid = {12, 1, 1}, .block = {96, 1, 1}, .cooperative = true},
      Arguments(buffer, sums, static_cast<int>(data.size())));
  for (unsigned& value : data) value = static_cast<unsigned>(65536 * std::uint64_t{value} / sum);
  EXPECT_EQ(download<unsigned>(buffer), data);
}

// An H200 (driver 580) says that the group is valid in a launch of blocks that need not be resident together, too; the CPU
// device says that it is not, and its sync() then traps with the reason instead of waiting for ever.
TEST_P(Shared, GridGroup_IsValidInCooperativeLaunches) {
  const ModulePtr module = load("grid");
  const BufferPtr out = zeros<int>(1);
  for (const bool cooperative : {true, false}) {
    if (!cooperative && device().info().kind == device::DeviceKind::kCuda) continue;
    run(module, "grid_is_valid", {.grid = {3, 1, 1}, .block = {32, 1, 1}, .cooperative = cooperative}, Arguments(out));
    EXPECT_EQ(download<int>(out), std::vector<int>{cooperative ? 1 : 2});
  }
}

TEST_P(Shared, GridGroup_MoreBlocksThanFit_AreRefusedWithTheNumbers) {
  const ModulePtr module = load("grid");
  const device::Kernel* kernel = need(module->kernel("grid_ring"));
  const std::uint32_t fit = need(kernel->max_resident_blocks_per_sm(1024, 0)) * device().info().sm_count;
  const BufferPtr data = zeros<unsigned>(16);
  const LaunchConfig config{.grid = {fit + 1, 1, 1}, .block = {1024, 1, 1}, .cooperative = true};
  EXPECT_CODE(kResourceExhausted, fmt::format("has {} blocks, and only {} of 1024 threads", fit + 1, fit),
              launch_on(queue(), module, "grid_ring", config, Arguments(data, data, 16, 1)));
}

}  // namespace
}  // namespace pergola::conformance
