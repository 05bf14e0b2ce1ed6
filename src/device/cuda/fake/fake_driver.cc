// A CUDA driver over host memory, for tests of the CUDA device where there is no GPU: a shared library with the
// functions of driver_symbols.def. It runs no PTX; kernels of a few names do a fixed thing (run_kernel()).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "src/device/cuda/fake/fake_control.h"
#include "src/device/cuda/fake/fake_state.h"

namespace pergola::device::cuda {

struct CUlib_st {
  std::string text;
  std::unique_ptr<CUmod_st> module;
};
struct CUgraphNode_st {
  std::function<void()> work;
  CUDA_KERNEL_NODE_PARAMS kernel{};
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  std::map<CUgraphNode, std::function<void()>> work;
  std::vector<CUgraphNode> order;
};

namespace {

// The bytes of an `extra` list.
std::vector<std::byte> parameters(void** extra) {
  if (extra == nullptr) return {};
  const auto* bytes = static_cast<const std::byte*>(extra[1]);
  return {bytes, bytes + *static_cast<const std::size_t*>(extra[3])};
}

// The words that the parameter at `offset` points at, as `stream` sees them; null where it does not.
std::uint32_t* words_of(const std::vector<std::byte>& given, std::size_t offset, CUstream stream) {
  CUdeviceptr address = 0;
  std::memcpy(&address, given.data() + offset, 8);
  return fake().use(address, stream) ? static_cast<std::uint32_t*>(host(address)) : nullptr;
}

// add_one(u64 data, u32 count) adds 1 to each word; add(u64 x, u64 y, u32 count) x[i] to y[i]; hold(u64 data, u64 flag)
// adds 1 to the first word once *flag is not 0; the others fault. Any other name does nothing. `stream` is null in
// graphs. With 8 bytes given, add_one finds its parameters at that address (transform/parameter_block.h).
void run_kernel(const std::string& name, std::vector<std::byte> given, CUstream stream) {
  if (name == "add") {
    const std::uint32_t* x = words_of(given, 0, stream);
    std::uint32_t* y = words_of(given, 8, stream);
    std::uint32_t count = 0;
    std::memcpy(&count, given.data() + 16, 4);
    for (std::uint32_t i = 0; x != nullptr && y != nullptr && i < count; ++i) y[i] += x[i];
  }
  if (name == "hold") {
    std::uint32_t* data = words_of(given, 0, stream);
    CUdeviceptr flag = 0;
    std::memcpy(&flag, given.data() + 8, 8);
    while (__atomic_load_n(static_cast<std::uint32_t*>(host(flag)), __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
    if (data != nullptr) ++*data;
  }
  if (name == "add_one") {
    if (given.size() == 8) {
      const auto* const block = reinterpret_cast<const std::byte*>(words_of(given, 0, stream));
      if (block == nullptr) return;
      given.assign(block, block + 12);
    }
    std::uint32_t count = 0;
    std::memcpy(&count, given.data() + 8, 4);
    std::uint32_t* words = words_of(given, 0, stream);
    for (std::uint32_t i = 0; words != nullptr && i < count; ++i) ++words[i];
  }
  if (name == "illegal_address") fake().sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  if (name == "asserts") fake().sticky = CUDA_ERROR_ASSERT;
}

std::function<void()> kernel_work(CUfunction function, void** extra, CUstream stream) {
  return [function, given = parameters(extra), stream] { run_kernel(function->name, given, stream); };
}

// Work that uses memory at `addresses`.
void push(CUstream stream, const char* what, std::vector<CUdeviceptr> addresses, std::function<void()> work) {
  fake().note(what + std::to_string(stream->number));
  stream->push([stream, addresses = std::move(addresses), work = std::move(work)] {
    for (const CUdeviceptr address : addresses)
      if (!fake().use(address, stream)) return;
    work();
  });
}

template <typename T>
void fill(CUdeviceptr to, T value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(static_cast<char*>(host(to)) + i * sizeof value, &value, sizeof value);
}

bool is_pinned(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(fake().mutex);
  auto after = fake().pinned.upper_bound(pointer);
  if (after == fake().pinned.begin()) return false;
  --after;
  return static_cast<const char*>(pointer) + bytes <= static_cast<const char*>(after->first) + after->second;
}

// The default streams, on which the fake has no work.
bool is_default(CUstream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

CUresult add_node(CUgraph graph, CUgraphNode* made, std::function<void()> work) {
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>());
  *made = graph->nodes.back().get();
  (*made)->work = std::move(work);
  return CUDA_SUCCESS;
}

std::string alive_text() {
  const std::lock_guard lock(fake().mutex);
  std::map<std::string, std::size_t> kinds;
  for (const auto& [kind, count] : fake().alive)
    if (count != 0) kinds[kind] = static_cast<std::size_t>(count);
  if (!fake().allocations.empty()) kinds["allocations"] = fake().allocations.size();
  if (!fake().mapped.empty()) kinds["mappings"] = fake().mapped.size();
  if (!fake().reserved.empty()) kinds["reservations"] = fake().reserved.size();
  if (!fake().pages.empty()) kinds["handles of memory"] = fake().pages.size();
  if (!fake().managed.empty()) kinds["managed allocations"] = fake().managed.size();
  if (!fake().pinned.empty()) kinds["page-locked allocations"] = fake().pinned.size();
  std::string text;
  for (const auto& [kind, count] : kinds) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

std::string calls_text() {
  const std::lock_guard lock(fake().mutex);
  std::string text;
  for (const auto& [function, count] : fake().calls) text += function + " " + std::to_string(count) + "\n";
  return text;
}

}  // namespace
}  // namespace pergola::device::cuda

using namespace pergola::device::cuda;

FAKE cuInit(unsigned) {
  ENTER("cuInit");
  return fake().devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
FAKE cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion");
  *version = static_cast<int>(fake().version);
  return CUDA_SUCCESS;
}
FAKE cuGetErrorName(CUresult, const char** text) {
  if (const CUresult entered = fake().enter_always("cuGetErrorName"); entered != CUDA_SUCCESS) return entered;
  *text = "FAKE_ERROR";
  return CUDA_SUCCESS;
}
FAKE cuGetErrorString(CUresult, const char** text) {
  if (const CUresult entered = fake().enter_always("cuGetErrorString"); entered != CUDA_SUCCESS) return entered;
  *text = "the fake driver was told to";
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = static_cast<int>(fake().devices);
  return CUDA_SUCCESS;
}
FAKE cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER("cuDeviceGet");
  *device = ordinal;
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetName(char* name, int length, CUdevice) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  ENTER("cuDeviceGetAttribute");
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 0x7fffffff; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: *value = static_cast<int>(fake().has_managed); break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: *value = static_cast<int>(fake().has_virtual); break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: *value = static_cast<int>(fake().is_concurrent); break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
  }
  return CUDA_SUCCESS;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  ENTER("cuDeviceTotalMem");
  *bytes = static_cast<std::size_t>(fake().memory_bytes);
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{0x1000});
  fake().count("contexts", 1);
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRelease_v2(CUdevice) {
  fake().count("contexts", -1);
  return fake().enter("cuDevicePrimaryCtxRelease");
}
FAKE cuCtxSetCurrent(CUcontext context) {
  const CUresult entered = fake().enter("cuCtxSetCurrent");
  if (entered == CUDA_SUCCESS) set_has_context(context != nullptr);
  return entered;
}

FAKE cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  ENTER("cuMemAlloc");
  const std::lock_guard lock(fake().mutex);
  if (fake().used_bytes + static_cast<std::int64_t>(bytes) > fake().memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  fake().used_bytes += static_cast<std::int64_t>(bytes);
  fake().allocations[*address] = bytes;
  return CUDA_SUCCESS;
}
FAKE cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned flags) {
  ENTER("cuMemAllocManaged");
  const std::lock_guard lock(fake().mutex);
  // Where access is not concurrent, memory that every stream sees is lost to the host whenever a kernel runs.
  if (flags != (fake().is_concurrent != 0 ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  fake().managed[*address] = {bytes, static_cast<char>('a' + fake().managed_made++ % 26), nullptr};
  return CUDA_SUCCESS;
}
FAKE cuMemPrefetchAsync(CUdeviceptr address, std::size_t bytes, CUdevice to, CUstream stream) {
  ENTER("cuMemPrefetchAsync");
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().managed.find(address);
  if (found == fake().managed.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (fake().is_concurrent == 0) return CUDA_ERROR_INVALID_DEVICE;
  fake().log += std::string("prefetch ") + found->second.name +
                (to == CU_DEVICE_CPU_AS_INT ? " to host" : " to device") + " on " + std::to_string(stream->number) +
                "\n";
  return CUDA_SUCCESS;
}
FAKE cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, std::size_t bytes, unsigned flags) {
  ENTER("cuStreamAttachMemAsync");
  {
    const std::lock_guard lock(fake().mutex);
    const auto found = fake().managed.find(address);
    const bool to_host = flags == CU_MEM_ATTACH_HOST;
    if (found == fake().managed.end() || bytes != 0 || (!to_host && flags != CU_MEM_ATTACH_SINGLE))
      return CUDA_ERROR_INVALID_VALUE;
    fake().log += std::string("attach ") + found->second.name + (to_host ? " to host on " : " to ") +
                  std::to_string(stream->number) + "\n";
  }
  stream->push([=] {
    const std::lock_guard lock(fake().mutex);
    if (const auto found = fake().managed.find(address); found != fake().managed.end())
      found->second.seen_by = flags == CU_MEM_ATTACH_HOST ? nullptr : stream;
  });
  return CUDA_SUCCESS;
}
FAKE cuMemFree_v2(CUdeviceptr address) {
  const CUresult result = fake().enter("cuMemFree");
  fake().settle_if_lost();
  const std::lock_guard lock(fake().mutex);
  fake().used_bytes -= static_cast<std::int64_t>(fake().allocations[address]);
  fake().allocations.erase(address);
  fake().managed.erase(address);
  std::free(host(address));  // also on a lost device: the process would leak otherwise
  return result;
}
FAKE cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  if (bytes > std::size_t{1} << 40) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::lock_guard lock(fake().mutex);
  fake().pinned[*pointer] = bytes;
  return CUDA_SUCCESS;
}
// Arrays and texture objects are made and counted; no kernel of the fake reads them.
FAKE cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* description) {
  ENTER("cuArray3DCreate");
  fake().count("arrays", 1);
  *array = reinterpret_cast<CUarray>(std::malloc(16 * description->Width));
  return *array == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
FAKE cuArrayDestroy(CUarray array) {
  std::free(array);
  fake().count("arrays", -1);
  return fake().enter("cuArrayDestroy");
}
FAKE cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D*, CUstream) {
  ENTER("cuMemcpy3DAsync");
  return CUDA_SUCCESS;
}
FAKE cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC*, const void*) {
  ENTER("cuTexObjectCreate");
  fake().count("texture objects", 1);
  *object = reinterpret_cast<std::uintptr_t>(resource->res.array.hArray);
  return CUDA_SUCCESS;
}
FAKE cuTexObjectDestroy(CUtexObject) {
  fake().count("texture objects", -1);
  return fake().enter("cuTexObjectDestroy");
}
FAKE cuMemFreeHost(void* pointer) {
  const CUresult result = fake().enter("cuMemFreeHost");
  fake().settle_if_lost();
  const std::lock_guard lock(fake().mutex);
  fake().pinned.erase(pointer);
  std::free(pointer);
  return result;
}
FAKE cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) {
  ENTER("cuMemHostGetDevicePointer");
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}
FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (!is_pinned(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  push(stream, "copy to device on ", {to}, [=] { std::memmove(host(to), from, bytes); });
  return CUDA_SUCCESS;
}
FAKE cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoHAsync");
  push(stream, "copy to host on ", {from}, [=] { std::memmove(to, host(from), bytes); });
  if (!is_pinned(to, bytes)) stream->drain();
  return static_cast<CUresult>(fake().sticky.load());
}
FAKE cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  ENTER("cuMemcpyAsync");
  push(stream, "copy on ", {to, from}, [=] { std::memmove(host(to), host(from), bytes); });
  return CUDA_SUCCESS;
}
FAKE cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  ENTER("cuMemsetD8Async");
  push(stream, "fill on ", {to}, [=] { fill(to, value, count); });
  return CUDA_SUCCESS;
}
FAKE cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  ENTER("cuMemsetD16Async");
  push(stream, "fill on ", {to}, [=] { fill(to, value, count); });
  return CUDA_SUCCESS;
}
FAKE cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  ENTER("cuMemsetD32Async");
  push(stream, "fill on ", {to}, [=] { fill(to, value, count); });
  return CUDA_SUCCESS;
}

FAKE cuStreamCreate(CUstream* stream, unsigned) {
  ENTER("cuStreamCreate");
  *stream = new CUstream_st;
  fake().count("streams", 1);
  const std::lock_guard lock(fake().mutex);
  (*stream)->number = fake().streams_made++;
  return CUDA_SUCCESS;
}
FAKE cuStreamDestroy_v2(CUstream stream) {
  const CUresult result = fake().enter("cuStreamDestroy");
  delete stream;
  fake().count("streams", -1);
  return result;
}
FAKE cuStreamSynchronize(CUstream stream) {
  ENTER("cuStreamSynchronize");
  if (is_default(stream)) return CUDA_SUCCESS;
  stream->drain();
  return static_cast<CUresult>(fake().sticky.load());
}
FAKE cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  std::unique_lock lock(fake().mutex);
  fake().changed.wait(lock, [] {
    return std::ranges::all_of(fake().streams,
                               [](const CUstream_st* stream) { return stream->work.empty() && !stream->busy; });
  });
  return static_cast<CUresult>(fake().sticky.load());
}
FAKE cuStreamQuery(CUstream stream) {
  ENTER("cuStreamQuery");
  const std::lock_guard lock(fake().mutex);
  return stream->work.empty() && !stream->busy ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
FAKE cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER("cuStreamWaitEvent");
  std::shared_ptr<Mark> mark = event->mark;
  if (mark == nullptr || is_default(stream)) return CUDA_SUCCESS;
  fake().note(std::to_string(stream->number) + " waits for " + std::to_string(mark->stream));
  stream->push(
      [mark] {
        std::unique_lock lock(fake().mutex);
        fake().changed.wait(lock, [&] { return mark->done; });
      },
      CUstream_st::Kind::kWait);
  return CUDA_SUCCESS;
}
FAKE cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned) {
  ENTER("cuStreamWriteValue32");
  stream->push([=] { __atomic_store_n(static_cast<std::uint32_t*>(host(address)), value, __ATOMIC_RELEASE); });
  return CUDA_SUCCESS;
}
FAKE cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  ENTER("cuStreamWaitValue32");
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !is_pinned(host(address), sizeof value)) return CUDA_ERROR_INVALID_VALUE;
  const auto* const word = static_cast<const std::uint32_t*>(host(address));
  const auto has_come = [=] { return static_cast<std::int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0; };
  if (!has_come()) fake().note(std::to_string(stream->number) + " waits for a value");
  stream->push([=] {
    while (!has_come() && fake().sticky.load() == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
  return CUDA_SUCCESS;
}
FAKE cuEventCreate(CUevent* event, unsigned flags) {
  ENTER("cuEventCreate");
  *event = new CUevent_st;
  (*event)->has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  fake().count("events", 1);
  return CUDA_SUCCESS;
}
FAKE cuEventDestroy_v2(CUevent event) {
  const CUresult result = fake().enter("cuEventDestroy");
  delete event;
  fake().count("events", -1);
  return result;
}
FAKE cuEventRecord(CUevent event, CUstream stream) {
  ENTER("cuEventRecord");
  auto mark = std::make_shared<Mark>();
  event->mark = mark;
  if (is_default(stream)) {
    mark->when = std::chrono::steady_clock::now();
    mark->done = true;
    return CUDA_SUCCESS;
  }
  mark->stream = stream->number;
  stream->push(
      [mark] {
        const std::lock_guard lock(fake().mutex);
        mark->when = std::chrono::steady_clock::now();
        mark->done = true;
        fake().changed.notify_all();
      },
      event->has_time ? CUstream_st::Kind::kTimedMark : CUstream_st::Kind::kMark);
  return CUDA_SUCCESS;
}
FAKE cuEventQuery(CUevent event) {
  ENTER("cuEventQuery");
  const std::lock_guard lock(fake().mutex);
  return event->mark == nullptr || event->mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
FAKE cuEventSynchronize(CUevent event) {
  ENTER("cuEventSynchronize");
  std::unique_lock lock(fake().mutex);
  fake().changed.wait(lock, [&] { return event->mark == nullptr || event->mark->done; });
  return static_cast<CUresult>(fake().sticky.load());
}
FAKE cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  ENTER("cuEventElapsedTime");
  const std::lock_guard lock(fake().mutex);
  if (!start->mark->done || !end->mark->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->when - start->mark->when).count();
  return CUDA_SUCCESS;
}

FAKE cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                       CUlibraryOption*, void**, unsigned) {
  if (const CUresult entered = fake().enter("cuLibraryLoadData"); entered != CUDA_SUCCESS) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
        std::strcpy(static_cast<char*>(values[i]), "ptxas application ptx input, line 7; error: the fake log");
    return entered;
  }
  *library = new CUlib_st{static_cast<const char*>(code), nullptr};
  fake().count("libraries", 1);
  return CUDA_SUCCESS;
}
FAKE cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  ENTER("cuLibraryGetModule");
  if (library->module == nullptr) library->module = std::make_unique<CUmod_st>(CUmod_st{library->text, {}, {}});
  *module = library->module.get();
  return CUDA_SUCCESS;
}
FAKE cuLibraryUnload(CUlibrary library) {
  const CUresult result = fake().enter("cuLibraryUnload");
  fake().settle_if_lost();
  delete library;
  fake().count("libraries", -1);
  return result;
}
FAKE cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER("cuModuleGetFunction");
  if (module->text.find(std::string(".entry ") + name) == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  CUfunc_st& found = module->functions[name];
  found.name = name;
  found.text = &module->text;
  *function = &found;
  return CUDA_SUCCESS;
}
FAKE cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
  ENTER("cuModuleGetGlobal");
  if (module->text.find(std::string(".u32 ") + name + ";") == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  std::vector<std::byte>& storage = module->globals[name];
  storage.resize(4);
  *address = reinterpret_cast<CUdeviceptr>(storage.data());
  *bytes = 4;
  return CUDA_SUCCESS;
}
FAKE cuFuncLoad(CUfunction) {
  return fake().enter("cuFuncLoad");
}
// A kernel that names a register "spills" does, where two of its blocks shall fit a multiprocessor.
FAKE cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  ENTER("cuFuncGetAttribute");
  const bool two = function->text->find(".minnctapersm 2") != std::string::npos;
  *value = 0;
  if (which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) *value = 1024;
  if (which == CU_FUNC_ATTRIBUTE_NUM_REGS) *value = 16;
  if (which == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES && two && function->text->find("%spills") != std::string::npos)
    *value = 120;
  return CUDA_SUCCESS;
}
FAKE cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  ENTER("cuFuncSetAttribute");
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) function->dynamic_shared_bytes = value;
  if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    fake().note(function->name + " leaves " + std::to_string(value) + " of 100 for shared memory");
  return CUDA_SUCCESS;
}
FAKE cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, std::size_t) {
  ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = 2048 / threads;
  return CUDA_SUCCESS;
}
FAKE cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void** extra) {
  ENTER("cuLaunchKernelEx");
  if (static_cast<int>(config->sharedMemBytes) > function->dynamic_shared_bytes) return CUDA_ERROR_INVALID_VALUE;
  fake().note(function->name + " on " + std::to_string(config->hStream->number));
  config->hStream->push(kernel_work(function, extra, config->hStream));
  set_has_context(false);  // as of a thread that has only ever launched
  return CUDA_SUCCESS;
}

FAKE cuGraphCreate(CUgraph* graph, unsigned) {
  ENTER("cuGraphCreate");
  *graph = new CUgraph_st;
  fake().count("graphs", 1);
  return CUDA_SUCCESS;
}
FAKE cuGraphDestroy(CUgraph graph) {
  delete graph;
  fake().count("graphs", -1);
  return fake().enter("cuGraphDestroy");
}
FAKE cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t,
                             const CUDA_KERNEL_NODE_PARAMS* work) {
  ENTER("cuGraphAddKernelNode");
  return add_node(graph, node, kernel_work(work->func, work->extra, nullptr));
}
FAKE cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, const CUDA_MEMCPY3D* work,
                          CUcontext) {
  ENTER("cuGraphAddMemcpyNode");
  const void* from = work->srcMemoryType == CU_MEMORYTYPE_HOST ? work->srcHost : host(work->srcDevice);
  void* to = work->dstMemoryType == CU_MEMORYTYPE_HOST ? work->dstHost : host(work->dstDevice);
  return add_node(graph, node, [=, copy = *work] {
    for (std::size_t row = 0; row < copy.Height; ++row)
      std::memmove(static_cast<char*>(to) + copy.dstXInBytes + row * copy.dstPitch,
                   static_cast<const char*>(from) + copy.srcXInBytes + row * copy.srcPitch, copy.WidthInBytes);
  });
}
FAKE cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t,
                          const CUDA_MEMSET_NODE_PARAMS* work, CUcontext) {
  ENTER("cuGraphAddMemsetNode");
  return add_node(graph, node, [set = *work] {
    if (set.elementSize == 1) fill(set.dst, static_cast<unsigned char>(set.value), set.width);
    if (set.elementSize == 2) fill(set.dst, static_cast<unsigned short>(set.value), set.width);
    if (set.elementSize == 4) fill(set.dst, set.value, set.width);
  });
}
FAKE cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t) {
  ENTER("cuGraphAddEmptyNode");
  return add_node(graph, node, [] {});
}
FAKE cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                               const CUgraphEdgeData* edges, std::size_t count) {
  ENTER("cuGraphAddDependencies_v2");
  const auto number = [&](CUgraphNode node) {
    std::size_t i = 0;
    while (graph->nodes[i].get() != node) ++i;
    return std::to_string(i);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const bool programmatic = edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
                              edges[i].from_port == kProgrammaticPort && edges[i].to_port == 0;
    fake().note("node " + number(to[i]) + (programmatic ? " early after " : " after ") + number(from[i]));
  }
  return CUDA_SUCCESS;
}
FAKE cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER("cuCtxGetStreamPriorityRange");
  *least = 0, *greatest = -3;
  return CUDA_SUCCESS;
}
FAKE cuGraphKernelNodeSetAttribute(CUgraphNode, CUlaunchAttributeID which, const CUlaunchAttributeValue* value) {
  ENTER("cuGraphKernelNodeSetAttribute");
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) fake().note("priority " + std::to_string(value->priority));
  return CUDA_SUCCESS;
}
static CUresult instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  if (flags != 0) fake().note("graph with flags " + std::to_string(flags));
  *executable = new CUgraphExec_st;
  fake().count("executable graphs", 1);
  for (const auto& node : graph->nodes) {
    (*executable)->order.push_back(node.get());
    (*executable)->work[node.get()] = node->work;
  }
  return CUDA_SUCCESS;
}
FAKE cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  ENTER("cuGraphInstantiateWithFlags");
  return instantiate(executable, graph, flags);
}
FAKE cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
  ENTER("cuGraphInstantiateWithParams");
  if ((how->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0 || how->hUploadStream == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return instantiate(executable, graph, how->flags & ~CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
}
FAKE cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* work) {
  ENTER("cuGraphExecKernelNodeSetParams");
  executable->work[node] = kernel_work(work->func, work->extra, nullptr);
  return CUDA_SUCCESS;
}
FAKE cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER("cuGraphLaunch");
  fake().note("graph on " + std::to_string(stream->number));
  // One piece, as to the driver.
  std::vector<std::function<void()>> work;
  for (CUgraphNode node : executable->order) work.push_back(executable->work[node]);
  stream->push([work = std::move(work)] {
    for (const auto& next : work)
      if (fake().sticky.load() == 0) next();
  });
  return CUDA_SUCCESS;
}
FAKE cuGraphUpload(CUgraphExec, CUstream) {
  return fake().enter("cuGraphUpload");
}
FAKE cuGraphExecDestroy(CUgraphExec executable) {
  delete executable;
  fake().count("executable graphs", -1);
  return fake().enter("cuGraphExecDestroy");
}

extern "C" __attribute__((visibility("default"))) const FakeControl* fake_cuda_control() {
  static const FakeControl control{[] {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().failures.clear();
                                     fake().calls.clear();
                                     fake().strays = 0;
                                     fake().sticky = 0;
                                     fake().held = false;
                                     fake().version = 13000;
                                     fake().devices = 1;
                                     fake().has_managed = fake().is_concurrent = 1;
                                     fake().has_virtual = 0;
                                     fake().managed_made = fake().streams_made = 0;
                                     fake().log.clear();
                                     fake().memory_bytes = std::int64_t{1} << 30;
                                     fake().changed.notify_all();
                                   },
                                   [](const char* function, int result, int skip) {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().failures[function] = {skip, result, false};
                                   },
                                   [](const char* function) {
                                     const std::lock_guard lock(fake().mutex);
                                     return fake().calls[function];
                                   },
                                   [] {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().held = true;
                                   },
                                   [] {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().held = false;
                                     fake().changed.notify_all();
                                   },
                                   [](const char* what, std::int64_t value) {
                                     const std::lock_guard lock(fake().mutex);
                                     (what == std::string("version")      ? fake().version
                                      : what == std::string("devices")    ? fake().devices
                                      : what == std::string("managed")    ? fake().has_managed
                                      : what == std::string("concurrent") ? fake().is_concurrent
                                      : what == std::string("virtual")    ? fake().has_virtual
                                                                          : fake().memory_bytes) = value;
                                   },
                                   [] {
                                     const std::lock_guard lock(fake().mutex);
                                     return std::exchange(fake().log, {});
                                   },
                                   [](const char* function, int result, int skip) {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().failures[function] = {skip, result, true};
                                   },
                                   alive_text,
                                   calls_text,
                                   [](const char* function, int result, int times) {
                                     const std::lock_guard lock(fake().mutex);
                                     fake().failures[function] = {0, result, false, times};
                                   },
                                   [] {
                                     const std::lock_guard lock(fake().mutex);
                                     return fake().strays;
                                   }};
  return &control;
}
