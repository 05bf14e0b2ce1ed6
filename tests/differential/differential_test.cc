// Random kernels must leave the same bits on the interpreter and on every other device that is here: the JIT, or the
// GPU that PERGOLA_DEVICE names. PERGOLA_DIFFERENTIAL=FIRST:COUNT chooses the seeds (default 1:40);
// PERGOLA_DIFFERENTIAL_KEEP names a folder for the kernels that disagree.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "src/base/file.h"
#include "tests/differential/kernel_generator.h"
#include "tests/ptx_cases/run_case.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::differential {
namespace {

struct Seeds {
  std::uint64_t first = 1, count = 40;
};
Seeds seeds() {
  Seeds chosen;
  if (const char* text = std::getenv("PERGOLA_DIFFERENTIAL")) {
    char* end = nullptr;
    chosen.first = std::strtoull(text, &end, 10);
    if (*end == ':') chosen.count = std::strtoull(end + 1, nullptr, 10);
  }
  return chosen;
}

std::string first_difference(const ptx_cases::Memory& expected, const ptx_cases::Memory& found) {
  for (std::size_t b = 0; b < expected.size(); ++b) {
    for (std::size_t at = 0; at + 4 <= expected[b].size(); at += 4) {
      std::uint32_t x = 0, y = 0;
      std::memcpy(&x, expected[b].data() + at, 4);
      std::memcpy(&y, found[b].data() + at, 4);
      if (x != y) return fmt::format("buffer {} at byte {}: the interpreter has {:#010x}, the device {:#010x}", b, at, x, y);
    }
  }
  return {};
}

void keep(const ptx_cases::Case& test, std::uint64_t seed) {
  const char* folder = std::getenv("PERGOLA_DIFFERENTIAL_KEEP");
  if (folder == nullptr) return;
  EXPECT_TRUE(write_file_atomically(fmt::format("{}/seed{}.ptx", folder, seed), test.text).ok());
}

TEST(Differential, RandomKernels_LeaveTheSameBits) {
  auto reference = ptx_cases::open_test_device("interpreter");
  ASSERT_TRUE(reference.ok()) << reference.message();
  std::vector<std::string> others;
  for (const std::string& name : ptx_cases::test_device_names())
    if (name != "interpreter") others.push_back(name);
  // Where there is nothing else, a second interpreter: results depend on neither the order of blocks nor on chance.
  if (others.empty()) others.emplace_back("interpreter");
  for (const std::string& name : others) {
    auto device = ptx_cases::open_test_device(name);
    ASSERT_TRUE(device.ok()) << device.message();
    const Seeds chosen = seeds();
    for (std::uint64_t seed = chosen.first; seed < chosen.first + chosen.count; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {} (PERGOLA_DIFFERENTIAL={}:1)", name, seed, seed));
      const ptx_cases::Case test = generate_kernel(seed);
      const auto expected = ptx_cases::run_case(**reference, test);
      ASSERT_TRUE(expected.ok()) << expected.message() << "\n" << test.text;
      const auto found = ptx_cases::run_case(**device, test);
      ASSERT_TRUE(found.ok()) << found.message();
      const std::string difference = first_difference(*expected, *found);
      EXPECT_EQ(difference, "");
      if (!difference.empty()) keep(test, seed);
    }
  }
}

TEST(Differential, Generator_GivesTheSameKernelForTheSameSeed) {
  EXPECT_EQ(generate_kernel(3).text, generate_kernel(3).text);
  EXPECT_NE(generate_kernel(3).text, generate_kernel(4).text);
}

}  // namespace
}  // namespace pergola::differential
