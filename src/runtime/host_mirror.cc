#include "src/runtime/host_mirror.h"

#include <algorithm>

#include "src/runtime/local_session.h"

namespace pergola::runtime {

using scheduler::Mode;

void HostMirror::retire() {
  session_.mirrors().remove(*this);  // it is there even where the mirror could not be made
  std::unique_ptr<scheduler::Resource> resource;
  device::BufferPtr memory;
  {
    const std::lock_guard lock(mutex_);
    store(State::kNone);
    resource = std::move(resource_);
    memory = std::move(mirror_);
  }
  if (resource != nullptr) session_.scheduler().retire(std::move(resource), std::move(memory));
}

session::Location HostMirror::location() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kHost: return session::Location::kHost;
    case State::kDownloaded:
    case State::kUploaded: return session::Location::kBoth;
    default: return session::Location::kDevice;
  }
}

Status HostMirror::make() {
  if (mirror_ != nullptr) return {};
  PERGOLA_ASSIGN(mirror_, session_.raw_device().allocate(buffer_->size_bytes(), device::MemoryKind::kHostVisible));
  resource_ = scheduler::Scheduler::create_host_side(array_);
  store(State::kDevice);
  return {};
}

std::array<scheduler::Access, 2> HostMirror::accesses_of_copy(bool to_device) const {
  const scheduler::Range all{0, buffer_->size_bytes()};
  return {{{to_device ? resource_.get() : &array_, all, Mode::kRead},
           {to_device ? &array_ : resource_.get(), all, Mode::kWrite}}};
}

// Without mutex_: others may be at the array for as long as a library's function takes, and whoever waits here is asked
// meanwhile whether to go on, and may use the array for that.
Status HostMirror::await_turn_of_copy(bool to_device, Deadline deadline) const {
  return session_.scheduler().await_turn_of(accesses_of_copy(to_device), deadline);
}

// kTimeout where others are at the array.
Status HostMirror::copy(bool to_device) {
  const std::array<scheduler::Access, 2> accesses = accesses_of_copy(to_device);
  const auto& from = to_device ? mirror_ : buffer_;
  const auto& to = to_device ? buffer_ : mirror_;
  const scheduler::CopyCall call{to, from, buffer_->size_bytes()};
  return session_.scheduler().submit(
      {.kind = to_device ? scheduler::WorkKind::kCopyToDevice : scheduler::WorkKind::kCopyToHost,
       .site = to_device ? session_.sites().upload : session_.sites().download,
       .accesses = accesses,
       .copy = &call,
       .may_wait = false,
       .host_waits = !to_device},
      [&](device::Queue& queue) { return queue.copy(to, 0, from, 0, buffer_->size_bytes()); });
}

// `act` under mutex_, which copies; again where others are at the array.
template <typename Act>
Status HostMirror::in_turn(bool to_device, const Act& act) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (const Status status = act(); status.code() != Code::kTimeout) return status;
    }
    PERGOLA_TRY(await_turn_of_copy(to_device, std::nullopt));
  }
}

Status HostMirror::upload() {
  return in_turn(true, [this]() -> Status {
    if (state_.load(std::memory_order_relaxed) != State::kHost) return {};
    PERGOLA_TRY(copy(true));
    store(State::kUploaded);
    return {};
  });
}

bool HostMirror::begin_upload() {
  if (!mutex_.try_lock()) return false;
  if (state_.load(std::memory_order_relaxed) == State::kHost) return true;
  mutex_.unlock();
  return false;
}

void HostMirror::end_upload(bool is_queued) {
  if (is_queued) store(State::kUploaded);
  mutex_.unlock();
}

Status HostMirror::download() {
  if (state_.load(std::memory_order_relaxed) != State::kDevice) return {};
  store(State::kDownloaded);  // before it is submitted: see the header
  const Status status = copy(false);
  if (!status.ok()) store(State::kDevice);
  return status;
}

void HostMirror::forget() {
  const std::lock_guard lock(mutex_);
  scheduler::device_changes(state_);
}

void HostMirror::doubt() {
  const State state = state_.load(std::memory_order_relaxed);
  if (state == State::kDownloaded) store(State::kDevice);
  if (state == State::kUploaded) store(State::kHost);
}

void HostMirror::failed() {
  const std::lock_guard lock(mutex_);
  doubt();
}

bool HostMirror::holds(const std::byte* at) {
  const std::lock_guard lock(mutex_);
  if (mirror_ == nullptr) return false;
  const std::byte* begin = mirror_->host_pointer();
  return at >= begin && at < begin + mirror_->size_bytes();
}

Result<std::span<std::byte>> HostMirror::access(Mode mode, Deadline deadline) {
  if (state_.load(std::memory_order_acquire) == State::kNone) session_.mirrors().add(shared_from_this());
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(make());
  const scheduler::Access whole{resource_.get(), {0, buffer_->size_bytes()}, mode};
  while (true) {
    if (reads(mode)) {
      Status status = download();
      if (status.code() == Code::kTimeout) {
        lock.unlock();
        PERGOLA_TRY(await_turn_of_copy(false, deadline));
        lock.lock();
        continue;
      }
      PERGOLA_TRY(status);
    }
    if (session_.scheduler().try_short_host_access(whole)) {
      if (writes(mode)) store(State::kHost);
      return std::span<std::byte>{mirror_->host_pointer(), mirror_->size_bytes()};
    }
    lock.unlock();
    const Status status = session_.scheduler().await_access(whole, deadline);
    lock.lock();
    if (status.code() == Code::kTimeout || status.code() == Code::kCallFailed) return status.error();  // nothing failed
    if (!status.ok()) {
      doubt();
      return session_.explain(status, "").error();
    }
    // What the device has made of it meanwhile, as another thread launches, is newer than this call; what is changed is
    // to be the newest.
    if (mode == Mode::kRead) return std::span<std::byte>{mirror_->host_pointer(), mirror_->size_bytes()};
  }
}

Status HostMirror::prefetch(session::Location to) {
  if (to == session::Location::kDevice) return settle();
  if (state_.load(std::memory_order_acquire) == State::kNone) session_.mirrors().add(shared_from_this());
  return in_turn(false, [this]() -> Status {
    PERGOLA_TRY(make());
    return download();
  });
}

void Mirrors::add(const std::shared_ptr<HostMirror>& mirror) {
  const std::lock_guard lock(mutex_);
  if (std::find(mirrors_.begin(), mirrors_.end(), mirror) != mirrors_.end()) return;
  mirrors_.push_back(mirror);
  any_.store(true, std::memory_order_release);
}

void Mirrors::remove(HostMirror& mirror) {
  if (!any_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(mirrors_, [&](const auto& one) { return one.get() == &mirror; });
}

std::vector<std::shared_ptr<HostMirror>> Mirrors::all() {
  if (!any_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return mirrors_;
}

Status Mirrors::settle_all() {
  for (const auto& mirror : all()) PERGOLA_TRY(mirror->settle());
  return {};
}

void Mirrors::all_changed_on_device() {
  for (const auto& mirror : all()) mirror->changed_on_device();
}

void Mirrors::failed() {
  for (const auto& mirror : all()) mirror->failed();
}

bool Mirrors::any_holds(std::span<const std::byte> bytes) {
  const auto mirrors = all();
  return std::any_of(mirrors.begin(), mirrors.end(), [&](const auto& mirror) { return mirror->holds(bytes.data()); });
}

}  // namespace pergola::runtime
