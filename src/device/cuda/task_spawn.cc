#include "src/device/cuda/task_spawn.h"

#include <fmt/format.h>

#include "src/abi/task_inbox.h"
#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {
namespace {

constexpr std::string_view kExtern = ".extern", kName = abi::kTaskSpawnFunction;

// Of ".extern .func (.param .b32 name) pergola_task_spawn (...)", without the semicolon.
bool declares_it(std::string_view declaration) {
  const std::size_t at = declaration.find(kName);
  if (at == std::string_view::npos || declaration.find(".func") > at) return false;
  const std::string_view rest = trimmed(declaration.substr(at + kName.size()));
  return rest.empty() || rest.front() == '(';
}

// The name of its result.
std::string_view result_of(std::string_view declaration) {
  const std::size_t open = declaration.find('('), close = declaration.find(')');
  if (open >= close || close == std::string_view::npos) return {};
  const std::string_view result = trimmed(declaration.substr(open + 1, close - open - 1));
  const std::size_t space = result.find_last_of(" \t\r\n");
  return space == std::string_view::npos ? std::string_view() : result.substr(space + 1);
}

}  // namespace

std::string with_task_spawn(std::string_view ptx) {
  for (std::size_t at = ptx.find(kExtern); at != std::string_view::npos; at = ptx.find(kExtern, at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string_view::npos) break;
    const std::string_view declaration = ptx.substr(at, end - at);
    if (!declares_it(declaration)) continue;
    const std::string_view result = result_of(declaration);
    if (result.empty()) break;
    return fmt::format("{}{} {{ .reg .b32 %pergola_none; mov.b32 %pergola_none, 0; st.param.b32 [{}], "
                       "%pergola_none; ret; }}{}",
                       ptx.substr(0, at), declaration.substr(kExtern.size()), result, ptx.substr(end + 1));
  }
  return std::string(ptx);
}

}  // namespace pergola::device::cuda
