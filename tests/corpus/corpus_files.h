// The PTX of the corpus: what is committed (tests/corpus/ptx) and what build_corpus.py has made in the build folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::corpus {

struct CorpusFile {
  std::filesystem::path path;
  std::string variant;  // the folder: "nvrtc-75", "clang-75", "hand"
  std::string source;   // the .cu it comes from, without .cu
  std::string text;
  std::string label() const { return variant + "/" + source + ".ptx"; }
};

// Built files stand in for committed ones of the same label. Sorted by label; read once.
const std::vector<CorpusFile>& corpus_files();
// Those of one variant.
std::vector<const CorpusFile*> corpus_files(std::string_view variant);

// Calls f(file) for each of `files` on two threads; f must be safe for that.
void for_each_file(const std::vector<const CorpusFile*>& files, const std::function<void(const CorpusFile&)>& f);
std::vector<const CorpusFile*> all_files();

}  // namespace pergola::corpus
