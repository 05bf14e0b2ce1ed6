// PERGOLA_DOT_FILE: a session's DAG as a picture in a file, written when the session ends, or the process where it
// never does (as in Python).
//
// Thread-safe: the end of a process may come while a session goes in another thread.
#pragma once

#include <filesystem>
#include <memory>

#include "src/base/at_exit.h"
#include "src/base/result.h"
#include "src/scheduler/scheduler.h"

namespace pergola::runtime {

class DagFile {
 public:
  // `path` ends with .svg for a picture, with .mmd for Mermaid's text, else it is Graphviz's. kIo at once where it cannot
  // be written. `scheduler` outlives what is made.
  static Result<std::unique_ptr<DagFile>> create(const std::filesystem::path& path, scheduler::Scheduler& scheduler);
  // Writes; a warning says where that fails. In a forked child nothing is written.
  ~DagFile();
  DagFile(const DagFile&) = delete;
  DagFile& operator=(const DagFile&) = delete;

 private:
  DagFile(std::filesystem::path path, scheduler::Scheduler& scheduler);
  Status write(const scheduler::DagPicture& picture) const;
  Status write_at_exit() const;

  const std::filesystem::path path_;
  scheduler::Scheduler& scheduler_;
  std::unique_ptr<AtExit> at_exit_;  // goes first; null until it can be written
};

}  // namespace pergola::runtime
