// CUDA C++ or PTX text -> PTX text: the way in for every kernel.
//
//   text ─┬─ begins as PTX (.version) ──────────────────────────────────▶ PTX, as it is
//         └─ CUDA C++ ─▶ compile cache on disk ─miss─▶ NVRTC, or clang ─▶ PTX
//
// NVRTC is opened at run time; clang-19 is run as a child process and needs no CUDA toolkit (clang.h says what that
// costs). Both see the same small set of standard headers (embedded in the library) and include/pergola/device, so
// that the same text compiles under either. All functions are thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace pergola::source {

enum class Compiler { kAuto, kNvrtc, kClang, kNone };  // kNone, in a result: the text was PTX already
std::string_view to_string(Compiler compiler);         // "auto" "nvrtc" "clang" "none"

struct SourceRequest {
  std::string name = "<string>";  // for messages and __FILE__; where a path, its folder serves #include "..."
  std::string text;
  std::vector<std::string> include_dirs;  // searched in order, before the headers we supply
  std::vector<std::string> defines;       // "N=4" or "FAST"
  std::vector<std::string> options;       // handed to the compiler as they are
  // "sm_90", "compute_75", "sm_90a". PTX for a lower architecture runs on a higher device, so one beyond what the
  // compiler knows is lowered to its highest, and the log says so.
  std::string arch = "sm_80";
  Compiler compiler = Compiler::kAuto;  // kAuto: NVRTC where found, else clang
  bool use_cache = true;
  // The PTX says which line each instruction comes from (.loc), as nvcc -lineinfo has it. By NVRTC alone: clang would
  // name lines of our headers, where __syncthreads() and its like are functions.
  bool line_info = false;
};

// A name that users call a kernel by and the name it has in the PTX: {"scale<float>", "_Z5scaleIfEvPT_i"}.
struct KernelAlias {
  std::string plain;
  std::string ptx_name;
  bool operator==(const KernelAlias&) const = default;
};

struct CompiledSource {
  std::string name;
  std::string ptx;
  std::string log;  // the compiler's, warnings included; ours are lines that begin with "pergola: "
  Compiler compiler = Compiler::kNone;
  std::string compiler_version;  // "NVRTC 13.0 (/usr/lib/libnvrtc.so.13)", "clang version 19.1.7 (/usr/bin/clang-19)"
  bool cache_hit = false;
  std::vector<KernelAlias> kernel_aliases;  // of mangled kernels, in textual order
};

// kCompileError carries the compiler's log (file:line); kUnavailable says what to install; kUnsupported names the
// architecture. PTX is not looked into beyond its first directive.
Result<CompiledSource> compile(const SourceRequest& request);

// A request for a file's text, .cu or .ptx told apart by content. At most 64 MiB. Its folder serves #include "...".
Result<SourceRequest> load_file(const std::filesystem::path& path);

// The first thing after white space and comments is the directive .version (ISA 5.1, 11.1.1).
bool is_ptx(std::string_view text);

// The kernels of `ptx` (text) whose names are mangled, with the parameter list and return type taken off.
std::vector<KernelAlias> kernel_aliases(std::string_view ptx);

// Functions that `ptx` declares and leaves to the CPU device: each `.extern .func` named __pergola_<math function>
// (include/pergola/device/math_functions.def). On a GPU they cannot be resolved: compile by NVRTC instead.
std::vector<std::string> unresolved_math(std::string_view ptx);

// What a user without any compiler should do; part of kUnavailable's message and of `pergola doctor`.
std::string_view install_advice();

}  // namespace pergola::source
