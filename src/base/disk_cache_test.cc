#include "src/base/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "src/base/file.h"

namespace pergola {
namespace {
namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "pergola_cache_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ec;
    fs::permissions(folder_, fs::perms::owner_all, ec);
    fs::remove_all(folder_, ec);
  }
  void overwrite(const CacheKey& key, std::string_view bytes) {
    std::ofstream out(DiskCache(folder_).entry_path(key), std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  fs::path folder_;
};

TEST(CacheKeyTest, Inputs_AreSeparatedByLength) {
  EXPECT_NE(cache_key("ptx", {"ab", "c"}), cache_key("ptx", {"a", "bc"}));
  EXPECT_NE(cache_key("ptx", {"ab"}), cache_key("ptx", {"ab", ""}));
  EXPECT_NE(cache_key("ptx", {"ab"}), cache_key("cubin", {"ab"}));
  EXPECT_EQ(cache_key("ptx", {"ab", "c"}), cache_key("ptx", {"ab", "c"}));
  EXPECT_EQ(cache_key("ptx", {"ab"}).hex().size(), 32u);
}

TEST_F(Cache, Put_IsFoundAgainByAnother) {
  const CacheKey key = cache_key("test", {"one"});
  const std::string payload = std::string("bytes\0with zero", 15);
  EXPECT_EQ(DiskCache(folder_).get(key), std::nullopt);
  DiskCache(folder_).put(key, payload);
  EXPECT_EQ(DiskCache(folder_).get(key), payload);
  DiskCache(folder_).put(key, "");
  EXPECT_EQ(DiskCache(folder_).get(key), "");
}

TEST_F(Cache, Entry_TruncatedAnywhere_IsAbsentAndRewritten) {
  DiskCache cache(folder_);
  const CacheKey key = cache_key("test", {"truncated"});
  cache.put(key, "a payload of some bytes");
  const std::string whole = read_file(cache.entry_path(key)).value();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(key, std::string_view(whole).substr(0, size));
    EXPECT_EQ(cache.get(key), std::nullopt) << size;
  }
  cache.put(key, "again");
  EXPECT_EQ(cache.get(key), "again");
}

TEST_F(Cache, Entry_WithAnyByteChangedOrAdded_IsAbsent) {
  DiskCache cache(folder_);
  const CacheKey key = cache_key("test", {"damaged"});
  cache.put(key, "a payload of some bytes");
  const std::string whole = read_file(cache.entry_path(key)).value();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    overwrite(key, damaged);
    EXPECT_EQ(cache.get(key), std::nullopt) << at;
  }
  overwrite(key, whole + "x");
  EXPECT_EQ(cache.get(key), std::nullopt);
  overwrite(key, "#!/bin/sh\necho not an entry of this cache, but long enough to be taken for one\n");
  EXPECT_EQ(cache.get(key), std::nullopt);
}

TEST_F(Cache, Entry_OfAnotherKey_IsAbsent) {
  DiskCache cache(folder_);
  const CacheKey mine = cache_key("test", {"mine"}), other = cache_key("test", {"other"});
  cache.put(other, "other's");
  cache.put(mine, "mine");
  fs::copy_file(cache.entry_path(other), cache.entry_path(mine), fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.get(mine), std::nullopt);
  EXPECT_EQ(cache.get(other), "other's");
}

TEST_F(Cache, Folder_ThatCannotBeMade_TurnsTheCacheOff) {
  std::ofstream(folder_ / "file") << "not a folder";
  DiskCache cache(folder_ / "file" / "cache");
  const CacheKey key = cache_key("test", {"nowhere"});
  cache.put(key, "lost");
  cache.put(key, "lost");
  EXPECT_EQ(cache.get(key), std::nullopt);
}

TEST_F(Cache, Entry_ThatIsAFolder_IsAbsent) {
  DiskCache cache(folder_);
  const CacheKey key = cache_key("test", {"folder"});
  fs::create_directories(cache.entry_path(key) / "inner");
  EXPECT_EQ(cache.get(key), std::nullopt);
  cache.put(key, "lost");
  EXPECT_EQ(cache.get(key), std::nullopt);
}

TEST_F(Cache, Sweep_KeepsTheBoundAndTheNewest) {
  DiskCache cache(folder_, {.max_bytes = 16 << 10, .sweep_interval = std::chrono::seconds(0)});
  const std::string payload(1 << 10, 'p');
  std::vector<CacheKey> keys;
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 64; ++i) {
    const std::string name = std::to_string(i);
    keys.push_back(cache_key("test", {name}));
    cache.put(keys.back(), payload);
    std::error_code ec;  // entry i was used i seconds later than entry 0, and all are older than what comes next
    fs::last_write_time(cache.entry_path(keys.back()), now - std::chrono::seconds(1000 - i), ec);
  }
  std::uint64_t total = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    if (entry.is_regular_file()) total += entry.file_size();
  EXPECT_LE(total, 16u << 10);
  EXPECT_EQ(cache.get(keys.back()), payload);
  EXPECT_EQ(cache.get(keys.front()), std::nullopt);
}

TEST_F(Cache, Put_LargerThanTheBound_IsNotKept) {
  DiskCache cache(folder_, {.max_bytes = 100});
  const CacheKey key = cache_key("test", {"large"});
  cache.put(key, std::string(200, 'x'));
  EXPECT_EQ(cache.get(key), std::nullopt);
}

// Each of some writers puts, for a few shared keys, the payload that the key alone fixes; whatever get() returns must
// be that payload, whole.
std::string payload_of(int index) {
  return std::string(1000 + 37 * static_cast<std::size_t>(index), static_cast<char>('a' + index));
}

bool hammer(const fs::path& folder, int rounds, unsigned seed) {
  DiskCache cache(folder, {.max_bytes = 6000, .sweep_interval = std::chrono::seconds(0)});
  for (int round = 0; round < rounds; ++round) {
    seed = seed * 1664525u + 1013904223u;
    const int index = static_cast<int>((seed >> 16) % 8);
    const std::string name = std::to_string(index);
    const CacheKey key = cache_key("hammer", {name});
    if (const auto found = cache.get(key); found && *found != payload_of(index)) return false;
    cache.put(key, payload_of(index));
  }
  return true;
}

TEST_F(Cache, TwoProcesses_NeverSeeAPartialEntry) {
  std::vector<pid_t> children;
  for (unsigned child = 0; child < 2; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) ::_exit(hammer(folder_, 400, child) ? 0 : 1);
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST_F(Cache, Threads_NeverSeeAPartialEntry) {
  bool good[4] = {};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&, i] { good[i] = hammer(folder_, 200, 100 + i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, testing::Each(true));
}

TEST_F(Cache, ManyThreadsOfOneCache_Agree) {
  DiskCache cache(folder_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const std::string name = std::to_string(round);
        cache.put(cache_key("shared", {name}), name);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int round = 0; round < 50; ++round) {
    const std::string name = std::to_string(round);
    EXPECT_EQ(cache.get(cache_key("shared", {name})), name);
  }
}

}  // namespace
}  // namespace pergola
