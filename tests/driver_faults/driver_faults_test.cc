// What becomes of a program of which any one call of the driver fails.
//
// A driver may say no to every call: memory is short, a value is not liked, the device has been lost meanwhile. Such
// calls fail seldom, and never where somebody looks; so here the n-th call of each function fails, in programs that
// between them use everything, for every n or a sample of them. Whatever fails:
//   the process goes on: no signal, no check of our own, nothing that waits for ever
//   the program is told an error, in a sentence that says what was done and what the driver said; or its results are
//     right (fault_trial.h)
//   after one failure the session works again; on a device that is lost everything says so
//   nothing is left behind once session and device have gone
//
// PERGOLA_FAULTS=all fails every call there is, in some minutes; PERGOLA_FAULTS_SEED is of the sample, and with
// PERGOLA_FAULTS_SHOW=1 each fault is told with its effect.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "src/device/cuda/cuda_driver_types.h"
#include "tests/driver_faults/fault_programs.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"

namespace pergola::driver_faults {
namespace {

using namespace device::cuda;  // NOLINT: the driver's errors

bool wants_all() {
  const char* const given = std::getenv("PERGOLA_FAULTS");
  return given != nullptr && std::string_view(given) == "all";
}

// Of the calls from `first` to `count`: the first and two more, or as many as there are.
std::vector<int> sample(int first, int count, test_support::Random& random) {
  constexpr std::size_t kMost = 3;
  const auto calls = static_cast<std::size_t>(count - first);
  std::set<int> chosen = {first};
  while (chosen.size() < std::min(kMost, calls)) chosen.insert(first + static_cast<int>(random.below(calls)));
  return {chosen.begin(), chosen.end()};
}

class DriverFaults : public ::testing::TestWithParam<Program> {
 protected:
  static constexpr std::size_t kKinds = 3;
  static Fault fault_of(const std::string& function, int skip, std::size_t kind) {
    const int lost = skip % 2 == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED;
    if (kind % kKinds == 0) return {function, CUDA_ERROR_OUT_OF_MEMORY, skip};
    if (kind % kKinds == 1) return {function, CUDA_ERROR_INVALID_VALUE, skip};
    return {function, lost, skip, true};
  }
  // Of calls number `first` to `count` of a function. Of a sample each fails in another way; one where a sanitizer
  // watches.
  static std::vector<Fault> faults_of(const std::string& function, int first, int count, test_support::Random& random) {
    std::vector<Fault> faults;
    if (wants_all()) {
      for (int skip = first; skip < count; ++skip)
        for (std::size_t kind = 0; kind < kKinds; ++kind) faults.push_back(fault_of(function, skip, kind));
    } else if (first < count) {
      const std::vector<int> skips = sample(first, count, random);
      constexpr std::size_t kFaults = test_support::kSanitized ? 1 : kKinds;
      const std::size_t turn = random.below(kKinds), from = random.below(skips.size());
      for (std::size_t i = 0; i < kFaults; ++i)
        faults.push_back(fault_of(function, skips[(from + i) % skips.size()], turn + i));
    }
    return faults;
  }

  static std::string effect_of(const Outcome& outcome, const Fault& fault) {
    if (!outcome.reached(fault)) return "not met";
    return outcome.errors_told == 0 ? "nobody noticed" : outcome.told;
  }

  void run(const Program& program, const Fault& fault) {
    const Outcome outcome = run_alone(program, fault);
    ++cases_;
    if (outcome.reached(fault)) ++reached_;
    if (outcome.errors_told != 0) ++told_;
    if (outcome.seconds > slowest_) slowest_ = outcome.seconds, slowest_fault_ = to_string(fault);
    if (std::getenv("PERGOLA_FAULTS_SHOW") != nullptr)
      std::printf("  %s: %s\n", to_string(fault).c_str(), effect_of(outcome, fault).c_str());
    if (!outcome.problems.empty() && ++failures_ <= kMostShown)
      ADD_FAILURE() << program.name << ": " << to_string(fault) << "\n"
                    << outcome.problems << "first told: " << outcome.told;
  }

  static constexpr int kMostShown = 20;
  int cases_ = 0, reached_ = 0, told_ = 0, failures_ = 0;
  double slowest_ = 0;
  std::string slowest_fault_;
};

TEST_P(DriverFaults, AreToldOrDoNotMatter) {
  const Program& program = GetParam();
  const bool opens = std::string_view(program.name) == "Opening";  // what all others do first is looked at once
  test_support::Random random(test_support::seed_of("PERGOLA_FAULTS_SEED"));
  const Outcome well = run_alone(program, std::nullopt);
  ASSERT_EQ(well.problems, "");
  ASSERT_EQ(well.errors_told, 0u) << well.told;
  if (std::string_view(program.name).find("Turns") != std::string_view::npos) {
    ASSERT_TRUE(well.calls.contains("cuGraphLaunch")) << "its turns are to become graphs";
  }
  for (const auto& [function, count] : well.calls) {
    const auto opening = well.opening.find(function);
    const int first = opens || opening == well.opening.end() ? 0 : opening->second;
    for (const Fault& fault : faults_of(function, first, count, random)) run(program, fault);
  }
  if (opens) run(program, {"cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY, 0, false, true});
  std::printf("%s: %d faults, %d of them met, %d told; %d wrong; the slowest took %.2f s: %s\n", program.name, cases_,
              reached_, told_, failures_, slowest_, slowest_fault_.c_str());
  EXPECT_EQ(failures_, 0);
}

// A function that none of them calls is one that never fails here.
TEST(DriverFaultPrograms, CallEveryFunction) {
  std::set<std::string> missing;
#define PERGOLA_CUDA_SYMBOL(member, name, parameters) missing.insert(#member);
#define PERGOLA_CUDA_OPTIONAL PERGOLA_CUDA_SYMBOL
#include "src/device/cuda/driver_symbols.def"
#undef PERGOLA_CUDA_SYMBOL
#undef PERGOLA_CUDA_OPTIONAL
  for (const Program& program : programs())
    for (const auto& [function, count] : run_alone(program, std::nullopt).calls) missing.erase(function);
  EXPECT_THAT(missing,
              ::testing::UnorderedElementsAre("cuGetErrorName", "cuGetErrorString", "cuCtxGetStreamPriorityRange"))
      << "the first two are called where another has failed (Fault::also_describing), the third by ways of graphs, "
         "which these programs have none of; cuda_device_test.cc makes it fail";
}

INSTANTIATE_TEST_SUITE_P(Programs, DriverFaults, ::testing::ValuesIn(programs().begin(), programs().end()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace pergola::driver_faults
