// Tasks that spawn tasks (docs/tasks.md): what a kernel includes that spawns narrow tasks while it runs as one.
//
//   #include <pergola/device/tasks.h>
//
//   __global__ void leaf(float* data, unsigned at);
//   __global__ void root(float* data, unsigned n, unsigned long long leaves) {
//     for (unsigned at = threadIdx.x; at < n; at += blockDim.x)
//       if (!pergola::spawn<decltype(leaf)>(leaves, data, at)) do_leaf(data, at);
//   }
//
// The handle comes from the host: TaskKind::on_device() of the kernel and the shape that are to be spawned, as an
// argument of the kernel that spawns. Each lane that calls spawns a task. For CUDA C++ by NVRTC, nvcc and clang.
#pragma once

// Of the run time: the parameters as they lie in memory, `bytes` of them, in whole words.
extern "C" __device__ unsigned int pergola_task_spawn(unsigned long long handle, unsigned int bytes,
                                                      unsigned long long word_0, unsigned long long word_1,
                                                      unsigned long long word_2, unsigned long long word_3,
                                                      unsigned long long word_4, unsigned long long word_5);

namespace pergola {
namespace task_detail {

// Parameters at the places where a launch has them (PTX ISA 7.1: each at its own alignment), in at most six words.
struct Words {
  static constexpr unsigned int kMostBytes = 48;
  unsigned long long words[kMostBytes / 8];
};

template <typename T>
__device__ __forceinline__ void put(Words& to, unsigned int& at, const T& value) {
  at = (at + static_cast<unsigned int>(alignof(T)) - 1) & ~(static_cast<unsigned int>(alignof(T)) - 1);
  memcpy(reinterpret_cast<char*>(to.words) + at, &value, sizeof(T));
  at += static_cast<unsigned int>(sizeof(T));
}

__host__ __device__ constexpr unsigned int bytes_from(unsigned int at) { return at; }
template <typename First, typename... Rest>
__host__ __device__ constexpr unsigned int bytes_from(unsigned int at, First* first, Rest*... rest) {
  return bytes_from(((at + static_cast<unsigned int>(alignof(First)) - 1) / static_cast<unsigned int>(alignof(First))) *
                            static_cast<unsigned int>(alignof(First)) +
                        static_cast<unsigned int>(sizeof(First)),
                    rest...);
}

template <typename Kernel>
struct Spawn;
template <typename... Parameters>
struct Spawn<void(Parameters...)> {
  static constexpr unsigned int kBytes = bytes_from(0, static_cast<Parameters*>(nullptr)...);
  static_assert(kBytes <= Words::kMostBytes,
                "a task that is spawned on the device has 48 bytes of parameters at most: hand it a pointer to more");

  static __device__ __forceinline__ bool call(unsigned long long handle, Parameters... parameters) {
    Words words = {};
    unsigned int at = 0;
    (put(words, at, parameters), ...);
    (void)at;
    return pergola_task_spawn(handle, kBytes, words.words[0], words.words[1], words.words[2], words.words[3],
                              words.words[4], words.words[5]) != 0;
  }
};

}  // namespace task_detail

// Spawns a task of the kernel that `handle` stands for, whose type is given so that arguments become its parameters:
// spawn<decltype(leaf)>(handle, ...). What the calling lane has written before is seen by the task.
//
// Returns at once. False where there is no room for it, or where the caller does not run as a task: then nothing has
// been spawned, and the caller does the work itself, or leaves it to a later task. Waiting for room in a loop may wait
// for ever, as what is to make room may wait for the warp that loops. A handle that is none, or of a kernel with other
// parameters, traps.
//
// The task from the host that it all began with is done when all that it has spawned, and they, are done.
template <typename Kernel, typename... Arguments>
__device__ __forceinline__ bool spawn(unsigned long long handle, Arguments... arguments) {
  return task_detail::Spawn<Kernel>::call(handle, arguments...);
}

}  // namespace pergola
