// A word of page-locked memory that the device and the host both reach, of which one writes and the other waits. One
// that a stream writes when it comes to it: the host, looking there, sees that the work before it has ended without a
// call of the driver: 0.6 us sooner than by an event (H200).
//
// A word belongs to one queue at a time, which counts it up; its next owner goes on from there. So "has come to n"
// stays true of older numbers, and events may outlive their queue. Writer: the device. Readers: any thread, acquire,
// since what the host reads next is what work before the word has written (the driver fences the system before it:
// cuStreamWriteValue32 without CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER). One that the host writes and streams wait for
// is a gate's (cuda_gate.h). Writer: the host, release.
#pragma once

#include <cstdint>

#include "src/device/cuda/cuda_driver_types.h"

namespace pergola::device::cuda {

struct HostWord {
  std::uint32_t* at = nullptr;  // null: there is none. As old as its context
  CUdeviceptr address = 0;      // for the device

  explicit operator bool() const { return at != nullptr; }
  std::uint32_t value() const { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
  void write(std::uint32_t number) const { __atomic_store_n(at, number, __ATOMIC_RELEASE); }
  bool has_come_to(std::uint32_t number) const { return static_cast<std::int32_t>(value() - number) >= 0; }
};

}  // namespace pergola::device::cuda
