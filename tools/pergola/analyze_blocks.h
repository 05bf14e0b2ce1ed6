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
  analysis::LaunchValues values;
  analysis::LaunchFootprint footprint;
};
// Arrays of the same name are the same in all launches that are given the same `arrays`.
Result<AnalysedLaunch> analysed_launch(const ptx::Module& module, const std::string& text, ArrayNames& arrays);
std::string_view use_of(const analysis::AccessFootprint& access);  // "reads" "writes" "reads and writes"

// Of how many blocks of a launch is told what they access and wait for: of the first ones.
struct BlocksTold {
  std::uint32_t in_text = 4, in_json = 4096;
};
// Which of a second launch's blocks wait for which of a first.
void add_relation(const analysis::BlockRelation& relation, const BlocksTold& told, nlohmann::ordered_json& json,
                  std::string& text);

struct BlocksQuestion {
  std::vector<std::string> launches;  // one or two (launch_text.h), the later after the earlier
  std::string svg;                    // a path for the picture, or ""
  std::string device;                 // whose limits count (launch_pair.h), as runtime::open_device() takes it
  BlocksTold told;
};
// `ptx` is the module's text.
Status analyze_blocks(const ptx::Module& module, std::string_view ptx, const BlocksQuestion& question,
                      const Console& console);

}  // namespace pergola::tool
