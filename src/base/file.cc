#include "src/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "src/base/environment.h"

namespace pergola {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxLinks = 40;  // as Linux follows

// An open file, closed with this.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { (void)close(); }
  int get() const { return number_; }
  // Network file systems and quotas refuse only here what was written before. 0, or errno.
  int close() { return number_ >= 0 && ::close(std::exchange(number_, -1)) != 0 ? errno : 0; }

 private:
  int number_;
};

// While it lives, writing to a pipe without a reader fails with EPIPE and does not end the process: it is not ours.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  NoBrokenPipeSignal(const NoBrokenPipeSignal&) = delete;
  NoBrokenPipeSignal& operator=(const NoBrokenPipeSignal&) = delete;
  ~NoBrokenPipeSignal() {
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }

 private:
  sigset_t pipe_, old_;
  bool was_pending_ = false;
};

Error cannot_write(const fs::path& path, int why) {
  return PERGOLA_ERROR(kIo, "'{}' cannot be written: {}.", path.string(), std::strerror(why));
}

// 0, or errno of the first write that failed.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // a pipe that its other owners want non-blocking
      pollfd ready{file, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// N where `path` is /proc/self/fd/N, where /dev/stdout and /dev/fd lead: opened anew, a file would be written from its
// beginning over what the descriptor has written, and a socket not at all.
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code ec;
  if (!fs::equivalent(path.parent_path(), "/proc/self/fd", ec)) return std::nullopt;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// Where the symbolic links of `path` lead in the end, to something or to nothing yet; own descriptors are an end.
Result<fs::path> without_links(const fs::path& path) {
  fs::path place = path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    std::error_code ec;
    if (own_descriptor(place)) return place;
    const fs::path target = fs::read_symlink(place, ec);
    if (ec) return place;
    place = place.parent_path() / target;
  }
  return cannot_write(path, ELOOP);
}

Status write_in_place(const fs::path& path, int open_file, std::string_view bytes) {
  const NoBrokenPipeSignal no_signal;
  if (const int why = write_all(open_file, bytes); why != 0) return cannot_write(path, why);
  return {};
}

enum class Replaced { kAlways, kIfEmpty };  // else what is there stays, and it is tried whether it could be

// Whether a file could take the place of another, for which the two change places, and back: some of what may be
// against it (a mount, a folder where others' files may not be moved) only that tells. The errno of why not, or 0, also
// where a file system cannot do it.
int try_to_replace(const fs::path& temporary, const fs::path& place) {
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
  };
  const int why = exchange();
  if (why != 0) return why == EINVAL || why == ENOSYS || why == ENOENT ? 0 : why;
  if (exchange() == 0 || ::rename(temporary.c_str(), place.c_str()) == 0) return 0;
  return errno;
}

// `path` is what messages name, `place` where its links lead.
Status replace(const fs::path& path, const fs::path& place, std::string_view bytes, Replaced replaced) {
  static std::atomic<unsigned> counter{0};  // relaxed: only distinct names are wanted
  struct stat old{};
  const bool is_there = ::stat(place.c_str(), &old) == 0;
  const mode_t mode = is_there ? old.st_mode & 0777 : 0666;
  fs::path temporary = place;
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1, std::memory_order_relaxed));
  // Never more open than the old one, not even for a moment.
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file.get() < 0) return cannot_write(path, errno);
  int why = write_all(file.get(), bytes);
  if (is_there) {
    // An administrator leaves a user's file the user's. Others may not give files away, and it becomes their own; its
    // group stays where they are of it, and has no rights else, which it had not before.
    mode_t allowed = mode;
    if (::fchown(file.get(), old.st_uid, old.st_gid) != 0 && ::fchown(file.get(), uid_t(-1), old.st_gid) != 0)
      allowed &= ~mode_t{070};
    if (::fchmod(file.get(), allowed) != 0 && why == 0) why = errno;
  }
  if (const int closed = file.close(); why == 0) why = closed;
  if (why == 0 && replaced == Replaced::kIfEmpty && is_there && old.st_size != 0) {
    why = try_to_replace(temporary, place);
  } else if (why == 0) {
    if (::rename(temporary.c_str(), place.c_str()) == 0) return {};
    why = errno;
  }
  ::unlink(temporary.c_str());
  return why == 0 ? Status() : cannot_write(path, why);
}

enum class MissingFolders { kMade, kRefused };

Status write_file(const fs::path& path, std::string_view bytes, MissingFolders folders,
                  Replaced replaced = Replaced::kAlways) {
  PERGOLA_ASSIGN(const fs::path place, without_links(path));
  if (const auto number = own_descriptor(place)) return write_in_place(path, *number, bytes);
  std::error_code ec;
  if (const fs::file_status status = fs::status(path, ec); fs::exists(status) && !fs::is_regular_file(status)) {
    // Without waiting for somebody who reads a pipe, who may never come: a program's end would hang.
    Descriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0 && errno == ENXIO && fs::is_fifo(status))
      return PERGOLA_ERROR(kIo, "'{}' cannot be written: nobody reads the pipe. Start its reader first.",
                           path.string());
    if (file.get() < 0) return cannot_write(path, errno);
    PERGOLA_TRY(write_in_place(path, file.get(), bytes));
    if (const int why = file.close(); why != 0) return cannot_write(path, why);
    return {};
  }
  if (const fs::path folder = place.parent_path();
      !folder.empty() && fs::status(folder, ec).type() == fs::file_type::not_found) {
    if (folders == MissingFolders::kRefused)
      return PERGOLA_ERROR(kIo, "'{}' cannot be written: there is no folder '{}'. Make it, or name another.",
                           path.string(), folder.string());
    fs::create_directories(folder, ec);  // what fails here fails below, with its reason
  }
  return replace(path, place, bytes, replaced);
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::size_t max_bytes) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found)
    return PERGOLA_ERROR(kNotFound, "There is no file '{}'.", path.string());
  if (status.type() == fs::file_type::directory)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is a folder, not a file.", path.string());
  const bool endless = status.type() != fs::file_type::regular && max_bytes > kMaxStreamBytes;
  if (endless) max_bytes = kMaxStreamBytes;
  std::ifstream in(path, std::ios::binary);
  if (!in) return PERGOLA_ERROR(kIo, "'{}' cannot be opened: {}.", path.string(), std::strerror(errno));
  std::string bytes;
  char chunk[1 << 16];
  while (in.read(chunk, sizeof chunk) || in.gcount() > 0) {
    bytes.append(chunk, static_cast<std::size_t>(in.gcount()));
    if (bytes.size() > max_bytes && endless)
      return PERGOLA_ERROR(kResourceExhausted,
                           "'{}' is no regular file and gives more than {} bytes, perhaps without end: "
                           "write what is meant to a file, and name that.",
                           path.string(), max_bytes);
    if (bytes.size() > max_bytes)
      return PERGOLA_ERROR(kResourceExhausted, "'{}' is larger than {} bytes.", path.string(), max_bytes);
  }
  if (in.bad()) return PERGOLA_ERROR(kIo, "'{}' cannot be read: {}.", path.string(), std::strerror(errno));
  return bytes;
}

Status write_file_atomically(const fs::path& path, std::string_view bytes) {
  return write_file(path, bytes, MissingFolders::kMade);
}

Status write_named_file(const fs::path& path, std::string_view bytes) {
  return write_file(path, bytes, MissingFolders::kRefused);
}

Status claim_named_file(const fs::path& path, std::string_view bytes) {
  return write_file(path, bytes, MissingFolders::kRefused, Replaced::kIfEmpty);
}

bool is_written_in_place(const fs::path& path) {
  const Result<fs::path> place = without_links(path);
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  return place.ok() &&
         (own_descriptor(*place) || (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)));
}

fs::path place_of(const fs::path& path) {
  const Result<fs::path> found = without_links(path);
  const fs::path place = from_root(found.ok() ? *found : path);
  std::error_code ec;
  const fs::path folder = fs::weakly_canonical(place.parent_path(), ec);
  return ec ? place : folder / place.filename();
}

fs::path from_root(const fs::path& path) {
  std::error_code ec;
  fs::path whole = fs::absolute(path, ec);
  return ec ? path : whole;  // in a folder that has gone
}

fs::path cache_directory() {
  if (const auto own = setting("PERGOLA_CACHE_DIR")) return *own;
  if (const auto xdg = setting("XDG_CACHE_HOME")) return fs::path(*xdg) / "pergola";
  if (const auto home = setting("HOME")) return fs::path(*home) / ".cache/pergola";
  return fs::temp_directory_path() / fmt::format("pergola-{}", ::getuid());
}

}  // namespace pergola
