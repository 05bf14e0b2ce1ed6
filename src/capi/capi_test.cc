// The C interface against callers that do everything wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/capi/handles.h"
#include "src/runtime/local_session.h"

namespace {

using ::testing::HasSubstr;

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v) {
  .reg .b64 %a;
  .reg .b32 %v;
  ld.param.u64 %a, [p];
  ld.param.u32 %v, [v];
  st.global.u32 [%a], %v;
  ret;
}
)";

class Capi : public ::testing::Test {
 protected:
  void SetUp() override { open("null"); }
  void open(const char* device) {
    pergola_session_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options);
    options.device = device;
    ASSERT_EQ(pergola_session_create(&options, &session_), PERGOLA_OK) << pergola_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(pergola_session_destroy(session_), PERGOLA_OK);
    EXPECT_EQ(pergola::capi::HandleTable::instance().live(), 0u) << "a handle was forgotten";
  }

  pergola_array make_array(std::uint64_t count) {
    pergola_array_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
    options.type = PERGOLA_TYPE_F32;
    options.count = count;
    pergola_array array = nullptr;
    EXPECT_EQ(pergola_array_create(session_, &options, &array), PERGOLA_OK) << pergola_last_error();
    return array;
  }
  pergola_kernel make_kernel(const char* text = kPtx, const char* name = "store") {
    pergola_module module = nullptr;
    EXPECT_EQ(pergola_session_load_text(session_, text, std::strlen(text), nullptr, &module), PERGOLA_OK)
        << pergola_last_error();
    pergola_kernel kernel = nullptr;
    EXPECT_EQ(pergola_module_kernel(module, name, &kernel), PERGOLA_OK) << pergola_last_error();
    EXPECT_EQ(pergola_module_destroy(module), PERGOLA_OK);
    return kernel;
  }
  static pergola_launch_config one_thread() {
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = config.block[0] = 1;
    return config;
  }

  pergola_session session_ = nullptr;
};

TEST_F(Capi, ForeignStreams_AreRefusedByDevicesWithoutStreams) {
  EXPECT_EQ(pergola_session_wait_stream(session_, 1), PERGOLA_UNSUPPORTED);
  EXPECT_THAT(pergola_last_error(), HasSubstr("'null' has no streams"));
  EXPECT_EQ(pergola_session_make_stream_wait(session_, 1), PERGOLA_UNSUPPORTED);
  EXPECT_EQ(pergola_session_wait_stream(nullptr, 1), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_make_stream_wait(nullptr, 1), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_synchronize(session_), PERGOLA_OK);
}

// What another thread's library call has is waited for, and the waiting thread's check may end that.
TEST_F(Capi, AWaitForAnotherThreadsCall_IsEndedByTheThreadsCheck) {
  pergola_array array = make_array(10);
  std::atomic<bool> is_inside{false}, may_return{false};
  std::thread other([&] {
    struct State {
      std::atomic<bool>&is_inside, &may_return;
    } state{is_inside, may_return};
    const auto function = [](void*, void* user) -> std::int32_t {
      auto* const at = static_cast<State*>(user);
      at->is_inside = true;
      while (!at->may_return) std::this_thread::yield();
      return 0;
    };
    const pergola_call_access access{PERGOLA_STRUCT_SIZE(pergola_call_access), array, 0, 0, PERGOLA_ACCESS_READ_WRITE,
                                     0};
    EXPECT_EQ(pergola_session_call(session_, "slow", &access, 1, 0, function, &state), PERGOLA_OK);
  });
  while (!is_inside) std::this_thread::yield();
  int asked = 0;
  const auto at_the_second = [](void* user) -> std::int32_t { return ++*static_cast<int*>(user) == 2 ? 1 : 0; };
  pergola_thread_set_check(at_the_second, &asked);
  const float one = 1;
  float read = 0;
  const std::function<pergola_code()> waits[] = {
      [&] { return pergola_array_fill(array, &one); }, [&] { return pergola_array_write(array, 0, &one, sizeof one); },
      [&] { return pergola_array_read(array, 0, &read, sizeof read); },
      [&] { return pergola_array_wait(array, 0, sizeof read, -1); }};
  for (const auto& wait : waits) {
    asked = 0;
    EXPECT_EQ(wait(), PERGOLA_CALL_FAILED);
    EXPECT_STREQ(pergola_last_error(), "The wait was ended by the check that this thread has set.");
    EXPECT_EQ(asked, 2);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(pergola_array_wait(array, 0, sizeof read, 20'000'000), PERGOLA_TIMEOUT);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  const auto ends_it = [](void* user) -> std::int32_t {
    *static_cast<std::atomic<bool>*>(user) = true;
    return 0;
  };
  pergola_thread_set_check(ends_it, &may_return);
  EXPECT_EQ(pergola_array_fill(array, &one), PERGOLA_OK);
  pergola_thread_set_check(nullptr, nullptr);
  other.join();
  EXPECT_EQ(pergola_array_read(array, 0, &read, sizeof read), PERGOLA_OK);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
}

TEST_F(Capi, LibraryCalls_AreChecked) {
  pergola_array array = make_array(10);
  const auto function = [](void*, void* user) -> std::int32_t { return *static_cast<std::int32_t*>(user); };
  std::int32_t result = 0;
  pergola_call_access access{PERGOLA_STRUCT_SIZE(pergola_call_access), array, 0, 0, PERGOLA_ACCESS_READ, 0};
  const auto call = [&](const char* name, std::uint32_t flags, pergola_call_function given) {
    return pergola_session_call(session_, name, &access, 1, flags, given, &result);
  };
  EXPECT_EQ(call("f", 0, function), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(call("f", PERGOLA_CALL_SYNCHRONOUS, function), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(call(nullptr, 0, function), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(call("", 0, function), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(call("f", 0, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(call("f", 1u << 31, function), PERGOLA_UNSUPPORTED);
  result = -3;
  EXPECT_EQ(call("gemm", 0, function), PERGOLA_CALL_FAILED);
  EXPECT_STREQ(pergola_last_error(), "The library call 'gemm' failed: its function returned -3.");
  EXPECT_EQ(call("gemm", 0, [](void*, void*) -> std::int32_t { throw std::runtime_error("thrown"); }),
            PERGOLA_CALL_FAILED);
  EXPECT_THAT(pergola_last_error(), HasSubstr("its function threw: thrown"));
  result = 0;
  access.mode = PERGOLA_ACCESS_NONE;
  EXPECT_EQ(call("f", 0, function), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("Access 0 of the library call 'f' is none"));
  access.mode = 9;
  EXPECT_EQ(call("f", 0, function), PERGOLA_INVALID_ARGUMENT);
  access.mode = PERGOLA_ACCESS_READ_WRITE;
  for (const auto& [offset, size] : {std::pair(41, 0), std::pair(0, 41), std::pair(40, 1)}) {
    access.offset_bytes = static_cast<std::uint64_t>(offset), access.size_bytes = static_cast<std::uint64_t>(size);
    EXPECT_EQ(call("f", 0, function), PERGOLA_INVALID_ARGUMENT) << offset << " " << size;
    EXPECT_THAT(pergola_last_error(), HasSubstr("of an array of 40 bytes"));
  }
  EXPECT_EQ(pergola_session_call(session_, "f", nullptr, 1, 0, function, &result), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_call(session_, "f", nullptr, 0, 0, function, &result), PERGOLA_OK);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  access.offset_bytes = access.size_bytes = 0;
  EXPECT_EQ(call("f", 0, function), PERGOLA_INVALID_ARGUMENT) << "destroyed";
}

TEST_F(Capi, Versions_AreThoseOfTheHeader) {
  EXPECT_EQ(pergola_api_version(), PERGOLA_API_VERSION);
  EXPECT_STREQ(pergola_code_name(PERGOLA_DEVICE_FAULT), "device fault");
  EXPECT_STREQ(pergola_code_name(12345), "unknown error");
}

TEST_F(Capi, DeadHandle_IsAnErrorInEveryFunction) {
  pergola_array array = make_array(4);
  ASSERT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  float value[4] = {};
  const void* data = nullptr;
  std::uint64_t size = 0;
  pergola_array_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("not a live handle"));
  EXPECT_EQ(pergola_array_read(array, 0, value, sizeof value), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_write(array, 0, value, sizeof value), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_view(array, &data, &size), PERGOLA_INVALID_ARGUMENT);
  void* host = nullptr;
  EXPECT_EQ(pergola_array_host(array, PERGOLA_ACCESS_READ, -1, &host, &size), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_prefetch(array, PERGOLA_LOCATION_HOST), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_fill(array, value), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_fill_range(array, 0, 4, value, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_copy(array, 0, array, 0, 0), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_get_info(array, &info), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_synchronize(reinterpret_cast<pergola_session>(array)), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_event_wait(nullptr, -1), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_destroy(reinterpret_cast<pergola_kernel>(&value)), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(Capi, ArrayInfo_OfAnEarlierVersion_IsFilledAsFarAsItGoes) {
  pergola_array array = make_array(4);
  pergola_array_info info{};
  info.struct_size = offsetof(pergola_array_info, location);
  info.location = 77;
  EXPECT_EQ(pergola_array_get_info(array, &info), PERGOLA_OK);
  EXPECT_EQ(info.count, 4u);
  EXPECT_EQ(info.location, 77);
  info.struct_size = sizeof info;
  EXPECT_EQ(pergola_array_get_info(array, &info), PERGOLA_OK);
  EXPECT_EQ(info.location, PERGOLA_LOCATION_DEVICE);
  info.struct_size = 8;
  EXPECT_EQ(pergola_array_get_info(array, &info), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
}

TEST_F(Capi, HostAccess_GivesTheContents_AndRefusesWhatIsNone) {
  pergola_array array = make_array(4);
  void* data = nullptr;
  std::uint64_t size = 0;
  ASSERT_EQ(pergola_array_host(array, PERGOLA_ACCESS_WRITE, -1, &data, &size), PERGOLA_OK);
  ASSERT_EQ(size, 16u);
  const float given[4] = {1, 2, 3, 4};
  std::memcpy(data, given, sizeof given);
  float value[4] = {};
  EXPECT_EQ(pergola_array_read(array, 0, value, sizeof value), PERGOLA_OK);
  EXPECT_EQ(value[3], 4);
  for (const pergola_access wrong : {0, 4, 9}) {
    EXPECT_EQ(pergola_array_host(array, wrong, -1, &data, &size), PERGOLA_INVALID_ARGUMENT);
    EXPECT_THAT(pergola_last_error(), HasSubstr("no access"));
  }
  EXPECT_EQ(pergola_array_prefetch(array, PERGOLA_LOCATION_BOTH), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("1 is the device, 2 the host"));
  EXPECT_EQ(pergola_array_host(array, PERGOLA_ACCESS_READ, -1, nullptr, &size), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
}

TEST_F(Capi, FreedArrayAsArgument_IsNamed) {
  pergola_kernel kernel = make_kernel();
  pergola_array array = make_array(4);
  ASSERT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  const pergola_argument arguments[] = {pergola_arg_array(array), pergola_arg_u32(1)};
  const pergola_launch_config config = one_thread();
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("array given as argument 0 is not a live handle"));
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
}

TEST_F(Capi, NullPointers_AreRefused) {
  EXPECT_EQ(pergola_session_create(nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_device(session_, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_record(session_, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_load_file(session_, nullptr, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_create(session_, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  pergola_array array = make_array(4);
  EXPECT_EQ(pergola_array_write(array, 0, nullptr, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_write(array, 0, nullptr, 0), PERGOLA_OK) << "nothing to write";
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
}

TEST_F(Capi, StructSizes_DecideWhatIsReadAndWritten) {
  pergola_device_info info{};
  EXPECT_EQ(pergola_session_device(session_, &info), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("struct_size of pergola_device_info is 0"));
  info.struct_size = sizeof info;
  ASSERT_EQ(pergola_session_device(session_, &info), PERGOLA_OK);
  EXPECT_STREQ(info.id, "null");
  EXPECT_EQ(info.struct_size, sizeof info);

  // A caller of a later version: more fields, fine while they are zero.
  struct Later {
    pergola_array_options known;
    std::uint64_t unknown;
  } later{};
  later.known.struct_size = sizeof later;
  later.known.type = PERGOLA_TYPE_U8;
  later.known.count = 1;
  pergola_array array = nullptr;
  EXPECT_EQ(pergola_array_create(session_, &later.known, &array), PERGOLA_OK);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  later.unknown = 1;
  EXPECT_EQ(pergola_array_create(session_, &later.known, &array), PERGOLA_UNSUPPORTED);
}

TEST_F(Capi, ImpossibleArrays_AreRefused) {
  pergola_array_options options{};
  options.struct_size = sizeof options;
  options.type = 99;
  options.count = 1;
  pergola_array array = nullptr;
  EXPECT_EQ(pergola_array_create(session_, &options, &array), PERGOLA_INVALID_ARGUMENT);
  options.type = PERGOLA_TYPE_F64;
  options.count = ~std::uint64_t{0};
  EXPECT_EQ(pergola_array_create(session_, &options, &array), PERGOLA_RESOURCE_EXHAUSTED);
  options.count = std::uint64_t{1} << 50;
  EXPECT_EQ(pergola_array_create(session_, &options, &array), PERGOLA_RESOURCE_EXHAUSTED);
}

TEST_F(Capi, ForeignMemory_WhereItIsRefused_StaysTheCallers) {
  pergola_array_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
  options.type = PERGOLA_TYPE_F32;
  options.count = 4;
  int released = 0;
  pergola_foreign_memory memory{};
  memory.struct_size = PERGOLA_STRUCT_SIZE(pergola_foreign_memory);
  memory.address = 256;
  memory.owner = &released;
  pergola_array array = nullptr;
  EXPECT_EQ(pergola_array_adopt(session_, &options, &memory, &array), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("release"));
  memory.release = [](void* owner) { ++*static_cast<int*>(owner); };
  EXPECT_EQ(pergola_array_adopt(session_, &options, &memory, &array), PERGOLA_UNSUPPORTED);
  EXPECT_THAT(pergola_last_error(), HasSubstr("'null' does not take over memory of other libraries"));
  options.count = ~std::uint64_t{0};
  EXPECT_EQ(pergola_array_adopt(session_, &options, &memory, &array), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_adopt(session_, nullptr, &memory, &array), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_adopt(session_, &options, nullptr, &array), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(released, 0);
}

TEST_F(Capi, RangesOutsideAnArray_AreRefused) {
  pergola_array array = make_array(4);
  float value[8] = {};
  EXPECT_EQ(pergola_array_write(array, 0, value, 20), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_wait(array, 12, 8, 0), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_wait(array, 8, 8, 0), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(pergola_array_read(array, 16, value, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_read(array, ~std::uint64_t{0}, value, 4), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_copy(array, 0, array, 8, 16), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
}

TEST_F(Capi, MalformedArguments_AreRefused) {
  pergola_kernel kernel = make_kernel();
  const pergola_launch_config config = one_thread();
  pergola_argument arguments[] = {pergola_arg_address(0), pergola_arg_u32(1)};
  EXPECT_EQ(pergola_kernel_launch(kernel, nullptr, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, nullptr, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 1 << 20, nullptr), PERGOLA_INVALID_ARGUMENT);
  arguments[1].type = 77;
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  arguments[1] = pergola_arg_f32(1);
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(),
               "Argument 1 (parameter v) of kernel 'store' should be a 4-byte integer; it is a float.");
  arguments[1] = pergola_arg_bytes(nullptr, 4);
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  arguments[1].struct_size = 0;
  EXPECT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  arguments[1] = pergola_arg_u32(1);
  pergola_launch_config flags = config;
  flags.flags = 1u << 31;
  EXPECT_EQ(pergola_kernel_launch(kernel, &flags, arguments, 2, nullptr), PERGOLA_UNSUPPORTED);
  pergola_launch_config empty = config;
  empty.grid[0] = 0;
  EXPECT_EQ(pergola_kernel_launch(kernel, &empty, arguments, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  empty.flags = PERGOLA_LAUNCH_MAY_BE_EMPTY;
  EXPECT_EQ(pergola_kernel_launch(kernel, &empty, arguments, 2, nullptr), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(pergola_kernel_launch(kernel, &empty, arguments, 1, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
}

TEST_F(Capi, MalformedValues_AreRefused) {
  pergola_kernel kernel = make_kernel();
  const pergola_launch_config config = one_thread();
  pergola_type types[] = {PERGOLA_TYPE_ADDRESS, PERGOLA_TYPE_U32};
  const std::uint64_t values[] = {0, 1};
  std::uint64_t ticket = 0;
  const auto submit = [&](std::size_t count) {
    return pergola_kernel_submit_values(kernel, &config, types, values, count, &ticket);
  };
  EXPECT_EQ(submit(2), PERGOLA_OK) << pergola_last_error();
  EXPECT_NE(ticket, 0u);
  EXPECT_EQ(pergola_kernel_submit_values(kernel, nullptr, types, values, 2, &ticket), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_submit_values(kernel, &config, nullptr, values, 2, &ticket), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_submit_values(kernel, &config, types, nullptr, 2, &ticket), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_submit_values(kernel, &config, types, values, 2, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_kernel_submit_values(nullptr, &config, types, values, 2, &ticket), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(submit(1 << 20), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(submit(1), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("2 arguments"));
  EXPECT_EQ(submit(0), PERGOLA_INVALID_ARGUMENT);
  types[1] = PERGOLA_TYPE_BYTES;
  EXPECT_EQ(submit(2), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(),
               "Argument 1 has the type BYTES, which no value of 8 bytes is: use pergola_kernel_submit().");
  types[1] = PERGOLA_TYPE_F32;
  EXPECT_EQ(submit(2), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(),
               "Argument 1 (parameter v) of kernel 'store' should be a 4-byte integer; it is a float.");
  types[1] = 77;
  EXPECT_EQ(submit(2), PERGOLA_INVALID_ARGUMENT);
  types[0] = PERGOLA_TYPE_ARRAY, types[1] = PERGOLA_TYPE_U32;
  EXPECT_EQ(submit(2), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("argument 0"));
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
}

// Both forms of a call, for long the same and then changed: what one has written the other does not take for its own.
TEST_F(Capi, ValuesAndArguments_AreTheSameLaunch) {
  constexpr const char* kSource = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 p, .param .u32 v) {
  .reg .b64 %a;
  .reg .b32 %x, %v;
  ld.param.u64 %a, [p];
  ld.param.u32 %v, [v];
  ld.global.u32 %x, [%a];
  mad.lo.u32 %x, %x, 3, %v;
  st.global.u32 [%a], %x;
  ret;
}
)";
  ASSERT_EQ(pergola_session_destroy(session_), PERGOLA_OK);
  open("cpu");
  pergola_kernel kernel = make_kernel(kSource, "step");
  pergola_array array = make_array(1);
  std::uint32_t expected = 1;
  ASSERT_EQ(pergola_array_write(array, 0, &expected, sizeof expected), PERGOLA_OK);
  const pergola_launch_config config = one_thread();
  const pergola_type types[] = {PERGOLA_TYPE_ARRAY, PERGOLA_TYPE_U32};
  for (std::uint32_t turn = 0; turn < 600; ++turn) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      std::uint64_t ticket = 0;
      const std::uint32_t added = turn / 150 * 10 + i;
      if ((i + turn / 100) % 2 == 0) {
        const pergola_argument arguments[] = {pergola_arg_array(array), pergola_arg_u32(added)};
        ASSERT_EQ(pergola_kernel_submit(kernel, &config, arguments, 2, &ticket), PERGOLA_OK) << pergola_last_error();
      } else {
        const std::uint64_t values[] = {reinterpret_cast<std::uint64_t>(array), added};
        ASSERT_EQ(pergola_kernel_submit_values(kernel, &config, types, values, 2, &ticket), PERGOLA_OK)
            << pergola_last_error();
      }
      expected = expected * 3 + added;
    }
    std::uint32_t found = 0;
    ASSERT_EQ(pergola_array_read(array, 0, &found, sizeof found), PERGOLA_OK) << pergola_last_error();
    ASSERT_EQ(found, expected) << "turn " << turn;
  }
  {
    const auto session =
        pergola::capi::HandleTable::instance().find(pergola::capi::HandleKind::kSession, session_, "session");
    ASSERT_TRUE(session.ok());
    auto& local =
        static_cast<pergola::runtime::LocalSession&>(*static_cast<pergola::session::Session*>(session->get()));
    EXPECT_GT(local.scheduler().graph_counters().by_text, 100u) << "launches by either form are known";
  }
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
}

TEST_F(Capi, MalformedText_GivesItsPlace) {
  const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k( { }\n";
  pergola_load_options options{};
  options.struct_size = sizeof options;
  options.name = "bad.ptx";
  pergola_module module = nullptr;
  EXPECT_EQ(pergola_session_load_text(session_, text, sizeof text - 1, &options, &module), PERGOLA_PARSE_ERROR);
  EXPECT_THAT(pergola_last_error(), HasSubstr("bad.ptx:4:"));
  EXPECT_EQ(module, nullptr);
  EXPECT_EQ(pergola_session_load_file(session_, "/nowhere.cu", nullptr, &module), PERGOLA_NOT_FOUND);
  options.language = 9;
  EXPECT_EQ(pergola_session_load_text(session_, text, sizeof text - 1, &options, &module), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(Capi, LastError_IsTheThreadsOwn) {
  ASSERT_EQ(pergola_event_wait(nullptr, 0), PERGOLA_INVALID_ARGUMENT);
  const std::string mine = pergola_last_error();
  std::thread([] {
    EXPECT_STREQ(pergola_last_error(), "");
    EXPECT_EQ(pergola_array_destroy(nullptr), PERGOLA_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(mine, pergola_last_error());
}

TEST_F(Capi, UnknownDevice_ListsWhatThereIs) {
  pergola_session_options options{};
  options.struct_size = sizeof options;
  options.device = "gpu";
  pergola_session session = nullptr;
  EXPECT_EQ(pergola_session_create(&options, &session), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("'cpu', 'cuda:N'"));
}

// What a kernel does wrong while running is told by what waits, with the kernel's name, until synchronize().
TEST_F(Capi, FailureWhileRunning_IsToldByWhatWaits) {
  pergola_kernel kernel = make_kernel();
  pergola_array array = make_array(4);
  const pergola_launch_config config = one_thread();
  const pergola_argument arguments[] = {pergola_arg_array(array), pergola_arg_u32(1)};
  pergola_event first = nullptr, second = nullptr, marker = nullptr;
  ASSERT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, &first), PERGOLA_OK) << pergola_last_error();
  ASSERT_EQ(pergola_kernel_launch(kernel, &config, arguments, 2, &second), PERGOLA_OK);
  ASSERT_EQ(pergola_session_record(session_, &marker), PERGOLA_OK);
  EXPECT_EQ(pergola_event_wait(first, -1), PERGOLA_UNSUPPORTED) << "the null device runs nothing";
  EXPECT_THAT(pergola_last_error(), HasSubstr("'store'"));
  EXPECT_EQ(pergola_event_wait(second, -1), PERGOLA_SKIPPED);
  EXPECT_THAT(pergola_last_error(), HasSubstr("was not run, because work before it failed: Kernel 'store'"));
  EXPECT_EQ(pergola_event_wait(marker, -1), PERGOLA_UNSUPPORTED) << "an event tells the first error before it";
  float value[4] = {};
  EXPECT_EQ(pergola_array_read(array, 0, value, sizeof value), PERGOLA_UNSUPPORTED);
  EXPECT_EQ(pergola_session_synchronize(session_), PERGOLA_UNSUPPORTED);
  EXPECT_EQ(pergola_session_synchronize(session_), PERGOLA_OK) << "reported once";
  EXPECT_EQ(pergola_array_read(array, 0, value, sizeof value), PERGOLA_OK);
  for (pergola_event event : {first, second, marker}) EXPECT_EQ(pergola_event_destroy(event), PERGOLA_OK);
  EXPECT_EQ(pergola_array_destroy(array), PERGOLA_OK);
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
}

}  // namespace
