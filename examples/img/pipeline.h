// IMG's kernels put together: see img.cc for the picture of it.
#pragma once

#include <string>
#include <vector>

#include "pergola/pergola.hpp"
#include "picture.h"

namespace img {

// A kernel's name and the end of its launch.
struct Launched {
  std::string name;
  pergola::Event end;
};

struct Outcome {
  Picture picture;
  pergola::Event begin;            // before all launches
  std::vector<Launched> launches;  // in the order of submission; they overlap
};

// Runs the pipeline over `in` with the kernels of the file `kernels` (img.cu, or PTX made of it). Waits for the result.
// Throws pergola::Error.
Outcome run_pipeline(pergola::Session& session, const std::string& kernels, const Picture& in);

}  // namespace img
