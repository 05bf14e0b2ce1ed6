// Files in which sessions keep what they found of the ways of graphs: merged, bounded, and refused where they are none.
#include "src/scheduler/tuning.h"

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

constexpr const char* kGpu = "a GPU, driver 1";

class TuningFile : public ::testing::Test {
 protected:
  TuningFile() { std::filesystem::create_directories(folder_); }
  ~TuningFile() override { std::filesystem::remove_all(folder_); }
  static Tuning of(std::string_view key, TunedGraph graph) {
    Tuning tuning;
    tuning.add(kGpu, key, std::move(graph));
    return tuning;
  }
  TunedGraph loaded(std::string_view key) {
    const auto all = Tuning::load(file_);
    EXPECT_TRUE(all.ok()) << all.message();
    const TunedGraph* const graph = all.ok() ? all->find(kGpu, key) : nullptr;
    EXPECT_NE(graph, nullptr);
    return graph == nullptr ? TunedGraph() : *graph;
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("pergola-tuning-{}", ::getpid());
  const std::filesystem::path file_ = folder_ / "tuning.json";
};

TEST_F(TuningFile, LaterSessions_AddWhatTheyFound) {
  ASSERT_TRUE(of("a", {"2 launches: k", "merged", false, 0, {{"plain", 40}, {"merged", 30}}}).add_to(file_).ok());
  ASSERT_TRUE(of("b", {"3 launches: k", "plain", true, 0, {{"plain", 40}}}).add_to(file_).ok());
  ASSERT_TRUE(of("a", {"2 launches: k", "early", true, 0, {{"plain", 41}, {"early", 20}}}).add_to(file_).ok());
  EXPECT_EQ(loaded("a"),
            (TunedGraph{"2 launches: k", "early", true, 3, {{"plain", 41}, {"merged", 30}, {"early", 20}}}));
  EXPECT_EQ(loaded("b").last_session, 2u);
  const auto all = Tuning::load(file_);
  EXPECT_EQ(all->find(kGpu, "c"), nullptr);
  EXPECT_EQ(all->find("another", "a"), nullptr);
  EXPECT_THAT(all->table(), HasSubstr("a GPU, driver 1\n  2 launches: k (all ways tried)\n"));
  EXPECT_THAT(all->table(), HasSubstr("0.0 us   kept"));
  EXPECT_EQ(Tuning().table(), "Nothing is known of any graph yet.\n");
}

// One that ended before it had tried all again does not undo what one that did has kept.
TEST_F(TuningFile, WhatAFinishedSessionKept_StaysUntilAnotherHasFinished) {
  ASSERT_TRUE(of("a", {"g", "merged", true, 0, {{"plain", 40}, {"merged", 30}}}).add_to(file_).ok());
  ASSERT_TRUE(of("a", {"g", "plain", false, 0, {{"plain", 40}}}).add_to(file_).ok());
  EXPECT_EQ(loaded("a").kept, "merged");
  EXPECT_TRUE(loaded("a").is_finished);
  ASSERT_TRUE(of("a", {"g", "plain", true, 0, {{"plain", 20}}}).add_to(file_).ok());
  EXPECT_EQ(loaded("a").kept, "plain");
}

// Nor is one made first for ever that has become slower than another.
TEST_F(TuningFile, WhatDoesNotHoldAnyMore_IsNotKept_AndAllAreTriedAgain) {
  ASSERT_TRUE(of("a", {"g", "merged", true, 0, {{"plain", 40}, {"merged", 30}}}).add_to(file_).ok());
  ASSERT_TRUE(of("a", {"g", "plain", false, 0, {{"plain", 40}, {"merged", 45}}}).add_to(file_).ok());
  EXPECT_EQ(loaded("a").kept, "plain");
  EXPECT_FALSE(loaded("a").is_finished);
}

TEST_F(TuningFile, OfTooManyGraphs_ThoseThatWereMetLastStay) {
  Tuning first, second;
  for (std::size_t i = 0; i < Tuning::kMostGraphs; ++i)
    first.add(kGpu, fmt::format("first {}", i), {"g", "", true, 0, {}});
  for (std::size_t i = 0; i < 10; ++i) second.add(kGpu, fmt::format("second {}", i), {"g", "", true, 0, {}});
  second.add(kGpu, "first 17", {"g", "", true, 0, {}});
  ASSERT_TRUE(first.add_to(file_).ok());
  ASSERT_TRUE(second.add_to(file_).ok());
  const auto all = Tuning::load(file_);
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_EQ(all->devices().at(kGpu).size(), Tuning::kMostGraphs);
  Tuning third;  // with another driver
  for (std::size_t i = 0; i < 100; ++i) third.add("a GPU, driver 2", fmt::format("{}", i), {"g", "", true, 0, {}});
  ASSERT_TRUE(third.add_to(file_).ok());
  EXPECT_EQ(Tuning::load(file_)->devices().at(kGpu).size(), Tuning::kMostGraphs - 100);
  EXPECT_NE(all->find(kGpu, "first 17"), nullptr);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NE(all->find(kGpu, fmt::format("second {}", i)), nullptr);
}

// Sessions that begin and end at once.
TEST_F(TuningFile, OpenedAndAddedToByManyThreads_HasAll) {
  constexpr int kThreads = 4, kTimes = 10;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([this, i] {
      for (int n = 0; n < kTimes; ++n) {
        EXPECT_TRUE(Tuning::open(file_).ok());
        EXPECT_TRUE(of(fmt::format("{} {}", i, n), {"g", "plain", true, 0, {{"plain", 1}}}).add_to(file_).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto all = Tuning::load(file_);
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_EQ(all->devices().at(kGpu).size(), static_cast<std::size_t>(kThreads * kTimes));
}

TEST_F(TuningFile, OpeningWhatIsNotThere_MakesIt_AndWhereItCannotBeMadeSaysSo) {
  ASSERT_TRUE(Tuning::open(file_).ok());
  EXPECT_TRUE(std::filesystem::exists(file_));
  const auto nowhere = Tuning::open(folder_ / "missing" / "tuning.json");
  EXPECT_EQ(nowhere.code(), Code::kIo) << nowhere.message();
  ASSERT_TRUE(write_file_atomically(file_, "").ok());
  EXPECT_TRUE(Tuning::load(file_).ok()) << "as mktemp makes it";
}

TEST_F(TuningFile, WhatIsNone_IsRefused_AndLeftAlone) {
  const std::string graph = R"({"pergola_tuning": 1, "sessions": 1, "devices": {"d": {"key 7": )";
  const std::pair<std::string, const char*> cases[] = {
      {"{\"pergola_tuning\": 1, \"devices\": {", "no JSON: it ends too early"},
      {"[]", "no tuning of Pergola"},
      {R"({"pergola_history": 1, "devices": {}})", "no tuning of Pergola"},
      {R"({"pergola_tuning": 2, "sessions": 0, "devices": {}})", "version 2"},
      {R"({"pergola_tuning": 1, "devices": {}})", "no 'sessions'"},
      {R"({"pergola_tuning": 1, "sessions": -1, "devices": {}})", "'sessions'"},
      {R"({"pergola_tuning": 1, "sessions": 0})", "no 'devices'"},
      {R"({"pergola_tuning": 1, "sessions": 0, "devices": []})", "no object"},
      {R"({"pergola_tuning": 1, "sessions": 0, "devices": {"d": 3}})", "'d'"},
      {graph + "3}}}", "graph 'key 7' is no object"},
      {graph + "{}}}}", "no 'graph'"},
      {graph + R"({"graph": "g", "kept": "", "is_finished": 1}}}})", "'is_finished'"},
      {graph + R"({"graph": "g", "kept": "", "is_finished": true, "last_session": 1, "ways_ns": 1}}}})", "ways_ns"},
      {graph + R"({"graph": "g", "kept": "", "is_finished": true, "last_session": 1, "ways_ns": {"p": 0}}}}})",
       "way 'p' has no time"},
      {graph + R"({"graph": "g", "kept": "x", "is_finished": true, "last_session": 1, "ways_ns": {"p": 1}}}}})",
       "'x' in 'kept'"},
  };
  for (const auto& [text, message] : cases) {
    ASSERT_TRUE(write_file_atomically(file_, text).ok());
    const auto read = Tuning::open(file_);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.message(), HasSubstr(message)) << text;
    EXPECT_THAT(read.message(), HasSubstr(file_.string())) << text;
    EXPECT_FALSE(of("a", {"g", "plain", true, 0, {{"plain", 1}}}).add_to(file_).ok());
    EXPECT_EQ(*read_file(file_), text);
  }
}

}  // namespace
}  // namespace pergola::scheduler
