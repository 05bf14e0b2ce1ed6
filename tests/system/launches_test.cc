// A great many launches leave nothing behind: the process does not grow.
//
//   PERGOLA_LAUNCHES   how many (default 20000; ./dev soak takes a million)
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/tier_test.h"

namespace pergola {
namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t launches() {
  const char* text = std::getenv("PERGOLA_LAUNCHES");
  return text == nullptr ? 20000 : std::strtoull(text, nullptr, 10);
}

class Launches : public test_support::TierTest {};
PERGOLA_ON_EVERY_TIER(Launches);

TEST_P(Launches, Many_LeaveNothingBehind) {
  ptx_cases::PtxProgram program(open(), R"(
.visible .entry add(.param .u64 p) {
  .reg .b64 %p; .reg .b32 %v; .shared .align 4 .b32 s;
  ld.param.u64 %p, [p];
  st.shared.u32 [s], 1;
  bar.sync 0;
  ld.shared.u32 %v, [s];
  red.global.add.u32 [%p], %v;
  ret;
}
.visible .entry trap_it(.param .u64 p) { trap; }
)");
  const auto word = program.zeros(4);
  const std::uint64_t count = launches();
  // One block, several blocks, a buffer of its own, and a launch that fails; each is queued or waited for in turns.
  const auto round = [&](std::uint64_t n) {
    const device::LaunchConfig one{.grid = {1, 1, 1}, .block = {32, 1, 1}}, several{.grid = {3, 1, 1}, .block = {32, 1, 1}};
    if (n % 64 == 63) {
      EXPECT_EQ(program.run("trap_it", one, word->address()).code(), Code::kDeviceFault);
    } else if (n % 8 == 7) {
      const auto own = program.zeros(4096);
      const Status status = program.run("add", several, own->address());
      EXPECT_TRUE(status.ok()) << status.message();
    } else {
      const Status status = program.enqueue(program.queue(), "add", n % 4 == 0 ? several : one, word->address());
      EXPECT_TRUE(status.ok()) << status.message();
    }
  };
  const std::uint64_t warm = std::min<std::uint64_t>(count / 4, 20000);
  for (std::uint64_t n = 0; n < warm; ++n) round(n);
  ASSERT_TRUE(program.queue().synchronize().ok());
  malloc_trim(0);
  const std::size_t before = resident_bytes();
  for (std::uint64_t n = warm; n < count; ++n) round(n);
  ASSERT_TRUE(program.queue().synchronize().ok());
  malloc_trim(0);
  const std::size_t after = resident_bytes();
  const std::int64_t growth = static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before);
  std::printf("  %s: %llu launches, %lld KiB of growth\n", GetParam().c_str(), static_cast<unsigned long long>(count - warm),
              static_cast<long long>(growth / 1024));
  // A leak of a byte a launch would show in the million of a soak; a short run sees what leaks a kilobyte in a few.
  EXPECT_LT(growth, 4 << 20);
}

}  // namespace
}  // namespace pergola
