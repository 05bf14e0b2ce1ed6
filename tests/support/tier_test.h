// The fixture of tests that hold on every tier of the CPU device: each test runs once a tier.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/ptx_cases/test_device.h"

namespace pergola::test_support {

class TierTest : public testing::TestWithParam<std::string> {
 protected:
  // The tier's device; 2 SMs where `options` does not say.
  static device::DevicePtr open(device::cpu::CpuOptions options = {}) {
    auto device = ptx_cases::open_test_device(GetParam(), options);
    EXPECT_TRUE(device.ok()) << device.message();
    return *device;
  }
};

}  // namespace pergola::test_support

// Runs the tests of `Suite`, a TierTest, on each tier that is here.
#define PERGOLA_ON_EVERY_TIER(Suite)                                                                      \
  INSTANTIATE_TEST_SUITE_P(tiers, Suite, testing::ValuesIn(::pergola::ptx_cases::cpu_tier_names()), \
                           [](const auto& of) { return of.param; })
