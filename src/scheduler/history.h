// How long kernels took, by size: what later choices can be made from, in this run and the next.
//
// A kernel (by name, on one device) has a row for each class of sizes (size_class.h). Files are JSON:
//
//   {"pergola_history": 1, "devices": {"NVIDIA H200": {"saxpy": [{"threads_class": 21, "bytes_class": 24, "count": 10,
//     "mean_ns": 8000.5, "min_ns": 7900}]}}}
//
// Thread-compatible: the scheduler's lock guards its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/scheduler/size_class.h"

namespace pergola::scheduler {

struct KernelTimes {
  std::uint64_t count = 0;
  double mean_ns = 0, min_ns = 0;
  void add(const KernelTimes& more);
};

struct Estimate {
  KernelTimes times;
  std::uint32_t classes_away = 0;  // 0: of this very class of sizes
};

class History {
 public:
  using Kernels = std::map<std::string, std::map<SizeClass, KernelTimes>, std::less<>>;

  void add(std::string_view device, std::string_view kernel, SizeClass size, double ns);
  // The times of this class of sizes or, where there are none, of the nearest one, the smaller of two; empty where the
  // kernel was never seen on the device.
  std::optional<Estimate> estimate(std::string_view device, std::string_view kernel, SizeClass size) const;
  void merge(const History& other);
  bool empty() const { return devices_.empty(); }
  const std::map<std::string, Kernels, std::less<>>& devices() const { return devices_; }

  std::string print() const;  // as JSON
  std::string table() const;  // for people
  // Any bytes may be given. kParseError says what is wrong; `name` is the file's, for messages.
  static Result<History> parse(std::string_view text, std::string_view name);
  // An empty history where there is no file, and of a pipe or a device, which has no earlier run's and may give nothing
  // for ever. A file that is no history is refused and left as it is.
  static Result<History> load(const std::filesystem::path& path);
  // Adds this to the file's history, whatever others have added meanwhile. Of two processes that do so at one moment
  // the later may overwrite what the other added.
  Status add_to(const std::filesystem::path& path) const;

 private:
  std::map<std::string, Kernels, std::less<>> devices_;
};

}  // namespace pergola::scheduler
