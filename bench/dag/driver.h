// Launches through the driver's own calls, which Pergola's are compared with: the few that the hand-written form makes.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace bench {

inline constexpr const char* kChainPtx = R"(.version 7.0
.target sm_70
.address_size 64
// x[0] += 1.
.visible .entry next(.param .u64 px) {
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [px]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2;
  ret;
}
// x[0] += y[0].
.visible .entry join(.param .u64 px, .param .u64 py) {
  .reg .b64 %rd<3>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];
  add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3;
  ret;
}
// n times: x[0] = x[0] * 1664525 + 1013904223.
.visible .entry scramble(.param .u64 px, .param .u32 pn) {
  .reg .b64 %rd<2>; .reg .b32 %r<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [pn]; ld.global.u32 %r2, [%rd1];
AGAIN:
  mad.lo.u32 %r2, %r2, 1664525, 1013904223; add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;
  st.global.u32 [%rd1], %r2;
  ret;
}
)";

class Driver {
 public:
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    find(library, "cuInit", init);
    find(library, "cuDevicePrimaryCtxRetain", retain);
    find(library, "cuCtxSetCurrent", set_current);
    find(library, "cuModuleLoadData", load);
    find(library, "cuModuleGetFunction", function);
    find(library, "cuMemAlloc_v2", allocate);
    find(library, "cuMemFree_v2", release);
    find(library, "cuMemsetD32_v2", set);
    find(library, "cuMemcpyDtoH_v2", copy_out);
    find(library, "cuStreamCreate", create_stream);
    find(library, "cuStreamSynchronize", synchronize);
    find(library, "cuStreamWaitEvent", wait);
    find(library, "cuEventCreate", create_event);
    find(library, "cuEventRecord", record);
    find(library, "cuLaunchKernel", launch);
    check(init(0));
    void* context = nullptr;
    check(retain(&context, 0));
    check(set_current(context));
    void* module = nullptr;
    check(load(&module, kChainPtx));
    check(function(&next, module, "next"));
    check(function(&join, module, "join"));
    for (void*& stream : streams) check(create_stream(&stream, 1));
    for (void*& event : events) check(create_event(&event, 2));  // without timing, as an expert would
    for (unsigned long long& address : arrays) check(allocate(&address, 4));
  }
  static void check(int result) {
    if (result != 0) throw std::runtime_error("a driver call failed with " + std::to_string(result));
  }
  // Milliseconds of the host's time a launch, of a batch in which each depends on the one before it: one stream.
  double chain_ms(int batch) {
    reset();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) run_next(0, 0);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    check(synchronize(streams[0]));
    return elapsed.count() / batch;
  }
  void run_next(int array, int stream) {
    void* parameters[] = {&arrays[array]};
    check(launch(next, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, nullptr));
  }
  void run_join(int stream) {
    void* parameters[] = {&arrays[0], &arrays[1]};
    check(launch(join, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, nullptr));
  }
  void reset() {
    for (const unsigned long long address : arrays) check(set(address, 0, 1));
  }
  unsigned value(int array) {
    unsigned result = 0;
    check(copy_out(&result, arrays[array], 4));
    return result;
  }

  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*load)(void**, const void*);
  int (*function)(void**, void*, const char*);
  int (*allocate)(unsigned long long*, std::size_t);
  int (*release)(unsigned long long);
  int (*set)(unsigned long long, unsigned, std::size_t);
  int (*copy_out)(void*, unsigned long long, std::size_t);
  int (*create_stream)(void**, unsigned);
  int (*synchronize)(void*);
  int (*wait)(void*, void*, unsigned);
  int (*create_event)(void**, unsigned);
  int (*record)(void*, void*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  void *next = nullptr, *join = nullptr;
  void *streams[2] = {}, *events[2] = {};
  unsigned long long arrays[2] = {};

 private:
  template <typename F>
  static void find(void* library, const char* name, F& out) {
    out = reinterpret_cast<F>(dlsym(library, name));
    if (out == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }
};

}  // namespace bench
