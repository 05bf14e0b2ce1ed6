// Narrow tasks of the C interface: what it hands on, checks and refuses, over a pool that only writes down what it is
// asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/capi/guard.h"

namespace {

using pergola::ByteRows;
using pergola::Code;
using pergola::Result;
using pergola::Status;
using ::testing::HasSubstr;
namespace session = pergola::session;

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

struct Log {
  int kinds_alive = 0;
  std::string last;  // what was asked
  Status answer;     // what to answer; success where it is none
  std::function<void()> during_spawn = [] {};
};

class RecordingKind : public session::TaskKind {
 public:
  explicit RecordingKind(Log& log) : log_(log) { ++log_.kinds_alive; }
  ~RecordingKind() override { --log_.kinds_alive; }
  Result<session::TaskKindPtr> with_priority(session::TaskPriority priority) override {
    log_.last = fmt::format("with priority {}", static_cast<int>(priority));
    return session::TaskKindPtr(std::make_shared<RecordingKind>(log_));
  }
  Result<session::TaskId> spawn(std::span<const session::Argument> arguments) override {
    return id(fmt::format("spawn {}", arguments.size()));
  }
  Result<std::uint64_t> on_device() override {
    log_.last = "on_device";
    if (!log_.answer.ok()) return log_.answer;
    return 0x123456789abcdefu;
  }
  Result<session::TaskId> spawn_packed(std::span<const std::byte> parameters) override {
    std::string bytes;
    for (const std::byte byte : parameters) bytes += fmt::format(" {:x}", static_cast<unsigned>(byte));
    return id("packed" + bytes);
  }
  Status spawn_each(std::span<const session::Argument> arguments, std::span<const session::TaskColumn> columns,
                    std::size_t count, std::span<session::TaskId> ids, std::size_t& spawned) override {
    std::string all = fmt::format("each of {} tasks, {} arguments, {} ids", count, arguments.size(), ids.size());
    for (const session::TaskColumn& column : columns) {
      all += fmt::format(", {}:", column.argument);
      for (std::size_t n = 0; n < count; ++n) {
        std::uint32_t value = 0;
        std::memcpy(&value, column.values + n * column.stride_bytes, sizeof value);
        all += fmt::format(" {}", value);
      }
    }
    spawned = count;
    for (session::TaskId& id : ids) id = ++last_id_;
    log_.last = all;
    return log_.answer;
  }
  // As far as what is to be answered allows: two, where that is an error.
  Status spawn_many(const ByteRows& parameters, std::span<session::TaskId> ids, std::size_t& spawned) override {
    std::string all = fmt::format("many, {} ids:", ids.size());
    for (spawned = 0; spawned < parameters.count && (log_.answer.ok() || spawned < 2); ++spawned) {
      for (const std::byte byte : parameters[spawned]) all += fmt::format(" {:x}", static_cast<unsigned>(byte));
      all += ";";
      if (!ids.empty()) ids[spawned] = ++last_id_;
    }
    log_.last = all;
    return log_.answer;
  }

 private:
  Result<session::TaskId> id(std::string what) {
    log_.during_spawn();
    log_.last = std::move(what);
    if (!log_.answer.ok()) return log_.answer;
    return ++last_id_;
  }
  Log& log_;
  session::TaskId last_id_ = 40;
};

class RecordingPool : public session::TaskPool {
 public:
  explicit RecordingPool(Log& log) : log_(log) {}
  Result<session::TaskKindPtr> prepare(const session::KernelPtr& kernel, const session::LaunchShape& shape) override {
    const std::string cooperative = shape.cooperative ? " cooperative" : "";
    log_.last =
        fmt::format("prepare {} {}x{}x{} {}x{}x{} {}{}", kernel->info().name, shape.grid.x, shape.grid.y, shape.grid.z,
                    shape.block.x, shape.block.y, shape.block.z, shape.dynamic_shared_bytes, cooperative);
    if (!log_.answer.ok()) return log_.answer;
    return session::TaskKindPtr(std::make_shared<RecordingKind>(log_));
  }
  Status add_kernels(std::span<const session::KernelPtr> kernels) override {
    std::string names = "add";
    for (const session::KernelPtr& kernel : kernels) names += ' ' + kernel->info().name;
    return note(std::move(names));
  }
  Status wait(session::TaskId id, std::optional<std::chrono::nanoseconds> timeout) override {
    return note(fmt::format("wait {} {}", id, timeout ? timeout->count() : -1));
  }
  Result<bool> check(session::TaskId id) override {
    if (Status status = note(fmt::format("check {}", id)); !status.ok()) return status;
    return id == 41;
  }
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout) override {
    return note(fmt::format("wait_all {}", timeout ? timeout->count() : -1));
  }
  Status park() override { return note("park"); }
  session::TaskPoolInfo info() const override { return {1, 2, 3, 4, 5, 6, 7, 8, 9, true, 10, true}; }

 private:
  Status note(std::string what) {
    log_.last = std::move(what);
    return log_.answer;
  }
  Log& log_;
};

}  // namespace

// For tasks_hpp_test.cc, in which pergola::Error is another. The log is the process's.
Log& log_of_pools() {
  static Log log;
  return log;
}
pergola_task_pool make_recording_pool() {
  pergola_task_pool pool = nullptr;
  EXPECT_TRUE(
      pergola::capi::give_handle<session::TaskPool>(std::make_shared<RecordingPool>(log_of_pools()), &pool).ok());
  return pool;
}
std::string asked_of_pools() {
  return log_of_pools().last;
}

namespace {

class CapiTasks : public ::testing::Test {
 protected:
  void SetUp() override {
    pergola_session_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options);
    options.device = "null";
    ASSERT_EQ(pergola_session_create(&options, &session_), PERGOLA_OK) << pergola_last_error();
    pergola_module module = nullptr;
    ASSERT_EQ(pergola_session_load_text(session_, kPtx, std::strlen(kPtx), nullptr, &module), PERGOLA_OK)
        << pergola_last_error();
    ASSERT_EQ(pergola_module_kernel(module, "store", &kernel_), PERGOLA_OK) << pergola_last_error();
    ASSERT_EQ(pergola_module_destroy(module), PERGOLA_OK);
    ASSERT_TRUE(pergola::capi::give_handle<session::TaskPool>(std::make_shared<RecordingPool>(log_), &pool_).ok());
    config_.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config_.grid[0] = 1, config_.block[0] = 32;
  }
  void TearDown() override {
    EXPECT_EQ(pergola_task_pool_destroy(pool_), PERGOLA_OK);
    EXPECT_EQ(pergola_kernel_destroy(kernel_), PERGOLA_OK);
    EXPECT_EQ(pergola_session_destroy(session_), PERGOLA_OK);
    EXPECT_EQ(pergola::capi::HandleTable::instance().live(), 0u) << "a handle was forgotten";
    EXPECT_EQ(log_.kinds_alive, 0);
  }
  pergola_task_kind make_kind() {
    pergola_task_kind kind = nullptr;
    EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config_, &kind), PERGOLA_OK) << pergola_last_error();
    return kind;
  }

  Log log_;
  pergola_session session_ = nullptr;
  pergola_kernel kernel_ = nullptr;
  pergola_task_pool pool_ = nullptr;
  pergola_launch_config config_{};
};

TEST_F(CapiTasks, Options_AreChecked) {
  pergola_task_pool pool = nullptr;
  pergola_task_pool_options options{PERGOLA_STRUCT_SIZE(pergola_task_pool_options), 0, 0, -1};
  EXPECT_EQ(pergola_session_task_pool(session_, &options, &pool), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("park_after_ns is -1"));
  options.park_after_ns = 0;
  EXPECT_EQ(pergola_session_task_pool(session_, &options, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_task_pool(nullptr, &options, &pool), PERGOLA_INVALID_ARGUMENT);
  options.executor = 3;
  EXPECT_EQ(pergola_session_task_pool(session_, &options, &pool), PERGOLA_UNSUPPORTED);
  EXPECT_THAT(pergola_last_error(), HasSubstr("executor of pergola_task_pool_options is 3"));
  options.struct_size = 8;
  EXPECT_EQ(pergola_session_task_pool(session_, &options, &pool), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("pergola_task_pool_options"));
  EXPECT_EQ(pergola_session_task_pool(session_, nullptr, &pool), PERGOLA_UNSUPPORTED) << "null runs nothing";
  EXPECT_EQ(pool, nullptr);
}

TEST_F(CapiTasks, AddKernels_HandsThemOn) {
  const pergola_kernel twice[] = {kernel_, kernel_}, one_is_null[] = {kernel_, nullptr};
  EXPECT_EQ(pergola_task_pool_add_kernels(pool_, twice, 2), PERGOLA_OK);
  EXPECT_EQ(log_.last, "add store store");
  EXPECT_EQ(pergola_task_pool_add_kernels(pool_, nullptr, 0), PERGOLA_OK);
  EXPECT_EQ(log_.last, "add");
  EXPECT_EQ(pergola_task_pool_add_kernels(pool_, nullptr, 1), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_pool_add_kernels(pool_, one_is_null, 2), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_pool_add_kernels(nullptr, twice, 2), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(log_.last, "add") << "the pool was not asked";
  log_.answer = PERGOLA_ERROR(kUnsupported, "The kernel cannot be a task.");
  EXPECT_EQ(pergola_task_pool_add_kernels(pool_, twice, 2), PERGOLA_UNSUPPORTED);
  EXPECT_STREQ(pergola_last_error(), "The kernel cannot be a task.");
  log_.answer = {};
}

TEST_F(CapiTasks, OnDevice_GivesTheHandle) {
  pergola_task_kind kind = make_kind();
  uint64_t handle = 7;
  EXPECT_EQ(pergola_task_kind_on_device(kind, &handle), PERGOLA_OK);
  EXPECT_EQ(handle, 0x123456789abcdefu);
  EXPECT_EQ(log_.last, "on_device");
  EXPECT_EQ(pergola_task_kind_on_device(kind, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_kind_on_device(nullptr, &handle), PERGOLA_INVALID_ARGUMENT);
  log_.answer = PERGOLA_ERROR(kUnsupported, "Too many parameters.");
  EXPECT_EQ(pergola_task_kind_on_device(kind, &handle), PERGOLA_UNSUPPORTED);
  EXPECT_STREQ(pergola_last_error(), "Too many parameters.");
  log_.answer = {};
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
}

TEST_F(CapiTasks, Prepare_HandsOnTheShape) {
  config_.grid[1] = 3, config_.dynamic_shared_bytes = 64, config_.flags = PERGOLA_LAUNCH_COOPERATIVE;
  pergola_task_kind kind = make_kind();
  EXPECT_EQ(log_.last, "prepare store 1x3x1 32x1x1 64 cooperative");
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
  log_.answer = PERGOLA_ERROR(kUnsupported, "The kernel cannot be a task.");
  pergola_task_kind refused = nullptr;
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config_, &refused), PERGOLA_UNSUPPORTED);
  EXPECT_STREQ(pergola_last_error(), "The kernel cannot be a task.");
  EXPECT_EQ(refused, nullptr);
  log_.answer = {};
  EXPECT_EQ(pergola_task_pool_prepare(nullptr, kernel_, &config_, &refused), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_pool_prepare(pool_, nullptr, &config_, &refused), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, nullptr, &refused), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config_, nullptr), PERGOLA_INVALID_ARGUMENT);
  config_.flags = 1u << 31;
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config_, &refused), PERGOLA_UNSUPPORTED);
  config_.flags = 0, config_.struct_size = 12;
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config_, &refused), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(refused, nullptr);
}

TEST_F(CapiTasks, Spawn_HandsOnArgumentsAndReturnsTheId) {
  pergola_task_kind kind = make_kind();
  const pergola_argument arguments[] = {pergola_arg_address(0), pergola_arg_u32(7)};
  std::uint64_t id = 0;
  EXPECT_EQ(pergola_task_spawn(kind, arguments, 2, &id), PERGOLA_OK);
  EXPECT_EQ(log_.last, "spawn 2");
  EXPECT_EQ(id, 41u);
  EXPECT_EQ(pergola_task_spawn(kind, arguments, 2, nullptr), PERGOLA_OK);
  const unsigned char bytes[] = {1, 2, 255};
  EXPECT_EQ(pergola_task_spawn_packed(kind, bytes, sizeof bytes, &id), PERGOLA_OK);
  EXPECT_EQ(log_.last, "packed 1 2 ff");
  EXPECT_EQ(id, 43u);
  EXPECT_EQ(pergola_task_spawn_packed(kind, nullptr, 0, nullptr), PERGOLA_OK) << "a kernel without parameters";
  EXPECT_EQ(log_.last, "packed");
  log_.last = "";
  id = 5;
  EXPECT_EQ(pergola_task_spawn(kind, nullptr, 2, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_spawn_packed(kind, nullptr, 4, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("The pointer parameters is null"));
  pergola_array dead = reinterpret_cast<pergola_array>(std::uintptr_t{0x1234});
  const pergola_argument with_dead = pergola_arg_array(dead);
  EXPECT_EQ(pergola_task_spawn(kind, &with_dead, 1, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("array given as argument 0 is not a live handle"));
  EXPECT_EQ(log_.last, "") << "nothing was spawned";
  log_.answer = PERGOLA_ERROR(kDeviceLost, "The device is gone.");
  EXPECT_EQ(pergola_task_spawn(kind, arguments, 2, &id), PERGOLA_DEVICE_LOST);
  EXPECT_EQ(pergola_task_spawn_packed(kind, bytes, 3, &id), PERGOLA_DEVICE_LOST);
  EXPECT_STREQ(pergola_last_error(), "The device is gone.");
  log_.during_spawn = [] { throw std::runtime_error("thrown"); };
  EXPECT_EQ(pergola_task_spawn_packed(kind, bytes, 3, &id), PERGOLA_INTERNAL);
  EXPECT_EQ(id, 5u);
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
  EXPECT_EQ(pergola_task_spawn_many(kind, bytes, 1, 0, 3, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(CapiTasks, EachWithItsOwnNumbers) {
  pergola_task_kind kind = make_kind();
  const pergola_argument arguments[] = {pergola_arg_address(0), pergola_arg_u32(7), pergola_arg_u32(8)};
  const std::uint32_t values[] = {1, 2, 3, 4, 5, 6};
  pergola_task_column columns[2]{};
  for (pergola_task_column& column : columns) column.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_column);
  columns[0].argument = 1, columns[0].values = values;
  columns[1].argument = 2, columns[1].values = values + 1, columns[1].stride_bytes = 8;
  std::uint64_t ids[2] = {};
  std::size_t spawned = 0;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, ids, &spawned), PERGOLA_OK);
  EXPECT_EQ(log_.last, "each of 2 tasks, 3 arguments, 2 ids, 1: 1 2, 2: 2 4");
  EXPECT_EQ(spawned, 2u);
  EXPECT_THAT(ids, testing::ElementsAre(41, 42));
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, nullptr, 0, 4, nullptr, nullptr), PERGOLA_OK);
  EXPECT_EQ(log_.last, "each of 4 tasks, 3 arguments, 0 ids");
  log_.last = "";
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, nullptr, 1, 4, nullptr, &spawned), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(spawned, 0u);
  columns[1].argument = 1;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, ids, &spawned), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(), "Columns 0 and 1 are both of argument 1.");
  columns[1].argument = 2;
  columns[0].argument = 0;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(), "Column 0 is of argument 0, which is no number.");
  columns[0].argument = 3;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  columns[0].argument = 1, columns[1].values = nullptr;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("The pointer values of a column is null"));
  columns[1].values = values, columns[1].stride_bytes = 3;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(), "stride_bytes of column 1 is 3, less than its numbers' 4.");
  columns[1].struct_size = 4;
  EXPECT_EQ(pergola_task_spawn_each(kind, arguments, 3, columns, 2, 2, nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(log_.last, "") << "nothing was spawned";
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
}

TEST_F(CapiTasks, ManyAtOnce) {
  pergola_task_kind kind = make_kind();
  const unsigned char bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::uint64_t ids[3] = {};
  std::size_t spawned = 0;
  EXPECT_EQ(pergola_task_spawn_many(kind, bytes, 2, 0, 3, ids, &spawned), PERGOLA_OK);
  EXPECT_EQ(log_.last, "many, 3 ids: 1 2; 3 4; 5 6;");
  EXPECT_EQ(spawned, 3u);
  EXPECT_THAT(ids, testing::ElementsAre(41, 42, 43));
  EXPECT_EQ(pergola_task_spawn_many(kind, bytes, 2, 3, 3, nullptr, nullptr), PERGOLA_OK);
  EXPECT_EQ(log_.last, "many, 0 ids: 1 2; 4 5; 7 8;");
  EXPECT_EQ(pergola_task_spawn_many(kind, nullptr, 0, 0, 2, nullptr, &spawned), PERGOLA_OK) << "without parameters";
  EXPECT_EQ(log_.last, "many, 0 ids:;;");
  EXPECT_EQ(pergola_task_spawn_many(kind, nullptr, 8, 0, 0, nullptr, &spawned), PERGOLA_OK) << "none";
  EXPECT_EQ(spawned, 0u);
  log_.last = "";
  spawned = 7;
  EXPECT_EQ(pergola_task_spawn_many(kind, nullptr, 2, 0, 3, ids, &spawned), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("The pointer parameters is null"));
  EXPECT_EQ(spawned, 0u);
  EXPECT_EQ(pergola_task_spawn_many(kind, bytes, 4, 3, 2, ids, &spawned), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("stride_bytes is 3, less than the 4 bytes"));
  EXPECT_EQ(log_.last, "") << "nothing was spawned";
  log_.answer = PERGOLA_ERROR(kDeviceLost, "The device is gone.");
  EXPECT_EQ(pergola_task_spawn_many(kind, bytes, 2, 0, 3, ids, &spawned), PERGOLA_DEVICE_LOST);
  EXPECT_EQ(spawned, 2u);
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
}

TEST_F(CapiTasks, Waits_HandOnIdsAndTimes) {
  std::int32_t done = -1;
  EXPECT_EQ(pergola_task_wait(pool_, 9, -1), PERGOLA_OK);
  EXPECT_EQ(log_.last, "wait 9 -1");
  EXPECT_EQ(pergola_task_wait(pool_, 9, 0), PERGOLA_OK);
  EXPECT_EQ(log_.last, "wait 9 0");
  EXPECT_EQ(pergola_task_wait_all(pool_, 1500), PERGOLA_OK);
  EXPECT_EQ(log_.last, "wait_all 1500");
  EXPECT_EQ(pergola_task_check(pool_, 41, &done), PERGOLA_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(pergola_task_check(pool_, 42, &done), PERGOLA_OK);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(pergola_task_pool_park(pool_), PERGOLA_OK);
  EXPECT_EQ(log_.last, "park");
  log_.answer = PERGOLA_ERROR(kTimeout, "It goes on.");
  EXPECT_EQ(pergola_task_wait(pool_, 9, 5), PERGOLA_TIMEOUT);
  EXPECT_EQ(pergola_task_wait_all(pool_, 5), PERGOLA_TIMEOUT);
  EXPECT_EQ(pergola_task_check(pool_, 41, nullptr), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(CapiTasks, Info_IsWrittenAsFarAsTheCallerKnowsIt) {
  pergola_task_pool_info info{};
  EXPECT_EQ(pergola_task_pool_get_info(pool_, &info), PERGOLA_INVALID_ARGUMENT) << "its size is 0";
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_info);
  ASSERT_EQ(pergola_task_pool_get_info(pool_, &info), PERGOLA_OK);
  const std::vector<std::uint64_t> fields{info.blocks,
                                          info.registers_per_thread,
                                          info.local_bytes_per_thread,
                                          info.most_threads,
                                          info.most_shared_bytes,
                                          info.memory_bytes,
                                          info.launches,
                                          info.spawned,
                                          info.spawned_by_tasks,
                                          static_cast<std::uint64_t>(info.is_running),
                                          info.held,
                                          static_cast<std::uint64_t>(info.streams_wait)};
  EXPECT_THAT(fields, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 10, 1));
  EXPECT_EQ(pergola_task_pool_get_info(pool_, nullptr), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(CapiTasks, DeadAndForeignHandles_AreErrorsInEveryFunction) {
  pergola_task_kind kind = make_kind();
  ASSERT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
  EXPECT_EQ(log_.kinds_alive, 0);
  std::uint64_t id = 0;
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_spawn(kind, nullptr, 0, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_spawn_packed(kind, nullptr, 0, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("The task kind is not a live handle"));
  EXPECT_EQ(pergola_task_spawn_packed(nullptr, nullptr, 0, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("The task kind is null"));
  EXPECT_EQ(pergola_task_spawn_packed(reinterpret_cast<pergola_task_kind>(pool_), nullptr, 0, &id),
            PERGOLA_INVALID_ARGUMENT);
  EXPECT_STREQ(pergola_last_error(), "The task kind is the handle of a task pool; it should be that of a task kind.");
  const auto wrong_pool = reinterpret_cast<pergola_task_pool>(kernel_);
  std::int32_t done = 0;
  pergola_task_pool_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_info);
  for (const pergola_task_pool pool : {wrong_pool, static_cast<pergola_task_pool>(nullptr)}) {
    EXPECT_EQ(pergola_task_wait(pool, 1, 0), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(pergola_task_check(pool, 1, &done), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(pergola_task_wait_all(pool, 0), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(pergola_task_pool_park(pool), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(pergola_task_pool_get_info(pool, &info), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(pergola_task_pool_destroy(pool), PERGOLA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(id, 0u);
}

// Its slot serves another kind, or something else, under another generation.
TEST_F(CapiTasks, SlotOfADestroyedKind_ServesTheNext) {
  pergola_task_kind first = make_kind();
  ASSERT_EQ(pergola_task_kind_destroy(first), PERGOLA_OK);
  pergola_task_kind second = make_kind();
  ASSERT_NE(first, second);
  std::uint64_t id = 0;
  EXPECT_EQ(pergola_task_spawn_packed(second, nullptr, 0, &id), PERGOLA_OK);
  EXPECT_EQ(pergola_task_spawn_packed(first, nullptr, 0, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_kind_destroy(second), PERGOLA_OK);
}

TEST_F(CapiTasks, KindDestroyedDuringASpawn_LivesUntilThatReturns) {
  pergola_task_kind kind = make_kind();
  std::promise<void> inside, go_on;
  log_.during_spawn = [&] {
    inside.set_value();
    go_on.get_future().wait();
  };
  std::uint64_t id = 0;
  std::thread spawner([&] { EXPECT_EQ(pergola_task_spawn_packed(kind, nullptr, 0, &id), PERGOLA_OK); });
  inside.get_future().wait();
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK) << "it does not wait";
  EXPECT_EQ(log_.kinds_alive, 1);
  go_on.set_value();
  spawner.join();
  EXPECT_EQ(id, 41u);
  EXPECT_EQ(log_.kinds_alive, 0);
}

// A kind's quick way in has no check of its own for it.
TEST_F(CapiTasks, ForkedChild_IsRefused) {
  pergola_task_kind kind = make_kind();
  ASSERT_EQ(pergola_task_spawn_packed(kind, nullptr, 0, nullptr), PERGOLA_OK);
  const pid_t child = fork();
  if (child == 0) _exit(pergola_task_spawn_packed(kind, nullptr, 0, nullptr));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), PERGOLA_FAILED_PRECONDITION);
  EXPECT_EQ(pergola_task_kind_destroy(kind), PERGOLA_OK);
}

// ── The whole way, on the CPU device ────────────────────────────────────────────────────────────────────────────────

constexpr const char* kWorkPtx = R"(
.version 7.0
.target sm_70
.address_size 64
// out[at] += value, by each lane
.visible .entry work(.param .u64 out, .param .u32 at, .param .u32 value) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [at];
  ld.param.u32 %r1, [value];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  atom.global.add.u32 %r2, [%rd2], %r1;
  ret;
}
)";

class CapiTasksOnCpu : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kTasks = 1000;
  struct Parameters {
    std::uint64_t out;
    std::uint32_t at, value;
  };

  void SetUp() override {
#if defined(PERGOLA_TSAN)
    GTEST_SKIP() << "TSan does not connect the device half's fences with the host; executor_test has the host's half.";
#endif
    pergola_session_options options{};
    options.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options);
    options.device = "cpu";
    ASSERT_EQ(pergola_session_create(&options, &session_), PERGOLA_OK) << pergola_last_error();
    pergola_module module = nullptr;
    ASSERT_EQ(pergola_session_load_text(session_, kWorkPtx, std::strlen(kWorkPtx), nullptr, &module), PERGOLA_OK)
        << pergola_last_error();
    ASSERT_EQ(pergola_module_kernel(module, "work", &kernel_), PERGOLA_OK) << pergola_last_error();
    ASSERT_EQ(pergola_module_destroy(module), PERGOLA_OK);
    pergola_array_options array{};
    array.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
    array.type = PERGOLA_TYPE_U32;
    array.count = kTasks;
    ASSERT_EQ(pergola_array_create(session_, &array, &out_), PERGOLA_OK) << pergola_last_error();
    const std::uint32_t zero = 0;
    ASSERT_EQ(pergola_array_fill(out_, &zero), PERGOLA_OK);
    ASSERT_EQ(pergola_session_task_pool(session_, nullptr, &pool_), PERGOLA_OK) << pergola_last_error();
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = 1, config.block[0] = 32;
    ASSERT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config, &kind_), PERGOLA_OK) << pergola_last_error();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(pergola_array_destroy(out_), PERGOLA_OK);
    EXPECT_EQ(pergola_task_kind_destroy(kind_), PERGOLA_OK);
    EXPECT_EQ(pergola_kernel_destroy(kernel_), PERGOLA_OK);
    EXPECT_EQ(pergola_session_destroy(session_), PERGOLA_OK);
    EXPECT_EQ(pergola::capi::HandleTable::instance().live(), 0u) << "a handle was forgotten";
  }
  // out[i] is 32 times what `expected` says.
  template <typename F>
  void expect(const F& expected) {
    std::vector<std::uint32_t> got(kTasks);
    ASSERT_EQ(pergola_array_read(out_, 0, got.data(), got.size() * 4), PERGOLA_OK) << pergola_last_error();
    for (std::uint32_t i = 0; i < kTasks; ++i) ASSERT_EQ(got[i], 32 * expected(i)) << i;
  }

  pergola_session session_ = nullptr;
  pergola_kernel kernel_ = nullptr;
  pergola_array out_ = nullptr;
  pergola_task_pool pool_ = nullptr;
  pergola_task_kind kind_ = nullptr;
};

TEST_F(CapiTasksOnCpu, AThousandTasks_RunOnceEach) {
  std::vector<std::uint64_t> ids(kTasks);
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    const pergola_argument arguments[] = {pergola_arg_array(out_), pergola_arg_u32(i), pergola_arg_u32(i + 1)};
    ASSERT_EQ(pergola_task_spawn(kind_, arguments, 3, &ids[i]), PERGOLA_OK) << pergola_last_error();
  }
  expect([](std::uint32_t i) { return i + 1; });  // the read waits
  pergola_array_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_info);
  ASSERT_EQ(pergola_array_get_info(out_, &info), PERGOLA_OK);
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    const Parameters parameters{info.address, i, 2 * i};
    ASSERT_EQ(pergola_task_spawn_packed(kind_, &parameters, sizeof parameters, &ids[i]), PERGOLA_OK)
        << pergola_last_error();
  }
  EXPECT_EQ(pergola_task_wait(pool_, ids[0], -1), PERGOLA_OK);
  EXPECT_EQ(pergola_task_wait_all(pool_, -1), PERGOLA_OK);
  std::int32_t done = 0;
  for (const std::uint64_t id : ids) {
    EXPECT_NE(id, 0u);
    ASSERT_EQ(pergola_task_check(pool_, id, &done), PERGOLA_OK);
    ASSERT_EQ(done, 1);
  }
  expect([](std::uint32_t i) { return 3 * i + 1; });
  pergola_task_pool_info pool{};
  pool.struct_size = PERGOLA_STRUCT_SIZE(pergola_task_pool_info);
  EXPECT_EQ(pergola_task_pool_park(pool_), PERGOLA_OK);
  ASSERT_EQ(pergola_task_pool_get_info(pool_, &pool), PERGOLA_OK);
  EXPECT_EQ(pool.spawned, 2 * kTasks);
  EXPECT_EQ(pool.is_running, 0);
  EXPECT_EQ(pool.launches, 0u) << "threads run them";
  EXPECT_EQ(pergola_task_pool_destroy(pool_), PERGOLA_OK);
}

TEST_F(CapiTasksOnCpu, WhatIsWrong_IsRefused) {
  std::uint64_t id = 0;
  const Parameters parameters{};
  EXPECT_EQ(pergola_task_spawn_packed(kind_, &parameters, sizeof parameters - 1, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("16 bytes"));
  EXPECT_EQ(pergola_task_spawn_packed(kind_, &parameters, sizeof parameters + 1, &id), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_task_spawn_many(kind_, &parameters, sizeof parameters - 1, 0, 1, &id, nullptr),
            PERGOLA_INVALID_ARGUMENT);
  EXPECT_THAT(pergola_last_error(), HasSubstr("16 bytes"));
  const pergola_argument arguments[] = {pergola_arg_array(out_), pergola_arg_u32(0), pergola_arg_f64(1)};
  EXPECT_EQ(pergola_task_spawn(kind_, arguments, 2, &id), PERGOLA_INVALID_ARGUMENT) << "too few";
  EXPECT_EQ(pergola_task_spawn(kind_, arguments, 3, &id), PERGOLA_INVALID_ARGUMENT) << "of another size";
  EXPECT_EQ(id, 0u);
  std::int32_t done = 0;
  for (const std::uint64_t foreign : {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    EXPECT_EQ(pergola_task_wait(pool_, foreign, 0), PERGOLA_INVALID_ARGUMENT) << foreign;
    EXPECT_EQ(pergola_task_check(pool_, foreign, &done), PERGOLA_INVALID_ARGUMENT) << foreign;
  }
  pergola_task_kind refused = nullptr;
  pergola_launch_config config{};
  config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
  config.block[0] = 32;
  EXPECT_EQ(pergola_task_pool_prepare(pool_, kernel_, &config, &refused), PERGOLA_INVALID_ARGUMENT) << "no block";
  config.grid[0] = 1, config.block[0] = 2000;
  EXPECT_NE(pergola_task_pool_prepare(pool_, kernel_, &config, &refused), PERGOLA_OK) << "too many threads";
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(pergola_task_pool_destroy(pool_), PERGOLA_OK);
}

// Kinds keep the pool at work; every handle of a session's pool stands for the same.
TEST_F(CapiTasksOnCpu, PoolDestroyed_KindsGoOn) {
  pergola_task_pool other = nullptr;
  ASSERT_EQ(pergola_session_task_pool(session_, nullptr, &other), PERGOLA_OK);
  EXPECT_EQ(pergola_task_pool_destroy(pool_), PERGOLA_OK);
  EXPECT_EQ(pergola_task_wait_all(pool_, -1), PERGOLA_INVALID_ARGUMENT);
  const pergola_argument arguments[] = {pergola_arg_array(out_), pergola_arg_u32(7), pergola_arg_u32(5)};
  std::uint64_t id = 0;
  ASSERT_EQ(pergola_task_spawn(kind_, arguments, 3, &id), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(pergola_task_wait(other, id, -1), PERGOLA_OK);
  EXPECT_EQ(pergola_task_pool_destroy(other), PERGOLA_OK);
  ASSERT_EQ(pergola_task_spawn(kind_, arguments, 3, &id), PERGOLA_OK) << pergola_last_error();
  expect([](std::uint32_t i) { return i == 7 ? 10u : 0u; });
}

}  // namespace
