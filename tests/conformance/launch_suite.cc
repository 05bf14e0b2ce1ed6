// Launches: grids and blocks of every shape, parameters of every type, and each way to ask for what cannot be.
#include <algorithm>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Launches);
CONFORMANCE_SUITE(LaunchErrors);

struct Mixed {
  char tag;
  double value;
  short small[3];
};

std::uint32_t packed(const Dim3& d) { return d.x | d.y << 10 | d.z << 20; }

// What grid_shape writes for every thread.
std::vector<std::uint32_t> shape_reference(const Dim3& grid, const Dim3& block) {
  std::vector<std::uint32_t> want;
  for (std::uint32_t bz = 0; bz < grid.z; ++bz)
    for (std::uint32_t by = 0; by < grid.y; ++by)
      for (std::uint32_t bx = 0; bx < grid.x; ++bx)
        for (std::uint32_t tz = 0; tz < block.z; ++tz)
          for (std::uint32_t ty = 0; ty < block.y; ++ty)
            for (std::uint32_t tx = 0; tx < block.x; ++tx)
              want.insert(want.end(), {packed({bx, by, bz}), packed({tx, ty, tz}), packed(grid), packed(block)});
  return want;
}

TEST_P(Launches, GridsAndBlocks_OfEveryShape) {
  const ModulePtr module = load("launch");
  const std::pair<Dim3, Dim3> shapes[] = {
      {{1, 1, 1}, {1, 1, 1}},   {{7, 1, 1}, {33, 1, 1}}, {{3, 5, 1}, {8, 4, 1}},  {{2, 3, 4}, {5, 3, 2}},
      {{1, 1, 9}, {1, 1, 64}},  {{1, 1, 1}, {1024, 1, 1}}, {{2, 1, 1}, {32, 32, 1}}, {{1, 17, 1}, {1, 100, 1}},
  };
  for (const auto& [grid, block] : shapes) {
    const std::vector<std::uint32_t> want = shape_reference(grid, block);
    const BufferPtr out = zeros<std::uint32_t>(want.size());
    run(module, "grid_shape", {.grid = grid, .block = block}, Arguments(out));
    EXPECT_TRUE(download<std::uint32_t>(out) == want) << grid.x << " " << grid.y << " " << grid.z << " blocks";
  }
}

TEST_P(Launches, ManyBlocks_AllRun) {
  const ModulePtr module = load("launch");
  constexpr int kBlocks = 20000;
  const BufferPtr data = zeros<int>(kBlocks);
  run(module, "add_one", {.grid = {kBlocks, 1, 1}, .block = {1, 1, 1}}, Arguments(data, kBlocks));
  EXPECT_TRUE(download<int>(data) == std::vector<int>(kBlocks, 1));
}

TEST_P(Launches, ParametersOfEveryType_ArriveAsTheyAre) {
  const ModulePtr module = load("launch");
  const BufferPtr out = zeros<std::uint64_t>(14);
  const float f = -0.0f;
  const double d = 6.02e23;
  Mixed mixed{};
  mixed.tag = -3;
  mixed.value = -1.0 / 3.0;
  mixed.small[0] = -2;
  mixed.small[2] = 0x7fff;
  run(module, "every_parameter", {},
      Arguments(std::int8_t{-5}, std::uint8_t{250}, std::int16_t{-300}, std::uint16_t{65000}, std::int32_t{-70000},
                std::uint32_t{0xfedcba98}, std::int64_t{-5'000'000'000}, ~std::uint64_t{5}, f, d, mixed, out, true));
  const auto bits = [](double value) {
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, &value, 8);
    return pattern;
  };
  const std::vector<std::uint64_t> want{std::uint64_t(-5), 250, std::uint64_t(-300), 65000, std::uint64_t(-70000),
                                        0xfedcba98, std::uint64_t(-5'000'000'000), ~std::uint64_t{5}, 0x80000000,
                                        bits(d), std::uint64_t(-3), bits(mixed.value),
                                        std::uint64_t(-2) ^ std::uint64_t{0x7fff} << 16, 1};
  EXPECT_EQ(download<std::uint64_t>(out), want);
}

TEST_P(Launches, ParameterArray_IndexedAtRunTime) {
  const ModulePtr module = load("launch");
  struct Table {
    int values[16];
  } table;
  for (int i = 0; i < 16; ++i) table.values[i] = i * i - 7;
  const BufferPtr out = zeros<int>(64);
  run(module, "parameter_table", {.block = {64, 1, 1}}, Arguments(table, out, 3));
  const std::vector<int> got = download<int>(out);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], table.values[(i + 3) & 15]) << i;
}

TEST_P(Launches, Parameters_AreCopiedWhenTheCallReturns) {
  const ModulePtr module = load("launch");
  const device::Kernel* kernel = need(module->kernel("add"));
  const BufferPtr data = zeros<int>(32);
  std::vector<std::byte> parameters = Arguments(data, 5).pack(kernel->signature());
  need(queue().launch(module, *kernel, {.block = {32, 1, 1}}, parameters));
  std::fill(parameters.begin(), parameters.end(), std::byte{0xff});
  EXPECT_EQ(download<int>(data), std::vector<int>(32, 5));
}

TEST_P(Launches, NoParameters) {
  run(load("launch"), "no_parameters", {.grid = {3, 1, 1}, .block = {32, 1, 1}}, Arguments());
  EXPECT_TRUE(queue().synchronize().ok());
}

TEST_P(Launches, SpecialRegisters_FitTogether) {
  const ModulePtr module = load("launch");
  const BufferPtr lanes = zeros<std::uint32_t>(3 * 200), bad = zeros<std::uint32_t>(1);
  run(module, "special_registers", {.grid = {3, 1, 1}, .block = {200, 1, 1}}, Arguments(lanes, bad));
  EXPECT_EQ(download<std::uint32_t>(bad)[0], 0u) << "a bit for each register that is wrong, see launch.cu";
  const auto got = download<std::uint32_t>(lanes);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i % 200 % 32);
}

TEST_P(Launches, RequiredAndMaximalBlocks_AreAccepted) {
  const ModulePtr module = load("bounds");
  const BufferPtr out = zeros<std::uint32_t>(1);
  run(module, "exactly_64_2", {.block = {64, 2, 1}}, Arguments(out));
  EXPECT_EQ(download<std::uint32_t>(out)[0], 2u);
  run(module, "at_most_96", {.block = {96, 1, 1}}, Arguments(out));
  EXPECT_EQ(download<std::uint32_t>(out)[0], 96u);
}

TEST_P(Launches, ManyInARow_RunInOrder) {
  const ModulePtr module = load("launch");
  const BufferPtr data = zeros<int>(64);
  std::uint32_t want = 0;
  for (int i = 0; i < 500; ++i) {
    run(module, "add", {.block = {64, 1, 1}}, Arguments(data, i));
    want = want * 3 + static_cast<std::uint32_t>(i);
  }
  EXPECT_EQ(download<std::uint32_t>(data), std::vector<std::uint32_t>(64, want));
}

TEST_P(Launches, Programmatic_KeepsTheOrderThatKernelsSee) {
  const ModulePtr module = load("launch");
  const BufferPtr data = zeros<int>(64);
  // None of these kernels lets its successor start early, so each sees all of the one before.
  for (int i = 0; i < 20; ++i)
    run(module, "add_one", {.block = {64, 1, 1}, .programmatic = true}, Arguments(data, 64));
  EXPECT_EQ(download<int>(data), std::vector<int>(64, 20));
}

// Every config that a launch may not have, with the code and the part of the message that names it.
TEST_P(LaunchErrors, BadConfigs_AreRefusedByName) {
  const ModulePtr module = load("launch"), bounds = load("bounds");
  const device::Kernel* kernel = need(module->kernel("no_parameters"));
  const auto launch = [&](const LaunchConfig& config) { return queue().launch(module, *kernel, config, {}); };
  EXPECT_CODE(kInvalidArgument, "grid.x is 0", launch({.grid = {0, 1, 1}}));
  EXPECT_CODE(kInvalidArgument, "block.y is 0", launch({.block = {1, 0, 1}}));
  EXPECT_CODE(kInvalidArgument, "grid.x is 2147483648", launch({.grid = {0x80000000u, 1, 1}}));
  EXPECT_CODE(kInvalidArgument, "grid.y is 65536", launch({.grid = {1, 65536, 1}}));
  EXPECT_CODE(kInvalidArgument, "grid.z is 65536", launch({.grid = {1, 1, 65536}}));
  EXPECT_CODE(kInvalidArgument, "block.x is 1025", launch({.block = {1025, 1, 1}}));
  EXPECT_CODE(kInvalidArgument, "block.z is 65", launch({.block = {1, 1, 65}}));
  EXPECT_CODE(kInvalidArgument, "2048 threads", launch({.block = {64, 32, 1}}));
  EXPECT_CODE(kResourceExhausted, "1073741824", launch({.dynamic_shared_bytes = 1u << 30}));
  EXPECT_CODE(kInvalidArgument, "4 are given", queue().launch(module, *kernel, {}, std::vector<std::byte>(4)));

  const BufferPtr out = zeros<std::uint32_t>(1);
  EXPECT_CODE(kInvalidArgument, ".reqntid",
              launch_on(queue(), bounds, "exactly_64_2", {.block = {2, 64, 1}}, Arguments(out)));
  EXPECT_CODE(kInvalidArgument, ".maxntid",
              launch_on(queue(), bounds, "at_most_96", {.block = {97, 1, 1}}, Arguments(out)));
  EXPECT_TRUE(queue().synchronize().ok()) << "a refused launch queues nothing";
}

TEST_P(LaunchErrors, ClustersThatDoNotFit_AreRefused) {
  const ModulePtr module = load("launch");
  const device::Kernel* kernel = need(module->kernel("no_parameters"));
  const LaunchConfig config{.grid = {5, 1, 1}, .cluster = {2, 1, 1}};
  const Status status = queue().launch(module, *kernel, config, {});
  if (device().info().max_cluster_blocks == 0) {
    EXPECT_CODE(kUnsupported, "cluster", status);
  } else {
    EXPECT_CODE(kInvalidArgument, "multiple", status);
  }
}

TEST_P(LaunchErrors, CooperativeGridThatIsTooLarge_IsResourceExhausted) {
  const ModulePtr module = load("launch");
  const device::Kernel* kernel = need(module->kernel("no_parameters"));
  const LaunchConfig config{.grid = {10'000'000, 1, 1}, .block = {1024, 1, 1}, .cooperative = true};
  EXPECT_CODE(kResourceExhausted, "10000000", queue().launch(module, *kernel, config, {}));
}

TEST_P(LaunchErrors, KernelOfAnotherModule_IsInvalidArgument) {
  const ModulePtr module = load("launch"), other = load("faults");
  const device::Kernel* kernel = need(module->kernel("no_parameters"));
  EXPECT_CODE(kInvalidArgument, "module", queue().launch(other, *kernel, {}, {}));
  EXPECT_CODE(kInvalidArgument, "module", queue().launch(nullptr, *kernel, {}, {}));
}

}  // namespace
}  // namespace pergola::conformance
