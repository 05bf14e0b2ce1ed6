#include "tools/pergola/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "src/base/environment.h"
#include "src/base/file.h"
#include "src/device/cpu/engine_choice.h"
#include "src/device/cpu/jit_loader.h"
#include "src/device/cuda/cuda_device.h"
#include "src/runtime/runtime.h"
#include "src/source/clang.h"
#include "src/source/nvrtc.h"
#include "src/source/source.h"
#include "src/source/toolkit.h"

namespace pergola::tool {
namespace {

using State = Finding::State;

constexpr const char* kCheckKernel = R"(
.version 6.4
.target sm_52
.address_size 64
.visible .entry pergola_check(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %i, %n, %c, %t, %a, %b;
  .reg .b64 %x, %y, %o;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  ld.param.u32 %n, [n];
  mov.u32 %c, %ctaid.x;
  mov.u32 %t, %ntid.x;
  mov.u32 %i, %tid.x;
  mad.lo.s32 %i, %c, %t, %i;
  setp.ge.u32 %p, %i, %n;
  @%p bra done;
  cvta.to.global.u64 %x, %x;
  cvta.to.global.u64 %y, %y;
  mul.wide.u32 %o, %i, 4;
  add.s64 %x, %x, %o;
  add.s64 %y, %y, %o;
  ld.global.u32 %a, [%x];
  ld.global.u32 %b, [%y];
  add.u32 %b, %a, %b;
  st.global.u32 [%y], %b;
done:
  ret;
}
)";

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

void find_compilers(Diagnosis& diagnosis) {
  const Result<const source::Nvrtc*> nvrtc = source::Nvrtc::find();
  const Result<source::Clang> clang = source::Clang::find();
  diagnosis.can_compile = nvrtc.ok() || clang.ok();
  const std::string advice(source::install_advice());
  if (nvrtc.ok()) {
    diagnosis.findings.push_back({"compilers", "NVRTC", State::kWorks, (*nvrtc)->version(), ""});
  } else {
    diagnosis.findings.push_back({"compilers", "NVRTC", State::kMissing, nvrtc.message(), advice});
  }
  if (clang.ok()) {
    const Result<std::string> version = clang->version();
    diagnosis.findings.push_back({"compilers", "clang", version.ok() ? State::kWorks : State::kBroken,
                                  version.ok() ? *version : version.message(), ""});
  } else {
    diagnosis.findings.push_back({"compilers", "clang", State::kMissing, clang.message(),
                                  nvrtc.ok() ? "Not needed while NVRTC is there." : advice});
  }
}

void check_one(const std::string& id, std::string detail, std::string mend, Diagnosis& diagnosis) {
  const Status status = check_device(id);
  if (status.ok()) {
    diagnosis.findings.push_back({"devices", id, State::kWorks, detail + "; ran the check kernel", ""});
  } else {
    diagnosis.findings.push_back(
        {"devices", id, State::kBroken, fmt::format("{}{}{}", detail, detail.empty() ? "" : "; ", status.message()),
         std::move(mend)});
  }
}

void find_devices(Diagnosis& diagnosis) {
  const device::CudaStatus cuda = device::cuda_status();
  if (!cuda.available)
    diagnosis.findings.push_back({"devices", "cuda", State::kMissing, cuda.reason,
                                  "For an NVIDIA GPU install its driver (libcuda.so.1); without one kernels run on the "
                                  "cpu device."});
  for (const device::CudaStatus::Gpu& gpu : cuda.gpus)
    check_one(fmt::format("cuda:{}", gpu.ordinal),
              fmt::format("{}, compute {}.{}, {} MiB, {}", gpu.name, gpu.compute_major, gpu.compute_minor,
                          gpu.memory_bytes >> 20, cuda.driver_version),
              "Look at nvidia-smi and at the log of the driver (dmesg).", diagnosis);
  std::string detail;
  if (const auto session = runtime::create_session("cpu"); session.ok())
    detail = fmt::format("{}, {} virtual SMs", (*session)->device().name, (*session)->device().sm_count);
  check_one("cpu", detail, "", diagnosis);
  // What a program without a choice of its own would open.
  diagnosis.default_device = setting("PERGOLA_DEVICE").value_or("");
  const auto is_checked = [&](const Finding& finding) { return finding.group == "devices" && finding.name == diagnosis.default_device; };
  if (!diagnosis.default_device.empty() && std::none_of(diagnosis.findings.begin(), diagnosis.findings.end(), is_checked))
    check_one(diagnosis.default_device, "PERGOLA_DEVICE", "Unset PERGOLA_DEVICE, or name a device that works.", diagnosis);
}

void find_others(Diagnosis& diagnosis) {
  const auto jit = device::cpu::load_jit_engine();
  if (jit.ok()) {
    diagnosis.findings.push_back({"others", "LLVM", State::kWorks, "the CPU device compiles kernels", ""});
  } else {
    diagnosis.findings.push_back({"others", "LLVM", State::kMissing,
                                  fmt::format("the CPU device interprets: {}", jit.message()),
                                  "For speed install LLVM 19 (Debian: apt-get install llvm-19-dev before the build)."});
  }
  const std::string ptxas = source::find_program("PERGOLA_PTXAS", {"ptxas", "/usr/local/cuda/bin/ptxas"});
  if (!ptxas.empty()) diagnosis.findings.push_back({"others", "ptxas", State::kWorks, ptxas, ""});
  else diagnosis.findings.push_back({"others", "ptxas", State::kMissing,
                                     setting("PERGOLA_PTXAS") ? "no program at PERGOLA_PTXAS" : "not on PATH",
                                     "Only tests use it."});

  const std::filesystem::path cache = cache_directory();
  const std::filesystem::path probe = cache / fmt::format(".doctor.{}", ::getpid());
  const Status written = write_file_atomically(probe, "");
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  diagnosis.findings.push_back({"others", "cache", written.ok() ? State::kWorks : State::kBroken,
                                written.ok() ? cache.string() : written.message(),
                                written.ok() ? "" : "Set PERGOLA_CACHE_DIR to a folder that can be written."});
}

// In one sentence: what runs where, and what does not.
std::string verdict(const Diagnosis& diagnosis) {
  std::vector<std::string> working, broken;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.group != "devices" || finding.state == State::kMissing) continue;
    (finding.state == State::kWorks ? working : broken).push_back(finding.name);
  }
  std::string text = working.empty() ? "No device can run kernels."
                                     : fmt::format("{} on {}.", diagnosis.can_compile ? "Kernels run" : "PTX runs",
                                                   fmt::join(working, ", "));
  if (!working.empty() && !broken.empty()) text += fmt::format(" They do not on {}: see above.", fmt::join(broken, ", "));
  if (!diagnosis.can_compile) text += " CUDA C++ needs a compiler.";
  if (!diagnosis.default_device.empty() && !diagnosis.can_run && !working.empty())
    text += fmt::format(" PERGOLA_DEVICE names {}, so that nothing runs where a program does not choose.", diagnosis.default_device);
  return text;
}

std::string_view state_name(State state) {
  switch (state) {
    case State::kWorks: return "works";
    case State::kMissing: return "missing";
    case State::kBroken: return "broken";
    case State::kRead: return "read";
    case State::kUnread: return "unread";
  }
  return "unknown";
}

}  // namespace

Status check_device(const std::string& device_name) {
  PERGOLA_ASSIGN(const session::SessionPtr session, runtime::create_session(device_name));
  session::LoadOptions options;
  options.name = "check.ptx";
  PERGOLA_ASSIGN(const session::ModulePtr module, session->load_text(kCheckKernel, options));
  PERGOLA_ASSIGN(const session::KernelPtr kernel, module->kernel("pergola_check"));
  constexpr std::uint32_t kCount = 1000;
  std::vector<std::uint32_t> x(kCount), y(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) x[i] = i * 2654435761u, y[i] = i;
  PERGOLA_ASSIGN(const session::ArrayPtr device_x, session->allocate(session::ElementType::kU32, 0, kCount));
  PERGOLA_ASSIGN(const session::ArrayPtr device_y, session->allocate(session::ElementType::kU32, 0, kCount));
  PERGOLA_TRY(device_x->write(0, bytes_of(x)));
  PERGOLA_TRY(device_y->write(0, bytes_of(y)));
  const session::Argument arguments[] = {session::ArrayArgument{device_x, 0}, session::ArrayArgument{device_y, 0},
                                         session::Number{session::ElementType::kU32, kCount}};
  PERGOLA_ASSIGN(const session::LaunchShape shape, session::for_each_config(kernel->info(), kCount));
  PERGOLA_TRY(kernel->launch(shape, arguments));
  std::vector<std::uint32_t> result(kCount);
  PERGOLA_TRY(device_y->read(0, std::as_writable_bytes(std::span(result))));
  for (std::uint32_t i = 0; i < kCount; ++i)
    if (result[i] != x[i] + y[i])
      return PERGOLA_ERROR(kInternal, "The check kernel's element {} is {} and should be {}.", i, result[i], x[i] + y[i]);
  return session->synchronize();
}

Diagnosis diagnose() {
  Diagnosis diagnosis;
  find_devices(diagnosis);
  diagnosis.can_run = std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const Finding& finding) {
    const bool counts = diagnosis.default_device.empty() || finding.name == diagnosis.default_device;
    return finding.group == "devices" && finding.state == State::kWorks && counts;
  });
  find_compilers(diagnosis);
  find_others(diagnosis);
  std::ranges::move(find_settings(environ), std::back_inserter(diagnosis.findings));
  return diagnosis;
}

nlohmann::ordered_json to_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json json = {{"version", PERGOLA_VERSION},
                                 {"can_run", diagnosis.can_run},
                                 {"can_compile", diagnosis.can_compile},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : diagnosis.findings)
    json["findings"].push_back({{"group", finding.group},
                                {"name", finding.name},
                                {"state", state_name(finding.state)},
                                {"detail", finding.detail},
                                {"mend", finding.mend}});
  return json;
}

std::string to_text(const Diagnosis& diagnosis) {
  std::string text = fmt::format("Pergola {}\n", PERGOLA_VERSION);
  std::string_view group;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.group != group) text += fmt::format("\n{}\n", finding.group);
    group = finding.group;
    text += fmt::format("  {:<8} {:<8} {}\n", state_name(finding.state), finding.name, finding.detail);
    if (!finding.mend.empty()) text += fmt::format("  {:17} mend: {}\n", "", finding.mend);
  }
  return text + fmt::format("\n{}\n", verdict(diagnosis));
}

}  // namespace pergola::tool
