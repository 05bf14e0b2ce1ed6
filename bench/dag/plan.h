// One problem as a table for the hand-written forms: arrays, and steps with the streams and the dependencies that the
// author chose. Forms read it once; what they do while they are timed is driver calls prepared from it
// (hand_written.h).
//
//   Plan plan;
//   const ArrayId x = plan.input("x", host_x), y = plan.array<float>("y", n), r = plan.output("r", host_r);
//   const StepId in = plan.copy_in(x, 0);                                      // stream 0
//   const StepId k = plan.kernel("square", shape, {x, y, n}, 0, {in});         // after `in`
//   plan.copy_out(r, 0, {k});
//
// Invariant: a step's dependencies are earlier steps, and all those it directly needs: an explicit graph has no other
// edges. check_dependencies() holds the table against what the kernels read and write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "pergola/pergola.hpp"

namespace dag {

struct ArrayId {
  int index = 0;
};
struct StepId {
  int index = 0;
};

// An array, or a number by value.
struct Argument {
  Argument(ArrayId id) : array(id.index) {}  // NOLINT(google-explicit-constructor): {x, y, n}
  Argument(int value) { set(value); }        // NOLINT(google-explicit-constructor)
  Argument(long long value) { set(value); }  // NOLINT(google-explicit-constructor)
  Argument(float value) { set(value); }      // NOLINT(google-explicit-constructor)
  Argument(double value) { set(value); }     // NOLINT(google-explicit-constructor)

  int array = -1;  // -1: a number
  std::uint64_t bits = 0;

 private:
  template <typename T>
  void set(T value) {
    std::memcpy(&bits, &value, sizeof value);
  }
};

// What the device has of an input that would be too much for the host. The host has a tile of each of `parts`, one part
// behind the other; on the device a part is its tile `copies` times, and `extra` elements more of the same:
//
//   host    tile 0 | tile 1
//   device  tile 0  tile 0  tile 0 | tile 1  tile 1  tile 1
//
// Elements of each copy are by `shift` more than those of the copy before.
struct Tiling {
  std::size_t copies = 1, parts = 1, extra = 0;
  long long shift = 0;

  bool is_tiled() const { return copies > 1; }
  // Of a part, from all that the host has.
  std::size_t tile(std::size_t on_host) const { return on_host / parts; }
  std::size_t on_device(std::size_t on_host) const { return copies * tile(on_host) + extra; }

  // Where kernels look across the borders of tiles, three kinds have different results: the first, those with
  // neighbours on both sides, the last. How many there are, of which kind a copy is, and how many copies are of a kind.
  std::size_t kinds() const { return std::min<std::size_t>(copies, 3); }
  std::size_t kind_of(std::size_t copy) const { return copy == 0 ? 0 : copy + 1 == copies ? kinds() - 1 : 1; }
  std::size_t of_kind(std::size_t kind) const { return kinds() == 3 && kind == 1 ? copies - 2 : 1; }
};

enum class StepKind { kCopyIn, kKernel, kCopyOut };

struct Step {
  StepKind kind = StepKind::kKernel;
  int array = -1;      // of a copy
  std::string kernel;  // of a launch, as the next two
  pergola::Grid shape;
  std::vector<Argument> arguments;
  int stream = 0;
  std::vector<int> after;
};

class Plan {
 public:
  struct Array {
    std::string name;
    std::size_t bytes = 0;  // on the device
    void* host = nullptr;   // of an input or output, for as long as the plan
    std::size_t host_bytes = 0;
    bool is_output = false;
    bool is_zeroed = false;  // before the first iteration
    std::size_t element_bytes = 0;
    Tiling tiling;  // of an input
  };

  template <typename T>
  ArrayId input(const std::string& name, std::span<T> host, const Tiling& tiling = {}) {
    const std::size_t count = tiling.parts * tiling.on_device(host.size());
    return add({name, count * sizeof(T), host.data(), host.size_bytes(), false, false, sizeof(T), tiling});
  }
  // In so many pieces, of which the host has room for one.
  template <typename T>
  ArrayId output(const std::string& name, std::span<T> host, std::size_t pieces = 1) {
    return add({name, pieces * host.size_bytes(), host.data(), host.size_bytes(), true, false, sizeof(T), {}});
  }
  template <typename T>
  ArrayId array(const std::string& name, std::size_t count, bool zeroed = false) {
    return add({name, count * sizeof(T), nullptr, 0, false, zeroed, sizeof(T), {}});
  }

  StepId copy_in(ArrayId array, int stream) { return add(StepKind::kCopyIn, array, stream, {}); }
  StepId copy_out(ArrayId array, int stream, std::initializer_list<StepId> after) {
    return add(StepKind::kCopyOut, array, stream, after);
  }
  StepId kernel(const std::string& name, const pergola::Grid& shape, std::vector<Argument> arguments, int stream,
                const std::vector<StepId>& after);

  // Without the copies: the data is on the device and stays there.
  Plan resident() const;

  const std::vector<Array>& arrays() const { return arrays_; }
  const std::vector<Step>& steps() const { return steps_; }
  int stream_count() const;
  std::size_t device_bytes() const;
  // Whether the host has all that is on the device; else no copy of these steps can be made.
  bool is_tiled() const;
  std::size_t pieces() const;  // of the outputs

 private:
  ArrayId add(Array array);
  StepId add(StepKind kind, ArrayId array, int stream, std::initializer_list<StepId> after);
  StepId add(Step step, const std::vector<StepId>& after);

  std::vector<Array> arrays_;
  std::vector<Step> steps_;
};

// Throws std::runtime_error that names the steps where two that conflict are not ordered by the table, or where it
// orders two that do not conflict. The access modes are those that `module` reports.
void check_dependencies(const Plan& plan, const pergola::Module& module);

}  // namespace dag
