// IMG's kernels put together: see img.cc for the picture of it.
#pragma once

#include <string>
#include <vector>

#include "pergola/pergola.hpp"
#include "picture.h"

namespace img {

// A kernel's name and the events around its launch.
struct Timed {
  std::string name;
  pergola::Event start, end;
};

struct Outcome {
  Picture picture;
  std::vector<Timed> launches;  // in the order of submission
};

// Runs the pipeline over `in` with the kernels of the file `kernels` (img.cu, or PTX made of it). Waits for the result.
// Throws pergola::Error.
Outcome run_pipeline(pergola::Session& session, const std::string& kernels, const Picture& in);

}  // namespace img
