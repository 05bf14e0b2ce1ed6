#include "src/source/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pergola::source {
namespace {

constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;

class Pipe {
 public:
  Pipe() { ok_ = ::pipe2(ends_, O_CLOEXEC) == 0; }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool ok() const { return ok_; }
  int end(int which) const { return ends_[which]; }
  void close_end(int which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
  bool ok_ = false;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// 0, or the error number of the step that failed.
int spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, int output,
          pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return error;
  if (const int error = ::posix_spawnattr_init(&attributes); error != 0) {
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  const int error = ::posix_spawn(pid, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                  pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads until the child closes its output; false where `deadline` comes first.
bool drain(int fd, std::chrono::steady_clock::time_point deadline, std::string& output) {
  char chunk[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd poller{fd, POLLIN, 0};
    const int ready = ::poll(&poller, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (output.size() < kMaxOutputBytes)
      output.append(chunk, std::min(static_cast<std::size_t>(got), kMaxOutputBytes - output.size()));
  }
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                              std::chrono::milliseconds limit) {
  Pipe pipe;
  if (!pipe.ok()) return PERGOLA_ERROR(kResourceExhausted, "No pipe can be opened: {}.", std::strerror(errno));
  pid_t pid = 0;
  if (const int error = spawn(arguments, environment, pipe.end(1), &pid); error != 0)
    return PERGOLA_ERROR(kUnavailable, "'{}' cannot be run: {}.", arguments[0], std::strerror(error));
  pipe.close_end(1);
  ChildResult result;
  const bool ended = drain(pipe.end(0), std::chrono::steady_clock::now() + limit, result.output);
  if (!ended) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return PERGOLA_ERROR(kTimeout, "'{}' did not end within {} s and was killed.", arguments[0],
                         limit.count() / 1000.0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace pergola::source
