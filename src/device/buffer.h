// Memory that kernels can address.
//
// A Buffer owns its bytes. Work in flight keeps the buffers it was given alive through BufferPtr; a kernel's raw
// addresses do not, so whoever launches holds its arrays until the launch's event has ended. Thread-safe to read.
#pragma once

#include <memory>

#include "src/device/types.h"

namespace pergola::device {

enum class MemoryKind : std::uint8_t {
  kDevice,       // the device's own
  kHostVisible,  // host memory, page-locked where the device wants it, that both sides may read and write at once
  // One memory for both sides, whose contents move to whichever uses them (DeviceInfo::managed; Queue::take_managed).
  // Where the host reaches the device's own memory, that, and of kind kDevice. kUnsupported where there is none.
  kManaged,
};

class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual DeviceAddress address() const = 0;
  virtual std::size_t size_bytes() const = 0;
  virtual MemoryKind kind() const = 0;
  // Where the host may read and write it (kManaged: when); null for kDevice memory that the host cannot reach.
  virtual std::byte* host_pointer() const = 0;
  // What it is a part of: the same for buffers that lie in one piece of memory, over several of which one operation of
  // the device may reach. They begin at multiples of kPieceAlignBytes there, and what lies between the end of one and
  // the next such multiple is nobody's. By itself it is one of its own.
  static constexpr std::size_t kPieceAlignBytes = 512;
  virtual const void* piece() const { return this; }
};

using BufferPtr = std::shared_ptr<Buffer>;

// Memory on a device that another library allocated.
struct ForeignMemory {
  DeviceAddress address = 0;
  std::size_t size_bytes = 0;
  std::uint64_t stream = 0;     // the CUstream whose work makes what is in it; 0: it is there already
  std::shared_ptr<void> owner;  // held while anything uses the memory, then dropped by whichever thread is the last
};

}  // namespace pergola::device
