// Random kernels must leave the same bits on the interpreter and on every other device that is here: the JIT, or the
// GPU that PERGOLA_DEVICE names. PERGOLA_DIFFERENTIAL=FIRST:COUNT chooses the seeds (default 1:75 on the vector tier, a
// quarter of that on others);
// PERGOLA_DIFFERENTIAL_KEEP names a folder for the kernels that disagree, each also in a reduced form; one that never
// ends is left there too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/base/file.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "tests/differential/kernel_generator.h"
#include "tests/differential/reduce.h"
#include "tests/ptx_cases/run_case.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::differential {
namespace {

struct Seeds {
  std::uint64_t first = 1, count = 75;
};
Seeds seeds(Seeds chosen = {}) {
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

// Does the GPU `name` agree where the driver's compiler does not optimise? Then its optimiser, not Pergola, is at fault.
bool is_drivers_optimiser(const std::string& name, const ptx_cases::Case& test, const ptx_cases::Memory& expected) {
  if (!name.starts_with("cuda:")) return false;
  auto plain = ptx_cases::open_test_device("cuda-O0" + name.substr(4));
  if (!plain.ok()) return false;
  const auto found = ptx_cases::run_case(**plain, test);
  return found.ok() && *found == expected;
}

// The file of the running kernel; gone when this is, unless keep() was called.
class Kept {
 public:
  Kept(const ptx_cases::Case& test, std::uint64_t seed) : seed_(seed) {
    const char* folder = std::getenv("PERGOLA_DIFFERENTIAL_KEEP");
    if (folder == nullptr) return;
    folder_ = folder;
    EXPECT_TRUE(write_file_atomically(file(""), test.text).ok());
  }
  ~Kept() {
    if (!folder_.empty() && !stays_) std::remove(file("").c_str());
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  void keep(device::Device& reference, device::Device& device, const ptx_cases::Case& test);

 private:
  std::string file(const char* kind) const { return fmt::format("{}/seed{}{}.ptx", folder_, seed_, kind); }
  const std::uint64_t seed_;
  std::string folder_;  // empty: nothing is kept
  bool stays_ = false;
};

void Kept::keep(device::Device& reference, device::Device& device, const ptx_cases::Case& test) {
  if (folder_.empty()) return;
  stays_ = true;
  std::string difference;
  const ptx_cases::Case small = reduce(test, [&](const ptx_cases::Case& candidate) {
    const auto expected = ptx_cases::run_case(reference, candidate);
    if (!expected.ok()) return false;
    const auto found = ptx_cases::run_case(device, candidate);
    if (!found.ok()) return false;
    std::string now = first_difference(*expected, *found);
    if (!now.empty()) difference = std::move(now);
    return *expected != *found;
  });
  EXPECT_TRUE(write_file_atomically(file(".small"),
                                    fmt::format("// {}\n{}", difference, small.text)).ok());
}

// `usual`: the seeds where the environment does not say.
void leave_the_same_bits(const Seeds& usual) {
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
    // The vector tier has the most that can go wrong.
    const Seeds chosen = seeds({usual.first, name == "vector" ? usual.count : usual.count / 4});
    std::vector<std::uint64_t> by_optimiser;
    for (std::uint64_t seed = chosen.first; seed < chosen.first + chosen.count; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {} (PERGOLA_DIFFERENTIAL={}:1)", name, seed, seed));
      const ptx_cases::Case test = generate_kernel(seed);
      const auto expected = ptx_cases::run_case(**reference, test);
      ASSERT_TRUE(expected.ok()) << expected.message() << "\n" << test.text;
      Kept kept(test, seed);
      const auto found = ptx_cases::run_case(**device, test);
      ASSERT_TRUE(found.ok()) << found.message();
      const std::string difference = first_difference(*expected, *found);
      if (!difference.empty() && is_drivers_optimiser(name, test, *expected)) {
        by_optimiser.push_back(seed);
        kept.keep(**reference, **device, test);
        continue;
      }
      EXPECT_EQ(difference, "");
      if (!difference.empty()) kept.keep(**reference, **device, test);
    }
    std::printf("%s: %llu kernels; %zu agree only with the optimiser of the driver's compiler off:", name.c_str(),
                static_cast<unsigned long long>(chosen.count), by_optimiser.size());
    for (const std::uint64_t seed : by_optimiser) std::printf(" %llu", static_cast<unsigned long long>(seed));
    std::printf("\n");
    // See docs/driver-faults.md. More than that is something new.
    EXPECT_LE(by_optimiser.size(), 2 + chosen.count / 200) << "more than one in 200 kernels";
  }
}

TEST(Differential, RandomKernels_LeaveTheSameBits) { leave_the_same_bits({}); }

TEST(Differential, WideRandomKernels_LeaveTheSameBits) {
  if (std::getenv("PERGOLA_DIFFERENTIAL") != nullptr) GTEST_SKIP() << "PERGOLA_DIFFERENTIAL chooses the seeds of the other test";
  leave_the_same_bits({kFirstWideSeed, 75});
}

// Seeds that found a fault: bits merged by a constant under a mask (src/device/cpu/jit/bit_merges.h), and what lanes that
// leave a loop at its latch take along.
TEST(Differential, KernelsThatOnceDiffered_LeaveTheSameBits) {
  if (std::getenv("PERGOLA_DIFFERENTIAL") != nullptr) GTEST_SKIP() << "PERGOLA_DIFFERENTIAL chooses the seeds of another test";
  leave_the_same_bits({1049945, 1});
  leave_the_same_bits({1050388, 1});
}

// The generator's kernels order what they share: a race that --check sees in one would be a mistake of either.
TEST(Differential, RandomKernels_HaveNoRaces) {
  auto checked = ptx_cases::open_test_device("checked");
  ASSERT_TRUE(checked.ok()) << checked.message();
  const Seeds chosen = seeds();
  const std::uint64_t count = std::min<std::uint64_t>(chosen.count, 10);
  for (const std::uint64_t first : {chosen.first, kFirstWideSeed}) {
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const auto found = ptx_cases::run_case(**checked, generate_kernel(seed));
      EXPECT_TRUE(found.ok()) << "seed " << seed << ": " << found.message();
    }
  }
}

TEST(Differential, GeneratedKernels_AreLegalPtx) {
  for (std::uint64_t n = 1; n <= 40; ++n) {
    const std::uint64_t seed = n % 2 == 0 ? n : n + kFirstWideSeed;
    const auto module = ptx::parse(generate_kernel(seed).text, "k.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    const Status legal = ptx::verify(*module);
    EXPECT_TRUE(legal.ok()) << "seed " << seed << ": " << legal.message();
  }
}

TEST(Differential, Generator_GivesTheSameKernelForTheSameSeed) {
  EXPECT_EQ(generate_kernel(3).text, generate_kernel(3).text);
  EXPECT_NE(generate_kernel(3).text, generate_kernel(4).text);
}

// Reports name seeds, so one must mean one kernel, whichever compiler the generator was built by.
TEST(Generator, Seed_MeansTheSameKernelByEveryCompiler) {
  const auto hash = [](std::uint64_t seed) {  // FNV-1a
    std::uint64_t h = 0xcbf29ce484222325u;
    for (const char c : generate_kernel(seed).text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
  };
  EXPECT_EQ(hash(1), 0x4a899930fd64f4e2u);
  EXPECT_EQ(hash(kFirstWideSeed), 0x0b95cccba0a054dfu);
  EXPECT_EQ(hash(kFirstWideSeed + 1), 0x173c93cd8a446399u);
}

}  // namespace
}  // namespace pergola::differential
