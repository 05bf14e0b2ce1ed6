#include "src/ptx/source_place.h"

#include <fmt/format.h>

namespace pergola::ptx {
namespace {

// Empty where there is no such file.
std::string_view path_of(const Module& module, std::uint32_t file) {
  for (const auto& [index, path] : module.files)
    if (index == file) return path;
  return {};
}

std::string line_of(const Module& module, std::uint32_t file, std::uint32_t line) {
  const std::string_view path = path_of(module, file);
  return line == 0 || path.empty() ? std::string() : fmt::format("{}:{}", path, line);
}

bool is_built_in(std::string_view path) {
  if (path.ends_with("/__nv_nvrtc_builtin_header.h")) return true;
  constexpr std::string_view kFolder = "/pergola/device/";
  const std::size_t at = path.rfind(kFolder);
  return at != std::string_view::npos && path.find('/', at + kFolder.size()) == std::string_view::npos &&
         path.ends_with(".h");
}

}  // namespace

std::string source_place(const Module& module, const Instruction& in) {
  std::string place = line_of(module, in.debug_file, in.debug_line);
  if (!place.empty() && is_built_in(path_of(module, in.debug_file)))
    if (std::string caller = line_of(module, in.caller_file, in.caller_line); !caller.empty())
      place = std::move(caller);
  return place.empty() ? fmt::format("{}:{}", module.source_name, in.location.line) : place;
}

}  // namespace pergola::ptx
