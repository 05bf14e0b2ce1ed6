// What a benchmark of narrow tasks consists of. A Kind is one kernel with what its tasks read and write; a Problem is a
// list of tasks of one or several kinds with the data of all, each task's inputs in one piece and its outputs in
// another, in the order of the tasks:
//
//   in       | task 0 | task 1 | ...        page-locked where there is a GPU
//   out      | task 0 | task 1 | ...        likewise
//   scratch  | task 0 | task 1 | ...        on devices only
//   constants of each kind                  what all of its tasks read: filters, tables
//
// Every form works on such memory of its own or of all forms and leaves its outputs in `out`, where is_right() compares
// them with the reference, over all tasks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "../support/gpu.h"

namespace narrow {

// A kernel's parameters as it has them in memory. At most 48 bytes: six pointers.
struct Parameters {
  alignas(16) std::array<std::byte, 48> bytes{};
  std::uint32_t size = 0;
};
template <typename T>
Parameters pack(const T& parameters) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Parameters::bytes));
  Parameters result;
  std::memcpy(result.bytes.data(), &parameters, sizeof parameters);
  result.size = sizeof parameters;
  return result;
}

// A task in the table of `fused` and the queue of `gemtc`: the layout is by_hand.cu's.
struct Record {
  std::array<std::byte, 48> parameters;
  std::int32_t kind, threads;
  std::array<std::int32_t, 2> reserved;
};
static_assert(sizeof(Record) == 64);

// Of one task, on a device. A pointer of 8 bytes each, as kernels have them.
struct Addresses {
  std::uint64_t in = 0, out = 0, scratch = 0, constants = 0;
};

struct Sizes {
  std::size_t in = 0, out = 0, scratch = 0;  // bytes
};

struct Task {
  std::uint32_t kind = 0, index = 0;  // of its problem
  int size = 0;                       // as its kind counts: pixels of a side, width, bytes
  unsigned threads = 0;               // of a block
  unsigned blocks = 1;                // more than one only where the kernel is one of grids
  Sizes bytes;
  std::size_t in = 0, out = 0, scratch = 0;  // where it begins, a multiple of 256
};

class Kind {
 public:
  virtual ~Kind() = default;
  virtual Sizes sizes(int size) const = 0;
  virtual Parameters parameters(const Task& task, const Addresses& at) const = 0;
  // The inputs of a task, the same on every machine.
  virtual void generate(const Task& task, std::byte* in) const = 0;
  // A task on one core, as a C++ programmer writes it. Thread-safe.
  virtual void compute(const Task& task, const std::byte* in, std::byte* out) const = 0;
  // What it should come to, in double precision, rounded to what `out` holds. Thread-safe.
  virtual void reference(const Task& task, const std::byte* in, std::byte* out) const { compute(task, in, out); }
  virtual bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const {
    return std::memcmp(out, expected, task.bytes.out) == 0;
  }

  std::string kernel;                // in kernels.cu; by_hand.cu has fused_<kernel> and gemtc_<kernel>
  std::vector<std::byte> constants;  // its tasks' Addresses::constants
};

// A file each.
std::unique_ptr<Kind> make_mandelbrot();
std::unique_ptr<Kind> make_product(const std::string& kernel);  // product_tiled, product_plain or product_grid
std::unique_ptr<Kind> make_filter_bank();
std::unique_ptr<Kind> make_beam_former();
std::unique_ptr<Kind> make_triple_des();
std::unique_ptr<Kind> make_cosine(const std::string& kernel);                       // cosine or cosine_shared
std::unique_ptr<Kind> make_convolution(const std::string& kernel = "convolution");  // or convolution_grid
// `kind` by its kernel <kernel>_stamped, whose warps write when they began and ended, two words of nanoseconds each,
// into the scratch memory of a task of so many threads.
std::unique_ptr<Kind> make_stamped(std::unique_ptr<Kind> kind, unsigned threads);

class Problem {
 public:
  // What a task is like: of which kind, of what size, with how many threads.
  struct Shape {
    std::uint32_t kind = 0;
    int size = 0;
    unsigned threads = 128;
  };
  // `by_hand`: the suffix of the fused and gemtc kernels. Lays the tasks out; no memory is taken yet.
  Problem(std::string name, std::string by_hand, std::vector<std::unique_ptr<Kind>> kinds, std::size_t tasks,
          const std::function<Shape(std::size_t)>& shape);

  // Takes the memory, fills the inputs, computes the reference on all cores. `gpu` null: without a GPU.
  void prepare(const bench::Gpu* gpu);
  void release();

  const std::string& name() const { return name_; }
  const std::string& by_hand() const { return by_hand_; }
  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<std::unique_ptr<Kind>>& kinds() const { return kinds_; }
  const Kind& kind_of(const Task& task) const { return *kinds_[task.kind]; }
  const Sizes& bytes() const { return bytes_; }  // of all tasks
  unsigned most_threads() const { return most_threads_; }
  std::byte* in() const { return in_.data(); }
  std::byte* out() const { return out_.data(); }

  // All tasks have so many threads from now on: before forms are made.
  void reshape(unsigned blocks, unsigned threads);

  // The outputs get bytes that no result has.
  void clobber() const;
  // All tasks' outputs, or those of tasks 0, stride, 2 * stride ... alone.
  bool is_right(std::size_t stride = 1) const;

  bool is_irregular = false;
  bool is_variant = false;  // counts in no geometric mean

 private:
  const std::string name_, by_hand_;
  const std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<Task> tasks_;
  Sizes bytes_;
  unsigned most_threads_ = 0;
  std::unique_ptr<bench::HostMemory> memory_;
  std::span<std::byte> in_, out_;
  std::vector<std::byte> expected_;
};

// All programs of the paper's Table 3 but SLUD, the variants, and the irregular ones of section 6.4.
std::vector<std::unique_ptr<Problem>> make_problems(std::size_t tasks);

// ── For kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────

// body(i) for 0 ... n - 1 on all cores, in no order.
void parallel_for(std::size_t n, const std::function<void(std::size_t)>& body);

// The same for the same seed on every machine.
inline std::uint64_t hash(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (seed << 40) + index + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline double uniform(std::uint64_t seed, std::uint64_t index) {  // [0, 1)
  return static_cast<double>(hash(seed, index) >> 11) * 0x1p-53;
}
// Floats in [-1, 1): two of each draw.
void fill_uniform(std::byte* out, std::size_t bytes, std::uint64_t seed, std::uint64_t index);

// Each float within tolerance * (1 + |expected|); NaN is not.
bool all_close(const std::byte* got, const std::byte* expected, std::size_t bytes, float tolerance);

}  // namespace narrow
