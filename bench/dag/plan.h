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
    std::size_t bytes = 0;
    void* host = nullptr;  // of an input or output: `bytes` of them, for as long as the plan
    bool is_output = false;
    bool is_zeroed = false;  // before the first iteration
  };

  template <typename T>
  ArrayId input(const std::string& name, std::span<T> host) {
    return add({name, host.size_bytes(), host.data(), false, false});
  }
  template <typename T>
  ArrayId output(const std::string& name, std::span<T> host) {
    return add({name, host.size_bytes(), host.data(), true, false});
  }
  template <typename T>
  ArrayId array(const std::string& name, std::size_t count, bool zeroed = false) {
    return add({name, count * sizeof(T), nullptr, false, zeroed});
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
