#include "src/runtime/dag_file.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "src/base/file.h"
#include "src/base/fork.h"
#include "src/base/log.h"

namespace pergola::runtime {

// Those of sessions that live. Never destroyed: sessions in static objects go late.
class DagFile::Living {
 public:
  static Living& instance() {
    static auto* const living = new Living;
    return *living;
  }
  void add(const DagFile* file) {
    const std::lock_guard lock(mutex_);
    files_.insert(file);
  }
  void write_and_remove(const DagFile* file) {
    const std::lock_guard lock(mutex_);
    if (files_.erase(file) != 0) warn(file->write(file->scheduler_.picture()));
  }

 private:
  Living() {
    std::atexit([] { instance().write_all(); });
  }
  void write_all() {
    if (is_forked_child()) return;
    const std::lock_guard lock(mutex_);
    for (const DagFile* file : std::exchange(files_, {})) warn(file->write_at_exit());
  }
  static void warn(const Status& status) {
    if (!status.ok()) PERGOLA_WARN("PERGOLA_DOT_FILE: {}", status.message());
  }

  std::mutex mutex_;  // guards files_, and keeps a file there while it is written
  std::set<const DagFile*> files_;
};

DagFile::DagFile(std::filesystem::path path, scheduler::Scheduler& scheduler)
    : path_(std::move(path)), scheduler_(scheduler) {}

Result<std::unique_ptr<DagFile>> DagFile::create(const std::filesystem::path& path, scheduler::Scheduler& scheduler) {
  std::unique_ptr<DagFile> file(new DagFile(from_root(path), scheduler));
  if (!is_written_in_place(file->path_)) PERGOLA_TRY(file->write(file->scheduler_.picture()));
  Living::instance().add(file.get());
  return file;
}

DagFile::~DagFile() {
  if (!is_forked_child()) Living::instance().write_and_remove(this);
}

Status DagFile::write(const scheduler::DagPicture& picture) const {
  if (path_.extension() == ".svg") return write_named_file(path_, picture.svg());
  return write_named_file(path_, path_.extension() == ".mmd" ? picture.mermaid() : picture.dot());
}

// Another thread may be in the scheduler, and wait there for a device that gets nowhere.
Status DagFile::write_at_exit() const {
  constexpr std::chrono::milliseconds kPatience(1000), kNap(1);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::optional<scheduler::DagPicture> picture;
  while (!(picture = scheduler_.try_picture()) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kNap);
  if (picture) return write(*picture);
  return PERGOLA_ERROR(kUnavailable, "'{}' is not written, as another thread submits work while the process ends.",
                       path_.string());
}

}  // namespace pergola::runtime
