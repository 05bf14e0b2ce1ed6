// DLPack's structs, as its specification (1.0, dmlc.github.io/dlpack) lays them out in memory.
#pragma once

#include <cstdint>

namespace pergola::python::dlpack {

constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;
constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2;

struct Device {
  std::int32_t type, id;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: C-contiguous
  std::uint64_t byte_offset;
};
// "dltensor"
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
// "dltensor_versioned"
struct ManagedVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace pergola::python::dlpack
