// A device: where PTX runs. `cuda` (NVIDIA driver), `cpu` (a virtual GPU), `null` (the skeleton to copy).
//
//   Device ─┬─ load()        ─▶ Module ─▶ Kernel
//           ├─ allocate()    ─▶ Buffer
//           ├─ create_texture() ─▶ Texture
//           ├─ create_queue()─▶ Queue ─▶ Event
//           └─ instantiate() ─▶ ExecutableGraph
//
// Thread-safe. Everything made by a device keeps it alive (shared_ptr inside), so handles may be dropped in any order.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "src/base/function_ref.h"
#include "src/base/result.h"
#include "src/device/buffer.h"
#include "src/device/graph.h"
#include "src/device/kernel.h"
#include "src/device/queue.h"
#include "src/device/texture.h"
#include "src/ptx/module.h"

namespace pergola::device {

// What is loaded: the parsed module, and its text as it came (a device that hands PTX on, hands on the text).
struct ModuleSource {
  const ptx::Module* module = nullptr;  // verified; borrowed for the call
  std::string_view text;                // its PTX; what a driver is given
  std::string_view name;                // for messages
  // Called once when the code is compiled and before it is put on the device, which on a GPU waits for every kernel
  // that is resident. Its failure is load()'s. May be null.
  const FunctionRef<Status()>* when_compiled = nullptr;
  // How much of a multiprocessor's memory its kernels are to leave for shared memory rather than cache, of 100; 0: the
  // device chooses. Kernels that want different shares are not on one multiprocessor at a time.
  std::uint32_t shared_memory_percent = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  // Compiles and loads. What the device cannot run is refused here, by name and line, never when it is launched.
  virtual Result<ModulePtr> load(const ModuleSource& source) = 0;

  // At least 256-byte aligned. size_bytes may be 0. Contents are undefined.
  virtual Result<BufferPtr> allocate(std::size_t size_bytes, MemoryKind kind) = 0;
  // Where allocate() may put memory right beside others': apart from what that gives, for tables that must outlive a
  // kernel's writes beyond its arrays.
  virtual Result<BufferPtr> allocate_apart(std::size_t size_bytes, MemoryKind kind) {
    return allocate(size_bytes, kind);
  }
  // Of sources that copy_to_device() has taken copies of, by now: they wait for their turn in the host's memory. For
  // whoever could wait instead; 0 of a device that bounds them by itself.
  virtual std::uint64_t staged_bytes() const { return 0; }
  // Whether a queue's copy_to_device() of these bytes may return only once work before it has ended, as they are more
  // than it takes a copy of. For whoever would rather wait before: nobody else has the queue then.
  virtual bool copy_waits([[maybe_unused]] std::span<const std::byte> source) const { return false; }
  // Another library's memory on this device, as a buffer; blocks until the work now in its stream has ended. The
  // address is believed. kUnsupported where the device shares no memory with other libraries.
  virtual Result<BufferPtr> adopt(const ForeignMemory& memory);
  // The buffer's texels as they are now, for kernels to sample (texture.h). kUnsupported where the device has none.
  virtual Result<TexturePtr> create_texture(const TextureDescription& description) = 0;
  virtual Result<std::unique_ptr<Queue>> create_queue() = 0;
  // Closed: opened to 0. kUnsupported where queues cannot wait for the host.
  virtual Result<GatePtr> create_gate();
  // An event at the end of what another library has queued by now on its stream: a CUstream of this device; 0 and 1 are
  // the legacy default stream, 2 is the calling thread's. kUnsupported where the device has no streams of others.
  virtual Result<EventPtr> record_foreign(std::uint64_t stream);
  // That stream's later work starts after `event` (of this device) has ended.
  virtual Status make_foreign_wait(std::uint64_t stream, const EventPtr& event);
  virtual Result<std::unique_ptr<ExecutableGraph>> instantiate(GraphSpec spec) = 0;

  // Success while the device works; kDeviceLost with the cause once it cannot be used any more by this process.
  virtual Status health() const = 0;

  // Whether some kernel of this device has got on since this was last asked, and not only waited; false where the
  // device cannot tell, and once the process ends. For whoever waits for work to end, and may give it up.
  virtual bool gets_on() { return false; }
  // Somebody has waited so for as long as is borne: those who end right after it need not do so again.
  virtual void note_given_up() {}

  // Who has such a kernel (below) says how to have it leave; `owner` is whoever that is. By any thread it is called
  // before calls of the process's devices on this GPU in which a driver would wait for that kernel, instantiate() and
  // load() without `when_compiled`; the kernel stays away as long as what it gives lives. Thread-safe.
  using SendAway = std::function<Result<std::shared_ptr<void>>()>;
  virtual void add_resident([[maybe_unused]] const void* owner, [[maybe_unused]] const SendAway& send_away) {}
  virtual void remove_resident([[maybe_unused]] const void* owner) {}

  // A kernel that stays until it is told to leave is about to be launched, and has left. In between a driver would wait
  // for it with whatever it is to free, so that is kept, whichever session of the process lets go of it; it goes with
  // what is freed or allocated after the last of such kernels, or with free_kept(). Thread-safe.
  virtual void resident_begins() {}
  virtual void resident_ends() {}
  virtual void free_kept() {}
};

using DevicePtr = std::shared_ptr<Device>;

}  // namespace pergola::device
