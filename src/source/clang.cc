#include "src/source/clang.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "src/base/environment.h"
#include "src/base/file.h"
#include "src/source/child_process.h"
#include "src/source/toolkit.h"

namespace pergola::source {
namespace fs = std::filesystem;
namespace {

constexpr auto kCompileLimit = std::chrono::seconds(120);
constexpr auto kVersionLimit = std::chrono::seconds(20);
// What clang 19 knows (and 20 and later know as well), as far as our header is tried with it.
constexpr std::uint32_t kArchs[] = {60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};

// A folder of its own under the system's for temporary files, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ec;
    path_ = (fs::temp_directory_path(ec) / "pergola-clang-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ec;
    if (!path_.empty()) fs::remove_all(path_, ec);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Only what a compiler needs: CPATH, CCC_OVERRIDE_OPTIONS and the like would change what the cache's key cannot see.
std::vector<std::string> child_environment() {
  std::vector<std::string> list = {"LC_ALL=C"};
  for (const char* name : {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"})
    if (const auto value = setting(name)) list.push_back(fmt::format("{}={}", name, *value));
  return list;
}

std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

Status write_headers(const std::string& folder) {
  for (const EmbeddedHeader& header : embedded_headers())
    PERGOLA_TRY(write_file_atomically(fs::path(folder) / header.name, header.text));
  return {};
}

std::vector<std::string> make_arguments(const std::string& clang, const SourceRequest& request, std::uint32_t arch,
                                        const std::string& suffix, const std::string& folder) {
  std::vector<std::string> arguments = {clang,
                                        "-x",
                                        "cuda",
                                        "--cuda-device-only",
                                        "-S",
                                        "-O3",
                                        fmt::format("--cuda-gpu-arch=sm_{}{}", arch, suffix),
                                        "--cuda-path=/nonexistent",
                                        "--cuda-feature=+ptx83",
                                        "-nocudainc",
                                        "-nocudalib",
                                        "-nostdinc",
                                        "-nostdinc++",
                                        "-fms-extensions",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fno-color-diagnostics",
                                        "-Wno-unknown-cuda-version",
                                        "-include",
                                        folder + "/pergola/device/pergola_cuda.h"};
  if (!has_standard_option(request)) arguments.emplace_back("-std=c++17");
  const std::string source_folder = folder_of(request.name);
  arguments.insert(arguments.end(), {"-iquote", source_folder.empty() ? "." : source_folder});
  for (const std::string& dir : request.include_dirs) arguments.push_back("-I" + dir);
  arguments.insert(arguments.end(), {"-isystem", folder, "-isystem", folder + "/std"});
  for (const std::string& define : request.defines) arguments.push_back("-D" + define);
  arguments.insert(arguments.end(), request.options.begin(), request.options.end());
  arguments.insert(arguments.end(), {"-o", folder + "/output.ptx", folder + "/input.cu"});
  return arguments;
}

}  // namespace

Result<Clang> Clang::find() {
  const std::string path = find_program("PERGOLA_CLANG", {"clang-19", "clang-20", "clang"});
  if (!path.empty()) return Clang(path);
  const auto own = setting("PERGOLA_CLANG");
  if (own == "none") return PERGOLA_ERROR(kUnavailable, "clang is turned off by PERGOLA_CLANG=none.");
  return PERGOLA_ERROR(kUnavailable, "No clang is found {}.",
                       own ? fmt::format("at PERGOLA_CLANG={}", *own) : std::string("on PATH"));
}

std::string Clang::identity() const {
  std::error_code ec;
  const fs::path file = fs::canonical(path_, ec);
  const auto bytes = fs::file_size(file, ec);
  return fmt::format("{}:{}:{}", file.string(), bytes, fs::last_write_time(file, ec).time_since_epoch().count());
}

Result<std::string> Clang::version() const {
  PERGOLA_ASSIGN(const ChildResult child, run_child({path_, "--version"}, child_environment(), kVersionLimit));
  if (child.exit_code != 0)
    return PERGOLA_ERROR(kUnavailable, "'{} --version' ends with {}: {}", path_, child.exit_code, child.output);
  std::string line = child.output.substr(0, child.output.find('\n'));
  if (const std::size_t at = line.find("clang version"); at != std::string::npos) line.erase(0, at);
  return fmt::format("{} ({})", line, path_);
}

Result<CompileOutput> Clang::compile(const SourceRequest& request) const {
  CompileOutput output;
  PERGOLA_ASSIGN(const Arch arch, parse_arch(request.arch));
  PERGOLA_ASSIGN(const std::uint32_t chosen, choose_arch(arch, kArchs, "clang", output.log));
  const TemporaryFolder folder;
  if (folder.path().empty())
    return PERGOLA_ERROR(kIo, "No temporary folder can be made. Set TMPDIR to a folder that can be written.");
  PERGOLA_TRY(write_headers(folder.path()));
  const std::string text = fmt::format("#line 1 \"{}\"\n{}", escaped(request.name), request.text);
  PERGOLA_TRY(write_file_atomically(fs::path(folder.path()) / "input.cu", text));
  PERGOLA_ASSIGN(const ChildResult child, run_child(make_arguments(path_, request, chosen, arch.suffix, folder.path()),
                                                    child_environment(), std::chrono::milliseconds(kCompileLimit)));
  output.log += child.output;
  if (child.exit_code != 0)
    return PERGOLA_ERROR(kCompileError, "'{}' does not compile ({}):\n{}", request.name, path_, output.log);
  Result<std::string> ptx = read_file(fs::path(folder.path()) / "output.ptx");
  if (!ptx.ok())
    return PERGOLA_ERROR(kUnavailable,
                         "'{}' has made no PTX of '{}', and says that it has: is it clang, with NVPTX in it? "
                         "PERGOLA_CLANG names another.",
                         path_, request.name);
  output.ptx = *std::move(ptx);
  return output;
}

}  // namespace pergola::source
