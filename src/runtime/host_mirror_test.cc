// Arrays that the host works on by pointer while the device has memory of its own.
#include "src/runtime/host_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/runtime/devices.h"
#include "src/runtime/discrete_device.h"
#include "src/runtime/local_array.h"
#include "src/runtime/test_arrays.h"
#include "tests/support/random.h"

namespace pergola::runtime {
namespace {

using session::Access;
using session::ArrayPtr;
using session::Location;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 64;

// add: y[i] += x[i]. hold: reads x[0] and goes on once *flag is set. poke: *(address given as a number) = 9.
// wild: x[0] = 1 and then a write to nowhere. late: traps once *flag is set, before x[0] = 1.
constexpr std::string_view kPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y) {
  .reg .b64 %a<4>;
  .reg .b32 %r<4>;
  ld.param.u64 %a0, [x];
  ld.param.u64 %a1, [y];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %a2, %r0, 4;
  add.s64 %a0, %a0, %a2;
  add.s64 %a1, %a1, %a2;
  ld.global.u32 %r1, [%a0];
  ld.global.u32 %r2, [%a1];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%a1], %r1;
  ret;
}
.visible .entry hold(.param .u64 x, .param .u64 flag, .param .u64 out) {
  .reg .b64 %a<3>;
  .reg .b32 %r<3>;
  .reg .pred %p;
  ld.param.u64 %a0, [x];
  ld.param.u64 %a1, [flag];
  ld.param.u64 %a2, [out];
L:
  ld.volatile.global.u32 %r0, [%a1];
  setp.eq.u32 %p, %r0, 0;
  @%p bra L;
  ld.global.u32 %r1, [%a0];
  st.global.u32 [%a2], %r1;
  ret;
}
.visible .entry late(.param .u64 x, .param .u64 flag) {
  .reg .b64 %a<2>;
  .reg .b32 %r;
  .reg .pred %p;
  ld.param.u64 %a0, [x];
  ld.param.u64 %a1, [flag];
L:
  ld.volatile.global.u32 %r, [%a1];
  setp.eq.u32 %p, %r, 0;
  @%p bra L;
  trap;
  st.global.u32 [%a0], 1;
  ret;
}
.visible .entry poke(.param .u64 where) {
  .reg .b64 %a;
  ld.param.u64 %a, [where];
  st.global.u32 [%a], 9;
  ret;
}
.visible .entry wild(.param .u64 x) {
  .reg .b64 %a;
  ld.param.u64 %a, [x];
  st.global.u32 [%a], 1;
  mov.u64 %a, 16;
  st.global.u32 [%a], 1;
  ret;
}
)";

class HostMirrorTest : public ::testing::Test, protected TestArrays {
 protected:
  void SetUp() override {
    auto device = open_device("cpu");
    ASSERT_TRUE(device) << device.message();
    device_ = std::make_shared<DiscreteDevice>(std::move(device).value());
    auto session = LocalSession::create(device_, "graphs=off");
    ASSERT_TRUE(session) << session.message();
    session_ = std::move(session).value();
    auto module = session_->load_text(kPtx, {.name = "mirror.ptx"});
    ASSERT_TRUE(module) << module.message();
    module_ = std::move(module).value();
  }
  ArrayPtr array() {
    auto made = session_->allocate(session::ElementType::kU32, 4, kCount);
    EXPECT_TRUE(made) << made.message();
    return std::move(made).value();
  }
  Status launch(std::string_view name, std::vector<session::Argument> arguments, unsigned threads = kCount) {
    PERGOLA_ASSIGN(auto kernel, module_->kernel(name));
    return kernel->launch({.grid = {1, 1, 1}, .block = {threads, 1, 1}}, arguments);
  }
  void add(const ArrayPtr& x, const ArrayPtr& y) {
    const Status status = launch("add", {session::ArrayArgument{x, 0}, session::ArrayArgument{y, 0}});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // Nothing is under way afterwards: a wait for a copy may otherwise be for what has followed it on its stream.
  void bring_up(const std::vector<ArrayPtr>& arrays) {
    for (const ArrayPtr& array : arrays) EXPECT_TRUE(array->prefetch(session::Location::kDevice).ok());
    EXPECT_TRUE(session_->synchronize().ok());
  }
  std::size_t copies(std::string_view site) {
    const std::string dot = session_->scheduler().picture().dot();
    std::size_t found = 0;
    for (std::size_t at = 0; (at = dot.find(site, at)) != std::string::npos; ++at) ++found;
    return found;
  }

  std::shared_ptr<DiscreteDevice> device_;
  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
};

TEST_F(HostMirrorTest, WhatTheHostWrites_KernelsSee_AndTheOtherWayRound) {
  const ArrayPtr x = array(), y = array();
  set(x, 3);
  set(y, 4);
  add(x, y);
  EXPECT_THAT(host(y, Access::kRead), Each(7));
  const auto on_host = host(y, Access::kReadWrite);
  on_host[5] = 100;
  add(x, y);
  const auto result = host(y, Access::kRead);
  EXPECT_EQ(result[5], 103u);
  EXPECT_EQ(result[6], 10u);
}

TEST_F(HostMirrorTest, ALibraryCall_SeesWhatTheHostWrote_AndTheHostWhatItWrote) {
  const ArrayPtr x = array(), y = array();
  set(x, 3);
  set(y, 4);
  EXPECT_THAT(host(y, Access::kRead), Each(4));
  const session::CallAccess accesses[] = {{x, 0, 0, Access::kRead}, {y, 0, 0, Access::kWrite}};
  const Status status = session_->call("copy", accesses, false, [&](void*) {
    std::memcpy(reinterpret_cast<void*>(y->address()), reinterpret_cast<const void*>(x->address()), y->size_bytes());
    return 0;
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(x->location(), Location::kBoth);
  EXPECT_EQ(y->location(), Location::kDevice);
  EXPECT_THAT(host(y, Access::kRead), Each(3));
}

TEST_F(HostMirrorTest, Location_SaysWhereTheNewestContentsAre_AndNothingIsCopiedTwice) {
  const ArrayPtr x = array(), y = array();
  EXPECT_EQ(x->location(), Location::kDevice);
  set(x, 1);
  set(y, 1);
  EXPECT_EQ(x->location(), Location::kHost);
  add(x, y);
  EXPECT_EQ(x->location(), Location::kBoth) << "only read";
  EXPECT_EQ(y->location(), Location::kDevice) << "written";
  add(x, y);
  EXPECT_EQ(copies("upload"), 2u);
  EXPECT_THAT(host(x, Access::kRead), Each(1));
  EXPECT_EQ(copies("download"), 0u);
  EXPECT_THAT(host(y, Access::kRead), Each(3));
  EXPECT_THAT(host(y, Access::kRead), Each(3));
  EXPECT_EQ(copies("download"), 1u);
  EXPECT_EQ(y->location(), Location::kBoth);
  add(y, x);
  EXPECT_EQ(copies("upload"), 2u);
}

TEST_F(HostMirrorTest, Prefetch_CopiesBeforeAnybodyAsks) {
  const ArrayPtr x = array(), y = array();
  set(x, 2);
  ASSERT_TRUE(x->prefetch(session::Location::kDevice).ok());
  EXPECT_EQ(x->location(), Location::kBoth);
  EXPECT_EQ(copies("upload"), 1u);
  set(y, 0);
  add(x, y);
  ASSERT_TRUE(y->prefetch(session::Location::kHost).ok());
  EXPECT_EQ(copies("download"), 1u);
  EXPECT_THAT(host(y, Access::kRead), Each(2));
  EXPECT_EQ(copies("download"), 1u);
  EXPECT_EQ(x->prefetch(static_cast<session::Location>(7)).code(), Code::kInvalidArgument);
  EXPECT_EQ(x->prefetch(session::Location::kBoth).code(), Code::kInvalidArgument);
  EXPECT_EQ(x->host(static_cast<Access>(0)).code(), Code::kInvalidArgument);
}

// A kernel still reads x on the device while the host writes x's next contents.
TEST_F(HostMirrorTest, HostWrite_DoesNotWaitForTheDevice) {
  const ArrayPtr x = array(), y = array(), flag = array(), out = array();
  for (const ArrayPtr& one : {x, y, flag, out}) set(one, 0);
  set(x, 5);
  bring_up({x, y, flag, out});
  ASSERT_TRUE(
      launch("hold", {session::ArrayArgument{x, 0}, session::ArrayArgument{flag, 0}, session::ArrayArgument{out, 0}}, 1)
          .ok());
  set(x, 6);  // returns, though the kernel goes on
  add(x, y);  // its upload comes behind the kernel
  EXPECT_EQ(out->wait(0, 4, std::chrono::milliseconds(20)).code(), Code::kTimeout);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(flag->address()), 1u, __ATOMIC_RELAXED);
  EXPECT_EQ(host(out, Access::kRead)[0], 5u);
  EXPECT_THAT(host(y, Access::kRead), Each(6));
}

TEST_F(HostMirrorTest, WorkThatMayUseAnyArray_FindsAndChangesThemAll) {
  const ArrayPtr x = array();
  set(x, 1);
  ASSERT_TRUE(launch("poke", {session::AddressArgument{x->address() + 4}}, 1).ok());
  const auto on_host = host(x, Access::kRead);
  EXPECT_EQ(on_host[0], 1u);
  EXPECT_EQ(on_host[1], 9u);
}

TEST_F(HostMirrorTest, CopiesFillsReadsAndViews_SeeWhatTheHostWrote) {
  const ArrayPtr x = array(), y = array();
  set(x, 1);
  set(y, 2);
  const std::uint32_t seven = 7;
  ASSERT_TRUE(x->write(4, std::as_bytes(std::span(&seven, 1))).ok());
  ASSERT_TRUE(y->copy_from(0, x, 0, 12).ok());
  std::vector<std::uint32_t> result(kCount);
  ASSERT_TRUE(y->read(0, std::as_writable_bytes(std::span(result))).ok());
  EXPECT_THAT(std::vector(result.begin(), result.begin() + 4), ::testing::ElementsAre(1, 7, 1, 2));
  set(x, 3);
  const auto view = x->view();
  ASSERT_TRUE(view) << view.message();
  EXPECT_EQ(reinterpret_cast<const std::uint32_t*>(view->data())[kCount - 1], 3u);
  ASSERT_TRUE(x->fill(std::as_bytes(std::span(&seven, 1))).ok());
  EXPECT_THAT(host(x, Access::kRead), Each(7));
}

// Whichever side has the newest contents before it.
TEST_F(HostMirrorTest, FilledParts_LeaveTheRestAsItWas) {
  const std::uint64_t seed = test_support::seed_of("PERGOLA_MIRROR_SEED");
  test_support::Random random(seed);
  const ArrayPtr x = array();
  set(x, 0);
  Words expected(kCount, 0);
  for (std::uint32_t i = 1; i <= 200; ++i) {
    const std::size_t first = random.below(kCount), count = random.below(kCount - first + 1);
    fill(x, first, count, i);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), count, i);
    if (random.below(3) == 0) {
      const std::size_t at = random.below(kCount);
      host(x, Access::kReadWrite)[at] = expected[at] = 1000 + i;
    }
    if (random.below(3) == 0) {
      ASSERT_EQ(read(x), expected) << "seed " << seed << ", turn " << i;
    }
  }
  EXPECT_EQ(read(x), expected) << "seed " << seed;
}

TEST_F(HostMirrorTest, FailedWork_IsToldWhereTheHostReads_AndTheArrayCanBeWrittenAgain) {
  const ArrayPtr x = array();
  set(x, 4);
  ASSERT_TRUE(launch("wild", {session::ArrayArgument{x, 0}}, 1).ok());
  const auto failed = x->host(Access::kRead);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.message(), HasSubstr("wild"));
  EXPECT_FALSE(session_->synchronize().ok());
  set(x, 8);
  const ArrayPtr y = array();
  set(y, 1);
  add(x, y);
  EXPECT_THAT(host(y, Access::kRead), Each(9));
}

// Copies that were skipped made nothing; once synchronize() has told, nobody is given what they did not bring.
TEST_F(HostMirrorTest, CopiesSkippedByAFailure_AreMadeAgain) {
  const ArrayPtr x = array(), y = array(), down = array(), flag = array();
  for (const ArrayPtr& one : {x, y, down, flag}) set(one, 3);
  set(flag, 0);
  bring_up({x, y, flag});
  add(x, down);  // 6, on the device alone
  ASSERT_TRUE(session_->synchronize().ok());
  const session::ArrayArgument on{flag, 0};
  ASSERT_TRUE(launch("late", {session::ArrayArgument{y, 0}, on}, 1).ok());
  set(y, 8);
  add(y, x);  // the upload comes behind the kernel, which fails
  ASSERT_TRUE(launch("late", {session::ArrayArgument{down, 0}, on}, 1).ok());
  ASSERT_TRUE(down->prefetch(session::Location::kHost).ok());
  EXPECT_EQ(y->location(), Location::kBoth);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(flag->address()), 1u, __ATOMIC_RELAXED);
  ASSERT_FALSE(session_->synchronize().ok());
  EXPECT_EQ(y->location(), Location::kHost);
  EXPECT_EQ(down->location(), Location::kDevice);
  EXPECT_THAT(host(y, Access::kRead), Each(8));
  EXPECT_THAT(host(down, Access::kRead), Each(6));
  const ArrayPtr sum = array();
  set(sum, 0);
  add(y, sum);
  EXPECT_THAT(host(sum, Access::kRead), Each(8)) << "the device has it as well";
}

TEST_F(HostMirrorTest, NoMemoryForTheMirror_IsAnError_AndLeavesNothingBehind) {
  const ArrayPtr other = array();
  set(other, 1);
  device_->has_no_host_memory = true;
  {
    const ArrayPtr x = array();
    EXPECT_EQ(x->host(Access::kWrite).code(), Code::kResourceExhausted);
    EXPECT_EQ(x->prefetch(session::Location::kHost).code(), Code::kResourceExhausted);
  }
  ASSERT_TRUE(launch("poke", {session::AddressArgument{other->address()}}, 1).ok());
  EXPECT_EQ(host(other, Access::kRead)[0], 9u);
  device_->has_no_host_memory = false;
}

// What write() takes from a mirror it takes before it returns, as from anywhere.
TEST_F(HostMirrorTest, WriteFromAHostSide_TakesItAtOnce) {
  const ArrayPtr x = array(), y = array(), flag = array(), out = array();
  for (const ArrayPtr& one : {y, flag, out}) set(one, 0);
  ASSERT_TRUE(
      launch("hold", {session::ArrayArgument{y, 0}, session::ArrayArgument{flag, 0}, session::ArrayArgument{out, 0}}, 1)
          .ok());
  const auto span = host(x, Access::kWrite);
  std::fill(span.begin(), span.end(), 1);
  ASSERT_TRUE(y->write(0, std::as_bytes(span)).ok());  // has to wait for the kernel, which reads y
  std::fill(span.begin(), span.end(), 99);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(flag->address()), 1u, __ATOMIC_RELAXED);
  EXPECT_THAT(host(y, Access::kRead), Each(1));
}

TEST_F(HostMirrorTest, HostAccess_EndsAtItsTimeout_AndViewSeesWhatOthersChanged) {
  const ArrayPtr x = array(), flag = array(), out = array();
  for (const ArrayPtr& one : {x, flag, out}) set(one, 0);
  ASSERT_TRUE(
      launch("hold", {session::ArrayArgument{x, 0}, session::ArrayArgument{flag, 0}, session::ArrayArgument{out, 0}}, 1)
          .ok());
  EXPECT_EQ(out->host(Access::kRead, std::chrono::milliseconds(10)).code(), Code::kTimeout);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(flag->address()), 1u, __ATOMIC_RELAXED);
  EXPECT_THAT(host(out, Access::kRead), Each(0));
  *reinterpret_cast<std::uint32_t*>(out->address()) = 8;  // as another library with the address would
  const auto view = out->view();
  ASSERT_TRUE(view) << view.message();
  EXPECT_EQ(*reinterpret_cast<const std::uint32_t*>(view->data()), 8u);
}

// One thread reads what another launches with and reads: whoever waits holds nothing that the other needs.
TEST_F(HostMirrorTest, ReadersAndLaunchers_DoNotWaitForEachOtherForEver) {
  const ArrayPtr x = array(), one = array();
  set(x, 0);
  set(one, 1);
  std::atomic<bool> done{false};
  std::thread reader([&] {  // looks at nothing: the span is another's as soon as that one launches
    while (!done) EXPECT_TRUE(x->host(Access::kRead).ok());
  });
  std::thread poker([&] {
    while (!done) {
      EXPECT_TRUE(launch("poke", {session::AddressArgument{one->address() + 4}}, 1).ok());
      EXPECT_TRUE(one->host(Access::kRead).ok());  // waits, so that the others are not behind ever more of these
    }
  });
  for (int i = 0; i < 100; ++i) {
    add(one, x);
    host(x, Access::kRead);
  }
  done = true;
  reader.join();
  poker.join();
  EXPECT_EQ(host(x, Access::kRead)[0], 100u);
}

TEST_F(HostMirrorTest, ArrayFreedWithAnUploadUnderWay_LetsItEnd) {
  for (int i = 0; i < 50; ++i) {
    const ArrayPtr y = array();
    set(y, 0);
    {
      const ArrayPtr x = array();
      set(x, 1);
      add(x, y);
    }
    EXPECT_THAT(host(y, Access::kRead), Each(1));
  }
}

// Random programs against vectors that are worked on at once.
TEST_F(HostMirrorTest, RandomPrograms_LeaveWhatTheSequentialOrderLeaves) {
  const std::uint64_t seed = test_support::seed_of("PERGOLA_MIRROR_SEED");
  test_support::Random random(seed);
  constexpr std::size_t kArrays = 4;
  for (int program = 0; program < 60; ++program) {
    std::vector<ArrayPtr> arrays;
    std::vector<std::vector<std::uint32_t>> expected(kArrays, std::vector<std::uint32_t>(kCount));
    for (std::size_t i = 0; i < kArrays; ++i) {
      arrays.push_back(array());
      set(arrays[i], static_cast<std::uint32_t>(i));
      std::fill(expected[i].begin(), expected[i].end(), static_cast<std::uint32_t>(i));
    }
    std::string history;
    for (int step = 0; step < 30; ++step) {
      const std::size_t a = random.below(kArrays), b = (a + 1 + random.below(kArrays - 1)) % kArrays;
      const auto value = static_cast<std::uint32_t>(random.below(1000));
      const std::size_t at = random.below(kCount);
      const auto what = random.below(8);
      history += fmt::format(" {}:{},{}", what, a, b);
      switch (what) {
        case 0:
        case 1:
          add(arrays[a], arrays[b]);
          for (std::size_t i = 0; i < kCount; ++i) expected[b][i] += expected[a][i];
          break;
        case 2:
          set(arrays[a], value);
          std::fill(expected[a].begin(), expected[a].end(), value);
          break;
        case 3:
          host(arrays[a], Access::kReadWrite)[at] = value;
          expected[a][at] = value;
          break;
        case 4: EXPECT_EQ(host(arrays[a], Access::kRead)[at], expected[a][at]) << history; break;
        case 5:
          ASSERT_TRUE(arrays[a]->write(at * 4, std::as_bytes(std::span(&value, 1))).ok());
          expected[a][at] = value;
          break;
        case 6:
          ASSERT_TRUE(arrays[a]->copy_from(0, arrays[b], 0, kCount * 4).ok());
          expected[a] = expected[b];
          break;
        default:
          ASSERT_TRUE(arrays[a]->prefetch(value % 2 == 0 ? session::Location::kHost : session::Location::kDevice).ok());
      }
    }
    for (std::size_t i = 0; i < kArrays; ++i) {
      const auto found = host(arrays[i], Access::kRead);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected[i].begin(), expected[i].end()))
          << "array " << i << " of program " << program << ":" << history;
    }
  }
}

// Each thread adds to an array of its own what all of them read.
TEST_F(HostMirrorTest, Threads_ShareWhatTheyOnlyRead) {
  const ArrayPtr shared = array();
  set(shared, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const ArrayPtr own = array();
      set(own, 0);
      for (std::uint32_t i = 1; i <= 20; ++i) {
        add(shared, own);
        EXPECT_THAT(host(own, Access::kRead), Each(i));
        EXPECT_EQ(host(shared, Access::kRead)[0], 1u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace pergola::runtime
