// What a caller must know of a kernel: its parameters' layout and the memory it needs, read off its PTX.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::ptx {

struct Parameter {
  std::string name;           // as in the PTX: saxpy_param_2
  std::uint32_t offset_bytes = 0;  // in the parameter buffer
  std::uint32_t size_bytes = 0;
  std::uint32_t align_bytes = 1;
  Type type = Type::kNone;    // kB8 with is_aggregate for a struct passed by value
  bool is_aggregate = false;
  bool is_pointer = false;    // declared .ptr; a bare .u64 may be one as well
  bool operator==(const Parameter&) const = default;
};

struct KernelSignature {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;       // size of the buffer that holds them all
  std::uint32_t static_shared_bytes = 0;   // with what its callees declare
  bool uses_dynamic_shared = false;
  std::optional<std::array<std::uint32_t, 3>> max_threads, required_threads, required_cluster;
  bool operator==(const KernelSignature&) const = default;
};

// `entry` must be an .entry of `module`; kInvalidArgument otherwise.
Result<KernelSignature> signature(const Module& module, const Function& entry);

}  // namespace pergola::ptx
