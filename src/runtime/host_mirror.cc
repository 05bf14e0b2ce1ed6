#include "src/runtime/host_mirror.h"

#include <algorithm>

#include "src/runtime/local_session.h"

namespace pergola::runtime {

using scheduler::Mode;

void HostMirror::retire() {
  if (resource_ == nullptr) return;
  session_.mirrors().remove(*this);
  session_.scheduler().retire(std::move(resource_), std::move(mirror_));
}

session::Location HostMirror::location() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kHost: return session::Location::kHost;
    case State::kBoth: return session::Location::kBoth;
    default: return session::Location::kDevice;
  }
}

Status HostMirror::make() {
  if (mirror_ != nullptr) return {};
  PERGOLA_ASSIGN(mirror_, session_.raw_device().allocate(buffer_->size_bytes(), device::MemoryKind::kHostVisible));
  resource_ = session_.scheduler().create_resource(buffer_->size_bytes());
  store(State::kDevice);
  return {};
}

Status HostMirror::copy(bool to_device) {
  const scheduler::Range all{0, buffer_->size_bytes()};
  const scheduler::Access accesses[] = {{to_device ? resource_.get() : &array_, all, Mode::kRead},
                                        {to_device ? &array_ : resource_.get(), all, Mode::kWrite}};
  const auto& from = to_device ? mirror_ : buffer_;
  const auto& to = to_device ? buffer_ : mirror_;
  return session_.scheduler().submit(
      {to_device ? scheduler::WorkKind::kCopyToDevice : scheduler::WorkKind::kCopyToHost,
       to_device ? session_.sites().upload : session_.sites().download, accesses},
      [&](device::Queue& queue) { return queue.copy(to, 0, from, 0, buffer_->size_bytes()); });
}

Status HostMirror::upload() {
  const std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_relaxed) != State::kHost) return {};
  PERGOLA_TRY(copy(true));
  store(State::kBoth);
  return {};
}

Status HostMirror::download() {
  if (state_.load(std::memory_order_relaxed) != State::kDevice) return {};
  store(State::kBoth);  // before it is submitted: see above
  const Status status = copy(false);
  if (!status.ok()) store(State::kDevice);
  return status;
}

void HostMirror::forget() {
  const std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_relaxed) == State::kBoth) store(State::kDevice);
}

Result<std::span<std::byte>> HostMirror::access(Mode mode) {
  if (state_.load(std::memory_order_acquire) == State::kNone) session_.mirrors().add(*this);
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(make());
  if (reads(mode)) PERGOLA_TRY(download());
  const scheduler::Access whole{resource_.get(), {0, buffer_->size_bytes()}, mode};
  lock.unlock();
  const auto host = session_.scheduler().begin_host_access(whole);
  lock.lock();
  if (!host.ok()) {
    // What was to come down never came, or what was to go up went nowhere: the device's are the contents, as they are.
    if (state_.load(std::memory_order_relaxed) == State::kBoth) store(State::kDevice);
    return session_.explain(host.status(), "").error();
  }
  if (writes(mode)) store(State::kHost);
  return std::span<std::byte>{mirror_->host_pointer(), mirror_->size_bytes()};
}

Status HostMirror::prefetch(session::Side to) {
  if (to == session::Side::kDevice) return settle();
  if (state_.load(std::memory_order_acquire) == State::kNone) session_.mirrors().add(*this);
  const std::lock_guard lock(mutex_);
  PERGOLA_TRY(make());
  return download();
}

void Mirrors::add(HostMirror& mirror) {
  const std::lock_guard lock(mutex_);
  if (std::find(mirrors_.begin(), mirrors_.end(), &mirror) != mirrors_.end()) return;
  mirrors_.push_back(&mirror);
  any_.store(true, std::memory_order_release);
}

void Mirrors::remove(HostMirror& mirror) {
  const std::lock_guard lock(mutex_);
  std::erase(mirrors_, &mirror);
}

Status Mirrors::settle_all() {
  if (!any_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  for (HostMirror* mirror : mirrors_) PERGOLA_TRY(mirror->settle());
  return {};
}

void Mirrors::all_changed_on_device() {
  if (!any_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  for (HostMirror* mirror : mirrors_) mirror->changed_on_device();
}

}  // namespace pergola::runtime
