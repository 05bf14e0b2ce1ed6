#include "src/runtime/dag_file.h"

#include <chrono>
#include <optional>
#include <utility>

#include "src/base/file.h"
#include "src/base/log.h"

namespace pergola::runtime {
namespace {

void warn(const Status& status) {
  if (!status.ok()) PERGOLA_WARN("PERGOLA_DOT_FILE: {}", status.message());
}

}  // namespace

DagFile::DagFile(std::filesystem::path path, scheduler::Scheduler& scheduler)
    : path_(std::move(path)), scheduler_(scheduler) {}

Result<std::unique_ptr<DagFile>> DagFile::create(const std::filesystem::path& path, scheduler::Scheduler& scheduler) {
  std::unique_ptr<DagFile> file(new DagFile(from_root(path), scheduler));
  if (!is_written_in_place(file->path_)) PERGOLA_TRY(file->write(file->scheduler_.picture()));
  file->at_exit_ = std::make_unique<AtExit>([of = file.get()] { warn(of->write_at_exit()); });
  return file;
}

DagFile::~DagFile() {
  if (at_exit_ != nullptr) at_exit_->cancel([this] { warn(write(scheduler_.picture())); });
}

Status DagFile::write(const scheduler::DagPicture& picture) const {
  if (path_.extension() == ".svg") return write_named_file(path_, picture.svg());
  return write_named_file(path_, path_.extension() == ".mmd" ? picture.mermaid() : picture.dot());
}

// Another thread may be in the scheduler, and wait there for a device that gets nowhere.
Status DagFile::write_at_exit() const {
  constexpr std::chrono::milliseconds kPatience(1000);
  if (const auto picture = scheduler_.try_picture(kPatience)) return write(*picture);
  return PERGOLA_ERROR(kUnavailable, "'{}' is not written, as another thread submits work while the process ends.",
                       path_.string());
}

}  // namespace pergola::runtime
