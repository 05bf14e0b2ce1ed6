// corpus_compile nvrtc|clang ARCH INPUT.cu OUTPUT.ptx: one source through src/source, for build_corpus.py.
// Exit code: 0, 1 where the source does not compile, 2 for wrong arguments, 3 where the compiler is not there.
#include <cstdio>
#include <string_view>

#include "src/base/file.h"
#include "src/source/source.h"

namespace {

int fail(const pergola::Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.code() == pergola::Code::kUnavailable ? 3 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pergola::source;
  const std::string_view compiler = argc == 5 ? argv[1] : "";
  if (compiler != "nvrtc" && compiler != "clang") {
    std::fprintf(stderr, "corpus_compile nvrtc|clang ARCH INPUT.cu OUTPUT.ptx\n");
    return 2;
  }
  pergola::Result<SourceRequest> request = load_file(argv[3]);
  if (!request) return fail(request.status());
  request->arch = argv[2];
  request->compiler = compiler == "nvrtc" ? Compiler::kNvrtc : Compiler::kClang;
  const pergola::Result<CompiledSource> compiled = compile(*request);
  if (!compiled) return fail(compiled.status());
  const pergola::Status written = pergola::write_file_atomically(argv[4], compiled->ptx);
  return written ? 0 : fail(written);
}
