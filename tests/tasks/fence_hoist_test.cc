// A body that is checked once at its begin (transform/fence_hoist.h) does what one does whose accesses are checked
// each: random kernels of loops, branches and indices that wrap, over memory of which the fences know some pages alone.
// The rest is there, so that an access that should have been left out is seen in what it leaves. PERGOLA_SEED repeats
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <tuple>

#include "src/executor/fence_table.h"
#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "tests/ptx_cases/test_device.h"
#include "tests/tasks/random_kernel.h"
#include "tests/tasks/task_run.h"

namespace pergola::tasks {
namespace {

constexpr std::uint32_t kPageShift = 10, kPage = 1u << kPageShift, kPages = 96;  // granules
constexpr std::size_t kMostWarps = 40, kReportBytes = 16 * (1 + kMostWarps);

// Of one thread a block it is certain what a warp does wrong first; of several, that it does.
struct Shape {
  std::uint32_t threads = 1, blocks = 1;
  std::uint32_t warps() const { return blocks * ((threads + 31) / 32); }
};

struct Parameters {
  std::uint64_t p, q;
  std::int32_t n, m, s, rest;
};

// What a run leaves: memory, and of each warp of each block what it did wrong first.
struct Outcome {
  std::vector<std::byte> memory;
  std::vector<std::string> faults;
  std::uint32_t known = 0;  // lanes that went the way without checks
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

class FenceHoistTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = ptx_cases::open_test_device("interpreter");
    ASSERT_TRUE(device.ok()) << device.message();
    device_ = *device;
    auto queue = device_->create_queue();
    ASSERT_TRUE(queue.ok());
    queue_ = std::move(*queue);
    memory_ = allocate((kPages + 2) * kPage);
    table_ = allocate(abi::kFenceMemoryBytes);
    report_ = allocate(kReportBytes);
    parameters_ = allocate(sizeof(Parameters));
    // Whole pages of it, whatever it begins with.
    first_ = (memory_->address() + kPage - 1) / kPage * kPage;
  }
  device::BufferPtr allocate(std::size_t bytes) {
    auto made = device_->allocate(bytes, device::MemoryKind::kDevice);
    EXPECT_TRUE(made.ok()) << made.message();
    return *made;
  }
  template <typename T>
  void put(const device::BufferPtr& to, const std::vector<T>& values, std::size_t offset = 0) {
    ASSERT_TRUE(queue_->copy_to_device(to, offset, std::as_bytes(std::span(values))).ok());
    ASSERT_TRUE(queue_->synchronize().ok());
  }
  std::vector<std::byte> get(const device::BufferPtr& from) {
    std::vector<std::byte> bytes(from->size_bytes());
    EXPECT_TRUE(queue_->copy_to_host(bytes, from, 0).ok());
    EXPECT_TRUE(queue_->synchronize().ok());
    return bytes;
  }

  void know(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
    executor::FenceEntries entries(kPageShift);
    std::vector<executor::FenceEntries::Span> changed;
    for (const auto& [begin, size] : ranges) entries.add(begin, size, changed);
    entries.add(table_->address() + abi::kFenceTableBytes, 2 * std::uint64_t{abi::kFenceScratchBytes}, changed);
    for (const auto& span : changed)
      put(table_,
          std::vector(entries.table().begin() + static_cast<std::ptrdiff_t>(span.first),
                      entries.table().begin() + static_cast<std::ptrdiff_t>(span.first + span.count)),
          2 * span.first);
    const auto runs = entries.take_changed_runs();
    for (const auto& span : runs)
      put(table_,
          std::vector(entries.runs().begin() + static_cast<std::ptrdiff_t>(span.first),
                      entries.runs().begin() + static_cast<std::ptrdiff_t>(span.first + span.count)),
          abi::kFenceRunsOffset + 2 * span.first);
    changed_ = changed;
    changed_runs_ = runs;
  }
  void forget() {
    for (const auto& span : changed_)
      put(table_, std::vector<std::uint16_t>(span.count, abi::kFenceNone), 2 * span.first);
    for (const auto& span : changed_runs_)
      put(table_, std::vector<std::uint16_t>(span.count, 0), abi::kFenceRunsOffset + 2 * span.first);
  }

  // `breaks`: a body that goes the way without checks whatever it finds.
  Result<Outcome> run(const ptx::Module& kernel, const Parameters& parameters, const Shape& shape, bool hoists,
                      bool breaks, std::uint32_t* hoisted = nullptr) {
    ProbeOptions options;
    options.groups = 1;
    options.config.parameters = ptx::Space::kShared;
    options.config.fences = transform::FenceConfig{.granule_shift = kPageShift, .merges = true, .hoists = hoists};
    PERGOLA_ASSIGN(const transform::TaskBody body, transform::entry_to_task(kernel, "kernel", options.config));
    if (hoisted != nullptr) *hoisted = body.fence_counts.hoisted;
    device::LaunchConfig config;
    config.grid = {shape.blocks, 1, 1};
    config.block = {shape.threads, 1, 1};
    PERGOLA_ASSIGN(Probe probe, make_probe(body, config, options));
    probe.text = with_fences(probe.text, body, shape, breaks);
    PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(probe.text, "probe"));
    PERGOLA_TRY(ptx::verify(parsed));
    PERGOLA_ASSIGN(const device::ModulePtr module, device_->load({&parsed, probe.text, "probe"}));
    PERGOLA_ASSIGN(const device::Kernel* entry, module->kernel("pergola_probe"));
    std::vector<std::uint32_t> words(memory_->size_bytes() / 4);
    for (std::size_t n = 0; n < words.size(); ++n) words[n] = static_cast<std::uint32_t>(n % 977);
    put(memory_, words);
    put(report_, std::vector<std::uint8_t>(kReportBytes, 0));
    put(parameters_, std::vector{parameters});
    const device::DeviceAddress address = parameters_->address();
    std::vector<std::byte> own(sizeof address);
    std::memcpy(own.data(), &address, sizeof address);
    PERGOLA_TRY(queue_->launch(module, *entry, probe.config, own));
    PERGOLA_TRY(queue_->synchronize());
    return outcome(body, shape);
  }

  // The table's address for the body; afterwards the warp's fault, where its block's are told.
  std::string with_fences(std::string text, const transform::TaskBody& body, const Shape& shape, bool breaks) const {
    using Slot = abi::TaskSlot;
    text =
        replaced(text, ".extern .shared .align 8 .b8 pergola_fence_table", ".shared .align 8 .b8 pergola_fence_table");
    const std::string call = fmt::format("  call {};\n", body.function);
    text = replaced(
        text, call,
        fmt::format("  mov.u64 %word, {0};\n  st.shared.u64 [pergola_fence_table], %word;\n"
                    "  @%one st.shared.u32 [%slot+{1}], 0;\n  @%one st.shared.u64 [%slot+{2}], 0;\n"
                    "  @%one st.shared.u32 [%slot+{3}], 0;\n  bar.sync %meet, {4};\n{5}"
                    "  mad.lo.u32 %x, %block, {6}, %warp;\n  mul.wide.u32 %word, %x, 16;\n"
                    "  add.s64 %word, %word, {7};\n  ld.shared.u32 %x, [%slot+{1}];\n"
                    "  @%one st.global.u32 [%word+16], %x;\n  ld.shared.u32 %x, [%slot+{2}];\n"
                    "  @%one st.global.u32 [%word+24], %x;\n  ld.shared.u32 %x, [%slot+{2}+4];\n"
                    "  @%one st.global.u32 [%word+28], %x;\n",
                    table_->address(), offsetof(Slot, fault), offsetof(Slot, fault_address), offsetof(Slot, left_out),
                    (shape.threads + 31) / 32 * 32, call, (shape.threads + 31) / 32, report_->address()));
    if (body.fence_counts.hoisted == 0) return text;
    const std::string known = "$pergola_begin_known:";
    text = replaced(text, known,
                    fmt::format("{}\n{{ .reg .b64 %count; mov.u64 %count, {}; red.global.add.u32 [%count], 1; }}\n",
                                known, report_->address()));
    return breaks ? replaced(text, "@!%pergola_fence_known bra $pergola_checked;", "") : text;
  }

  Outcome outcome(const transform::TaskBody& body, const Shape& shape) {
    Outcome result;
    result.memory = get(memory_);
    const std::vector<std::byte> report = get(report_);
    const auto word = [&](std::size_t at) {
      std::uint32_t value = 0;
      std::memcpy(&value, report.data() + at, 4);
      return value;
    };
    result.known = word(0);
    for (std::size_t at = 16; at < 16 * (1 + shape.warps()); at += 16) {
      const std::uint32_t fault = word(at);
      if (fault == 0) {
        result.faults.emplace_back();
        continue;
      }
      if (shape.threads > 1) {
        result.faults.emplace_back("fails");
        continue;
      }
      const transform::FenceSite& site = body.fences.at((fault >> abi::kFaultSiteShift) - 1);
      result.faults.push_back(fmt::format("lane {}: {} of {} bytes at {}, address {:#x}{:08x}", fault & 31,
                                          site.instruction, site.bytes, site.place, word(at + 12), word(at + 8)));
    }
    return result;
  }

  device::DevicePtr device_;
  std::unique_ptr<device::Queue> queue_;
  device::BufferPtr memory_, table_, report_, parameters_;
  std::uint64_t first_ = 0;
  std::vector<executor::FenceEntries::Span> changed_, changed_runs_;
};

std::uint32_t seed() {
  const char* given = std::getenv("PERGOLA_SEED");
  return given == nullptr ? std::random_device()() : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
}

TEST_F(FenceHoistTest, RandomKernels_DoWhatTheyDoWithEachAccessChecked) {
  const std::uint32_t of = seed();
  SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << of);
  const char* given = std::getenv("PERGOLA_KERNELS");
  const unsigned kernels = given == nullptr ? 150 : static_cast<unsigned>(std::strtoul(given, nullptr, 0));
  std::uint32_t with_hoist = 0, known = 0, failed = 0, caught = 0;
  put(table_, std::vector<std::uint16_t>(abi::kFenceTableBytes / 2, abi::kFenceNone));
  put(table_, std::vector<std::uint8_t>(abi::kFenceMemoryBytes - abi::kFenceTableBytes, 0), abi::kFenceTableBytes);
  for (std::uint32_t k = 0; k < kernels; ++k) {
    std::mt19937 random(of + k);
    const std::string text = random_kernel(random);
    const auto module = ptx::parse(text, "random.ptx");
    ASSERT_TRUE(module.ok()) << module.message() << text;
    ASSERT_TRUE(ptx::verify(*module).ok()) << ptx::verify(*module).message() << text;
    for (int launch = 0; launch < 3; ++launch) {
      const auto among = [&](std::int32_t low, std::int32_t high) {
        return low + static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(high - low + 1));
      };
      Parameters parameters{};
      parameters.n = among(0, 9) == 0 ? static_cast<std::int32_t>(random()) : among(-3, 300);
      parameters.m = among(1, 40);
      parameters.s = among(0, 9) == 0 ? static_cast<std::int32_t>(random()) : among(-4, 9);
      // Memory ends, or begins, where the first words by a pointer or the last ones before a limit are, give or take
      // one.
      const auto at_an_edge = [&](std::uint64_t edge) {
        const std::int64_t counts[] = {0, 0, parameters.n, parameters.n, parameters.m, 64, 16};
        const std::int64_t words = among(-1, 1) + (among(0, 1) == 0 ? 0 : counts[among(0, 6)]);
        return edge - static_cast<std::uint64_t>(4 * std::clamp<std::int64_t>(words, -2000, 2000));
      };
      const std::uint64_t middle = first_ + kPages / 2 * std::uint64_t{kPage};
      const std::uint64_t begin = middle - static_cast<unsigned>(among(1, 24)) * std::uint64_t{kPage};
      const std::uint64_t end = middle + static_cast<unsigned>(among(0, 24)) * std::uint64_t{kPage};
      parameters.p = at_an_edge(among(0, 1) == 0 ? begin : end);
      parameters.q = at_an_edge(among(0, 1) == 0 ? begin : end) + static_cast<unsigned>(among(0, 40) == 0);
      std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{{begin, end - begin}};
      if (among(0, 1) == 0) ranges.emplace_back(first_, begin - first_);
      if (among(0, 1) == 0) ranges.emplace_back(end, first_ + kPages * std::uint64_t{kPage} - end);
      know(ranges);
      const Shape shape = among(0, 1) == 0 ? Shape{1, 36} : Shape{64, 3};
      std::uint32_t hoisted = 0;
      const Result<Outcome> each = run(*module, parameters, shape, false, false);
      const Result<Outcome> once = run(*module, parameters, shape, true, false, &hoisted);
      ASSERT_TRUE(each.ok()) << each.message() << text;
      ASSERT_TRUE(once.ok()) << once.message() << text;
      ASSERT_EQ(each->faults, once->faults) << text << parameters.n << " " << parameters.m << " " << parameters.s;
      ASSERT_TRUE(each->memory == once->memory) << text;
      const bool fails =
          std::any_of(each->faults.begin(), each->faults.end(), [](const auto& one) { return !one.empty(); });
      with_hoist += hoisted != 0 ? 1 : 0;
      known += once->known != 0 ? 1 : 0;
      failed += fails ? 1 : 0;
      if (hoisted != 0 && fails && launch == 0) {
        const Result<Outcome> broken = run(*module, parameters, shape, true, true);
        caught += !broken.ok() || broken->faults != each->faults || broken->memory != each->memory ? 1 : 0;
      }
      forget();
    }
  }
  std::printf("%u launches with a check at the begin, %u of them known, %u failed; %u broken ones were seen\n",
              with_hoist, known, failed, caught);
  EXPECT_GT(known, kernels / 8);
  EXPECT_GT(failed, kernels / 3);
  EXPECT_GT(caught, 0u);
}

// What is one word short of memory, in the last round, and an index that wraps into what looks near.
TEST_F(FenceHoistTest, TheLastRound_AndIndicesThatWrap_AreSeen) {
  const char* const bodies[] = {
      // A pointer that goes on while a count does.
      "mov.u64 %rd3, %rd1; mov.u32 %r5, 0; $again: st.global.u32 [%rd3], 7; add.s64 %rd3, %rd3, 4;\n"
      "add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra $again;",
      // s + s wraps below zero, and is shifted to what is before the array.
      "mov.u32 %r5, 0; $again: add.s32 %r6, %r3, %r3; shr.s32 %r6, %r6, 24; add.s32 %r6, %r6, %r5;\n"
      "mul.wide.s32 %rd3, %r6, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 7;\n"
      "add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r2; @%p1 bra $again;"};
  put(table_, std::vector<std::uint16_t>(abi::kFenceTableBytes / 2, abi::kFenceNone));
  put(table_, std::vector<std::uint8_t>(abi::kFenceMemoryBytes - abi::kFenceTableBytes, 0), abi::kFenceTableBytes);
  const std::uint64_t begin = first_ + 8 * std::uint64_t{kPage};
  know({{begin, 4 * std::uint64_t{kPage}}});
  constexpr std::int32_t kWords = 4 * kPage / 4;
  for (const auto& [body, n, s, fails] :
       {std::tuple(0, kWords, 0, false), std::tuple(0, kWords + 1, 0, true), std::tuple(1, 0, 1 << 20, false),
        std::tuple(1, 0, (1 << 30) + (1 << 23), true)}) {
    const auto module = ptx::parse(
        std::string(
            ".version 7.8\n.target sm_80\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m, .param .u32 s)\n{\n"
            ".reg .pred %p1; .reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"
            "ld.param.u32 %r2, [m]; ld.param.u32 %r3, [s];\n") +
            bodies[body] + "\nret;\n}\n",
        "edge.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    const Parameters parameters{begin, begin, n, 16, s, 0};
    const Result<Outcome> each = run(*module, parameters, {}, false, false),
                          once = run(*module, parameters, {}, true, false);
    ASSERT_TRUE(each.ok() && once.ok()) << each.message() << once.message();
    EXPECT_EQ(each->faults, once->faults);
    EXPECT_TRUE(each->memory == once->memory);
    EXPECT_EQ(!once->faults[0].empty(), fails) << body;
    EXPECT_EQ(once->known, fails ? 0u : 1u) << body;
  }
}

}  // namespace
}  // namespace pergola::tasks
