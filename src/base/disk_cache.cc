#include "src/base/disk_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "src/base/check.h"
#include "src/base/file.h"
#include "src/base/log.h"

namespace pergola {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[8] = {'P', 'E', 'R', 'G', 'C', 'A', 'C', 'H'};
constexpr std::uint32_t kFormat = 1;
constexpr const char* kSweptFile = "swept";
constexpr auto kTouchAfter = std::chrono::hours(1);      // a hit renews an entry's age at most this often
constexpr auto kTemporaryAfter = std::chrono::hours(1);  // a temporary file this old has lost its writer

struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t zero;
  unsigned char key[16];
  std::uint64_t payload_bytes;
  unsigned char checksum[16];
};
static_assert(sizeof(Header) == 56);

std::array<unsigned char, 16> to_bytes(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::array<unsigned char, 16> bytes;
  std::memcpy(bytes.data(), canonical.digest, bytes.size());
  return bytes;
}

Header make_header(const CacheKey& key, std::string_view payload) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kFormat;
  std::memcpy(header.key, key.bytes.data(), key.bytes.size());
  header.payload_bytes = payload.size();
  const auto checksum = to_bytes(XXH3_128bits(payload.data(), payload.size()));
  std::memcpy(header.checksum, checksum.data(), checksum.size());
  return header;
}

struct StateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

void update_with_length(XXH3_state_t* state, std::string_view text) {
  const std::uint64_t length = text.size();
  XXH3_128bits_update(state, &length, sizeof length);
  XXH3_128bits_update(state, text.data(), text.size());
}

}  // namespace

std::string CacheKey::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

CacheKey cache_key(std::string_view kind, std::span<const std::string_view> inputs) {
  const std::unique_ptr<XXH3_state_t, StateDeleter> state(XXH3_createState());
  PERGOLA_CHECK(state != nullptr);
  XXH3_128bits_reset(state.get());
  update_with_length(state.get(), kind);
  for (const std::string_view input : inputs) update_with_length(state.get(), input);
  return CacheKey{to_bytes(XXH3_128bits_digest(state.get()))};
}

CacheKey cache_key(std::string_view kind, std::initializer_list<std::string_view> inputs) {
  return cache_key(kind, std::span<const std::string_view>(inputs.begin(), inputs.size()));
}

DiskCache::DiskCache(fs::path folder, Options options) : folder_(std::move(folder)), options_(options) {}

fs::path DiskCache::entry_path(const CacheKey& key) const {
  const std::string hex = key.hex();
  return folder_ / hex.substr(0, 2) / hex.substr(2);
}

std::optional<std::string> DiskCache::get(const CacheKey& key) const {
  const fs::path path = entry_path(key);
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  Result<std::string> file = read_file(path, options_.max_bytes);
  if (!file || file->size() < sizeof(Header)) return std::nullopt;
  const std::string_view payload = std::string_view(*file).substr(sizeof(Header));
  const Header expected = make_header(key, payload);
  if (std::memcmp(file->data(), &expected, sizeof expected) != 0) {
    PERGOLA_INFO("'{}' in the cache is damaged or foreign; it is made again.", path.string());
    return std::nullopt;
  }
  const auto now = fs::file_time_type::clock::now();
  if (const auto age = fs::last_write_time(path, ec); !ec && now - age > kTouchAfter)
    fs::last_write_time(path, now, ec);
  return file->substr(sizeof(Header));
}

void DiskCache::put(const CacheKey& key, std::string_view payload) {
  const Header header = make_header(key, payload);
  if (sizeof header + payload.size() > options_.max_bytes) return;
  std::string bytes;
  bytes.reserve(sizeof header + payload.size());
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header).append(payload);
  if (const Status written = write_file_atomically(entry_path(key), bytes); !written) {
    if (!complained_.exchange(true, std::memory_order_relaxed))
      PERGOLA_WARN(
          "Nothing is cached, because the cache folder cannot be written ({}). Set PERGOLA_CACHE_DIR to one "
          "that can.",
          written.message());
    return;
  }
  sweep_if_due(bytes.size());
}

void DiskCache::sweep_if_due(std::uint64_t added_bytes) {
  const std::uint64_t added = bytes_since_sweep_.fetch_add(added_bytes, std::memory_order_relaxed) + added_bytes;
  const fs::path stamp = folder_ / kSweptFile;
  std::error_code ec;
  const auto swept = fs::last_write_time(stamp, ec);
  const bool old = ec || fs::file_time_type::clock::now() - swept >= options_.sweep_interval;
  if (!old && added < options_.max_bytes / 8) return;
  bytes_since_sweep_.store(0, std::memory_order_relaxed);
  if (!write_file_atomically(stamp, "")) return;  // stamped first, so that other processes do not sweep as well
  sweep();
}

void DiskCache::sweep() {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  std::error_code ec;
  // Other processes add and remove files meanwhile: every step may fail for one file and goes on with the next.
  for (fs::directory_iterator shard(folder_, ec), end; !ec && shard != end; shard.increment(ec)) {
    std::error_code inner;
    if (shard->path().filename().string().size() != 2 || !shard->is_directory(inner)) continue;
    for (fs::directory_iterator file(shard->path(), inner); !inner && file != fs::directory_iterator();
         file.increment(inner)) {
      std::error_code gone;
      Entry entry{file->path(), file->last_write_time(gone), 0};
      if (!gone) entry.bytes = file->file_size(gone);
      if (gone) continue;
      if (entry.path.extension() == ".tmp") {
        if (now - entry.used > kTemporaryAfter) fs::remove(entry.path, gone);
        continue;
      }
      total += entry.bytes;
      entries.push_back(std::move(entry));
    }
  }
  if (total <= options_.max_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= options_.max_bytes) break;
    fs::remove(entry.path, ec);
    total -= entry.bytes;
  }
}

}  // namespace pergola
