// The C++ interface, on the CPU device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.hpp>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64

// y[i] += a * x[i] for i < n
.visible .entry saxpy(.param .f32 saxpy_param_0, .param .u64 saxpy_param_1, .param .u64 saxpy_param_2,
                      .param .u32 saxpy_param_3) {
  .reg .pred %p;
  .reg .f32 %a, %x, %y;
  .reg .b32 %i, %n, %c, %t;
  .reg .b64 %px, %py, %o;
  ld.param.f32 %a, [saxpy_param_0];
  ld.param.u64 %px, [saxpy_param_1];
  ld.param.u64 %py, [saxpy_param_2];
  ld.param.u32 %n, [saxpy_param_3];
  mov.u32 %c, %ctaid.x;
  mov.u32 %t, %ntid.x;
  mov.u32 %i, %tid.x;
  mad.lo.s32 %i, %c, %t, %i;
  setp.ge.s32 %p, %i, %n;
  @%p bra done;
  mul.wide.s32 %o, %i, 4;
  add.s64 %px, %px, %o;
  add.s64 %py, %py, %o;
  ld.global.f32 %x, [%px];
  ld.global.f32 %y, [%py];
  fma.rn.f32 %y, %a, %x, %y;
  st.global.f32 [%py], %y;
done:
  ret;
}

// p[0] = the bytes of every kind of parameter, one after the other
.visible .entry echo(.param .u64 echo_param_0, .param .u8 echo_param_1, .param .u16 echo_param_2,
                     .param .u32 echo_param_3, .param .u64 echo_param_4, .param .f64 echo_param_5,
                     .param .align 4 .b8 echo_param_6[8]) {
  .reg .b64 %p, %w;
  .reg .b32 %v, %w0, %w1;
  .reg .b16 %h;
  .reg .f64 %d;
  ld.param.u64 %p, [echo_param_0];
  ld.param.u8 %h, [echo_param_1];
  cvt.u32.u16 %v, %h;
  st.global.u32 [%p], %v;
  ld.param.u16 %h, [echo_param_2];
  cvt.u32.u16 %v, %h;
  st.global.u32 [%p+4], %v;
  ld.param.u32 %v, [echo_param_3];
  st.global.u32 [%p+8], %v;
  ld.param.u64 %w, [echo_param_4];
  st.global.u64 [%p+16], %w;
  ld.param.f64 %d, [echo_param_5];
  st.global.f64 [%p+24], %d;
  ld.param.u32 %w0, [echo_param_6];
  ld.param.u32 %w1, [echo_param_6+4];
  st.global.u32 [%p+32], %w0;
  st.global.u32 [%p+36], %w1;
  ret;
}

.visible .entry wild() {
  .reg .b64 %p;
  mov.u64 %p, 64;
  st.global.u64 [%p], %p;
  ret;
}
)";

class Hpp : public ::testing::Test {
 protected:
  pergola::Session session_{"cpu"};
  pergola::Module module_ = session_.load_text(kPtx);
};

// The first five minutes, as everybody will write them.
TEST_F(Hpp, FirstProgram_Works) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "pergola_hpp_test_saxpy.ptx";
  std::ofstream(file) << kPtx;
  const int n = 1000;
  pergola::Session& session = session_;
  auto saxpy = session.load(file).kernel("saxpy");
  auto x = session.array<float>(n, 1.f), y = session.array<float>(n, 0.f);
  saxpy(pergola::for_each(n), 2.f, x, y, n);
  std::span<const float> h = y.read();
  ASSERT_EQ(h.size(), 1000u);
  EXPECT_THAT(h, Each(2.f));
  saxpy(pergola::grid({4}, {256}), 3, x, y, 500u);
  EXPECT_EQ(y.read()[499], 5.f);
  EXPECT_EQ(y.read()[500], 2.f);
  std::filesystem::remove(file);
}

TEST_F(Hpp, Numbers_AreConvertedWhereNothingIsLost) {
  auto echo = module_.kernel("echo");
  struct Pair {
    std::int32_t a;
    float b;
  };
  auto out = session_.array<std::uint32_t>(10, 0);
  echo(pergola::grid(1, 1), out, 200, std::int64_t{-2}, -3L, -4, 5, Pair{6, 7.f});
  const auto h = out.read();
  EXPECT_EQ(h[0], 200u);
  EXPECT_EQ(h[1], 0xfffeu);
  EXPECT_EQ(static_cast<std::int32_t>(h[2]), -3);
  EXPECT_EQ(h[4], 0xfffffffcu);
  EXPECT_EQ(h[5], 0xffffffffu) << "sign-extended to 8 bytes";
  EXPECT_EQ(h[6], 0u);
  EXPECT_EQ(h[7], 0x40140000u) << "5.0";
  EXPECT_EQ(h[8], 6u);
  EXPECT_EQ(h[9], 0x40e00000u) << "7.f";
  const std::vector<std::uint32_t> converted(h.begin(), h.end());
  out.fill(0u);
  echo(pergola::grid(1, 1), out, std::uint8_t{200}, std::int16_t{-2}, -3, std::int64_t{-4}, 5.0, Pair{6, 7.f});
  EXPECT_THAT(out.read(), ElementsAreArray(converted)) << "where there is nothing to convert";
  echo(pergola::grid(1, 1), out, true, 'a', 1u, nullptr, 0.5f, Pair{});
  EXPECT_EQ(out.read()[0], 1u);
  EXPECT_EQ(out.read()[1], 97u);
}

TEST_F(Hpp, WhatWouldBeLost_IsRefused) {
  auto saxpy = module_.kernel("saxpy");
  auto x = session_.array<float>(4, 1.f), y = session_.array<float>(4, 1.f);
  const auto message = [&](auto... arguments) -> std::string {
    try {
      saxpy(pergola::for_each(4), arguments...);
    } catch (const pergola::Error& error) {
      EXPECT_EQ(error.code(), pergola::Code::kInvalidArgument);
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto vx = x.from(0), vy = y.from(0);
  EXPECT_EQ(message(2.f, vx, vy, 4.0),
            "Argument 3 (parameter saxpy_param_3) of kernel 'saxpy' should be a 4-byte integer; it is a double.");
  EXPECT_THAT(message(2.f, vx, vy, std::int64_t{1} << 32), HasSubstr("is 4294967296; the parameter is 4 bytes"));
  EXPECT_THAT(message(2.f, vx, vy, -2147483649L), HasSubstr("which cannot hold it"));
  EXPECT_THAT(message(16777217, vx, vy, 4), HasSubstr("a 4-byte float, which cannot hold it exactly"));
  EXPECT_THAT(message(2.f, 2.f, vy, 4), HasSubstr("Argument 1 (parameter saxpy_param_1)"));
  EXPECT_THAT(message(2.f, vx, vy), HasSubstr("takes 4 arguments"));
  EXPECT_THAT(message(2.f, vx, vy, 4, 5), HasSubstr("5 are given"));
  EXPECT_EQ(message(2.0, vx, vy, 4), "nothing was thrown") << "a double constant for a float";
  EXPECT_THAT(y.read(), Each(3.f)) << "only the last one ran";
}

// Where one array ends another may begin: an address does not tell of which it is.
TEST(HppGraphs, PointersToAnArraysEnd_ArePartOfNoGraph) {
  const pergola::Session session("cpu", "graphs=always,blocks=trimmed");
  const auto module = session.load_text(R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry before(.param .u64 pend, .param .u32 pn) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [pend]; ld.param.u32 %r1, [pn];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1; @%p1 ret;
  not.b32 %r6, %r5; mul.wide.s32 %rd2, %r6, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3]; add.u32 %r7, %r7, 1; st.global.u32 [%rd3], %r7;
  ret;
}
)");
  const auto before = module.kernel("before");
  auto x = session.array<unsigned>(64, 0u), y = session.array<unsigned>(64, 0u);
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 8; ++i) {
      before(pergola::grid(8, 8), x.from(64), 64);
      before(pergola::grid(8, 8), y.from(32), 32);
    }
    session.synchronize();
  }
  EXPECT_THAT(x.read(), Each(480u));
  EXPECT_EQ(y.read()[31], 480u);
  EXPECT_EQ(y.read()[32], 0u);
  const char* text = nullptr;
  ASSERT_EQ(pergola_session_graphs(session.handle(), "text", &text), PERGOLA_OK);
  EXPECT_THAT(text, HasSubstr("480 launches could not be part of a graph")) << "each second one";
  // A graph may have been made of the others before it was seen that one comes between any two.
  EXPECT_THAT(text, HasSubstr("graphs stood for 0 of them"));
  EXPECT_THAT(text, HasSubstr("region 1: 1 launch recurs"));
}

// The CPU device's memory, as a library that is called there would use it.
float* memory_of(const pergola::Array<float>& array) {
  pergola_array_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_info);
  EXPECT_EQ(pergola_array_get_info(array.handle(), &info), PERGOLA_OK);
  return reinterpret_cast<float*>(info.address);
}

TEST_F(Hpp, LibraryCall_IsInOrderWithKernels) {
  auto saxpy = module_.kernel("saxpy");
  auto x = session_.array<float>(100, 1.f), y = session_.array<float>(100, 0.f);
  saxpy(pergola::for_each(100), 2.f, x, y, 100);
  session_.call("scale", {pergola::inout(y)}, [&](void* stream) {
    EXPECT_EQ(stream, nullptr) << "the CPU device has none";
    for (int i = 0; i < 100; ++i) memory_of(y)[i] *= 10;
  });
  session_.call("half", {pergola::in(x), pergola::inout(y, 50)}, [&] {  // takes no stream
    for (int i = 50; i < 100; ++i) memory_of(y)[i] = memory_of(x)[i];
  });
  saxpy(pergola::for_each(100), 1.f, x, y, 100);
  EXPECT_EQ(y.read()[0], 21.f);
  EXPECT_EQ(y.read()[99], 2.f);
  EXPECT_THAT(session_.dag(), HasSubstr("scale"));
}

TEST_F(Hpp, Graphs_TellWhatRecurredAndWhyNot) {
  const pergola::Session always = pergola::Session("cpu", "graphs=always");
  auto module = always.load_text(kPtx);
  auto saxpy = module.kernel("saxpy");
  auto x = always.array<float>(100, 1.f), y = always.array<float>(100, 0.f);
  EXPECT_THAT(always.graphs(), HasSubstr("no launches became graphs: of 0 launches"));
  for (int i = 0; i < 400; ++i) saxpy(pergola::for_each(100), 2.f, x, y, 100);
  always.synchronize();
  EXPECT_THAT(always.graphs(), HasSubstr("region 1: 1 launch recurs (saxpy 1), found after #"));
  EXPECT_THAT(always.graphs("json"), HasSubstr("\"kernels\":[{\"name\":\"saxpy\",\"count\":1}]"));
  EXPECT_THROW(always.graphs("xml"), pergola::Error);
}

TEST_F(Hpp, LibraryCall_ThrowsWhatItsFunctionThrows) {
  auto x = session_.array<float>(4, 1.f);
  struct Mine {
    int value;
  };
  try {
    session_.call("f", {pergola::out(x)}, [](void*) { throw Mine{7}; });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Mine& mine) {
    EXPECT_EQ(mine.value, 7);
  }
  enum class Library { kBad = 13 };
  try {
    session_.call("f", {pergola::out(x)}, [](void*) { return Library::kBad; });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kCallFailed);
    EXPECT_STREQ(error.what(), "The library call 'f' failed: its function returned 13.");
  }
  try {
    session_.call("outer", {pergola::out(x)}, [&](void*) { x.fill(2.f); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kFailedPrecondition);
  }
  EXPECT_THAT(x.read(), Each(1.f)) << "nothing is held";
}

TEST_F(Hpp, Parameters_TellAccessAndReason) {
  const auto saxpy = module_.kernel("saxpy");
  const auto& parameters = saxpy.parameters();
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[0].kind, pergola::ParameterKind::kFloat);
  EXPECT_EQ(parameters[1].access, pergola::Access::kRead);
  EXPECT_EQ(parameters[2].access, pergola::Access::kReadWrite);
  EXPECT_THAT(parameters[2].reason, HasSubstr("st.global.f32"));
  EXPECT_EQ(parameters[3].kind, pergola::ParameterKind::kInteger);
  EXPECT_EQ(saxpy.name(), "saxpy");
  EXPECT_EQ(module_.kernel_names(), (std::vector<std::string>{"saxpy", "echo", "wild"}));
}

TEST_F(Hpp, Arrays_HoldWhatWasPutIn) {
  const std::vector<double> values{1, 2, 3, 4, 5};
  auto a = session_.array(values);
  EXPECT_THAT(a.read(), ::testing::ElementsAreArray(values));
  a.write(std::vector<double>{7, 8}, 3);
  double two[2] = {};
  a.read(two, 2);
  EXPECT_EQ(two[0], 3.0);
  EXPECT_EQ(two[1], 7.0);
  auto b = session_.array<double>(5, 0.1);  // eight bytes without a period: filled by copying on
  EXPECT_THAT(b.read(), Each(0.1));
  b.copy_from(a);
  EXPECT_EQ(b.read()[4], 8.0);
  b.copy_from(b);
  EXPECT_EQ(b.read()[4], 8.0);
  auto big = session_.array<double>(100'003, 1.0 / 3);
  EXPECT_THAT(big.read(), Each(1.0 / 3));
  struct Three {
    char c[3];
  };
  auto odd = session_.array<Three>(1000, Three{{'a', 'b', 'c'}});
  EXPECT_EQ(odd.read()[999].c[1], 'b');
  auto none = session_.array<int>(0);
  EXPECT_TRUE(none.read().empty());
  none.fill(1, 0, 0);
}

// Patterns of 1, 2 and 4 bytes, which devices have, and others; bytes before and behind stay.
TEST_F(Hpp, PartsOfArrays_AreFilled) {
  const auto check = [&]<typename T>(T value, T other) {
    std::vector<T> expected(9000, other);
    auto x = session_.array(expected);
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{1, 3}, {17, 8000}, {8999, 1}, {9000, 0}}) {
      x.fill(value, first, count);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), count, value);
      EXPECT_THAT(x.read(), ::testing::ElementsAreArray(expected));
      x.host()[first / 2] = expected[first / 2] =
          value;  // the host's are the newest: they go up before a part is filled
    }
    EXPECT_THROW(x.fill(value, 8999, 2), pergola::Error);
    EXPECT_THROW(x.fill(value, 0, ~std::size_t{0}), pergola::Error);
  };
  check(std::uint8_t{7}, std::uint8_t{1});
  check(std::uint16_t{0x1234}, std::uint16_t{0});
  check(1.5f, 2.5f);
  check(0.1, -1.0);
  check(std::uint64_t{0x1234567812345678}, std::uint64_t{1});
}

TEST_F(Hpp, PartsOfArrays_AreFilledByWholeValues) {
  auto x = session_.array<std::uint8_t>(64, 0);
  const std::uint32_t value = 0x04030201;
  ASSERT_EQ(pergola_array_fill_range(x.handle(), 1, 12, &value, 4), PERGOLA_OK);  // at no multiple of its size
  EXPECT_THAT(x.read().subspan(0, 14), ::testing::ElementsAre(0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 0));
  EXPECT_EQ(pergola_array_fill_range(x.handle(), 0, 10, &value, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("value has 4 bytes, which do not go into 10 bytes"));
  EXPECT_EQ(pergola_array_fill_range(x.handle(), 0, 8, &value, 0), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_fill_range(x.handle(), 64, 4, &value, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_fill_range(x.handle(), 0, 8, nullptr, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(x.read()[63], 0);
}

// In bytes they are more than 2^64, which must not come round to the array's beginning.
TEST_F(Hpp, ElementsFarOutside_AreRefused) {
  auto x = session_.array<float>(16, 1.f), y = session_.array<float>(16, 0.f);
  auto saxpy = module_.kernel("saxpy");
  std::vector<float> two{7.f, 8.f};
  const auto refused = [](const char* with, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing is refused where the message should have: " << with;
    } catch (const pergola::Error& error) {
      EXPECT_EQ(error.code(), pergola::Code::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(with));
    }
  };
  for (const std::size_t far : {std::size_t{1} << 62, (std::size_t{1} << 62) + 1, ~std::size_t{0}}) {
    refused("The write covers 8 bytes from byte 18446744073709551615 of an array of 64 bytes.",
            [&] { y.write(two, far); });
    refused("The read covers 8 bytes from byte 18446744073709551615 of an array of 64 bytes.",
            [&] { y.read(two, far); });
    refused("starts 18446744073709551615 bytes into an array of 64 bytes",
            [&] { saxpy(pergola::for_each(1), 2.f, x.from(far), y, 1); });
    for (const auto& access :
         {pergola::in(y, far), pergola::out(y, far), pergola::inout(y, far), pergola::in(y, far, 1)})
      refused("from byte 18446744073709551615 of an array", [&] { session_.call("far", {access}, [] {}); });
    for (const auto& access : {pergola::in(y, 0, far), pergola::out(y, 1, far), pergola::inout(y, 0, far)})
      refused("covers 18446744073709551615 bytes", [&] { session_.call("much", {access}, [] {}); });
  }
  EXPECT_EQ(two, (std::vector<float>{7.f, 8.f}));
  EXPECT_THAT(y.read(), Each(0.f));
  saxpy(pergola::for_each(1), 2.f, x.from(15), y, 1);
  EXPECT_EQ(y.read()[0], 2.f);
}

TEST_F(Hpp, APartBeyondAnArraysEnd_IsRefused) {
  auto x = session_.array<float>(64), y = session_.array<float>(64);
  x.fill(1), y.fill(1);
  const pergola::Kernel saxpy = module_.kernel("saxpy");
  saxpy(pergola::for_each(4), 1.f, x.part(60, 4), y.part(60, 4), 4);
  try {
    saxpy(pergola::for_each(4), 1.f, x.part(60, 10), y, 4);
    FAIL();
  } catch (const pergola::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("covers 40 bytes from byte 240 of an array of 256 bytes"));
  }
  session_.synchronize();
}

TEST_F(Hpp, AKernelThatWasMovedFrom_IsStillOne) {
  auto x = session_.array<float>(4), y = session_.array<float>(4);
  x.fill(1), y.fill(1);
  pergola::Kernel first = module_.kernel("saxpy");
  const pergola::Kernel second = std::move(first);
  first(pergola::for_each(4), 1.f, x, y, 4);
  second(pergola::for_each(4), 1.f, x, y, 4);
  EXPECT_EQ(first.name(), second.name());
  session_.synchronize();
}

TEST_F(Hpp, ForEachOfNothing_RunsNothing) {
  auto saxpy = module_.kernel("saxpy");
  auto x = session_.array<float>(4, 1.f), y = session_.array<float>(4, 1.f);
  saxpy(pergola::for_each(0), 2.f, x, y, 4).wait();
  EXPECT_THAT(y.read(), Each(1.f));
}

TEST_F(Hpp, Events_EndAndTell) {
  auto saxpy = module_.kernel("saxpy");
  auto x = session_.array<float>(4096, 1.f), y = session_.array<float>(4096, 0.f);
  const auto start = session_.record();
  const pergola::Event end = saxpy(pergola::for_each(4096), 2.f, x, y, 4096);
  end.wait();
  EXPECT_TRUE(end.done());
  EXPECT_TRUE(end.wait_for(std::chrono::seconds(0)));
  EXPECT_GT(end.milliseconds_since(start), 0.0);
}

TEST_F(Hpp, Launches_MakeAnEventOnlyWhenAsked) {
  auto saxpy = module_.kernel("saxpy");
  auto x = session_.array<float>(4096, 1.f), y = session_.array<float>(4096, 0.f);
  const auto first = saxpy(pergola::for_each(4096), 2.f, x, y, 4096);
  const auto second = saxpy(pergola::for_each(4096), 3.f, x, y, 4096);
  EXPECT_NE(first.ticket(), second.ticket());
  first.wait();
  second.wait();
  EXPECT_TRUE(second.done());
  EXPECT_TRUE(saxpy(pergola::for_each(0), 2.f, x, y, 4096).wait_for(std::chrono::seconds(10)));
  EXPECT_THAT(y.read(), Each(5.f));
}

TEST_F(Hpp, Policies_AreTakenByName) {
  pergola::Session serial("cpu", "execution=sync,max-streams=1");
  auto saxpy = serial.load_text(kPtx).kernel("saxpy");
  auto x = serial.array<float>(64, 1.f), y = serial.array<float>(64, 1.f);
  EXPECT_TRUE(saxpy(pergola::for_each(64), 1.f, x, y, 64).done());
  EXPECT_THAT(serial.dag(), HasSubstr("saxpy"));
  try {
    pergola::Session wrong("cpu", "execution=never");
    FAIL() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("execution=async|sync"));
  }
}

// A Launch keeps nothing, an Event what it needs.
TEST_F(Hpp, ALaunchWhoseKernelHasGone_IsToldSo_AndAnEventOfItStays) {
  const auto x = session_.array<float>(64, 1.f), y = session_.array<float>(64, 1.f);
  std::optional<pergola::Kernel> saxpy(module_.kernel("saxpy"));
  const pergola::Launch launch = (*saxpy)(pergola::for_each(64), 2.f, x, y, 64);
  const pergola::Event end = (*saxpy)(pergola::for_each(64), 2.f, x, y, 64);
  launch.wait();
  saxpy.reset();
  end.wait();
  try {
    launch.wait();
    FAIL() << "its kernel has gone";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("kernel is not a live handle"));
  }
}

TEST_F(Hpp, ArraysGoneInFlight_LiveUntilTheLaunchEnds) {
  auto saxpy = module_.kernel("saxpy");
  auto y = session_.array<float>(1 << 16, 0.f);
  for (int i = 0; i < 8; ++i) {
    auto x = session_.array<float>(1 << 16, 1.f);
    saxpy(pergola::for_each(1 << 16), 1.f, x, y, 1 << 16);
  }
  EXPECT_THAT(y.read(), Each(8.f));
}

TEST_F(Hpp, HandlesInAnyOrder_WorkGoesOn) {
  std::optional<pergola::Array<float>> y;
  {
    pergola::Session session("cpu");
    auto saxpy = session.load_text(kPtx).kernel("saxpy");
    auto x = session.array<float>(64, 1.f);
    y.emplace(session.array<float>(64, 1.f));
    saxpy(pergola::for_each(64), 1.f, x, *y, 64);
  }
  EXPECT_THAT(y->read(), Each(2.f));
}

TEST_F(Hpp, KernelFault_SurfacesWithItsName) {
  auto y = session_.array<float>(4, 1.f);
  module_.kernel("wild")(pergola::grid(1, 1));
  try {
    y.read();
    FAIL() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kDeviceFault);
    EXPECT_THAT(error.what(), HasSubstr("'wild'"));
  }
  EXPECT_THROW(session_.synchronize(), pergola::Error);
  session_.synchronize();
  EXPECT_THAT(y.read(), Each(1.f)) << "the session goes on";
}

TEST_F(Hpp, ArrayOfAnotherSession_IsRefused) {
  pergola::Session other("cpu");
  auto x = other.array<float>(4, 1.f), y = session_.array<float>(4, 1.f);
  try {
    module_.kernel("saxpy")(pergola::for_each(4), 1.f, x, y, 4);
    FAIL() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("another session"));
  }
}

TEST_F(Hpp, MissingKernel_ListsWhatIsThere) {
  try {
    module_.kernel("sacpy");
    FAIL() << "nothing was thrown";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("'saxpy', 'echo', 'wild'"));
  }
}

// One session, many threads: each its own arrays, launches in some order.
TEST_F(Hpp, ManyThreads_ShareASession) {
  auto saxpy = module_.kernel("saxpy");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        auto x = session_.array<float>(100, 1.f), y = session_.array<float>(100, static_cast<float>(t));
        saxpy(pergola::for_each(100), static_cast<float>(round), x, y, 100);
        for (const float value : y.read()) wrong += value != static_cast<float>(t + round);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Samples a row of a 4 x 2 image, and is launched with all blocks resident.
constexpr const char* kImagePtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry row(.param .u64 image, .param .u64 out, .param .f32 y) {
  .reg .b64 %t, %o, %s;
  .reg .b32 %i;
  .reg .f32 %x, %y, %r, %g, %b, %a;
  ld.param.u64 %t, [image];
  ld.param.u64 %o, [out];
  ld.param.f32 %y, [y];
  mov.u32 %i, %ctaid.x;
  cvt.rn.f32.u32 %x, %i;
  add.f32 %x, %x, 0f3F000000;
  tex.2d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%x, %y}];
  mul.wide.u32 %s, %i, 4;
  add.s64 %o, %o, %s;
  st.global.f32 [%o], %r;
  ret;
}
)";

TEST(Texture, IsSampledAsItWasWhenItWasMade) {
  pergola::Session session("cpu");
  const auto kernel = session.load_text(kImagePtx).kernel("row");
  auto image = session.array(std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13});
  auto out = session.array<float>(6, -1.f);
  std::optional<pergola::Texture> texture = pergola::texture(image, 4, 2);
  image.fill(99);
  kernel(pergola::grid(6, 1).cooperative(), *texture, out, 1.5f);
  texture.reset();  // the launch keeps it
  EXPECT_THAT(std::vector<float>(out.read().begin(), out.read().end()), ::testing::ElementsAre(10, 11, 12, 13, 13, 13));

  const pergola::Sampling border{.address = {pergola::AddressMode::kBorder, pergola::AddressMode::kBorder},
                                 .linear = true};
  image.write(std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13});
  kernel(pergola::grid(6, 1), pergola::texture(image, border, 4, 2), out, 1.0f);
  EXPECT_THAT(std::vector<float>(out.read().begin(), out.read().end()), ::testing::ElementsAre(5, 6, 7, 8, 0, 0));
}

TEST(Array, ThatIsAssignedTo_HasTheOthersElements_AndTheOtherNone) {
  pergola::Session session("cpu");
  auto few = session.array<float>(10, 1.f), many = session.array<float>(1000, 2.f);
  few = std::move(many);
  EXPECT_EQ(few.size(), 1000u);
  EXPECT_EQ(few.read().back(), 2.f);
  EXPECT_EQ(many.handle(), nullptr);  // NOLINT(bugprone-use-after-move): it holds nothing
  auto& same = few;
  few = std::move(same);
  EXPECT_EQ(few.read().back(), 2.f);
}

TEST(Texture, WrongOnes_AreRefusedByField) {
  pergola::Session session("cpu"), other("cpu");
  auto image = session.array<float>(8, 0.f);
  const auto message = [&](auto make) -> std::string {
    try {
      make();
    } catch (const pergola::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { pergola::texture(image, 4, 3); }), HasSubstr("32"));
  EXPECT_THAT(message([&] { pergola::texture(image, 4, 0); }), HasSubstr("An extent of a texture should be 1 to"));
  EXPECT_THAT(message([&] { pergola::texture(image, -1); }), HasSubstr("it is -1"));
  EXPECT_THAT(message([&] { pergola::texture(image, pergola::Sampling{.channels = 3}, 2, 1); }), HasSubstr("channels"));
  for (const std::size_t pitch : {~std::size_t{0} / 2 + 1, ~std::size_t{0} / 2 + 4, ~std::size_t{0}})
    EXPECT_THAT(message([&] { pergola::texture(image, pergola::Sampling{.pitch_bytes = pitch}, 2, 3); }),
                HasSubstr("more than any memory has"));
  auto doubles = session.array<double>(8, 0.0);
  EXPECT_THAT(message([&] { pergola::texture(doubles, 8); }), HasSubstr("none of I8 U8"));
  const auto kernel = session.load_text(kImagePtx).kernel("row");
  auto out = session.array<float>(6, 0.f);
  auto theirs = other.array<float>(8, 0.f);
  const auto foreign = pergola::texture(theirs, 4, 2);
  EXPECT_THAT(message([&] { kernel(pergola::grid(1, 1), foreign, out, 0.f); }),
              HasSubstr("texture of another session"));
  EXPECT_THAT(message([&] { kernel(pergola::grid(1, 1), pergola::texture(image, 4, 2), out, foreign); }),
              HasSubstr("should be a float; it is a texture"));
}

TEST(Module, RefusedKernels_AreListedWithTheReason) {
  pergola::Session session("cpu");
  const auto module = session.load_text(
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry good() { ret; }\n"
      ".visible .entry bad() { nosuch.instruction.u32; ret; }\n");
  EXPECT_THAT(module.kernel_names(), ::testing::ElementsAre("good", "bad"));
  EXPECT_EQ(module.refusal("good"), "");
  EXPECT_THAT(module.refusal("bad"), HasSubstr("nosuch"));
}

// The C interface takes text up to its first zero character: it would be another name.
TEST(Text, WithAZeroCharacter_IsRefused) {
  using std::string_literals::operator""s;
  pergola::Session session("cpu");
  const auto module = session.load_text(kImagePtx);
  const auto message = [&](auto use) -> std::string {
    try {
      use();
    } catch (const pergola::Error& error) {
      EXPECT_EQ(error.code(), pergola::Code::kInvalidArgument) << error.what();
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(message([&] { module.kernel("row\0s"s); }),
            "A kernel's name has no zero character in it; there is one at byte 3.");
  EXPECT_THAT(message([&] { module.kernel("row", "pointer\0, pointer"s); }), HasSubstr("A signature has no zero"));
  EXPECT_THAT(message([&] { session.load("a.ptx\0b"s); }), HasSubstr("A path has no zero"));
  EXPECT_THAT(message([&] { session.trace("run.json\0"s); }), HasSubstr("A path has no zero"));
  EXPECT_THAT(message([&] { session.history("\0"s); }), HasSubstr("there is one at byte 0."));
  EXPECT_THAT(message([&] { session.tuning("tuning\0"s); }), HasSubstr("A path has no zero"));
  EXPECT_THAT(message([&] { session.dag("dot\0"s); }), HasSubstr("A format has no zero"));
  EXPECT_THAT(message([&] { session.graphs("text\0"s); }), HasSubstr("A format has no zero"));
  EXPECT_THAT(message([&] { session.call("gemm\0"s, {}, [] {}); }), HasSubstr("A call's name has no zero"));
  EXPECT_THAT(message([&] { pergola::Session("cpu\0"s); }), HasSubstr("A device has no zero"));
  EXPECT_THAT(message([&] { pergola::Session("cpu", "graphs=off\0"s); }), HasSubstr("policies has no zero"));
  EXPECT_THAT(message([&] { session.load_text(kImagePtx, {.name = "a\0"s}); }),
              HasSubstr("A source's name has no zero"));
  EXPECT_THAT(message([&] { session.load_text(kImagePtx, {.compiler_flags = {"-DN=1\0"s}}); }),
              HasSubstr("A flag has no zero"));
}

TEST(Cooperative, MoreBlocksThanFit_AreRefused) {
  pergola::Session session("cpu");
  const auto kernel = session.load_text(kImagePtx).kernel("row");
  auto image = session.array<float>(8, 0.f);
  auto out = session.array<float>(6, 0.f);
  try {
    kernel(pergola::grid(1 << 20, 1024).cooperative(), pergola::texture(image, 4, 2), out, 0.f);
    FAIL() << "a million blocks are resident";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kResourceExhausted);
    EXPECT_THAT(error.what(), HasSubstr("has 1048576 blocks, and only"));
  }
}

}  // namespace
