// Runs every litmus test of tests/litmus/cases on every device that is here (both tiers of the CPU device, or the GPU
// that PERGOLA_DEVICE names): no forbidden outcome is ever seen, and which weak ones were is printed.
//
//   PERGOLA_LITMUS_MS    how long each test runs (default 15)
//   PERGOLA_LITMUS_SEED  of the delays (default: the clock's; always printed)
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "src/device/cpu/cpu_options.h"
#include "src/ptx/parser.h"
#include "tests/litmus/litmus_case.h"
#include "tests/litmus/litmus_kernel.h"
#include "tests/ptx_cases/case_file.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/support/source_dir.h"

namespace pergola::litmus {
namespace {

using Clock = std::chrono::steady_clock;

// Of a launch; fewer under a sanitizer, where each takes some twenty times as long.
#if defined(PERGOLA_TSAN) || defined(PERGOLA_ASAN)
constexpr std::uint32_t kRounds = 16;
#else
constexpr std::uint32_t kRounds = 128;
#endif

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

// One test on one device: buffers of one launch, launched again and again.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> make(device::DevicePtr device, const LitmusCase& test, std::uint32_t groups) {
    auto runner = std::unique_ptr<Runner>(new Runner(std::move(device), test, groups));
    PERGOLA_TRY(runner->prepare());
    return runner;
  }

  // One launch of rounds() x groups outcomes.
  Result<std::vector<Outcome>> launch(std::uint64_t seed) {
    PERGOLA_TRY(queue_->fill(locations_, 0, locations_->size_bytes(), 0, 1));
    PERGOLA_TRY(queue_->fill(counters_, 0, counters_->size_bytes(), 0, 1));
    std::vector<std::uint32_t> delays(kDelays + 1);
    // Delays of up to 1, 8 or 64 turns: near misses of every width.
    for (std::uint32_t n = 0; n < kDelays; ++n) {
      const std::uint64_t word = ptx_cases::random_word(seed, n);
      delays[n] = static_cast<std::uint32_t>((word >> 8) % (std::uint64_t{1} << 3 * (word % 3)));
    }
    PERGOLA_TRY(queue_->copy_to_device(delays_, 0, std::as_bytes(std::span(delays))));
    alignas(8) std::byte parameters[40] = {};
    const std::uint64_t addresses[] = {locations_->address(), results_->address(), counters_->address(), delays_->address()};
    std::memcpy(parameters, addresses, sizeof addresses);
    std::memcpy(parameters + 32, &rounds_, 4);
    const auto threads = static_cast<std::uint32_t>(test_.threads.size());
    device::LaunchConfig config;
    config.grid = {test_.place == Place::kBlocks ? threads * groups_ : groups_, 1, 1};
    config.block = {test_.place == Place::kBlocks ? 1 : test_.place == Place::kWarps ? 32 * threads : threads, 1, 1};
    const device::Kernel* kernel = *module_->kernel("litmus");
    PERGOLA_TRY(queue_->launch(module_, *kernel, config, std::span(parameters, 36)));
    std::vector<std::byte> bytes(results_->size_bytes());
    PERGOLA_TRY(queue_->copy_to_host(bytes, results_, 0));
    PERGOLA_TRY(queue_->synchronize());
    return outcomes(bytes);
  }

 private:
  Runner(device::DevicePtr device, const LitmusCase& test, std::uint32_t groups)
      : device_(std::move(device)), test_(test), groups_(groups), rounds_(kRounds) {}

  Status prepare() {
    const std::string text = litmus_kernel(test_);
    PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(text, test_.name + ".ptx"));
    PERGOLA_ASSIGN(module_, device_->load({&parsed, text, test_.name + ".ptx"}));
    PERGOLA_TRY(module_->kernel("litmus").status());
    PERGOLA_ASSIGN(queue_, device_->create_queue());
    const auto allocate = [&](std::size_t bytes) { return device_->allocate(bytes, device::MemoryKind::kDevice); };
    PERGOLA_ASSIGN(locations_, allocate(std::size_t{groups_} * rounds_ * kLocations * kLocationStride));
    PERGOLA_ASSIGN(results_, allocate(std::size_t{groups_} * rounds_ * result_bytes(test_)));
    PERGOLA_ASSIGN(counters_, allocate(std::size_t{groups_} * kCounterStride));
    PERGOLA_ASSIGN(delays_, allocate((kDelays + 1) * 4));
    return {};
  }

  std::vector<Outcome> outcomes(const std::vector<std::byte>& bytes) const {
    const std::size_t count = test_.threads.size() * kResults;
    std::vector<Outcome> all(std::size_t{groups_} * rounds_);
    const std::byte* at = bytes.data();
    for (Outcome& outcome : all) {
      outcome.results.resize(count);
      std::memcpy(outcome.results.data(), at, 4 * count);
      std::memcpy(outcome.locations, at + 4 * count, sizeof outcome.locations);
      at += result_bytes(test_);
    }
    return all;
  }

  const device::DevicePtr device_;
  const LitmusCase& test_;
  const std::uint32_t groups_, rounds_;
  device::ModulePtr module_;
  std::unique_ptr<device::Queue> queue_;
  device::BufferPtr locations_, results_, counters_, delays_;
};

std::string describe(const LitmusCase& test, const Outcome& outcome) {
  std::string text;
  for (std::size_t t = 0; t < test.threads.size(); ++t)
    for (std::uint32_t n = 0; n < kResults; ++n)
      text += fmt::format("{}:r{}={} ", t, n, outcome.results[t * kResults + n]);
  return text + fmt::format("x={} y={} z={}", outcome.locations[0], outcome.locations[1], outcome.locations[2]);
}

class LitmusTest : public testing::Test {
 public:
  LitmusTest(device::DevicePtr device, const LitmusCase& test) : device_(std::move(device)), test_(test) {}

  void TestBody() override {
    const std::uint64_t first_seed = environment("PERGOLA_LITMUS_SEED", Clock::now().time_since_epoch().count());
    const auto limit = std::chrono::milliseconds(environment("PERGOLA_LITMUS_MS", 15));
    const bool gpu = device_->info().kind == device::DeviceKind::kCuda;
    auto runner = Runner::make(device_, test_, gpu ? 32 : 1);
    ASSERT_TRUE(runner.ok()) << runner.message();
    std::map<std::string, std::uint64_t> seen;
    std::uint64_t rounds = 0, seed = first_seed;
    const auto start = Clock::now();
    do {
      const auto outcomes = (*runner)->launch(seed);
      ASSERT_TRUE(outcomes.ok()) << outcomes.message();
      for (const Outcome& outcome : *outcomes) {
        for (const Verdict& verdict : test_.verdicts) {
          if (!verdict.matches(outcome)) continue;
          ASSERT_FALSE(verdict.forbidden) << test_.about << "\nforbidden: " << verdict.text << "\nfound: "
                                          << describe(test_, outcome) << "\nPERGOLA_LITMUS_SEED=" << seed;
          ++seen[verdict.text];
        }
      }
      rounds += outcomes->size();
      ++seed;
    } while (Clock::now() - start < limit);
    std::string weak;
    for (const Verdict& verdict : test_.verdicts)
      if (!verdict.forbidden) weak += fmt::format(", weak outcome {} seen {} times", verdict.text, seen[verdict.text]);
    fmt::print("  {}: {} rounds, seed {}{}\n", test_.name, rounds, first_seed, weak);
  }

 private:
  const device::DevicePtr device_;
  const LitmusCase& test_;
};

void register_tests(const std::vector<LitmusCase>& tests) {
  device::cpu::CpuOptions options;
  options.sms = 4;  // the most threads that a test has
  for (const std::string& name : ptx_cases::test_device_names()) {
    auto device = ptx_cases::open_test_device(name, options);
    if (!device.ok()) {
      fmt::print(stderr, "{}\n", device.message());
      std::exit(1);
    }
    for (const LitmusCase& test : tests)
      testing::RegisterTest(fmt::format("Litmus/{}", name).c_str(), test.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [device = *device, &test]() -> testing::Test* { return new LitmusTest(device, test); });
  }
}

TEST(LitmusFile, Mistakes_AreNamedWithTheirLine) {
  const auto message = [](const std::string& text) { return parse_tests(text, "f").message(); };
  const std::string good = "test: a\nthread:\n  ret;\n";
  EXPECT_TRUE(parse_tests(good + "forbidden: 0:r0=1 x!=2\n", "f").ok());
  EXPECT_EQ(message("thread:\n"), "f:1: a test begins with 'test: NAME'.");
  EXPECT_EQ(message(good + "forbidden: 0:r9=1\n"), "f:4: '0:r9=1' is no condition like 1:r0=1 or x!=2.");
  EXPECT_EQ(message(good + "weak: 1:r0=1\n"), "f:4: a has no such thread.");
  EXPECT_EQ(message("test: a\nspace: shared\nthread:\n  ret;\nweak: x=1\n"), "f:5: a: blocks share no shared memory.");
}

TEST(LitmusVerdict, MatchesWhereAllConditionsHold) {
  const auto tests = parse_tests("test: a\nthread:\nthread:\nweak: 1:r1=3 y!=2\n", "f");
  ASSERT_TRUE(tests.ok()) << tests.message();
  Outcome outcome{std::vector<std::uint32_t>(2 * kResults), {0, 1, 0}};
  const Verdict& verdict = (*tests)[0].verdicts[0];
  EXPECT_FALSE(verdict.matches(outcome));
  outcome.results[kResults + 1] = 3;
  EXPECT_TRUE(verdict.matches(outcome));
  outcome.locations[1] = 2;
  EXPECT_FALSE(verdict.matches(outcome));
}

}  // namespace
}  // namespace pergola::litmus

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto tests = pergola::litmus::read_tests(pergola::test_support::source_path("tests/litmus/cases").string());
  if (!tests.ok()) {
    fmt::print(stderr, "{}\n", tests.message());
    return 1;
  }
  pergola::litmus::register_tests(*tests);
  return RUN_ALL_TESTS();
}
