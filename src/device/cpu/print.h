// printf inside kernels: the device function vprintf(format, arguments) of the CUDA ABI.
//
//   format     a C string at a generic address
//   arguments  a packed buffer at a generic address:  int, char, short as 4 bytes aligned 4;
//              long, long long, double, pointers as 8 bytes aligned 8;  in the order of the conversions
//
// Everything a kernel hands in is data: the format is parsed here, conversions are rebuilt from what was understood,
// and memory is read through a checked reader. A kernel can neither crash the host nor read host memory with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/device/cpu/memory_map.h"

namespace pergola::device::cpu {

// Copies bytes at a thread's generic address; false where the thread may not read all of them. A tier that keeps
// local or shared memory outside the MemoryMap passes a reader of its own.
using MemoryReader = std::function<bool(std::uint64_t address, std::span<std::byte> destination)>;
MemoryReader memory_map_reader(const MemoryMap& memory);

// The C string at `address`, at most `max_bytes` of it; empty where a byte of it may not be read.
std::optional<std::string> read_c_string(const MemoryReader& read, std::uint64_t address,
                                         std::size_t max_bytes = 64 * 1024);

// What printf writes for this format and packed buffer. Conversions: d i u o x X c s p f F e E g G a A %, flags
// "-+ #0", width and precision (also *), lengths hh h l ll j z t. What is none of these is written as it stands.
struct FormattedPrint {
  std::string text;
  int result = 0;  // as vprintf on a GPU: conversions that took an argument; -1 where the format cannot be read
};
FormattedPrint format_print(const MemoryReader& read, std::uint64_t format, std::uint64_t arguments);

// Where a device's output goes: standard output, or a sink. Thread-safe: one call at a time, whole pieces.
class PrintOutput {
 public:
  using Sink = std::function<void(std::string_view text)>;  // must not call back into the device
  explicit PrintOutput(Sink sink = {}) : sink_(std::move(sink)) {}
  void write(std::string_view text);

 private:
  std::mutex mutex_;  // orders pieces
  Sink sink_;
};

// One launch's output: each call's text stays whole, written out when the launch ends, earlier where there is much.
// Thread-safe. Its owner calls flush() after the last block has ended.
class PrintBuffer {
 public:
  explicit PrintBuffer(std::shared_ptr<PrintOutput> output) : output_(std::move(output)) {}

  // What the vprintf call of one thread does; its return value.
  int vprintf(const MemoryReader& read, std::uint64_t format, std::uint64_t arguments);
  void append(std::string_view text);
  void flush();

 private:
  std::shared_ptr<PrintOutput> output_;
  std::mutex mutex_;  // guards text_
  std::string text_;
};

}  // namespace pergola::device::cpu
