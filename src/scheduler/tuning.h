// In which way graphs ran fastest (graph_ways.h), kept in a file from one session to the next: the next one makes that
// way first and goes on with the others only where it does not hold, or once it has the time.
//
// A graph, on one device and its driver, is known by a key of all that decides how long it takes (graph_key.h). Files
// are JSON:
//
//   {"pergola_tuning": 1, "sessions": 3, "devices": {"NVIDIA H200, CUDA 13.0, driver 580.159.04": {"0f3c...": {
//     "graph": "24 launches: scale, add", "kept": "merged", "is_finished": true, "last_session": 3,
//     "ways_ns": {"plain": 41100, "merged": 36100}}}}}
//
// Invariant: what a file says is never relied on. A way of it is measured against the plain one before it stays, and a
// name that means nothing (any more) is passed over.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace pergola::scheduler {

struct TunedGraph {
  std::string graph;                      // what it is, for people
  std::string kept;                       // the way that was fastest; "": it is not known yet
  bool is_finished = false;               // whether all ways that there were have been tried, in one session or several
  std::uint64_t last_session = 0;         // of the file's, the latest that met it
  std::map<std::string, double> ways_ns;  // what a launch of it took the device
  bool operator==(const TunedGraph&) const = default;
};

class Tuning {
 public:
  using Graphs = std::map<std::string, TunedGraph, std::less<>>;
  // Graphs that are kept in a file: those that were met last, of whichever devices.
  static constexpr std::size_t kMostGraphs = 4096;

  // Null where it was never met.
  const TunedGraph* find(std::string_view device, std::string_view key) const;
  // Adds what a session found; of a graph that was added before, what is known of both.
  void add(std::string_view device, std::string_view key, TunedGraph graph);
  // `later`: what a session found that knew this. Its graphs are those of the latest session then.
  void merge(const Tuning& later);
  const std::map<std::string, Graphs, std::less<>>& devices() const { return devices_; }

  std::string print() const;  // as JSON
  std::string table() const;  // for people
  // Any bytes may be given. kParseError says what is wrong; `name` is the file's, for messages.
  static Result<Tuning> parse(std::string_view text, std::string_view name);
  // Empty where there is no file, and of a pipe or a device. A file that is none is refused and left as it is.
  static Result<Tuning> load(const std::filesystem::path& path);
  // The same, and tells at once where the file cannot be written.
  static Result<Tuning> open(const std::filesystem::path& path);
  // Merges this into the file, whatever others have added meanwhile. Of two processes that do so at one moment the
  // later may overwrite what the other added.
  Status add_to(const std::filesystem::path& path) const;

 private:
  std::uint64_t sessions_ = 0;
  std::map<std::string, Graphs, std::less<>> devices_;
};

}  // namespace pergola::scheduler
