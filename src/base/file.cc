#include "src/base/file.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "src/base/environment.h"

namespace pergola {
namespace fs = std::filesystem;

Result<std::string> read_file(const fs::path& path, std::size_t max_bytes) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found) return PERGOLA_ERROR(kNotFound, "There is no file '{}'.", path.string());
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
      return PERGOLA_ERROR(kResourceExhausted, "'{}' is no regular file and gives more than {} bytes, perhaps without end: "
                                               "write what is meant to a file, and name that.", path.string(), max_bytes);
    if (bytes.size() > max_bytes)
      return PERGOLA_ERROR(kResourceExhausted, "'{}' is larger than {} bytes.", path.string(), max_bytes);
  }
  if (in.bad()) return PERGOLA_ERROR(kIo, "'{}' cannot be read: {}.", path.string(), std::strerror(errno));
  return bytes;
}

Status write_file_atomically(const fs::path& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};  // relaxed: only distinct names are wanted
  std::error_code ec;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ec);
  fs::path temporary = path;
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1, std::memory_order_relaxed));
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      const int why = errno;
      fs::remove(temporary, ec);
      return PERGOLA_ERROR(kIo, "'{}' cannot be written: {}.", path.string(), std::strerror(why));
    }
  }
  fs::rename(temporary, path, ec);
  if (ec) {
    const std::string why = ec.message();
    fs::remove(temporary, ec);
    return PERGOLA_ERROR(kIo, "'{}' cannot be written: {}.", path.string(), why);
  }
  return {};
}

fs::path cache_directory() {
  if (const auto own = setting("PERGOLA_CACHE_DIR")) return *own;
  if (const auto xdg = setting("XDG_CACHE_HOME")) return fs::path(*xdg) / "pergola";
  if (const auto home = setting("HOME")) return fs::path(*home) / ".cache/pergola";
  return fs::temp_directory_path() / fmt::format("pergola-{}", ::getuid());
}

}  // namespace pergola
