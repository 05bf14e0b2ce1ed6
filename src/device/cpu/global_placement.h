// A loaded module's instance of its module-scope .global and .const variables.
//
//   .global:  [gap][ a ][gap][ b ][gap] ...   each variable a range of the MemoryMap, each gap a margin (buffer_margins.h)
//   .const:   the same on pages of their own, which nobody may write once they are initialised
//
// Placed before the module is compiled (tiers build addresses in), initialised after it (an initialiser may hold a
// function's address, which only the tier knows). Owned by the loaded module; thread-compatible.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/cpu/block.h"
#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/guarded_bytes.h"
#include "src/ptx/module.h"

namespace pergola::device::cpu {

class GlobalStorage {
 public:
  static constexpr std::size_t kMinAlignBytes = 64;  // of every variable; compiled code counts on it

  // Places every defined .global and .const variable. kNotFound names an .extern one that the module does not
  // define; kUnsupported a texture, sampler or surface reference; kResourceExhausted what is more than the device's
  // memory. `memory` must outlive the storage.
  static Result<GlobalStorage> place(const ptx::Module& module, DeviceMemory& memory);

  GlobalStorage(GlobalStorage&&) noexcept = default;
  GlobalStorage& operator=(GlobalStorage&&) = delete;
  ~GlobalStorage();

  // Once. Writes initial values, then closes the constants' pages: numbers, addresses of variables with offsets, byte masks of them (ISA 5.4.8), and
  // addresses of functions, which `function_address` supplies.
  using FunctionAddress = std::function<Result<std::uint64_t>(std::string_view function)>;
  Status initialize(const ptx::Module& module, const FunctionAddress& function_address);

  const std::vector<GlobalPlacement>& placements() const { return placements_; }
  const GlobalPlacement* find(std::string_view name) const;

 private:
  explicit GlobalStorage(DeviceMemory& memory) : memory_(&memory) {}
  // Makes a variable's place known to messages and checks.
  void put(const ptx::Variable& variable, std::byte* address, std::size_t size_bytes);
  void close_constants(bool closed) const;

  DeviceMemory* memory_;
  GuardedBytes bytes_, constants_;           // constants_: whole pages
  std::vector<GlobalPlacement> placements_;  // textual order
};

// Bytes a variable takes; an unsized first extent is counted from the initialiser.
std::uint64_t variable_bytes(const ptx::Variable& variable);

}  // namespace pergola::device::cpu
