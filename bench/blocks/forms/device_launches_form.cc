#include "bench/blocks/forms/device_launches_form.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "bench/support/report.h"
#include "src/source/source.h"

namespace pergola::bench::blocks {
namespace {

using namespace device::cuda;  // the driver's own names
using ::bench::Gpu;

// CUjitInputType.
constexpr int kInputPtx = 1, kInputLibrary = 4;

struct LinkFunctions {
  CUresult (*create)(unsigned, int*, void**, void** state) = nullptr;
  CUresult (*add_data)(void* state, int kind, const void*, std::size_t, const char* name, unsigned, int*,
                       void**) = nullptr;
  CUresult (*add_file)(void* state, int kind, const char* path, unsigned, int*, void**) = nullptr;
  CUresult (*complete)(void* state, void** code, std::size_t* bytes) = nullptr;
  CUresult (*destroy)(void* state) = nullptr;

  explicit LinkFunctions(const std::string& driver) {
    void* const library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto find = [&](const char* name, auto& out) {
      out =
          reinterpret_cast<std::remove_reference_t<decltype(out)>>(library == nullptr ? nullptr : dlsym(library, name));
      if (out == nullptr) throw std::runtime_error(std::string("The driver has no ") + name + ".");
    };
    find("cuLinkCreate_v2", create);
    find("cuLinkAddData_v2", add_data);
    find("cuLinkAddFile_v2", add_file);
    find("cuLinkComplete", complete);
    find("cuLinkDestroy", destroy);
  }
};

std::string device_runtime() {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* given = std::getenv(name)) roots.emplace_back(given);
  roots.emplace_back("/usr");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/usr/local", ignored))
    if (entry.path().filename().string().starts_with("cuda")) roots.push_back(entry.path());
  for (const fs::path& root : roots)
    for (const char* folder : {"lib64", "lib", "lib/x86_64-linux-gnu", "targets/x86_64-linux/lib"})
      if (const fs::path found = root / folder / "libcudadevrt.a"; fs::exists(found, ignored)) return found.string();
  throw std::runtime_error(
      "libcudadevrt.a is neither in CUDA_HOME nor in /usr nor in /usr/local/cuda*; the form `device-launches` needs "
      "it.");
}

class DeviceLaunchesForm : public Form {
 public:
  DeviceLaunchesForm(const Gpu& gpu, const Program& program, const Wavefront& wavefront, ProgramOnDevice& loaded)
      : gpu_(gpu), loaded_(loaded) {
    name = "device-launches";
    const auto start = std::chrono::steady_clock::now();
    gpu.enter();
    load(program, wavefront);
    const std::vector<std::int32_t> table = wavefront_table(wavefront);
    ::bench::check(gpu_->cuMemAlloc(&table_, table.size() * 4), "allocating a table");
    ::bench::check(gpu_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
    ::bench::check(gpu_->cuMemcpyHtoDAsync(table_, table.data(), table.size() * 4, stream_), "copying a table");
    ::bench::check(gpu_->cuStreamSynchronize(stream_), "copying a table");
    std::vector<std::uint64_t> addresses;
    for (const device::BufferPtr& buffer : loaded.buffers()) addresses.push_back(buffer->address());
    arguments_ = packed_arguments(wavefront, addresses, {{table_}});
    bytes_ = arguments_.size();
    extra_ = {::bench::kParameterBuffer, arguments_.data(), ::bench::kParameterBufferSize, &bytes_, nullptr};
    instantiate_ms = ::bench::ms_since(start);
  }
  ~DeviceLaunchesForm() override {
    gpu_.enter();
    gpu_->cuStreamDestroy(stream_);
    gpu_->cuMemFree(table_);
    gpu_->cuLibraryUnload(library_);
  }
  DeviceLaunchesForm(const DeviceLaunchesForm&) = delete;
  DeviceLaunchesForm& operator=(const DeviceLaunchesForm&) = delete;

  void reset() override {
    const Status status = loaded_.reset();
    if (!status.ok()) throw std::runtime_error(status.message());
  }
  std::string check() override {
    Result<std::string> wrong = loaded_.check();
    if (!wrong.ok()) throw std::runtime_error(wrong.message());
    return *wrong;
  }
  void run() override {
    gpu_.enter();
    ::bench::check(gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra_.data()),
                   "launching the kernel that launches");
    ::bench::check(gpu_->cuStreamSynchronize(stream_), "waiting for a stream");
  }

 private:
  void load(const Program& program, const Wavefront& wavefront) {
    auto request = source::load_file(source_path(program));
    if (!request.ok()) throw std::runtime_error(request.message());
    request->text = device_launches_source(wavefront, request->text);
    request->arch = "sm_90";
    request->compiler = source::Compiler::kNvrtc;
    request->options.emplace_back("-rdc=true");
    const auto compiled = source::compile(*request);
    if (!compiled.ok()) throw std::runtime_error(compiled.message());
    const LinkFunctions link(gpu_->path());
    void* state = nullptr;
    ::bench::check(link.create(0, nullptr, nullptr, &state), "beginning to link");
    CUresult result = link.add_data(state, kInputPtx, compiled->ptx.c_str(), compiled->ptx.size() + 1, "wavefront.ptx",
                                    0, nullptr, nullptr);
    if (result == CUDA_SUCCESS)
      result = link.add_file(state, kInputLibrary, device_runtime().c_str(), 0, nullptr, nullptr);
    void* code = nullptr;
    std::size_t bytes = 0;
    if (result == CUDA_SUCCESS) result = link.complete(state, &code, &bytes);
    if (result == CUDA_SUCCESS)
      result = gpu_->cuLibraryLoadData(&library_, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
    link.destroy(state);
    ::bench::check(result, "linking a kernel with the device runtime");
    CUmodule module = nullptr;
    ::bench::check(gpu_->cuLibraryGetModule(&module, library_), "loading a kernel that launches");
    ::bench::check(gpu_->cuModuleGetFunction(&kernel_, module, "device_launches"), "finding a kernel that launches");
  }

  const Gpu& gpu_;
  ProgramOnDevice& loaded_;
  CUlibrary library_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr table_ = 0;
  CUstream stream_ = nullptr;
  std::vector<std::byte> arguments_;
  std::size_t bytes_ = 0;
  std::array<void*, 5> extra_{};
};

}  // namespace

std::unique_ptr<Form> device_launches_form(const Gpu& gpu, const Program& program, const Wavefront& wavefront,
                                           ProgramOnDevice& loaded) {
  return std::make_unique<DeviceLaunchesForm>(gpu, program, wavefront, loaded);
}

}  // namespace pergola::bench::blocks
