// Launches through the driver's own calls, which Pergola's are compared with: the few that the hand-written form makes.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
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

// The value of array 0 after `rounds` of fork-join: x and y go up by one, then x += y.
inline unsigned fork_join_value(int rounds) {
  unsigned x = 0, y = 0;
  for (int i = 0; i < rounds; ++i) {
    ++x;
    ++y;
    x += y;
  }
  return x;
}

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
    check(function(&scramble, module, "scramble"));
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
  // The same of two chains that meet every third launch, in two streams: a record and a wait each for x and y.
  double fork_join_ms(int batch) {
    reset();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < batch / 3; ++i) {
      run_next(0, 0);
      if (i != 0) check(wait(streams[1], events[0], 0));  // join read y
      run_next(1, 1);
      check(record(events[1], streams[1]));
      check(wait(streams[0], events[1], 0));
      run_join(0);
      check(record(events[0], streams[0]));
    }
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
  // Has the device's pool keep what is freed, as who allocates in a loop would. False where the driver has no pools.
  bool keep_freed() {
    if (!try_find("cuMemAllocAsync", allocate_async) || !try_find("cuMemFreeAsync", free_async) ||
        !try_find("cuMemsetD32Async", set_async))
      return false;
    int (*pool_of)(void**, int) = nullptr;
    int (*set_attribute)(void*, int, void*) = nullptr;
    if (!try_find("cuDeviceGetDefaultMemPool", pool_of) || !try_find("cuMemPoolSetAttribute", set_attribute))
      return false;
    void* pool = nullptr;
    std::uint64_t threshold = UINT64_MAX;
    constexpr int kReleaseThreshold = 4;
    return pool_of(&pool, 0) == 0 && set_attribute(pool, kReleaseThreshold, &threshold) == 0;
  }
  // One turn of a region of `launches`: two chains of one kernel, in two streams, that meet at its end, the second
  // one's in `elements` zeros that are new in each turn.
  void temporary_turn(int launches, std::size_t elements, unsigned steps) {
    unsigned long long made = 0;
    check(allocate_async(&made, elements * sizeof(unsigned), streams[1]));
    check(set_async(made, 0, elements, streams[1]));
    for (int i = 0; i < launches - 1; ++i) {
      void* parameters[] = {i % 2 == 0 ? &arrays[0] : &made, &steps};
      check(launch(scramble, 1, 1, 1, 1, 1, 1, 0, streams[i % 2], parameters, nullptr));
    }
    check(record(events[1], streams[1]));
    check(wait(streams[0], events[1], 0));
    void* parameters[] = {&arrays[0], &made};
    check(launch(join, 1, 1, 1, 1, 1, 1, 0, streams[0], parameters, nullptr));
    check(free_async(made, streams[0]));
    check(record(events[0], streams[0]));  // the pool may give it to the other stream: behind this
    check(wait(streams[1], events[0], 0));
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
  int (*set_async)(unsigned long long, unsigned, std::size_t, void*) = nullptr;  // keep_freed() finds them
  int (*allocate_async)(unsigned long long*, std::size_t, void*) = nullptr;
  int (*free_async)(unsigned long long, void*) = nullptr;
  int (*copy_out)(void*, unsigned long long, std::size_t);
  int (*create_stream)(void**, unsigned);
  int (*synchronize)(void*);
  int (*wait)(void*, void*, unsigned);
  int (*create_event)(void**, unsigned);
  int (*record)(void*, void*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  void *next = nullptr, *join = nullptr, *scramble = nullptr;
  void *streams[2] = {}, *events[2] = {};
  unsigned long long arrays[2] = {};

 private:
  template <typename F>
  static bool try_find(const char* name, F& out) {
    out = reinterpret_cast<F>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name));
    return out != nullptr;
  }
  template <typename F>
  static void find(void* library, const char* name, F& out) {
    out = reinterpret_cast<F>(dlsym(library, name));
    if (out == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }
};

}  // namespace bench
