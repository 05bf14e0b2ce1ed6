// History of kernels: classes of sizes, estimates, files that are merged, and files that are refused.
#include "src/scheduler/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "src/base/file.h"

namespace pergola::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpu = "a GPU";

class HistoryFile : public ::testing::Test {
 protected:
  HistoryFile() { std::filesystem::create_directories(folder_); }
  ~HistoryFile() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-history-{}", ::getpid());
  const std::filesystem::path file_ = folder_ / "history.json";
};

TEST(History, SizeClasses_AreBits) {
  EXPECT_EQ(SizeClass::of(0, 0), (SizeClass{0, 0}));
  EXPECT_EQ(SizeClass::of(1, 2), (SizeClass{1, 2}));
  EXPECT_EQ(SizeClass::of(1023, 1024), (SizeClass{10, 11}));
}

TEST(History, CountMeanAndLeast) {
  History history;
  for (const double ns : {30.0, 10.0, 20.0}) history.add(kGpu, "k", {10, 10}, ns);
  const auto estimate = history.estimate(kGpu, "k", {10, 10});
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->times.count, 3u);
  EXPECT_DOUBLE_EQ(estimate->times.mean_ns, 20);
  EXPECT_DOUBLE_EQ(estimate->times.min_ns, 10);
  EXPECT_EQ(estimate->classes_away, 0u);
}

TEST(History, UnknownSize_GetsTheNearest_UnknownKernelNothing) {
  History history;
  history.add(kGpu, "k", {10, 10}, 100);
  history.add(kGpu, "k", {20, 20}, 900);
  EXPECT_EQ(history.estimate(kGpu, "k", {12, 11})->times.min_ns, 100);
  EXPECT_EQ(history.estimate(kGpu, "k", {12, 11})->classes_away, 3u);
  EXPECT_EQ(history.estimate(kGpu, "k", {30, 30})->times.min_ns, 900);
  EXPECT_FALSE(history.estimate(kGpu, "other", {10, 10}));
  EXPECT_FALSE(history.estimate("another device", "k", {10, 10}));
}

TEST_F(HistoryFile, Files_AreMerged) {
  History first, second;
  first.add(kGpu, "k", {10, 10}, 10);
  second.add(kGpu, "k", {10, 10}, 40);
  second.add(kGpu, "k", {10, 10}, 40);
  second.add("cpu", "other", {1, 0}, 5);
  ASSERT_TRUE(first.add_to(file_).ok());
  ASSERT_TRUE(second.add_to(file_).ok());
  const auto all = History::load(file_);
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_EQ(all->estimate(kGpu, "k", {10, 10})->times.count, 3u);
  EXPECT_DOUBLE_EQ(all->estimate(kGpu, "k", {10, 10})->times.mean_ns, 30);
  EXPECT_DOUBLE_EQ(all->estimate(kGpu, "k", {10, 10})->times.min_ns, 10);
  EXPECT_TRUE(all->estimate("cpu", "other", {1, 0}));
  EXPECT_THAT(all->table(), HasSubstr("a GPU"));
}

// Sessions that end at once.
TEST_F(HistoryFile, AddedToByManyThreads_HasAll) {
  constexpr int kThreads = 4, kTimes = 25;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([this] {
      History one;
      one.add(kGpu, "k", {10, 10}, 10);
      for (int n = 0; n < kTimes; ++n) EXPECT_TRUE(one.add_to(file_).ok());
    });
  for (std::thread& thread : threads) thread.join();
  const auto all = History::load(file_);
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_EQ(all->estimate(kGpu, "k", {10, 10})->times.count, static_cast<std::uint64_t>(kThreads * kTimes));
}

TEST_F(HistoryFile, NoFile_IsAnEmptyHistory) {
  const auto none = History::load(file_);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  ASSERT_TRUE(write_file_atomically(file_, "").ok());
  const auto made_for_it = History::load(file_);
  ASSERT_TRUE(made_for_it.ok()) << made_for_it.message();
  EXPECT_TRUE(made_for_it->empty());
}

TEST_F(HistoryFile, WhatIsNoHistory_IsRefused_AndLeftAlone) {
  const std::string row = R"({"pergola_history":1,"devices":{"d":{"k":[{"threads_class":1,"bytes_class":1,"count":1,)";
  const std::pair<std::string, const char*> cases[] = {
      {"\n", "no JSON: it ends too early"},
      {"{\"pergola_history\": 1, \"devices\": {", "no JSON: it ends too early"},
      {"{\"pergola_history\": 1,\n  devices: {}}", "no JSON: line 2, column 3 cannot be read"},
      {"[]", "no history"},
      {"{}", "no history"},
      {R"({"pergola_history": 2, "devices": {}})", "version 2"},
      {R"({"pergola_history": 1})", "no object 'devices'"},
      {R"({"pergola_history": 1, "devices": {"d": 3}})", "'d'"},
      {R"({"pergola_history": 1, "devices": {"d": {"k": {}}}})", "kernel 'k'"},
      {R"({"pergola_history": 1, "devices": {"d": {"k": [1]}}})", "no object"},
      {R"({"pergola_history": 1, "devices": {"d": {"k": [{"threads_class": 65}]}}})", "threads_class"},
      {row + R"("mean_ns": -1, "min_ns": 0}]}}})", "mean_ns"},
      {row + R"("mean_ns": 1, "min_ns": 2}]}}})", "min_ns"},
      {row + R"("mean_ns": 1}]}}})", "min_ns"},
  };
  for (const auto& [text, message] : cases) {
    ASSERT_TRUE(write_file_atomically(file_, text).ok());
    const auto loaded = History::load(file_);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_THAT(loaded.message(), HasSubstr(message)) << text;
    EXPECT_THAT(loaded.message(), HasSubstr(file_.string())) << text;
    History fresh;
    fresh.add(kGpu, "k", {1, 1}, 1);
    EXPECT_FALSE(fresh.add_to(file_).ok());
    EXPECT_EQ(*read_file(file_), text);
  }
}

}  // namespace
}  // namespace pergola::scheduler
