// A session: where work is submitted. One interface, served in the process (src/runtime) and by a daemon's client.
//
//   Session ─┬─ load()     ─▶ Module ─ kernel() ─▶ Kernel ─ launch() ─▶ Event
//            └─ allocate() ─▶ Array ── write() read() view() fill() copy_from()
//
// Work runs in the order in which it was submitted, asynchronously: only read(), view(), wait() and synchronize() wait
// for it. A failure while running is told by the first of these that covers it; work behind it is skipped, and waiting
// for that tells the cause again, until synchronize() has reported it, which clears it.
//
// Thread-safe throughout. Everything made by a session keeps it alive; work in flight keeps alive what it uses.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
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

  // Queues a copy from the host; `source` is taken before the call returns.
  virtual Status write(std::uint64_t offset_bytes, std::span<const std::byte> source) = 0;
  // Waits for the work so far and copies.
  virtual Status read(std::uint64_t offset_bytes, std::span<std::byte> destination) = 0;
  // As read(), of everything, into memory of this array that stands until the next view().
  virtual Result<std::span<const std::byte>> view() = 0;
  // Queues: every element becomes `value`, of element_bytes().
  virtual Status fill(std::span<const std::byte> value) = 0;
  // Queues. The ranges may not overlap.
  virtual Status copy_from(std::uint64_t offset_bytes, const std::shared_ptr<Array>& source,
                           std::uint64_t source_offset_bytes, std::uint64_t size_bytes) = 0;

 protected:
  Array(ElementType type, std::uint32_t element_bytes, std::uint64_t count, std::uint64_t session_id)
      : type_(type), element_bytes_(element_bytes), count_(count), session_id_(session_id) {}

 private:
  const ElementType type_;
  const std::uint32_t element_bytes_;
  const std::uint64_t count_, session_id_;
};
using ArrayPtr = std::shared_ptr<Array>;

using LaunchShape = device::LaunchConfig;

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const KernelInfo& info() const = 0;
  // Checks the arguments (arguments.h), queues one grid and returns an event at its end.
  virtual Result<EventPtr> launch(const LaunchShape& shape, std::span<const Argument> arguments) = 0;
  // The check, and an event at the end of the work so far: a launch of no blocks.
  virtual Result<EventPtr> launch_nothing(std::span<const Argument> arguments) = 0;
};
using KernelPtr = std::shared_ptr<Kernel>;

class Module {
 public:
  virtual ~Module() = default;
  virtual const std::vector<std::string>& kernel_names() const = 0;  // as in the PTX, in its order
  virtual const std::string& ptx() const = 0;
  // By PTX name, or plain name where only one fits (kernel_names.h). kUnsupported where the device cannot run it.
  virtual Result<KernelPtr> kernel(std::string_view name) = 0;
};
using ModulePtr = std::shared_ptr<Module>;

enum class Language : std::int32_t { kAuto = 0, kCuda = 1, kPtx = 2 };

struct LoadOptions {
  Language language = Language::kAuto;
  std::string name;                         // for messages; "": the path, or "<string>"
  std::vector<std::string> compiler_flags;  // "-DN=4" "-Iinclude" ...; refused for PTX
};

class Session {
 public:
  virtual ~Session() = default;
  virtual const device::DeviceInfo& device() const = 0;

  // Compile where needed, parse, verify, analyse, load. Block meanwhile.
  virtual Result<ModulePtr> load_file(const std::string& path, const LoadOptions& options) = 0;
  virtual Result<ModulePtr> load_text(std::string_view text, const LoadOptions& options) = 0;

  // Uninitialised memory on the device; element_bytes counts for kBytes only (0: 1).
  virtual Result<ArrayPtr> allocate(ElementType type, std::uint32_t element_bytes, std::uint64_t count) = 0;

  virtual Result<EventPtr> record() = 0;
  virtual Status synchronize() = 0;
};
using SessionPtr = std::shared_ptr<Session>;

// A one-dimensional shape of at least `count` threads that fits the kernel's .reqntid and limits; grid.x is 0 for 0.
// kInvalidArgument where it asks for a block of more dimensions, or the grid would be too large for any device.
Result<LaunchShape> for_each_config(const KernelInfo& kernel, std::uint64_t count);

}  // namespace pergola::session
