#include "src/source/toolkit.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "src/base/environment.h"
#include "src/source/compiler.h"

namespace pergola::source {
namespace fs = std::filesystem;
namespace {

const char* const kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};

std::vector<std::string> split_path(const char* list) {
  std::vector<std::string> parts;
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) parts.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parts;
}

// The subfolders of `folder` whose name begins with `prefix`, the last name (the newest version) first.
std::vector<fs::path> subfolders(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
    if (at->path().filename().string().rfind(prefix, 0) == 0) found.push_back(at->path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::vector<fs::path> toolkit_roots() {
  std::vector<fs::path> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto value = setting(name)) roots.emplace_back(*value);
  for (const fs::path& path : subfolders("/usr/local", "cuda")) roots.push_back(path);
  return roots;
}

// site-packages of the virtual environment, of the python3 on PATH and of the user, as far as folders alone tell.
std::vector<fs::path> python_packages() {
  std::vector<fs::path> prefixes, packages;
  if (const auto environment = setting("VIRTUAL_ENV")) prefixes.emplace_back(*environment);
  if (const std::string python = find_program("PERGOLA_PYTHON", {"python3"}); !python.empty()) {
    std::error_code ec;
    prefixes.push_back(fs::path(python).parent_path().parent_path());
    prefixes.push_back(fs::canonical(python, ec).parent_path().parent_path());
  }
  if (const auto home = setting("HOME")) prefixes.push_back(fs::path(*home) / ".local");
  prefixes.emplace_back("/usr/local");
  for (const fs::path& prefix : prefixes)
    for (const fs::path& version : subfolders(prefix / "lib", "python3"))
      for (const char* kind : {"site-packages", "dist-packages"}) packages.push_back(version / kind);
  return packages;
}

void add_libraries(const fs::path& folder, std::vector<std::string>& names) {
  std::error_code ec;
  for (const char* soname : kSonames)
    if (fs::exists(folder / soname, ec)) names.push_back((folder / soname).string());
}

bool has_headers(const fs::path& folder) {
  std::error_code ec;
  return fs::is_regular_file(folder / "cuda_fp16.h", ec);
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> names(std::begin(kSonames), std::end(kSonames));
  for (const fs::path& root : toolkit_roots())
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
      add_libraries(root / folder, names);
  for (const fs::path& packages : python_packages())
    for (const char* folder : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) add_libraries(packages / folder, names);
  return names;
}

std::vector<std::string> nvrtc_in(const std::string& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) return {path};
  std::vector<std::string> names;
  add_libraries(path, names);
  if (names.empty()) names.push_back((fs::path(path) / kSonames[0]).string());  // so that the error names the folder
  return names;
}

std::vector<std::string> toolkit_include_dirs(const std::string& library_path) {
  std::error_code ec;
  std::vector<fs::path> candidates;
  for (const fs::path& path : {fs::path(library_path), fs::canonical(library_path, ec)}) {
    const fs::path root = path.parent_path().parent_path();
    candidates.push_back(root / "include");                              // toolkit, and nvidia/cu13
    candidates.push_back(root.parent_path() / "cuda_runtime/include");   // pip's packages for CUDA 11 and 12
    candidates.push_back(root.parent_path().parent_path() / "include");  // targets/<machine>/lib
  }
  for (const fs::path& root : toolkit_roots()) candidates.push_back(root / "include");
  for (const fs::path& candidate : candidates) {
    if (!has_headers(candidate)) continue;
    std::vector<std::string> dirs = {candidate.string()};
    if (fs::is_directory(candidate / "cccl", ec)) dirs.push_back((candidate / "cccl").string());  // CUDA 13 and later
    return dirs;
  }
  return {};
}

std::string find_program(const char* variable, const std::vector<std::string>& names) {
  const auto runs = [](const std::string& path) {
    return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path);
  };
  if (const auto given = setting(variable)) {
    if (*given == "none") return "";
    const std::string own(*given);
    if (own.find('/') != std::string::npos) return runs(own) ? own : "";
    for (const std::string& dir : split_path(std::getenv("PATH")))
      if (const std::string path = dir + "/" + own; runs(path)) return path;
    return "";
  }
  for (const std::string& name : names)
    for (const std::string& dir : split_path(std::getenv("PATH")))
      if (std::string path = dir + "/" + name; runs(path)) return path;
  return "";
}

}  // namespace pergola::source
