// A session: where work is submitted. One interface, served in the process (src/runtime) and by a daemon's client.
//
//   Session ─┬─ load()     ─▶ Module ─ kernel() ─▶ Kernel ─ launch() ─▶ Event
//            └─ allocate() ─▶ Array ── write() read() view() fill() copy_from()
//                               └─ create_texture() ─▶ Texture
//
// Work runs asynchronously, and with the results of the order in which it was submitted: what conflicts about memory is
// ordered by itself, what does not may overlap (src/scheduler). Only read(), view(), wait() and synchronize() wait;
// read() and view() for just what made the data. A failure while running is told by the first of these that covers it;
// work that depends on it is skipped, other work may be, and waiting for that tells the cause again, until
// synchronize() has reported it, which clears it.
//
// Thread-safe throughout. Everything made by a session keeps it alive; work in flight keeps alive what it uses.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/call_text.h"
#include "src/base/function_ref.h"
#include "src/base/result.h"
#include "src/device/buffer.h"
#include "src/device/texture.h"
#include "src/device/types.h"
#include "src/session/types.h"

namespace pergola::session {

class Event {
 public:
  virtual ~Event() = default;
  // How the work ended; empty while it goes on. Never blocks.
  virtual std::optional<Status> poll() = 0;
  // Blocks until it has ended, or kTimeout.
  virtual Status wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Device time from the end of `start` to the end of this; both must have ended, in one session.
  virtual Result<double> elapsed_ns(const Event& start) = 0;
};
using EventPtr = std::shared_ptr<Event>;

// What kernels sample (device/texture.h): an array's texels as they were when the texture was made.
class Texture {
 public:
  virtual ~Texture() = default;
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  std::uint64_t session_id() const { return session_id_; }
  virtual std::uint64_t handle() const = 0;

 protected:
  explicit Texture(std::uint64_t session_id) : session_id_(session_id) {}

 private:
  const std::uint64_t session_id_;
};
using TexturePtr = std::shared_ptr<Texture>;

// Where an array's newest contents are: in the device's memory, in the host's mirror of it (Array::host), in both. Of
// managed memory: the side that it was last moved to.
enum class Location : std::int32_t { kDevice = 1, kHost = 2, kBoth = 3 };

class Array {
 public:
  virtual ~Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  ElementType type() const { return type_; }
  std::uint32_t element_bytes() const { return element_bytes_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t size_bytes() const { return count_ * element_bytes_; }
  std::uint64_t session_id() const { return session_id_; }
  virtual device::DeviceAddress address() const = 0;
  // Somebody outside has the address, and may have given it to others: once the array has gone its memory waits for
  // their work, too, as the driver frees it.
  void note_told() const { is_told_.store(true, std::memory_order_relaxed); }
  bool is_told() const { return is_told_.load(std::memory_order_relaxed); }

  // Queues a copy from the host; `source` is taken before the call returns.
  virtual Status write(std::uint64_t offset_bytes, std::span<const std::byte> source) = 0;
  // Waits for the work that made these bytes, and for no more; kTimeout where it goes on for longer. Of no bytes, for
  // tasks alone that were given the array.
  virtual Status wait(std::uint64_t offset_bytes, std::uint64_t size_bytes,
                      std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Waits for the work that made these bytes and copies them.
  virtual Status read(std::uint64_t offset_bytes, std::span<std::byte> destination) = 0;
  // As read(), of everything, into memory of this array that stands until the next view(), host() or prefetch().
  virtual Result<std::span<const std::byte>> view() = 0;
  // The contents, for the host to work on by pointer until this array is next given to anything else: a mirror in
  // page-locked memory, or the array's own where the host reaches it. kRead waits for the work that made the contents
  // (and copies only where the newest are not there), kWrite for copies of the mirror alone: all of it is to be
  // written, kReadWrite as kRead. What was written goes up before whatever uses the array next. kTimeout where the wait
  // goes on for longer.
  virtual Result<std::span<std::byte>> host(Access access,
                                            std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Queues the copy that makes the contents be there; nothing where they are. For the host, host() then finds them.
  // kInvalidArgument for kBoth.
  virtual Status prefetch(Location to) = 0;
  virtual Location location() const = 0;
  // By which pictures, traces and messages speak of it: in its session's order, from 1.
  virtual std::uint64_t number() const = 0;
  // Queues: these bytes become `value`, over and over; kInvalidArgument where it does not go into them a whole number
  // of times. The other: every element, a value of element_bytes().
  virtual Status fill(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::span<const std::byte> value) = 0;
  Status fill(std::span<const std::byte> value);
  // Queues. The ranges may not overlap.
  virtual Status copy_from(std::uint64_t offset_bytes, const std::shared_ptr<Array>& source,
                           std::uint64_t source_offset_bytes, std::uint64_t size_bytes) = 0;
  // Waits for the work so far and takes the texels. `description` is all but its buffer, which is this array's.
  virtual Result<TexturePtr> create_texture(device::TextureDescription description) = 0;

 protected:
  Array(ElementType type, std::uint32_t element_bytes, std::uint64_t count, std::uint64_t session_id)
      : type_(type), element_bytes_(element_bytes), count_(count), session_id_(session_id) {}

 private:
  const ElementType type_;
  const std::uint32_t element_bytes_;
  const std::uint64_t count_, session_id_;
  mutable std::atomic<bool> is_told_{false};  // relaxed: who drops the array comes after who asked it
};
using ArrayPtr = std::shared_ptr<Array>;

using LaunchShape = device::LaunchConfig;

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const KernelInfo& info() const = 0;
  // Checks the arguments (arguments.h) and queues one grid; with `event`, makes an event at its end, which costs. A
  // ticket costs nothing, and event_of() makes an event of it. `text`, which may be null, is all that the caller wrote
  // for it.
  virtual Status launch(const LaunchShape& shape, std::span<const Argument> arguments, EventPtr* event = nullptr,
                        std::uint64_t* ticket = nullptr, const CallText* text = nullptr) = 0;
  // launch() once more with that text, where it is known to be the same launch; else none, and nothing has happened.
  virtual std::optional<Status> launch_again(const CallText& text, std::uint64_t* ticket) = 0;
  // Ends with that launch or, where work has followed it on its stream, with some of that; for ticket 0, with the work
  // so far. kInvalidArgument for what is no ticket of this session.
  virtual Result<EventPtr> event_of(std::uint64_t ticket) = 0;
  // The check only, and an event at the end of the work so far: a launch of no blocks.
  virtual Status launch_nothing(std::span<const Argument> arguments, EventPtr* event = nullptr) = 0;
};
using KernelPtr = std::shared_ptr<Kernel>;

class Module {
 public:
  virtual ~Module() = default;
  virtual const std::vector<std::string>& kernel_names() const = 0;  // as in the PTX, in its order
  // Of the kernel of that index: why the device cannot run it; "" where it can.
  virtual const std::string& refusal(std::size_t index) const = 0;
  virtual const std::string& ptx() const = 0;
  // By PTX name, or plain name where only one fits (kernel_names.h). kUnsupported where the device cannot run it. A
  // signature overrides what was found in the PTX, as far as that leaves a doubt (signature.h); "" is that of a kernel
  // without parameters.
  virtual Result<KernelPtr> kernel(std::string_view name, std::optional<std::string_view> signature = {}) = 0;
};
using ModulePtr = std::shared_ptr<Module>;

class TaskPool;
struct TaskPoolOptions;

enum class Language : std::int32_t { kAuto = 0, kCuda = 1, kPtx = 2 };

struct LoadOptions {
  Language language = Language::kAuto;
  std::string name;                         // for messages; "": the path, or "<string>"
  std::vector<std::string> compiler_flags;  // "-DN=4" "-Iinclude" ...; refused for PTX
};

// Bytes of an array that a library call reads, writes, or both.
struct CallAccess {
  ArrayPtr array;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;  // 0: to the array's end
  Access mode = Access::kReadWrite;
};
// Queues its work on `stream`, a CUstream, whose context is current; with null, has done it when it returns. 0, or an
// error.
using CallFunction = FunctionRef<std::int32_t(void* stream)>;

class Session {
 public:
  virtual ~Session() = default;
  virtual const device::DeviceInfo& device() const = 0;

  // Compile where needed, parse, verify, analyse, load. Block meanwhile.
  virtual Result<ModulePtr> load_file(const std::string& path, const LoadOptions& options) = 0;
  virtual Result<ModulePtr> load_text(std::string_view text, const LoadOptions& options) = 0;

  // Uninitialised memory on the device; element_bytes counts for kBytes only (0: 1).
  virtual Result<ArrayPtr> allocate(ElementType type, std::uint32_t element_bytes, std::uint64_t count) = 0;

  // Another library's memory on this device as an array (device::Device::adopt); its size is count * element_bytes.
  virtual Result<ArrayPtr> adopt(ElementType type, std::uint32_t element_bytes, std::uint64_t count,
                                 device::ForeignMemory memory) = 0;

  // A call of another library (cuBLAS ...) as one piece of work with declared accesses. `function` is called once, on
  // this thread, before this returns: with the stream chosen for the work, which waits for what the accesses depend on;
  // or, where the device has no streams or with `synchronous`, with null, when all that has ended. `name` is for
  // pictures, one for each kind of call. kCallFailed names the function's error; what it had queued by then keeps its
  // place. Inside the function the session can submit and wait for nothing: kFailedPrecondition.
  virtual Status call(std::string_view name, std::span<const CallAccess> accesses, bool synchronous,
                      CallFunction function) = 0;

  // Another library's stream, a CUstream of this device (0 and 1: the legacy default stream, 2: the calling thread's);
  // kUnsupported where the device has none. Neither waits.
  // Work submitted from now on, and accesses of the host, come after what is on the stream now.
  virtual Status wait_stream(std::uint64_t stream) = 0;
  // The stream's later work comes after what has been submitted here.
  virtual Status make_stream_wait(std::uint64_t stream) = 0;

  // The session's pool of narrow tasks (task_pool.h): one, made by the first call, whose options count. kUnsupported
  // where the device cannot run it.
  virtual Result<std::shared_ptr<TaskPool>> task_pool(const TaskPoolOptions& options) = 0;

  // Ends with all launches, fills and copies submitted before it. Narrow tasks are on no stream: their ids are waited
  // for.
  virtual Result<EventPtr> record() = 0;
  // Waits for all work so far, reports the first failure since the last call and clears it. kTimeout where some of it
  // goes on after `timeout`: nothing is reported then, or cleared; after a failure queues are waited for nonetheless.
  virtual Status synchronize(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;

  // The work submitted last as a graph, "svg", "dot" or "mermaid"; kInvalidArgument for another format.
  virtual Result<std::string> dag(std::string_view format) = 0;
  // Which launches recurred and became graphs, in which way, and why others did not (docs/observability.md): "text" for
  // people, or "json"; kInvalidArgument for another format. Waits for nothing.
  virtual Result<std::string> graphs(std::string_view format) = 0;

  // Records what is submitted from now on, for the file `path` (docs/observability.md); with none, waits for what was
  // recorded so far and writes it, as the end of the session does. A file that cannot be written is refused at once.
  virtual Status trace(const std::optional<std::string>& path) = 0;
  // The same for kernels' times by size, which are added to what the file has; a file that is no history is refused.
  virtual Status history(const std::optional<std::string>& path) = 0;
  // The times of the file's history are known from now on, and nothing is recorded. kNotFound where there is none.
  virtual Status use_history(const std::string& path) = 0;
  // Ends both as their calls with none do, but waits for no longer than that: kTimeout where some of what they record
  // goes on, which is in neither.
  virtual Status end_recordings(std::optional<std::chrono::nanoseconds> timeout) = 0;
  // What is found of the ways of graphs, which is added to what the file has, and what that has comes first; waits for
  // nothing. A file that is no tuning is refused.
  virtual Status tuning(const std::optional<std::string>& path) = 0;
};
using SessionPtr = std::shared_ptr<Session>;

// A one-dimensional shape of at least `count` threads that fits the kernel's .reqntid and limits; grid.x is 0 for 0.
// kInvalidArgument where it asks for a block of more dimensions, or the grid would be too large for any device.
Result<LaunchShape> for_each_config(const KernelInfo& kernel, std::uint64_t count);

}  // namespace pergola::session
