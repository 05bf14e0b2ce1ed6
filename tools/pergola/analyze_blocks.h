// `pergola analyze --launch`: what each block of a launch reads and writes, and which blocks of a second launch wait
// for which of a first.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/launch_footprint.h"
#include "src/ptx/module.h"
#include "tools/pergola/console.h"
#include "tools/pergola/launch_text.h"

namespace pergola::tool {

// A launch with what its blocks read and write.
struct AnalysedLaunch {
  LaunchText text;
  analysis::LaunchFootprint footprint;
};
// Arrays of the same name are the same in all launches that are given the same `arrays`.
Result<AnalysedLaunch> analysed_launch(const ptx::Module& module, const std::string& text, ArrayNames& arrays);
std::string_view use_of(const analysis::AccessFootprint& access);  // "reads" "writes" "reads and writes"
// Which of a second launch's blocks wait for which of a first.
void add_relation(const analysis::BlockRelation& relation, nlohmann::ordered_json& json, std::string& text);

// One or two launches (launch_text.h), the later after the earlier; `svg`: a path for the picture, or "".
Status analyze_blocks(const ptx::Module& module, const std::vector<std::string>& launches, const std::string& svg,
                      const Console& console);

}  // namespace pergola::tool
