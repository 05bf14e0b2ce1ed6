// What is written where something is already, and what is not: links, pipes, modes, folders.
#include "src/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace pergola {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/pergola_file_test.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text(const fs::path& path) {
    const Result<std::string> bytes = read_file(path);
    return bytes.ok() ? *bytes : bytes.message();
  }
  unsigned mode(const fs::path& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  std::size_t files() { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

TEST_F(File, FromRoot_IsOfTheFolderOfThisMoment) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const fs::path whole = from_root("a/b.json");
  fs::current_path(before);
  EXPECT_EQ(whole, fs::canonical(folder_) / "a/b.json");
  EXPECT_EQ(from_root("/dev/stdout"), "/dev/stdout");
}

using Write = Status (*)(const fs::path&, std::string_view);
constexpr Write kBoth[] = {write_file_atomically, write_named_file};

TEST_F(File, OldContents_AreReplacedWhole) {
  const fs::path path = folder_ / "a";
  for (const Write write : kBoth) {
    ASSERT_TRUE(write(path, "a long text").ok());
    std::ifstream reader(path);
    ASSERT_TRUE(write(path, "short").ok());
    EXPECT_EQ(text(path), "short");
    std::string line;
    std::getline(reader, line);
    EXPECT_EQ(line, "a long text") << "who has it open reads on in the old one";
    EXPECT_EQ(files(), 1u) << "no temporary file is left";
  }
}

TEST_F(File, WhatIsClaimed_KeepsWhatItHas_AndTellsWhereItCannotBeWritten) {
  const fs::path path = folder_ / "a";
  ASSERT_TRUE(claim_named_file(path, "nothing yet").ok());
  EXPECT_EQ(text(path), "nothing yet");
  ASSERT_TRUE(claim_named_file(path, "another").ok());
  EXPECT_EQ(text(path), "nothing yet");
  std::ofstream(path).close();
  ASSERT_TRUE(claim_named_file(path, "another").ok());
  EXPECT_EQ(text(path), "another") << "it was empty";
  EXPECT_EQ(files(), 1u) << "no temporary file is left";
  EXPECT_EQ(claim_named_file(folder_ / "gone/a", "").message(), write_named_file(folder_ / "gone/a", "").message());
  EXPECT_FALSE(claim_named_file(folder_, "").ok());
}

TEST_F(File, Mode_IsKept) {
  const fs::path path = folder_ / "a";
  for (const unsigned kept : {0600u, 0640u, 0755u, 0666u}) {
    std::ofstream(path) << "old";
    ASSERT_EQ(::chmod(path.c_str(), kept), 0);
    ASSERT_TRUE(write_named_file(path, "new").ok());
    EXPECT_EQ(text(path), "new");
    EXPECT_EQ(mode(path), kept);
  }
  const mode_t mask = ::umask(027);
  ASSERT_TRUE(write_named_file(folder_ / "b", "new").ok());
  ::umask(mask);
  EXPECT_EQ(mode(folder_ / "b"), 0640u) << "a new file is as open as the umask says";
}

TEST_F(File, SymbolicLinks_StayAndTheirTargetsAreReplaced) {
  fs::create_directory(folder_ / "data");
  std::ofstream(folder_ / "data/real") << "old";
  fs::create_symlink("data/real", folder_ / "link");
  fs::create_symlink(folder_ / "link", folder_ / "data/link_to_link");
  ASSERT_TRUE(write_named_file(folder_ / "data/link_to_link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "data/link_to_link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_FALSE(fs::is_symlink(folder_ / "data/real"));
  EXPECT_EQ(text(folder_ / "data/real"), "new");

  fs::create_symlink("data/not_yet", folder_ / "early");
  ASSERT_TRUE(write_named_file(folder_ / "early", "made").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "early"));
  EXPECT_EQ(text(folder_ / "data/not_yet"), "made");
}

TEST_F(File, Place_IsOneForAllNamesOfAFile) {
  fs::create_directory(folder_ / "real");
  fs::create_symlink(folder_ / "real", folder_ / "folder");
  fs::create_symlink("real/file", folder_ / "link");
  const fs::path place = place_of(folder_ / "real" / "file");
  EXPECT_EQ(place_of(folder_ / "folder" / "file"), place);
  EXPECT_EQ(place_of(folder_ / "link"), place) << "which leads to nothing yet";
  EXPECT_EQ(place_of(folder_ / "folder" / ".." / "link"), place);
  EXPECT_NE(place_of(folder_ / "real" / "other"), place);
}

TEST_F(File, LinksInACircle_AreRefused) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  const Status status = write_named_file(folder_ / "a", "x");
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr((folder_ / "a").string()));
  EXPECT_TRUE(fs::is_symlink(folder_ / "a"));
}

TEST_F(File, Pipe_GivesItsReaderTheBytes) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ / "link");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // which a file in its place would leave with nothing
  ASSERT_GE(reader, 0);
  for (const fs::path& path : {pipe, folder_ / "link"}) {
    for (const Write write : kBoth) {
      const Status status = write(path, "through");
      EXPECT_TRUE(status.ok()) << status.message();
      char got[16];
      EXPECT_EQ(::read(reader, got, sizeof got), 7) << path;
    }
  }
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(File, OwnDescriptor_GoesOnWhereItIs) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_TRUE(write_named_file(fmt::format("/proc/self/fd/{}", ends[1]), "through").ok());
  char got[16];
  EXPECT_EQ(::read(ends[0], got, sizeof got), 7);
  ::close(ends[0]);
  ::close(ends[1]);

  // As /dev/stdout is, where standard output is a file that has something already.
  const fs::path path = folder_ / "output";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(file, "first ", 6), 6);
  fs::create_symlink(fmt::format("/proc/self/fd/{}", file), folder_ / "stdout");
  ASSERT_TRUE(write_named_file(folder_ / "stdout", "second ").ok());
  ASSERT_EQ(::write(file, "third", 5), 5);
  ::close(file);
  EXPECT_EQ(text(path), "first second third");
}

TEST_F(File, PipeWithoutAReader_IsAnErrorAndNotTheEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const auto before = ::signal(SIGPIPE, SIG_DFL);
  const Status status = write_named_file(fmt::format("/proc/self/fd/{}", ends[1]), "lost");
  ::signal(SIGPIPE, before);
  ::close(ends[1]);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("Broken pipe"));
}

TEST_F(File, WriteThatFails_IsAnErrorWithTheReason) {
  const int file = ::open((folder_ / "a").c_str(), O_RDONLY | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  const Status status = write_named_file(fmt::format("/proc/self/fd/{}", file), "x");
  ::close(file);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("Bad file descriptor"));
}

TEST_F(File, MissingFolder_IsMadeForOursAndRefusedForNamedOnes) {
  const fs::path path = folder_ / "none/yet/a";
  const Status refused = write_named_file(path, "x");
  EXPECT_EQ(refused.code(), Code::kIo);
  EXPECT_THAT(refused.message(), HasSubstr(fmt::format("no folder '{}'", path.parent_path().string())));
  EXPECT_FALSE(fs::exists(folder_ / "none"));

  fs::create_symlink("none/b", folder_ / "link");
  EXPECT_EQ(write_named_file(folder_ / "link", "x").code(), Code::kIo);

  ASSERT_TRUE(write_file_atomically(path, "x").ok());
  EXPECT_EQ(text(path), "x");
}

TEST_F(File, Folder_IsRefused) {
  for (const Write write : kBoth) {
    const Status status = write(folder_, "x");
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_THAT(status.message(), HasSubstr("Is a directory"));
  }
}

}  // namespace
}  // namespace pergola
