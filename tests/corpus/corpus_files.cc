#include "tests/corpus/corpus_files.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "src/base/file.h"
#include "tests/support/source_dir.h"

namespace pergola::corpus {
namespace fs = std::filesystem;
namespace {

void read_folder(const fs::path& folder, std::map<std::string, CorpusFile>& files) {
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ec)) {
    if (entry.path().extension() != ".ptx") continue;
    Result<std::string> text = read_file(entry.path());
    if (!text) continue;
    CorpusFile file{entry.path(), entry.path().parent_path().filename().string(), entry.path().stem().string(),
                    std::move(*text)};
    files.insert_or_assign(file.label(), std::move(file));
  }
}

}  // namespace

const std::vector<CorpusFile>& corpus_files() {
  static const std::vector<CorpusFile> files = [] {
    std::map<std::string, CorpusFile> found;
    read_folder(pergola::test_support::source_path("tests/corpus/ptx"), found);
    read_folder(PERGOLA_CORPUS_DIR, found);
    std::vector<CorpusFile> list;
    for (auto& [label, file] : found) list.push_back(std::move(file));
    return list;
  }();
  return files;
}

std::vector<const CorpusFile*> corpus_files(std::string_view variant) {
  std::vector<const CorpusFile*> chosen;
  for (const CorpusFile& file : corpus_files())
    if (file.variant == variant) chosen.push_back(&file);
  return chosen;
}

std::vector<const CorpusFile*> all_files() {
  std::vector<const CorpusFile*> list;
  for (const CorpusFile& file : corpus_files()) list.push_back(&file);
  return list;
}

void for_each_file(const std::vector<const CorpusFile*>& files, const std::function<void(const CorpusFile&)>& f) {
  std::atomic<std::size_t> next{0};  // relaxed: only hands out distinct indices; join() publishes the results
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < files.size();
         i = next.fetch_add(1, std::memory_order_relaxed))
      f(*files[i]);
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace pergola::corpus
