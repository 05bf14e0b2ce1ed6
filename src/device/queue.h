// An in-order queue of work on a device (a CUDA stream; a worker thread on the CPU device).
//
// Every call returns as soon as the work is queued, except where it says otherwise. A failure while *queueing* (a bad
// size, a launch that cannot fit) is the call's own Status and queues nothing. A failure while *running* goes into
// events (event.h). Thread-safe: calls from several threads are queued in some order.
#pragma once

#include <optional>
#include <span>

#include "src/device/buffer.h"
#include "src/device/event.h"
#include "src/device/gate.h"
#include "src/device/kernel.h"

namespace pergola::device {

class Queue {
 public:
  // What a launch comes between.
  struct Between {
    std::span<const EventPtr* const> after;  // as wait() takes them
    // Where it is not null, an untimed event behind the launch comes there. One that is there already is recorded
    // again, on some devices, where nobody else has it. Null afterwards where there is none: it can be had later.
    EventPtr* behind = nullptr;
    // Where it is not null: what the queue has found out about a launch of that kernel with that configuration and as many
    // bytes of parameters, null before the first. Whoever keeps it gives it with these alone, and keeps the module.
    const void** known = nullptr;
    bool has_waited = false;  // afterwards: of what it comes after; else nothing but waits has been queued
  };

  virtual ~Queue() = default;  // waits for its work

  // `parameters` is the kernel's parameter buffer, laid out by its signature; copied before the call returns.
  virtual Status launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                        std::span<const std::byte> parameters) = 0;
  // wait(), launch() and record_untimed() in one call, which costs less on some devices. `behind` is left as it is where
  // the launch has not been queued.
  virtual Status launch_between(Between& between, const ModulePtr& module, const Kernel& kernel,
                                const LaunchConfig& config, std::span<const std::byte> parameters);

  // Host to device. `source` is copied before the call returns unless it lies in a kHostVisible buffer of this
  // device, which is then read when the copy runs and must stay unchanged till then.
  virtual Status copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                                std::span<const std::byte> source) = 0;
  // Device to host. `destination` must stay valid until the copy has run. Truly asynchronous where it lies in a
  // kHostVisible buffer; otherwise the call may block until it is done.
  virtual Status copy_to_host(std::span<std::byte> destination, const BufferPtr& source,
                              std::size_t offset_bytes) = 0;
  virtual Status copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
                      std::size_t source_offset_bytes, std::size_t size_bytes) = 0;
  // Repeats a pattern of 1, 2 or 4 bytes; offset and size are multiples of it.
  virtual Status fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
                      std::uint32_t pattern, std::uint32_t pattern_bytes) = 0;

  // Managed memory (MemoryKind::kManaged) for this queue's later work, or for the host once this queue has come so far:
  // where access is concurrent the contents move there, which is a hint; where it is restricted the memory becomes
  // visible to just that, and the caller orders this after work that uses it elsewhere. kUnsupported where the device
  // has none.
  virtual Status take_managed(const BufferPtr& buffer);
  virtual Status give_managed_to_host(const BufferPtr& buffer);

  // Later work of this queue starts after `event` (of the same device) has ended; if it failed, is skipped.
  virtual Status wait(const EventPtr& event) = 0;
  // The same, until the host has opened `gate` (of the same device, Device::create_gate) to `number`.
  virtual Status wait_for_gate(const GatePtr& gate, std::uint32_t number);
  // Whether launch_between() records events again, for which failures must be told by any event that comes behind them:
  // elsewhere the first one alone tells what it was (event.h), and must stay until it has been asked.
  virtual bool records_again() const { return false; }
  // An event that ends with all work queued before it.
  virtual Result<EventPtr> record() = 0;
  // The same for ordering and waiting only: it has no time, and costs less on some devices.
  virtual Result<EventPtr> record_untimed() { return record(); }
  // The same for an event that the host is about to wait for: it is told sooner on some devices, for one call more.
  virtual Result<EventPtr> record_for_host() { return record_untimed(); }
  // As poll() of an event recorded now, without one: empty while work goes on, else how that since the last event ended.
  virtual std::optional<Status> poll() = 0;
  // Blocks until all work has ended. Reports the first error since the last synchronize() and clears it, so that
  // later work runs again (not after kDeviceLost).
  virtual Status synchronize() = 0;
  // Lets go of what its work used, where all of that has ended: nobody waits, whatever others queue meanwhile.
  virtual void let_go_if_idle() {}
  // What other libraries call this queue: a CUstream, whose context becomes the calling thread's. Null where the device
  // has none. What they queue on it is in order with the rest; its failures are told as the rest's.
  virtual Result<void*> native_handle() { return nullptr; }
};

}  // namespace pergola::device
