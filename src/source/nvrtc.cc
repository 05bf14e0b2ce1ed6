#include "src/source/nvrtc.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/environment.h"
#include "src/source/kept_handlers.h"
#include "src/source/toolkit.h"

namespace pergola::source {
namespace fs = std::filesystem;

// The part of NVRTC's C interface that is used; the same in every version since 11.2. All return 0 for success.
struct Nvrtc::Functions {
  using Program = void*;
  int (*version)(int* major, int* minor) = nullptr;
  int (*archs_count)(int* count) = nullptr;
  int (*archs)(int* values) = nullptr;
  int (*create)(Program* program, const char* text, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int count, const char* const* options) = nullptr;
  int (*ptx_size)(Program program, std::size_t* bytes) = nullptr;
  int (*ptx)(Program program, char* text) = nullptr;
  int (*log_size)(Program program, std::size_t* bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  const char* (*error_string)(int code) = nullptr;

  bool resolve(const DynamicLibrary& library) {
    const auto get = [&library](auto& function, const char* name) {
      function = library.function<std::remove_reference_t<decltype(function)>>(name);
      return function != nullptr;
    };
    return get(version, "nvrtcVersion") && get(archs_count, "nvrtcGetNumSupportedArchs") &&
           get(archs, "nvrtcGetSupportedArchs") && get(create, "nvrtcCreateProgram") &&
           get(destroy, "nvrtcDestroyProgram") && get(compile, "nvrtcCompileProgram") &&
           get(ptx_size, "nvrtcGetPTXSize") && get(ptx, "nvrtcGetPTX") && get(log_size, "nvrtcGetProgramLogSize") &&
           get(log, "nvrtcGetProgramLog") && get(error_string, "nvrtcGetErrorString");
  }
};

namespace {

constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION: the user's source is at fault

// "kernel.cu(3): error" -> "kernel.cu:3: error", as every other compiler and editor writes it.
std::string with_colons(const std::string& log) {
  std::string text;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    const std::size_t close = line.find("): ");
    const std::size_t open = close == std::string::npos ? close : line.rfind('(', close);
    if (open != std::string::npos && open > 0 && open + 1 < close &&
        std::all_of(line.begin() + static_cast<std::ptrdiff_t>(open) + 1,
                    line.begin() + static_cast<std::ptrdiff_t>(close), [](char c) { return c >= '0' && c <= '9'; }))
      line = line.substr(0, open) + ':' + line.substr(open + 1, close - open - 1) + line.substr(close + 1);
    text += line;
    if (end < log.size()) text += '\n';
    at = end + 1;
  }
  return text;
}

// NVRTC refuses an option that is given twice, and -G has all that -lineinfo has.
bool asks_for_lines(const std::vector<std::string>& options) {
  return std::any_of(options.begin(), options.end(), [](const std::string& option) {
    for (const std::string_view own : {"-lineinfo", "--generate-line-info", "-G", "--device-debug"})
      if (std::string_view(option).starts_with(own)) return true;
    return false;
  });
}

// Options in the order in which NVRTC searches: the source's folder, the user's, ours, the toolkit's.
std::vector<std::string> make_options(const SourceRequest& request, std::uint32_t arch, const std::string& suffix,
                                      const std::vector<std::string>& toolkit_dirs) {
  std::vector<std::string> options = {fmt::format("--gpu-architecture=compute_{}{}", arch, suffix)};
  if (!has_standard_option(request)) options.emplace_back("--std=c++17");
  const std::string folder = folder_of(request.name);
  options.push_back("-I" + (folder.empty() ? std::string(".") : folder));
  for (const std::string& dir : request.include_dirs) options.push_back("-I" + dir);
  for (const std::string& dir : toolkit_dirs) options.push_back("-I" + dir);
  if (!toolkit_dirs.empty()) options.emplace_back("--diag-suppress=47");  // it defines INT_MAX and the like once more
  for (const std::string& define : request.defines) options.push_back("-D" + define);
  if (request.line_info && !asks_for_lines(request.options)) options.emplace_back("-lineinfo");
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

// NVRTC puts the working directory before the name; the PTX, which is kept, should not depend on it.
void name_as_given(std::string& ptx, const std::string& name) {
  std::error_code ec;
  const std::string written = fmt::format("\"{}/{}\"", fs::current_path(ec).string(), name);
  if (const std::size_t at = ptx.find(written); at != std::string::npos)
    ptx.replace(at, written.size(), '"' + name + '"');
}

}  // namespace

Nvrtc::Nvrtc(DynamicLibrary library, const Functions& functions)
    : library_(std::move(library)), functions_(new Functions(functions)) {
  library_.leak();  // it keeps threads and atexit handlers of its own
  int major = 0, minor = 0, count = 0;
  functions_->version(&major, &minor);
  version_ = fmt::format("NVRTC {}.{} ({})", major, minor, library_.path());
  include_dirs_ = toolkit_include_dirs(library_.path());
  if (functions_->archs_count(&count) == 0 && count > 0) {
    std::vector<int> values(static_cast<std::size_t>(count));
    if (functions_->archs(values.data()) == 0) archs_.assign(values.begin(), values.end());
  }
  std::sort(archs_.begin(), archs_.end());
}

Result<const Nvrtc*> Nvrtc::load(const std::vector<std::string>& names) {
  PERGOLA_ASSIGN(DynamicLibrary library, DynamicLibrary::open(names));
  Functions functions;
  if (!functions.resolve(library))
    return PERGOLA_ERROR(kNotFound, "'{}' lacks functions that NVRTC 11.2 and later have.", library.path());
  return new Nvrtc(std::move(library), functions);  // for the life of the process, as the library
}

Result<const Nvrtc*> Nvrtc::find() {
  static std::mutex mutex;  // guards `opened`
  // Never destroyed: what it holds lives as long as the process, and a leak checker can see that it does.
  static auto& opened = *new std::map<std::string, const Nvrtc*>;
  const auto own = setting("PERGOLA_NVRTC");
  if (own == "none")
    return PERGOLA_ERROR(kUnavailable, "NVRTC is turned off by PERGOLA_NVRTC=none.");
  const std::string key(own.value_or(""));
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(key); found != opened.end()) return found->second;
  Result<const Nvrtc*> loaded = load(own ? nvrtc_in(key) : nvrtc_candidates());
  if (!loaded)
    return PERGOLA_ERROR(kUnavailable, "NVRTC is not found{}: {}",
                         own ? fmt::format(" at PERGOLA_NVRTC={}", *own) : "", loaded.message());
  opened[key] = *loaded;
  return *loaded;
}

Result<CompileOutput> Nvrtc::compile(const SourceRequest& request) const {
  CompileOutput output;
  PERGOLA_ASSIGN(const Arch arch, parse_arch(request.arch));
  PERGOLA_ASSIGN(const std::uint32_t chosen, choose_arch(arch, archs_, version_, output.log));
  const std::vector<std::string> options = make_options(request, chosen, arch.suffix, include_dirs_);
  std::vector<const char*> option_pointers;
  for (const std::string& option : options) option_pointers.push_back(option.c_str());

  // Which it takes for the end, without a word: kernels behind it would be missing.
  if (const std::size_t at = request.text.find('\xff'); at != std::string::npos)
    return PERGOLA_ERROR(kInvalidArgument,
                         "'{}' has a byte 0xFF in line {}, which NVRTC takes for its end. Save it as UTF-8.",
                         request.name, 1 + std::ranges::count(request.text.substr(0, at), '\n'));

  std::vector<const char*> texts, names;
  for (const EmbeddedHeader& header : embedded_headers()) {
    const std::string_view name = header.name;
    const bool standard = name.rfind("std/", 0) == 0;
    // The toolkit's own cuda_runtime.h is better than our stand-in, where it is there.
    std::error_code ec;
    if (standard && !include_dirs_.empty() && fs::exists(fs::path(include_dirs_[0]) / (header.name + 4), ec)) continue;
    texts.push_back(header.text);
    names.push_back(standard ? header.name + 4 : header.name);
  }

  Functions::Program program = nullptr;
  if (const int code = functions_->create(&program, request.text.c_str(), request.name.c_str(),
                                          static_cast<int>(texts.size()), texts.data(), names.data());
      code != 0)
    return PERGOLA_ERROR(kInternal, "NVRTC cannot begin to compile '{}': {}.", request.name,
                         functions_->error_string(code));
  const auto destroy = [this](void* made) { functions_->destroy(&made); };
  const std::unique_ptr<void, decltype(destroy)> owner(program, destroy);

  const int code = [&] {
    const KeptHandlers kept(reinterpret_cast<const void*>(functions_->compile));
    return functions_->compile(program, static_cast<int>(options.size()), option_pointers.data());
  }();
  std::size_t bytes = 0;
  if (functions_->log_size(program, &bytes) == 0 && bytes > 1) {
    std::string log(bytes, '\0');
    if (functions_->log(program, log.data()) == 0) output.log += with_colons(log.c_str());
  }
  if (code != 0)
    return PERGOLA_ERROR(kCompileError, "'{}' does not compile ({}{}):\n{}", request.name, version_,
                         code == kCompilationError ? "" : fmt::format(", {}", functions_->error_string(code)),
                         output.log);
  if (functions_->ptx_size(program, &bytes) != 0 || bytes < 2)
    return PERGOLA_ERROR(kInternal, "NVRTC made no PTX of '{}'. Options that ask for a cubin or LTO are not for here.",
                         request.name);
  output.ptx.resize(bytes);
  if (functions_->ptx(program, output.ptx.data()) != 0)
    return PERGOLA_ERROR(kInternal, "NVRTC does not hand out the PTX of '{}'.", request.name);
  output.ptx.resize(std::char_traits<char>::length(output.ptx.c_str()));
  if (request.line_info) name_as_given(output.ptx, request.name);
  return output;
}

}  // namespace pergola::source
