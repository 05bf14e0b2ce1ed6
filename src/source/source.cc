#include "src/source/source.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "src/base/disk_cache.h"
#include "src/base/file.h"
#include "src/source/clang.h"
#include "src/source/compiler.h"
#include "src/source/includes.h"
#include "src/source/nvrtc.h"

namespace pergola::source {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxSourceBytes = std::size_t{64} << 20;
constexpr std::string_view kCacheKind = "ptx of cuda, format 2";

// What a cache entry holds: {version, log, ptx}, each with its length (decimal, newline) ahead.
std::string pack(std::string_view version, const CompileOutput& output) {
  std::string bytes;
  for (const std::string_view part : {version, std::string_view(output.log), std::string_view(output.ptx)})
    bytes.append(fmt::format("{}\n", part.size())).append(part);
  return bytes;
}

bool unpack(std::string_view bytes, std::string& version, CompileOutput& output) {
  for (std::string* part : {&version, &output.log, &output.ptx}) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
    const std::size_t digits = static_cast<std::size_t>(end - bytes.data());
    if (error != std::errc() || digits >= bytes.size() || bytes[digits] != '\n') return false;
    bytes.remove_prefix(digits + 1);
    if (size > bytes.size()) return false;
    part->assign(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return bytes.empty();
}

// Options that name further files, which the key would have to follow.
bool options_name_files(const std::vector<std::string>& options) {
  return std::any_of(options.begin(), options.end(), [](const std::string& option) {
    for (const char* prefix :
         {"-I",        "-i",       "--include", "--pre-include", "-pre-include", "@",           "-x", "-f",
          "--use-pch", "-use-pch", "--pch",     "-pch",          "--create-pch", "-create-pch", "-c", "--config",
          "-F",        "-X",       "-Wp,",      "-stdlib++",     "--sysroot",    "-trigraphs"})
      if (option.rfind(prefix, 0) == 0 && option.rfind("-fmad", 0) != 0 && option.rfind("-ffast-math", 0) != 0)
        return true;
    return false;
  });
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += fmt::format("{}:{}", part.size(), part);
  return text;
}

const std::string& embedded_digest() {
  static const std::string& digest = *new std::string([] {  // never destroyed
    std::string text;
    for (const EmbeddedHeader& header : embedded_headers()) text += cache_key(header.name, {header.text}).hex();
    return cache_key("embedded headers", {text}).hex();
  }());
  return digest;
}

// Nothing where the result may not be cached.
std::optional<CacheKey> key_of(const SourceRequest& request, std::string_view compiler,
                               const std::vector<std::string>& toolkit_dirs) {
  if (!request.use_cache || options_name_files(request.options)) return std::nullopt;
  std::string text = request.text;  // and what a define or an option may put into it: -DNOW=__TIME__
  for (const std::vector<std::string>* parts : {&request.defines, &request.options})
    for (const std::string& part : *parts) text += '\n' + part;
  const auto includes = include_fingerprint(text, folder_of(request.name), request.include_dirs, toolkit_dirs);
  if (!includes) return std::nullopt;
  const std::string defines = joined(request.defines),
                    options = joined(request.options) + (request.line_info ? "lines" : ""),
                    dirs = joined(request.include_dirs), toolkit = joined(toolkit_dirs);
  return cache_key(kCacheKind, {compiler, request.name, request.text, request.arch, defines, options, dirs, toolkit,
                                *includes, embedded_digest()});
}

DiskCache& cache() {
  // A test may point PERGOLA_CACHE_DIR elsewhere: one cache a folder, kept for the life of the process.
  static thread_local std::optional<DiskCache> current;
  fs::path folder = cache_directory() / "ptx";
  if (!current || current->folder() != folder) current.emplace(std::move(folder));
  return *current;
}

}  // namespace

std::string folder_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(name.substr(0, std::max<std::size_t>(slash, 1)));
}

bool has_standard_option(const SourceRequest& request) {
  return std::any_of(request.options.begin(), request.options.end(), [](const std::string& option) {
    return option.rfind("-std", 0) == 0 || option.rfind("--std", 0) == 0;
  });
}

std::string_view to_string(Compiler compiler) {
  switch (compiler) {
    case Compiler::kAuto: return "auto";
    case Compiler::kNvrtc: return "nvrtc";
    case Compiler::kClang: return "clang";
    case Compiler::kNone: return "none";
  }
  return "none";
}

std::string_view install_advice() {
  return "Install one of: clang ('apt install clang-19'; enough for the CPU device), CUDA's NVRTC (the package "
         "cuda-nvrtc of CUDA 12 or 13), or 'pip install nvidia-cuda-nvrtc'. PERGOLA_NVRTC and PERGOLA_CLANG name one "
         "that lies elsewhere. PTX files need none.";
}

Result<Arch> parse_arch(std::string_view text) {
  std::string_view rest = text;
  for (const std::string_view prefix : {"sm_", "compute_"})
    if (rest.rfind(prefix, 0) == 0) {
      rest.remove_prefix(prefix.size());
      Arch arch;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), arch.number);
      arch.suffix = std::string(rest.substr(static_cast<std::size_t>(end - rest.data())));
      if (error == std::errc() && (arch.suffix.empty() || arch.suffix == "a" || arch.suffix == "f")) return arch;
      break;
    }
  return PERGOLA_ERROR(kInvalidArgument, "'{}' is no GPU architecture; write it as 'sm_90' or 'compute_75'.", text);
}

Result<std::uint32_t> choose_arch(const Arch& wanted, std::span<const std::uint32_t> known, std::string_view compiler,
                                  std::string& log) {
  if (known.empty() || std::find(known.begin(), known.end(), wanted.number) != known.end()) return wanted.number;
  const auto above = std::upper_bound(known.begin(), known.end(), wanted.number);
  if (above == known.begin() || !wanted.suffix.empty())
    return PERGOLA_ERROR(kUnsupported, "{} cannot compile for sm_{}{}; it knows sm_{} to sm_{}.", compiler,
                         wanted.number, wanted.suffix, known.front(), known.back());
  log += fmt::format("pergola: compiled for sm_{}, the highest up to sm_{} that {} knows.\n", *(above - 1),
                     wanted.number, compiler);
  return *(above - 1);
}

namespace {

// The rest of compile() once the compiler is chosen: the cache around `run`. `version` may be dear to find.
template <typename Key, typename Version, typename Run>
Result<CompiledSource> cached(const SourceRequest& request, Compiler compiler, const Key& make_key,
                              const Version& version, const Run& run) {
  const std::optional<CacheKey> key = make_key();
  CompiledSource result;
  result.name = request.name;
  result.compiler = compiler;
  CompileOutput output;
  if (key) {
    if (const std::optional<std::string> entry = cache().get(*key))
      result.cache_hit = unpack(*entry, result.compiler_version, output);
  }
  if (!result.cache_hit) {
    PERGOLA_ASSIGN(output, run());
    PERGOLA_ASSIGN(result.compiler_version, version());
    // Where a header has changed meanwhile, which of its texts the compiler read is not known.
    if (key && make_key() == key) cache().put(*key, pack(result.compiler_version, output));
  }
  result.ptx = std::move(output.ptx);
  result.log = std::move(output.log);
  result.kernel_aliases = kernel_aliases(result.ptx);
  return result;
}

Result<CompiledSource> compile_by_nvrtc(const SourceRequest& request, const Nvrtc& nvrtc) {
  return cached(
      request, Compiler::kNvrtc, [&] { return key_of(request, nvrtc.version(), nvrtc.include_dirs()); },
      [&]() -> Result<std::string> { return nvrtc.version(); }, [&] { return nvrtc.compile(request); });
}

Result<CompiledSource> compile_by_clang(const SourceRequest& request, const Clang& clang) {
  return cached(
      request, Compiler::kClang, [&] { return key_of(request, clang.identity(), {}); }, [&] { return clang.version(); },
      [&] { return clang.compile(request); });
}

}  // namespace

Result<CompiledSource> compile(const SourceRequest& request) {
  if (request.text.find('\0') != std::string::npos)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' holds a zero byte: it is neither CUDA C++ nor PTX text.",
                         request.name);
  if (is_ptx(request.text)) {
    CompiledSource result;
    result.name = request.name;
    result.ptx = request.text;
    result.kernel_aliases = kernel_aliases(result.ptx);
    return result;
  }
  if (request.compiler == Compiler::kNone)
    return PERGOLA_ERROR(kInvalidArgument,
                         "'{}' is not PTX (it does not begin with .version), and no compiler was asked for.",
                         request.name);
  PERGOLA_TRY(parse_arch(request.arch).status());
  std::string why;
  if (request.compiler != Compiler::kClang) {
    const Result<const Nvrtc*> nvrtc = Nvrtc::find();
    if (nvrtc) return compile_by_nvrtc(request, **nvrtc);
    why = nvrtc.message();
  }
  if (request.compiler != Compiler::kNvrtc) {
    const Result<Clang> clang = Clang::find();
    if (clang) return compile_by_clang(request, *clang);
    why += (why.empty() ? "" : " ") + clang.message();
  }
  return PERGOLA_ERROR(kUnavailable, "There is no compiler for '{}'. {} {}", request.name, install_advice(), why);
}

Result<SourceRequest> load_file(const fs::path& path) {
  PERGOLA_ASSIGN(std::string text, read_file(path, kMaxSourceBytes));
  while (!text.empty() && text.back() == '\0') text.pop_back();  // PTX taken from a C string often ends so
  if (text.find('\0') != std::string::npos)
    return PERGOLA_ERROR(kInvalidArgument,
                         "'{}' is binary. Give CUDA C++ (.cu) or PTX text; of a cubin or fatbin, take the PTX it was "
                         "made from ('cuobjdump -ptx').",
                         path.string());
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return PERGOLA_ERROR(kInvalidArgument, "'{}' is empty; CUDA C++ or PTX is expected.", path.string());
  if (path.extension() == ".ptx" && !is_ptx(text))
    return PERGOLA_ERROR(kParseError, "{}:1:1: expected the directive .version, with which PTX begins.", path.string());
  SourceRequest request;
  request.name = path.string();
  request.text = std::move(text);
  return request;
}

}  // namespace pergola::source
