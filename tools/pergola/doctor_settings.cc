// Of `pergola doctor`: the variables of the environment that are there for Pergola, and those among them that nothing
// reads: a word that is written wrong, or one of another version, does nothing and says nothing anywhere else.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/pergola/doctor.h"
#include "tools/pergola/words.h"

namespace pergola::tool {
namespace {

constexpr std::string_view kPrefix = "PERGOLA_";

// docs/environment.md; that these, those and what the code asks for are the same is a test's (tests/tree_test.py).
const std::vector<std::string>& read_settings() {
  static const std::vector<std::string> names = {"PERGOLA_CACHE_DIR",
                                                 "PERGOLA_CLANG",
                                                 "PERGOLA_CPU_BLOCKS_PER_SM",
                                                 "PERGOLA_CPU_BUFFER_ALIGN",
                                                 "PERGOLA_CPU_CHECK",
                                                 "PERGOLA_CPU_ENGINE",
                                                 "PERGOLA_CPU_HEAP_BYTES",
                                                 "PERGOLA_CPU_JIT",
                                                 "PERGOLA_CPU_MEMORY_BYTES",
                                                 "PERGOLA_CPU_OCCUPANCY",
                                                 "PERGOLA_CPU_SMS",
                                                 "PERGOLA_CPU_STACK_BYTES",
                                                 "PERGOLA_CPU_TIME_LIMIT",
                                                 "PERGOLA_CPU_WATCHDOG",
                                                 "PERGOLA_CUDA_MEMORY",
                                                 "PERGOLA_CUDA_OPTIMIZATION",
                                                 "PERGOLA_CUDA_ROUNDING",
                                                 "PERGOLA_DEVICE",
                                                 "PERGOLA_END_GRACE_MS",
                                                 "PERGOLA_DOT_FILE",
                                                 "PERGOLA_HISTORY",
                                                 "PERGOLA_LOG",
                                                 "PERGOLA_NVRTC",
                                                 "PERGOLA_NVTX",
                                                 "PERGOLA_PTXAS",
                                                 "PERGOLA_PYTHON",
                                                 "PERGOLA_SCHEDULER",
                                                 "PERGOLA_SPARE_MEMORY_BYTES",
                                                 "PERGOLA_TASK_EDGES",
                                                 "PERGOLA_TASK_EXECUTOR",
                                                 "PERGOLA_TASK_FENCES",
                                                 "PERGOLA_TASK_SLICES",
                                                 "PERGOLA_TASK_STAY_MS",
                                                 "PERGOLA_TRACE",
                                                 "PERGOLA_TUNING",
                                                 "PERGOLA_USE_HISTORY"};
  return names;
}

}  // namespace

std::vector<Finding> find_settings(const char* const* environment) {
  std::vector<Finding> findings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view line = *environment;
    const std::size_t equals = line.find('=');
    if (!line.starts_with(kPrefix) || equals == std::string_view::npos || equals + 1 == line.size()) continue;
    Finding& finding = findings.emplace_back();
    finding.group = "environment";
    finding.name = line.substr(0, equals);
    finding.detail = line.substr(equals + 1);
    finding.state = Finding::State::kRead;
    const std::vector<std::string>& names = read_settings();
    if (std::ranges::find(names, finding.name) != names.end()) continue;
    finding.state = Finding::State::kUnread;
    const std::string_view word = std::string_view(finding.name).substr(kPrefix.size());
    std::vector<std::string> words;  // the beginning, which all have, would make all of them near
    for (const std::string& name : names) words.push_back(name.substr(kPrefix.size()));
    const std::optional<std::string> nearest = nearest_name(word, words);
    finding.mend = nearest ? fmt::format("Did you mean {}{}?", kPrefix, *nearest)
                           : "Nothing reads it; docs/environment.md has those that are read.";
  }
  std::ranges::sort(findings, {}, &Finding::name);
  return findings;
}

}  // namespace pergola::tool
