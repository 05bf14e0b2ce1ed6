// Traces and histories of the C++ interface on the CPU device: what runs there is in the file, whoever ends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <pergola/pergola.hpp>

#include "tests/recording/recording_files.h"
#include "tests/support/environment.h"

namespace {

using ::testing::HasSubstr;
namespace recording = pergola_test::recording;

// Each thread adds up i for so many turns: long enough that times are not nothing.
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry turns(.param .u64 turns_param_0, .param .u32 turns_param_1) {
  .reg .pred %p;
  .reg .b32 %i, %n, %t, %s;
  .reg .b64 %a, %o;
  ld.param.u64 %a, [turns_param_0];
  ld.param.u32 %n, [turns_param_1];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4;
  add.s64 %a, %a, %o;
  ld.global.u32 %s, [%a];
  mov.u32 %i, 0;
again:
  add.u32 %s, %s, %i;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, %n;
  @%p bra again;
  st.global.u32 [%a], %s;
  ret;
}
)";

class Recording : public ::testing::Test {
 protected:
  Recording() { std::filesystem::create_directories(folder_); }
  ~Recording() override {
    ::unsetenv("PERGOLA_TRACE");
    ::unsetenv("PERGOLA_HISTORY");
    ::unsetenv("PERGOLA_USE_HISTORY");
    ::unsetenv("PERGOLA_TUNING");
    ::unsetenv("PERGOLA_DOT_FILE");
    std::filesystem::remove_all(folder_);
  }
  // Two chains of two kernels, whose results are read.
  static void run(const pergola::Session& session) {
    constexpr std::uint32_t kCount = 1000;
    const std::uint32_t sum = kCount / 2 * (kCount - 1);
    const pergola::Kernel turns = session.load_text(kPtx).kernel("turns");
    auto x = session.array<std::uint32_t>(64, 1u), y = session.array<std::uint32_t>(64, 2u);
    for (int i = 0; i < 2; ++i) {
      turns(pergola::grid(1, 64), x, kCount);
      turns(pergola::grid(1, 64), y, kCount);
    }
    EXPECT_EQ(x.read()[0], 1u + 2 * sum);
    EXPECT_EQ(y.read()[63], 2u + 2 * sum);
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("pergola-recordings-" + std::to_string(::getpid()));
  const std::string trace_ = folder_ / "trace.json", history_ = folder_ / "history.json";
};

TEST_F(Recording, TraceIsWrittenWhenItIsEnded) {
  const pergola::Session session("cpu");
  session.trace(trace_);
  run(session);
  session.end_trace();
  recording::expect_the_run(trace_);
  run(session);
  session.end_trace();  // none is on
  recording::expect_the_run(trace_);
}

TEST_F(Recording, TraceIsWrittenAtTheSessionsEnd) {
  {
    const pergola::Session session("cpu");
    session.trace(trace_);
    run(session);
  }
  recording::expect_the_run(trace_);
}

TEST_F(Recording, Environment_BeginsBoth_ASecondSessionHasATraceOfItsOwn) {
  ::setenv("PERGOLA_TRACE", trace_.c_str(), 1);
  ::setenv("PERGOLA_HISTORY", history_.c_str(), 1);
  for (int i = 0; i < 2; ++i) run(pergola::Session("cpu"));
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with("trace")) {
      recording::expect_the_run(entry.path());
      ++traces;
    }
  EXPECT_EQ(traces, 2);
  recording::expect_history(history_, 8);
}

TEST_F(Recording, Environment_HasThePictureOfEachSessionInAFile) {
  const std::string dot = folder_ / "dag.dot", mermaid = folder_ / "dag.mmd";
  const auto edges = [](const std::string& text, const std::string& arrow) {
    int count = 0;
    for (std::size_t at = text.find(arrow); at != std::string::npos; at = text.find(arrow, at + 1)) ++count;
    return count;
  };
  // Those of the folder with that ending, one after the other: a process's later sessions have a number in the name.
  const auto pictures_of = [&](const std::string& ending) {
    std::string texts;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().extension() == ending) texts += recording::text_of(entry.path());
    return texts;
  };
  ::setenv("PERGOLA_DOT_FILE", dot.c_str(), 1);
  {
    const pergola::Session session("cpu");
    EXPECT_THAT(pictures_of(".dot"), HasSubstr("digraph")) << "that it can be written is known at once";
    run(session);
  }
  const std::string text = pictures_of(".dot");
  EXPECT_EQ(edges(text, "label=\"turns"), 4);
  EXPECT_EQ(edges(text, "[label=\"argument"), 4) << "from each fill to a kernel and on, whether the first ones had ended or not:\n"
                                    << text;
  ::setenv("PERGOLA_DOT_FILE", mermaid.c_str(), 1);
  run(pergola::Session("cpu"));
  EXPECT_EQ(edges(pictures_of(".mmd"), " -->|argument"), 4);
  ::setenv("PERGOLA_DOT_FILE", (folder_ / "none" / "dag.dot").c_str(), 1);
  try {
    const pergola::Session session("cpu");
    FAIL() << "there is no such folder";
  } catch (const pergola::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("PERGOLA_DOT_FILE"));
  }
}

TEST_F(Recording, HistoryThatIsNone_IsRefusedAndLeftAlone) {
  std::ofstream(history_) << "not this";
  const pergola::Session session("cpu");
  try {
    session.history(history_);
    FAIL() << "it was taken";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kParseError);
    EXPECT_THAT(error.what(), HasSubstr(history_));
  }
  run(session);
  EXPECT_EQ(recording::text_of(history_), "not this");
  ::setenv("PERGOLA_HISTORY", history_.c_str(), 1);
  EXPECT_THROW(pergola::Session("cpu"), pergola::Error);
}

TEST_F(Recording, Tuning_IsOneFileOfAllSessions_AndWhatIsNoneIsRefused) {
  const std::string tuning = folder_ / "tuning.json";
  ::setenv("PERGOLA_TUNING", tuning.c_str(), 1);
  for (int i = 0; i < 2; ++i) run(pergola::Session("cpu"));
  EXPECT_THAT(recording::text_of(tuning), HasSubstr("\"sessions\": 2"));
  {
    const pergola::Session session("cpu");
    session.end_tuning();
    EXPECT_THAT(recording::text_of(tuning), HasSubstr("\"sessions\": 3"));
    session.tuning(tuning);
  }
  EXPECT_THAT(recording::text_of(tuning), HasSubstr("\"sessions\": 4"));
  std::ofstream(tuning) << "not this";
  try {
    const pergola::Session session("cpu");
    FAIL() << "it was taken";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kParseError);
    EXPECT_THAT(error.what(), HasSubstr("PERGOLA_TUNING: "));
    EXPECT_THAT(error.what(), HasSubstr(tuning));
  }
  EXPECT_EQ(recording::text_of(tuning), "not this");
  EXPECT_EQ(pergola_session_tuning(nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
}

// std::exit() leaves what is on the stack as it is, and nobody destroys what is leaked.
TEST_F(Recording, ASessionThatIsLeft_HasItsFilesAtTheProgramsEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string trace = ::testing::TempDir() + "pergola_left_trace.json",
                    history = ::testing::TempDir() + "pergola_left_history.json";
  const auto record = [&](const pergola::Session& session) {
    session.trace(trace);
    session.history(history);
    run(session);
  };
  const auto leave_on_the_stack = [&] {
    const pergola::Session session("cpu");
    record(session);
    std::exit(0);
  };
  const auto leave_at_work = [&] {
    static const auto* const leaked = new pergola::Session("cpu");
    record(*leaked);
    auto x = leaked->array<std::uint32_t>(64, 1u);
    static const auto* const turns = new pergola::Kernel(leaked->load_text(kPtx).kernel("turns"));
    (*turns)(pergola::grid(1, 64), x, ~0u);
    std::exit(0);
  };
  EXPECT_EXIT(leave_on_the_stack(), testing::ExitedWithCode(0), "");
  recording::expect_the_run(trace);
  recording::expect_history(history, 4);
  // While a block runs, AddressSanitizer has the bounds of a fiber's stack for its worker's: who looks for leaks then
  // does not see what the worker's own stack holds. The program that is begun here has its options from the environment.
  const char* const options = std::getenv("ASAN_OPTIONS");
  const pergola::test_support::ScopedEnvironment without_leaks(
      "ASAN_OPTIONS", (options == nullptr ? "" : options) + std::string(":detect_leaks=0"));
  EXPECT_EXIT(leave_at_work(), testing::ExitedWithCode(0), "left by the program's end: Work that is recorded goes on");
  recording::expect_history(history, 8);
  EXPECT_THAT(recording::text_of(trace), HasSubstr("\"without_time\":1"));
  std::filesystem::remove(trace);
  std::filesystem::remove(history);
}

TEST_F(Recording, AHistoryMayBeUsedAlone) {
  {
    const pergola::Session session("cpu");
    session.history(history_);
    run(session);
  }
  const std::string before = recording::text_of(history_);
  {
    const pergola::Session session("cpu");
    session.use_history(history_);
    run(session);
  }
  ::setenv("PERGOLA_USE_HISTORY", history_.c_str(), 1);
  run(pergola::Session("cpu"));
  EXPECT_EQ(recording::text_of(history_), before) << "nothing is recorded";
  ::setenv("PERGOLA_USE_HISTORY", trace_.c_str(), 1);
  try {
    const pergola::Session session("cpu");
    ADD_FAILURE() << "there is no such file";
  } catch (const pergola::Error& error) {
    EXPECT_EQ(error.code(), pergola::Code::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("PERGOLA_USE_HISTORY: There is no file '" + trace_ + "'"));
  }
  ::unsetenv("PERGOLA_USE_HISTORY");
  const pergola::Session session("cpu");
  std::ofstream(history_) << "not this";
  EXPECT_THROW(session.use_history(history_), pergola::Error);
  EXPECT_EQ(pergola_session_use_history(nullptr, history_.c_str()), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_use_history(session.handle(), nullptr), PERGOLA_INVALID_ARGUMENT);
}

TEST_F(Recording, TraceThatCannotBeWritten_IsRefusedAtOnce) {
  const pergola::Session session("cpu");
  EXPECT_THROW(session.trace(folder_), pergola::Error);
  EXPECT_EQ(pergola_session_trace(nullptr, trace_.c_str()), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_history(nullptr, nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_session_end_recordings(nullptr, 0), PERGOLA_INVALID_ARGUMENT);
}

}  // namespace
