// Where CUDA's compiler parts may lie on this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergola::source {

std::vector<std::string> nvrtc_candidates();                 // sonames, then files that exist, best first
std::vector<std::string> nvrtc_in(const std::string& path);  // `path` itself, or the libraries in that folder

// Folders with cuda_fp16.h (and CCCL beside it) that belong to the NVRTC at `library_path`, or any on the machine.
std::vector<std::string> toolkit_include_dirs(const std::string& library_path);

// A program by $variable (alone where set; "none" is nothing) or else the first of `names` on PATH; "" where absent.
std::string find_program(const char* variable, const std::vector<std::string>& names);

}  // namespace pergola::source
