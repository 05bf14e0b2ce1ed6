// The whole command line in this process: what goes to standard output, what to standard error, and the exit code.
#include "tools/pergola/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/base/file.h"

namespace pergola::tool {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kPtx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry store(.param .u64 p, .param .f32 v) {\n"
    "  .reg .b64 %p; .reg .f32 %v;\n"
    "  ld.param.u64 %p, [p]; ld.param.f32 %v, [v];\n"
    "  st.global.f32 [%p], %v; ret;\n}\n"
    ".visible .entry nothing() { ret; }\n";

struct Answer {
  int code = 0;
  std::string output, errors;
};

std::string rewound(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/pergola_command_line_test.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "k.ptx") << kPtx;
    ::setenv("PERGOLA_DEVICE", "cpu", 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const char* name) const { return (folder_ / name).string(); }

  Answer answer(const std::vector<std::string>& words) {
    std::FILE *output = std::tmpfile(), *errors = std::tmpfile();
    Answer answer;
    {
      Console console(output, errors);
      answer.code = run_command_line(words, console);
    }
    answer.output = rewound(output);
    answer.errors = rewound(errors);
    return answer;
  }
  // Where nothing can be written to standard output.
  Answer unheard(const std::vector<std::string>& words) {
    std::ofstream(folder_ / "output").close();
    std::FILE *output = std::fopen(file("output").c_str(), "r"), *errors = std::tmpfile();
    Answer answer;
    {
      Console console(output, errors);
      answer.code = run_command_line(words, console);
    }
    std::fclose(output);
    answer.errors = rewound(errors);
    return answer;
  }
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", file("k.ptx")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  fs::path folder_;
};

TEST_F(CommandLine, UnknownCommand_IsNamedWithTheNearest) {
  const Answer typo = answer({"doktor"});
  EXPECT_EQ(typo.code, kExitUsage);
  EXPECT_THAT(typo.errors, HasSubstr("There is no command 'doktor'; did you mean 'doctor'?"));
  EXPECT_THAT(answer({"ana", "k.cu"}).errors, HasSubstr("did you mean 'analyze'?"));
  const Answer nonsense = answer({"nonsense"});
  EXPECT_EQ(nonsense.code, kExitUsage);
  EXPECT_THAT(nonsense.errors, AllOf(HasSubstr("There is no command 'nonsense'. The commands are run, compile,"),
                                     Not(HasSubstr("did you mean"))));
  EXPECT_THAT(answer({"--nonsense", "run"}).errors, HasSubstr("'--nonsense' comes before a command"));
  EXPECT_THAT(answer({}).errors, HasSubstr("A subcommand is required"));
  EXPECT_EQ(answer({}).code, kExitUsage);
}

TEST_F(CommandLine, VersionAndHelp_AreOptionsAndCommands) {
  const Answer version = answer({"version"});
  EXPECT_THAT(version.output, StartsWith("pergola "));
  EXPECT_EQ(answer({"--version"}).output, version.output);
  EXPECT_EQ(answer({"--version"}).code, kExitOk);
  EXPECT_THAT(answer({"--version", "--json"}).output, HasSubstr("\"api\""));
  const Answer help = answer({"--help"});
  EXPECT_EQ(help.code, kExitOk);
  EXPECT_THAT(help.output, AllOf(HasSubstr("doctor"), HasSubstr("PERGOLA_DEVICE")));
  EXPECT_EQ(answer({"help"}).output, help.output);
  EXPECT_EQ(answer({"help", "help"}).output, help.output);
  EXPECT_THAT(answer({"history", "--help"}).output, HasSubstr("Example:"));
  EXPECT_EQ(answer({"help", "history"}).output, answer({"history", "--help"}).output);
  EXPECT_THAT(answer({"tuning", "--help"}).output, HasSubstr("PERGOLA_TUNING=tuning.json ./program"));
  EXPECT_EQ(answer({"help", "run"}).code, kExitOk);
  EXPECT_THAT(answer({"help", "rum"}).errors, HasSubstr("There is no command 'rum'; did you mean 'run'?"));
  EXPECT_THAT(answer({"help", "run", "fast"}).errors, HasSubstr("'fast' is a word too many"));
}

TEST_F(CommandLine, Counts_AreWholeNumbersThatFit) {
  for (const char* option : {"--for-each", "--shared", "--show", "--repeat"})
    for (const char* wrong : {"-4", "99999999999999999999999", "4.5", "x", ""}) {
      const Answer refused = answer(run({"-k", "nothing", std::string(option) + "=" + wrong}));
      EXPECT_EQ(refused.code, kExitUsage) << option << " " << wrong;
      if (*wrong != '\0') {
        EXPECT_THAT(refused.errors, HasSubstr(fmt::format("{}: '{}' should be a whole number", option, wrong)));
      }
    }
  EXPECT_THAT(answer(run({"-k", "nothing", "-n", "-4"})).errors, HasSubstr("--for-each: '-4' should be"));
  EXPECT_EQ(answer(run({"-k", "nothing", "-n", "4", "--shared", "4294967296"})).code, kExitUsage);
  for (const char* right : {"10", "010", "0xa"})
    EXPECT_THAT(answer(run({"-k", "nothing", "-n", right, "--repeat", right})).output, HasSubstr("median of 10"))
        << right;
}

TEST_F(CommandLine, WrongArgument_IsNamedAsItWasTyped) {
  const Answer wrong = answer(run({"-k", "store", "-n", "1", "-a", "zeros:f32:1", "-a", "f32:x"}));
  EXPECT_EQ(wrong.code, kExitInput);
  EXPECT_THAT(wrong.errors, HasSubstr("The argument 'f32:x' is no number."));
}

TEST_F(CommandLine, ErrorAsJson_IsSaidOnce) {
  const Answer missing = answer({"run", file("none.cu"), "-n", "1", "--json"});
  EXPECT_EQ(missing.code, kExitInput);
  EXPECT_EQ(nlohmann::json::parse(missing.output)["error"]["code"], "not found");
  EXPECT_THAT(missing.errors, IsEmpty());
  for (const std::vector<std::string>& words : {run({"--bogus", "--json", "-n", "1"}), {"bogus", "--json"}}) {
    const Answer wrong = answer(words);
    EXPECT_EQ(wrong.code, kExitUsage);
    const auto json = nlohmann::json::parse(wrong.output);
    EXPECT_EQ(json["exit_code"], kExitUsage);
    EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("bogus"));
    EXPECT_THAT(wrong.errors, IsEmpty());
  }
  const Answer text = answer(run({"--bogus", "-n", "1"}));
  EXPECT_THAT(text.output, IsEmpty());
  EXPECT_THAT(text.errors, AllOf(HasSubstr("--bogus"), EndsWith("Run with --help for more information.\n")));
}

TEST_F(CommandLine, StandardOutputThatCannotBeWritten_IsAnError) {
  std::ofstream(folder_ / "trace.json") << "{}";
  const std::vector<std::string> launch = {"run", file("k.ptx"), "-k", "nothing", "-n", "1"};
  for (std::vector<std::string> words : {launch,
                                         {"compile", file("k.ptx")},
                                         {"analyze", file("k.ptx")},
                                         {"version"},
                                         {"doctor"},
                                         {"--help"},
                                         {"help", "run"}})
    for (const bool json : {false, true}) {
      if (json) words.emplace_back("--json");
      const Answer lost = unheard(words);
      EXPECT_EQ(lost.code, kExitInput) << words[0];
      EXPECT_THAT(lost.errors, HasSubstr("Standard output cannot be written: Bad file descriptor")) << words[0];
    }
  const Answer error = unheard({"run", file("none.cu"), "-n", "1", "--json"});
  EXPECT_EQ(error.code, kExitInput);
  EXPECT_THAT(error.errors, HasSubstr("There is no file")) << "where JSON cannot be written, people may still read it";
}

TEST_F(CommandLine, AFileThatIsNotThere_IsToldBeforeAShapeIsAskedFor) {
  const Answer missing = answer({"run", file("none.cu")});
  EXPECT_EQ(missing.code, kExitInput);
  EXPECT_THAT(missing.errors, HasSubstr("There is no file"));
  EXPECT_THAT(answer({"run", file("k.ptx")}).errors, HasSubstr("--for-each, is required"));
}

TEST_F(CommandLine, FilesThatAreWritten_AreLeftWhatTheyAre) {
  std::ofstream(folder_ / "real").close();
  ASSERT_EQ(::chmod(file("real").c_str(), 0600), 0);
  fs::create_symlink("real", folder_ / "link");
  ASSERT_EQ(answer({"compile", file("k.ptx"), "-o", file("link")}).code, kExitOk);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(*read_file(folder_ / "real"), kPtx);
  EXPECT_EQ(fs::status(folder_ / "real").permissions(), fs::perms(0600));

  const auto store = [&](const std::string& output) {
    return answer(run({"-k", "store", "-n", "1", "-a", "zeros:f32:1>" + output, "-a", "f32:1"}));
  };
  EXPECT_EQ(store(file("link")).code, kExitOk);
  EXPECT_EQ(*read_file(folder_ / "real"), std::string("\0\0\x80\x3f", 4));
  const Answer nowhere = store(file("none/q.npy"));
  EXPECT_EQ(nowhere.code, kExitInput);
  EXPECT_THAT(nowhere.errors, HasSubstr(fmt::format("there is no folder '{}'", file("none"))));
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  EXPECT_EQ(answer({"compile", file("k.ptx"), "-o", file("none/k.ptx")}).code, kExitInput);
}

}  // namespace
}  // namespace pergola::tool
