// Memory of arrays that have gone and what becomes of it: by itself, and in sessions on the CPU device, with memory
// that the host reaches and with memory that it does not.
#include "src/runtime/spare_memory.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/discrete_device.h"
#include "src/runtime/local_array.h"
#include "src/runtime/test_arrays.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

using device::MemoryKind;
using testing::IsNull;
using testing::NotNull;

struct Block final : device::Buffer {
  Block(std::size_t size, MemoryKind its_kind, int& all) : bytes(size), of(its_kind), blocks(all) { ++blocks; }
  ~Block() override { --blocks; }
  device::DeviceAddress address() const override { return 4096; }
  std::size_t size_bytes() const override { return bytes; }
  MemoryKind kind() const override { return of; }
  std::byte* host_pointer() const override { return nullptr; }
  const std::size_t bytes;
  const MemoryKind of;
  int& blocks;
};

struct SpareMemoryAlone : testing::Test {
  device::BufferPtr block(std::size_t bytes = 100, MemoryKind kind = MemoryKind::kDevice) {
    device::BufferPtr spare = memory->take(bytes, kind);
    return spare != nullptr ? spare : std::make_shared<Block>(bytes, kind, blocks);
  }
  // An array that is made and goes, whose work has ended at once.
  void turn(std::size_t bytes = 100, MemoryKind kind = MemoryKind::kDevice) {
    (void)memory->after_work(block(bytes, kind));
  }
  int blocks = 0;
  const std::shared_ptr<SpareMemory> memory = std::make_shared<SpareMemory>(1000);
};

TEST_F(SpareMemoryAlone, WhatIsMadeOnceIsGivenBack_AndWhatIsMadeAgainIsKept) {
  turn();
  EXPECT_EQ(blocks, 0);
  turn();
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(memory->spare_bytes(), 100u);
  turn();
  EXPECT_EQ(blocks, 1);
  const auto taken = block();
  EXPECT_EQ(memory->spare_bytes(), 0u);
  EXPECT_EQ(blocks, 1);
}

TEST_F(SpareMemoryAlone, OtherSizesAndKindsAreOthers) {
  turn(), turn();
  EXPECT_THAT(memory->take(104, MemoryKind::kDevice), IsNull());
  EXPECT_THAT(memory->take(100, MemoryKind::kHostVisible), IsNull());
  EXPECT_THAT(memory->take(100, MemoryKind::kDevice), NotNull());
  EXPECT_THAT(memory->take(100, MemoryKind::kDevice), IsNull());
}

TEST_F(SpareMemoryAlone, ItIsNotThereBeforeItsWorkHasEnded) {
  turn(), turn();
  auto work = memory->after_work(block());
  EXPECT_THAT(memory->take(100, MemoryKind::kDevice), IsNull());
  EXPECT_EQ(blocks, 1);
  work = nullptr;
  EXPECT_THAT(memory->take(100, MemoryKind::kDevice), NotNull());
}

TEST_F(SpareMemoryAlone, ThereIsNoMoreThanTheMost) {
  turn(300), turn(300);
  {
    std::vector<std::shared_ptr<const void>> work;
    for (int i = 0; i < 5; ++i) work.push_back(memory->after_work(block(300)));
    EXPECT_EQ(blocks, 5);
  }
  EXPECT_EQ(blocks, 3);
  EXPECT_EQ(memory->spare_bytes(), 900u);
  turn(1001), turn(1001);
  EXPECT_EQ(blocks, 3) << "of what is larger nothing is kept";
  const auto none = std::make_shared<SpareMemory>(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(none->take(100, MemoryKind::kDevice), IsNull());
    (void)none->after_work(std::make_shared<Block>(100, MemoryKind::kDevice, blocks));
  }
  EXPECT_EQ(none->spare_bytes(), 0u);
}

TEST_F(SpareMemoryAlone, WhatNobodyAsksForIsGivenBack) {
  turn(100), turn(100), turn(200), turn(200);
  const auto between = SpareMemory::Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  turn(200);
  EXPECT_FALSE(memory->give_back_old());
  EXPECT_TRUE(memory->give_back(between));
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(memory->spare_bytes(), 200u);
  EXPECT_TRUE(memory->relieve());
  EXPECT_FALSE(memory->relieve());
  EXPECT_EQ(blocks, 0);
  EXPECT_EQ(memory->spare_bytes(), 0u);
}

TEST_F(SpareMemoryAlone, WhereItIsFullWhatIsOldMakesRoom) {
  for (int i = 0; i < 2; ++i) turn(300), turn(301), turn(302);
  EXPECT_EQ(memory->spare_bytes(), 903u);
  turn(200), turn(200);
  EXPECT_EQ(memory->spare_bytes(), 903u) << "which has been asked for just now";
  std::this_thread::sleep_for(SpareMemory::kOld + std::chrono::milliseconds(10));
  turn(301), turn(200);
  EXPECT_EQ(memory->spare_bytes(), 501u);
  EXPECT_EQ(blocks, 2);
}

TEST_F(SpareMemoryAlone, OfTooManySizesNoMoreAreKept) {
  const auto large = std::make_shared<SpareMemory>(std::uint64_t{1} << 40);
  const auto made_and_gone = [&](std::size_t bytes) {
    device::BufferPtr spare = large->take(bytes, MemoryKind::kDevice);
    if (spare == nullptr) spare = std::make_shared<Block>(bytes, MemoryKind::kDevice, blocks);
    (void)large->after_work(std::move(spare));
  };
  for (std::size_t bytes = 1; bytes <= 1500; ++bytes) made_and_gone(bytes), made_and_gone(bytes);
  EXPECT_EQ(large->known_sizes(), 1024u);
  EXPECT_EQ(blocks, 1024);
  EXPECT_TRUE(large->relieve());
  made_and_gone(2000), made_and_gone(2000);
  EXPECT_EQ(blocks, 1) << "there is room again";
}

TEST_F(SpareMemoryAlone, ItIsAskedForWhatItKeeps) {
  using device::MemoryShortage;
  MemoryShortage::add(memory);
  (void)MemoryShortage::relieve(0);
  turn(), turn();
  EXPECT_EQ(blocks, 1);
  const std::uint64_t before = MemoryShortage::reliefs();
  EXPECT_TRUE(MemoryShortage::relieve(before));
  EXPECT_EQ(blocks, 0);
  EXPECT_FALSE(MemoryShortage::relieve(MemoryShortage::reliefs()));
  EXPECT_TRUE(MemoryShortage::relieve(before)) << "another thread has had it given back since";
}

TEST_F(SpareMemoryAlone, ItIsFarAheadByBlocksAndByBytes) {
  std::vector<std::shared_ptr<const void>> work;
  const auto is_far_ahead = [&](std::size_t bytes) { return memory->is_far_ahead(bytes, MemoryKind::kDevice); };
  turn(1), turn(1), turn(300), turn(300);
  for (std::uint32_t i = 0; i < SpareMemory::kMostBehindWork; ++i) {
    EXPECT_FALSE(is_far_ahead(1));
    work.push_back(memory->after_work(block(1)));
  }
  EXPECT_TRUE(is_far_ahead(1));
  EXPECT_FALSE(is_far_ahead(300)) << "of which nothing is behind work";
  for (int i = 0; i < 3; ++i) work.push_back(memory->after_work(block(300)));
  EXPECT_TRUE(is_far_ahead(300)) << "with one more there would be more than the most";
  work.clear();
  EXPECT_FALSE(is_far_ahead(1));
  EXPECT_FALSE(is_far_ahead(300));
}

TEST_F(SpareMemoryAlone, ManySizesAreForgotten_AndWhatIsKeptIsNot) {
  for (std::size_t i = 0; i < 900; ++i) turn(i % 44 + 1);  // 1 + 2 + ... + 44 are 990
  EXPECT_EQ(blocks, 44);
  for (std::size_t bytes = 45; bytes < 1000; ++bytes)
    for (const auto kind : {MemoryKind::kDevice, MemoryKind::kHostVisible, MemoryKind::kManaged})
      (void)memory->after_work(std::make_shared<Block>(bytes, kind, blocks));
  EXPECT_LE(memory->known_sizes(), 1025u);
  EXPECT_EQ(blocks, 44);
}

// ── In sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────

constexpr char kSpareSource[] = R"(
extern "C" __global__ void add(unsigned* y, const unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
extern "C" __global__ void count(unsigned* x, unsigned first, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = first + i;
}
extern "C" __global__ void hold(volatile unsigned* flag, unsigned* x) {
  while (*flag == 0) __nanosleep(1000);
  x[0] += 1;
}
)";
constexpr std::uint64_t kMemoryBytes = std::uint64_t{8} << 20;

// By whether the host reaches the device's memory.
class SpareMemoryOfSessions : public testing::TestWithParam<bool>, public TestArrays {
 protected:
  void SetUp() override { open(std::chrono::minutes(10)); }
  // `grace`: for how long who needs memory waits for work that does not end.
  void open(std::chrono::milliseconds grace) {
    flag_ = nullptr, module_ = nullptr, session_ = nullptr;
    setenv("PERGOLA_CPU_MEMORY_BYTES", std::to_string(kMemoryBytes).c_str(), 1);
    setenv("PERGOLA_END_GRACE_MS", std::to_string(grace.count()).c_str(), 1);
    device::DevicePtr device = open_device("cpu").value();
    if (!GetParam()) device = std::make_shared<DiscreteDevice>(device);
    session_ = LocalSession::create(device, policy_).value();
    unsetenv("PERGOLA_CPU_MEMORY_BYTES"), unsetenv("PERGOLA_END_GRACE_MS");
    session_->spare().set_times(SpareMemory::kPatience, std::chrono::minutes(10));
    module_ = session_->load_text(kSpareSource, {}).value();
    flag_ = array(1);
    set(flag_, 0);
    (void)flag_->wait(0, 4);
    flag_->note_told();
  }
  void TearDown() override { raise_flag(); }
  void raise_flag() { std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag_->address())).store(1); }
  session::ArrayPtr array(std::uint64_t count) {
    auto made = session_->allocate(session::ElementType::kU32, 0, count);
    EXPECT_TRUE(made) << made.message();
    return made ? *made : nullptr;
  }
  void launch(std::string_view name, std::vector<session::Argument> arguments, std::uint32_t n) {
    session::LaunchShape shape;
    shape.grid = {(n + 63) / 64, 1, 1}, shape.block = {name == "hold" ? 1u : 64u, 1, 1};
    const Status status = module_->kernel(name).value()->launch(shape, arguments);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  static session::Argument all(const session::ArrayPtr& array) { return session::ArrayArgument{array, 0}; }
  static device::DeviceAddress place_of(const session::ArrayPtr& array) {  // which tells nobody
    return dynamic_cast<const LocalArray&>(*array).buffer()->address();
  }

  std::string policy_;
  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
  session::ArrayPtr flag_;
};
INSTANTIATE_TEST_SUITE_P(Memory, SpareMemoryOfSessions, testing::Bool(),
                         [](const auto& each) { return each.param ? "OfTheHost" : "OfItsOwn"; });

TEST_P(SpareMemoryOfSessions, ALoopHasTheSameMemoryAgain) {
  session_->spare().set_times(std::chrono::minutes(10), std::chrono::minutes(10));  // what is in vain by then: nothing
  std::set<device::DeviceAddress> places;
  const auto sum = array(1000);
  fill(sum, 0, 1000, 0);
  for (std::uint32_t turn = 0; turn < 500; ++turn) {
    const auto x = array(1000);
    launch("count", {all(x), number(turn), number(1000)}, 1000);
    launch("add", {all(sum), all(x), number(1000)}, 1000);
    if (turn >= 2) places.insert(place_of(x));
  }
  EXPECT_LE(places.size(), 4 * SpareMemory::kMostBehindWork + 8) << "the host waits then, whatever is held";
  Words expected(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) expected[i] = 500 * i + 499 * 500 / 2;
  EXPECT_EQ(read(sum), expected);
}

TEST_P(SpareMemoryOfSessions, WhatOthersHaveBeenToldOfIsGivenBack) {
  for (int turn = 0; turn < 5; ++turn) {
    const auto x = array(1000);
    launch("count", {all(x), number(1), number(1000)}, 1000);
    EXPECT_TRUE(session_->synchronize().ok());
    x->note_told();
  }
  (void)array(2);  // whoever makes one asks what has ended
  EXPECT_EQ(session_->spare().spare_bytes(), 0u);
  for (int turn = 0; turn < 3; ++turn) {
    const auto x = array(1000);
    launch("count", {all(x), number(1), number(1000)}, 1000);
    EXPECT_TRUE(session_->synchronize().ok());
  }
  (void)array(3);
  EXPECT_EQ(session_->spare().spare_bytes(), 4000u);
}

TEST_P(SpareMemoryOfSessions, WhereMemoryIsShortSpareIsGivenBack) {
  constexpr std::uint64_t kCount = kMemoryBytes / 4 / 20;  // of which a sixteenth is kept
  for (int turn = 0; turn < 4; ++turn) (void)array(kCount);
  EXPECT_EQ(session_->spare().spare_bytes(), 4 * kCount);
  const auto most = array(kMemoryBytes / 4 / 100 * 96);
  EXPECT_EQ(session_->spare().spare_bytes(), 0u);
}

TEST_P(SpareMemoryOfSessions, WhereMemoryIsShortTheWorkOfWhatHasGoneIsWaitedFor) {
  constexpr std::uint64_t kCount = kMemoryBytes / 4 / 10 * 3;  // three fit
  const auto sum = array(64);
  fill(sum, 0, 64, 0);
  for (std::uint32_t turn = 0; turn < 30; ++turn) {
    const auto x = array(kCount);
    launch("count", {all(x), number(turn), number(64)}, 64);
    launch("add", {all(sum), all(x), number(64)}, 64);
  }
  EXPECT_EQ(read(sum)[3], 30 * 3 + 29 * 30 / 2u);
}

// As long as what they have at a time fits: what one lets go may end with another, between its tries.
TEST_P(SpareMemoryOfSessions, ThreadsThatFillTheMemoryAllHaveTheirs) {
  constexpr std::uint32_t kThreads = 4, kMost = kMemoryBytes / 100 * 97 / 4 / kThreads;
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([this, thread] {
      for (std::uint32_t turn = 0; turn < 50; ++turn) {
        const auto x = array(kMost / (1 + (turn * turn + thread) % 4));
        if (x == nullptr) return;  // which array() has said
        launch("count", {all(x), number(turn), number(64)}, 64);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SpareMemoryOfSessions, BesideArraysThatComeAndGoWhatCannotBeHadIsRefused) {
  open(std::chrono::milliseconds(50));
  const auto stays = array(kMemoryBytes / 4 / 2);
  launch("hold", {all(flag_), all(array(1000))}, 1);  // gone, and used until the end
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (std::uint32_t turn = 0; !done; ++turn)
      launch("count", {all(array(1000 + turn % 7)), number(turn), number(64)}, 64);
  });
  EXPECT_EQ(session_->allocate(session::ElementType::kU8, 0, kMemoryBytes / 10 * 6).code(), Code::kResourceExhausted);
  done = true;
  other.join();
}

TEST_P(SpareMemoryOfSessions, WhatIsMoreThanThereIsIsNotWaitedFor) {
  launch("hold", {all(flag_), all(array(1000))}, 1);
  EXPECT_EQ(session_->allocate(session::ElementType::kU8, 0, kMemoryBytes + 1).code(), Code::kResourceExhausted);
}

// Of two sessions on one device, as may be.
TEST_P(SpareMemoryOfSessions, OtherSessionsHaveItBackToo) {
  constexpr std::uint64_t kCount = kMemoryBytes / 4 / 20;
  for (int turn = 0; turn < 4; ++turn) (void)array(kCount);
  EXPECT_EQ(session_->spare().spare_bytes(), 4 * kCount);
  const auto other = LocalSession::create(session_->device_pointer(), "").value();
  EXPECT_TRUE(other->allocate(session::ElementType::kU8, 0, kMemoryBytes / 100 * 96));
  EXPECT_EQ(session_->spare().spare_bytes(), 0u);
}

TEST_P(SpareMemoryOfSessions, WhereItGetsNowhereMemoryIsSaidToBeShort) {
  open(std::chrono::milliseconds(100));
  constexpr std::uint64_t kCount = kMemoryBytes / 4 / 10 * 6;
  launch("hold", {all(flag_), all(array(kCount))}, 1);
  const auto refused = session_->allocate(session::ElementType::kU32, 0, kCount);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  raise_flag();
  open(std::chrono::minutes(10));
  launch("hold", {all(flag_), all(array(kCount))}, 1);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    raise_flag();
  });
  EXPECT_THAT(array(kCount), NotNull());
  later.join();
}

TEST_P(SpareMemoryOfSessions, TheHostWaitsWhereItIsFarAhead) {
  for (int turn = 0; turn < 3; ++turn) (void)array(8);
  const auto held = array(8);
  std::set<device::DeviceAddress> places;
  for (std::uint32_t i = 0; i < SpareMemory::kMostBehindWork; ++i) {
    const auto x = array(8);
    places.insert(place_of(x));
    launch("hold", {all(flag_), all(x)}, 1);
  }
  EXPECT_TRUE(session_->spare().is_far_ahead(32, MemoryKind::kDevice));
  std::vector<session::ArrayPtr> anyway;
  anyway.push_back(array(8));  // the host may have something to do before the work ends
  // By what the next ones go by, not by how long they take: a machine may stand still meanwhile.
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(session_->spare().is_far_ahead(32, MemoryKind::kDevice)) << "it is waited for once, not each time";
    anyway.push_back(array(8));
  }
  for (const auto& each : anyway) EXPECT_FALSE(places.contains(place_of(each)));
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    raise_flag();
  });
  later.join();
  EXPECT_TRUE(session_->synchronize().ok());
  EXPECT_TRUE(places.contains(place_of(array(8))));
}

// Arrays come and go, of few sizes, with work on them; what they hold is what the order of the program says.
class RandomSpareMemory : public SpareMemoryOfSessions {
 protected:
  void SetUp() override {
    policy_ = "graphs=always";
    SpareMemoryOfSessions::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, RandomSpareMemory, testing::Bool(),
                         [](const auto& each) { return each.param ? "OfTheHost" : "OfItsOwn"; });

TEST_P(RandomSpareMemory, ResultsAreThoseOfTheOrder) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  struct Known {
    session::ArrayPtr array;
    Words expected;
  };
  std::vector<Known> arrays;
  const auto check = [&](const Known& known) { EXPECT_EQ(read(known.array), known.expected); };
  const auto write = [&](Known& known) {
    const std::uint32_t n = static_cast<std::uint32_t>(known.expected.size()), first = below(1000);
    for (std::uint32_t i = 0; i < n; ++i) known.expected[i] = below(2) == 0 ? first : first + i;
    switch (below(3)) {
      case 0: {
        launch("count", {all(known.array), number(first), number(n)}, n);
        for (std::uint32_t i = 0; i < n; ++i) known.expected[i] = first + i;
        break;
      }
      case 1: EXPECT_TRUE(known.array->write(0, std::as_bytes(std::span(known.expected))).ok()); break;
      default: std::ranges::copy(known.expected, host(known.array, session::Access::kWrite).begin());
    }
  };
  for (int step = 0; step < test_support::rounds(3000) && !HasFailure(); ++step) {
    if (arrays.size() < 3 || (arrays.size() < 12 && below(4) == 0)) {
      const std::uint32_t count = below(2) == 0 ? 1024 : 1024 * (1 + below(4));
      arrays.push_back({array(count), Words(count)});
      write(arrays.back());
    }
    Known& one = arrays[below(arrays.size())];
    const Known& other = arrays[below(arrays.size())];
    switch (below(6)) {
      case 0: write(one); break;
      case 1: check(one); break;
      case 2: arrays.erase(arrays.begin() + below(arrays.size())); break;
      default: {
        const auto n = static_cast<std::uint32_t>(std::min(one.expected.size(), other.expected.size()));
        launch("add", {all(one.array), all(other.array), number(n)}, n);
        const Words added = other.expected;
        for (std::uint32_t i = 0; i < n; ++i) one.expected[i] += added[i];
      }
    }
  }
  for (const Known& known : arrays) check(known);
}

}  // namespace
}  // namespace pergola::runtime
