#include "src/runtime/load.h"

#include <filesystem>

#include "src/base/log.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/runtime/describe.h"
#include "src/runtime/local_array.h"
#include "src/runtime/local_module.h"

namespace pergola::runtime {
namespace {

// -DN=4 and -Idir have fields of their own, since each compiler spells them its way; the rest goes through.
void add_flags(const std::vector<std::string>& flags, source::SourceRequest& request) {
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const std::string& flag = flags[i];
    const bool define = flag.starts_with("-D"), include = flag.starts_with("-I");
    if (!define && !include) {
      request.options.push_back(flag);
      continue;
    }
    std::string value = flag.substr(2);
    if (value.empty() && i + 1 < flags.size()) value = flags[++i];
    (define ? request.defines : request.include_dirs).push_back(std::move(value));
  }
}

// The text as PTX; `compiled` says that it was CUDA C++ and has been compiled.
Result<source::CompiledSource> to_ptx(const LoadRequest& request, const device::DeviceInfo& device) {
  const source::SourceRequest& given = request.source;
  const bool is_ptx = request.language == session::Language::kPtx ||
                      (request.language == session::Language::kAuto && source::is_ptx(given.text));
  if (is_ptx) {
    if (!given.options.empty() || !given.defines.empty() || !given.include_dirs.empty())
      return PERGOLA_ERROR(kInvalidArgument, "'{}' is PTX, which is not compiled: compiler flags have no meaning.",
                           given.name);
    source::CompiledSource result;
    result.name = given.name;
    result.ptx = given.text;
    result.kernel_aliases = source::kernel_aliases(given.text);
    return result;
  }
  source::SourceRequest compile = given;
  if (device.kind == device::DeviceKind::kCuda)
    compile.arch = fmt::format("sm_{}{}", device.compute_major, device.compute_minor);
  compile.line_info = device.kind == device::DeviceKind::kCpu;  // its faults name the line
  return source::compile(compile);
}

Status check_math(const source::CompiledSource& compiled, const device::DeviceInfo& device) {
  if (device.kind != device::DeviceKind::kCuda) return {};
  const std::vector<std::string> missing = source::unresolved_math(compiled.ptx);
  if (missing.empty()) return {};
  return PERGOLA_ERROR(kUnavailable,
                       "'{}' calls {}, which only the CPU device provides: clang compiled it without CUDA's math "
                       "library. For {} install NVRTC (Debian: the package cuda-nvrtc of NVIDIA's repository; pip: "
                       "nvidia-cuda-nvrtc) and load it again.",
                       compiled.name, fmt::join(missing, ", "), device.name);
}

std::vector<session::KernelName> names_of(const std::vector<const ptx::Function*>& entries,
                                          const std::vector<source::KernelAlias>& aliases) {
  std::vector<session::KernelName> names;
  for (const ptx::Function* entry : entries) {
    session::KernelName name{entry->name, ""};
    for (const source::KernelAlias& alias : aliases)
      if (alias.ptx_name == entry->name) name.plain = alias.plain;
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

std::string ptx_name(const source::CompiledSource& compiled) {
  if (compiled.compiler == source::Compiler::kNone) return compiled.name;
  if (compiled.name.starts_with('<')) return fmt::format("<PTX of {}>", compiled.name);  // "<string>": no path
  return fmt::format("<PTX of {}>", std::filesystem::path(compiled.name).filename().string());
}

Result<LoadRequest> read_source(const std::string& path, const session::LoadOptions& options) {
  PERGOLA_ASSIGN(auto source, source::load_file(path));
  LoadRequest request{std::move(source), options.language};
  if (!options.name.empty()) request.source.name = options.name;
  add_flags(options.compiler_flags, request.source);
  return request;
}

LoadRequest text_source(std::string_view text, const session::LoadOptions& options) {
  LoadRequest request;
  request.language = options.language;
  request.source.text = text;
  if (!options.name.empty()) request.source.name = options.name;
  add_flags(options.compiler_flags, request.source);
  return request;
}

Result<session::ModulePtr> load(std::shared_ptr<LocalSession> session, const LoadRequest& request) {
  const device::DeviceInfo& info = session->device();
  PERGOLA_ASSIGN(source::CompiledSource compiled, to_ptx(request, info));
  if (!compiled.log.empty()) PERGOLA_INFO("{}: {}", compiled.name, compiled.log);
  const std::string name = ptx_name(compiled);
  PERGOLA_ASSIGN(const ptx::Module parsed, ptx::parse(compiled.ptx, name));
  PERGOLA_TRY(ptx::verify(parsed));
  PERGOLA_TRY(check_math(compiled, info));
  LocalSession::Quiet quiet;  // drivers load where no kernel is resident
  const auto when_compiled = [&]() -> Status {
    PERGOLA_ASSIGN(quiet, session->quiet_tasks());
    return {};
  };
  const FunctionRef<Status()> before_loading = when_compiled;
  PERGOLA_ASSIGN(auto loaded, session->raw_device().load({&parsed, compiled.ptx, name, &before_loading}));

  std::vector<const ptx::Function*> entries;
  std::vector<session::KernelInfo> infos;
  std::vector<Result<const device::Kernel*>> kernels;
  Status refusal;  // the first
  bool any_runs = false;
  for (const ptx::Function* entry : parsed.entries()) {
    if (!entry->has_body) continue;
    Result<const device::Kernel*> kernel = loaded->kernel(entry->name);
    if (!kernel && kernel.code() != Code::kUnsupported) return kernel.status();
    if (kernel) {
      infos.push_back(describe(parsed, *entry, (*kernel)->signature(), (*kernel)->resources()));
      any_runs = true;
    } else {
      PERGOLA_INFO("Kernel '{}' of '{}' is refused: {}", entry->name, compiled.name, kernel.message());
      if (refusal.ok()) refusal = kernel.status();
      infos.emplace_back();
    }
    entries.push_back(entry);
    kernels.push_back(std::move(kernel));
  }
  if (!any_runs) PERGOLA_TRY(refusal);
  return session::ModulePtr(
      std::make_shared<LocalModule>(std::move(session), std::move(loaded), compiled.name, name, std::move(compiled.ptx),
                                    names_of(entries, compiled.kernel_aliases), std::move(infos), std::move(kernels)));
}

}  // namespace pergola::runtime
