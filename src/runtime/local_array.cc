#include "src/runtime/local_array.h"

#include <algorithm>
#include <cstring>

#include "src/base/plural.h"
#include "src/base/wait_check.h"
#include "src/runtime/deadline.h"
#include "src/runtime/local_task_pool.h"
#include "src/runtime/local_texture.h"

namespace pergola::runtime {
namespace {

// The shortest period of 1, 2 or 4 bytes that makes up `value`; 0 where there is none.
std::uint32_t fill_period(std::span<const std::byte> value) {
  for (const std::size_t period : {1u, 2u, 4u}) {
    if (value.size() % period != 0) continue;
    bool repeats = true;
    for (std::size_t i = period; i < value.size() && repeats; ++i) repeats = value[i] == value[i - period];
    if (repeats) return static_cast<std::uint32_t>(period);
  }
  return 0;
}

}  // namespace

LocalArray::~LocalArray() {
  const bool has_tasks = session_->has_open_tasks_of(tasks_);
  if (has_tasks) session_->tasks()->keep(buffer_);  // what fails is told by waits for the tasks
  const bool is_ours_alone = !has_tasks && !is_shared_ && !is_told() && !managed_;
  mirror_->retire();
  session_->scheduler().retire(std::move(resource_), is_ours_alone ? session_->spare().after_work(std::move(buffer_))
                                                                   : std::shared_ptr<const void>(std::move(buffer_)));
  managed_.reset();  // after what was held, which has taken it
}

Status LocalArray::check_range(std::string_view what, std::uint64_t offset_bytes, std::uint64_t size) const {
  if (offset_bytes <= size_bytes() && size <= size_bytes() - offset_bytes) return {};
  return PERGOLA_ERROR(kInvalidArgument, "The {} covers {} from byte {} of an array of {}.", what,
                       plural(size, "byte"), offset_bytes, plural(size_bytes(), "byte"));
}

Status LocalArray::write(std::uint64_t offset_bytes, std::span<const std::byte> source) {
  PERGOLA_TRY(check_range("write", offset_bytes, source.size()));
  if (source.empty()) return {};
  PERGOLA_TRY(end_tasks());
  const scheduler::Access written = access(offset_bytes, source.size(), scheduler::Mode::kWrite);
  if (std::byte* bytes = buffer_->host_pointer()) {
    if (const auto now = session_->scheduler().try_host_access(written); now && is_here()) {
      std::memmove(bytes + offset_bytes, source.data(), source.size());
      return {};
    }
  }
  PERGOLA_ASSIGN(const bool is_written, write_in_turn(offset_bytes, source));
  if (is_written) return {};
  // Devices read page-locked memory when the copy runs; what the host has it may change as soon as this returns.
  std::vector<std::byte> taken;
  if (session_->mirrors().any_holds(source)) {
    taken.assign(source.begin(), source.end());
    source = taken;
  }
  if (session_->raw_device().copy_waits(source)) PERGOLA_TRY(await_uses(written));
  return submit({scheduler::WorkKind::kCopyToDevice, session_->sites().write, std::span(&written, 1)},
                [&](device::Queue& queue) { return queue.copy_to_device(buffer_, offset_bytes, source); });
}

// Where the host reaches the memory and much waits already, it writes once the work before it has ended: a program that
// writes faster than its kernels run would have no end of sources in memory. Not for ever, as who writes counts on being
// back soon; and what has failed is told by whoever reads.
Result<bool> LocalArray::write_in_turn(std::uint64_t offset_bytes, std::span<const std::byte> source) {
  constexpr std::uint64_t kMostStagedBytes = std::uint64_t{256} << 20;
  constexpr std::size_t kMostWaits = 3;
  constexpr std::chrono::seconds kPatience(1);
  const std::uint64_t staged = session_->raw_device().staged_bytes();
  if (staged == 0 || staged + source.size() <= kMostStagedBytes || !is_here()) return false;
  const auto host = session_->scheduler().begin_host_access(
      access(offset_bytes, source.size(), scheduler::Mode::kWrite), deadline_in(kPatience), kMostWaits);
  if (host.code() == Code::kCallFailed) return host.status();  // the thread's check, which says so once
  if (!host.ok() || !*host || !is_here()) return false;
  std::memmove(buffer_->host_pointer() + offset_bytes, source.data(), source.size());
  return true;
}

// Before a copy that would wait in its queue: with the scheduler's lock, and without hearing who wants to end the wait.
Status LocalArray::await_uses(const scheduler::Access& written) {
  while (true) {
    const bool is_asked = wait_check.function != nullptr;
    Status status = session_->scheduler().await_uses(written, is_asked ? deadline_in(WaitCheck::kEach) : std::nullopt);
    if (!is_asked || status.code() != Code::kTimeout) return status;
    PERGOLA_TRY(wait_check.ask());
  }
}

Status LocalArray::submit(scheduler::Work work, scheduler::Scheduler::Enqueue enqueue, const LocalArray* source) {
  // A copy from the host is taken before its call returns, for which it may have to wait for earlier ones.
  const bool is_on_device = work.kind == scheduler::WorkKind::kFill || work.kind == scheduler::WorkKind::kCopy;
  TaskTurn turn(*session_, is_on_device && !session_->managed().any(), !is_on_device);
  PERGOLA_TRY(settle_behind(turn));
  if (source != nullptr) PERGOLA_TRY(source->settle_behind(turn));
  if (is_on_device) {
    if (session_->scheduler().takes_tasks() && session_->scheduler().comes_after_tasks(work))
      turn.comes_after_launches();
    PERGOLA_TRY(turn.take());  // after what may want tasks to run
    work.held_from_tasks = &turn;
    work.behind = turn.behind();
  }
  const auto take_all = [&](device::Queue& queue) -> Status {
    if (source != nullptr) PERGOLA_TRY(source->take(queue));
    return take(queue);
  };
  const FunctionRef<Status(device::Queue&)> prepare = take_all;
  if (session_->managed().any()) work.prepare = &prepare;
  PERGOLA_TRY(session_->scheduler().submit(work, enqueue));
  changed_on_device();
  return turn.submitted();
}

Status LocalArray::wait(std::uint64_t offset_bytes, std::uint64_t size,
                        std::optional<std::chrono::nanoseconds> timeout) {
  PERGOLA_TRY(check_range("wait", offset_bytes, size));
  const auto deadline = deadline_in(timeout);
  PERGOLA_TRY(session_->end_tasks_of(tasks_, timeout));
  if (size == 0) return {};  // no work has made them
  PERGOLA_TRY(mirror_->settle());
  return session_->scheduler().await_contents(access(offset_bytes, size, scheduler::Mode::kRead), deadline);
}

Status LocalArray::read(std::uint64_t offset_bytes, std::span<std::byte> destination) {
  PERGOLA_TRY(check_range("read", offset_bytes, destination.size()));
  PERGOLA_TRY(settle());
  constexpr std::size_t kMostWaits = 3;
  const auto host =
      session_->scheduler().begin_host_access(access(offset_bytes, destination.size(), scheduler::Mode::kRead),
                                              std::nullopt, managed_ ? ~std::size_t{0} : kMostWaits);
  PERGOLA_TRY(host.status());
  if (destination.empty()) return {};
  if (!*host) return read_in_turn(offset_bytes, destination);
  return read_now(offset_bytes, destination);
}

// While a HostAccess lives.
Status LocalArray::read_now(std::uint64_t offset_bytes, std::span<std::byte> destination) {
  if (is_restricted()) PERGOLA_TRY(managed_->give_to_host());
  if (is_here()) {
    std::memcpy(destination.data(), buffer_->host_pointer() + offset_bytes, destination.size());
    return {};
  }
  return session_->copy_to_host_now(destination, buffer_, offset_bytes);
}

// Beside a thread that launches all of the time there is never a moment in which nothing is under way: as work of its
// own the read has its place, and others' comes after it. Memory of the host's, as the driver would wait for the work
// before a copy to any other, with the scheduler's lock held.
Status LocalArray::read_in_turn(std::uint64_t offset_bytes, std::span<std::byte> destination) {
  const scheduler::Access read = access(offset_bytes, destination.size(), scheduler::Mode::kRead);
  const auto staged = session_->allocate_memory(destination.size(), device::MemoryKind::kHostVisible);
  if (!staged.ok()) {  // it takes as long as it takes
    const auto host = session_->scheduler().begin_host_access(read);
    PERGOLA_TRY(host.status());
    return read_now(offset_bytes, destination);
  }
  const std::span<std::byte> bytes{(*staged)->host_pointer(), destination.size()};
  device::EventPtr event;
  PERGOLA_TRY(session_->scheduler().submit(
      {scheduler::WorkKind::kCopyToHost, session_->sites().read, std::span(&read, 1)},
      [&](device::Queue& queue) { return queue.copy_to_host(bytes, buffer_, offset_bytes); }, &event));
  if (const Status ended = event->wait(); !ended.ok()) {
    PERGOLA_TRY(session_->scheduler().await_contents(read));  // which tells what has failed, if nobody has yet
    return session_->explain(ended, "");
  }
  std::memcpy(destination.data(), bytes.data(), bytes.size());
  (void)session_->spare().after_work(*staged);
  return {};
}

Result<std::span<const std::byte>> LocalArray::view() {
  PERGOLA_TRY(end_tasks());
  if (!is_on_host() && size_bytes() != 0) {
    mirror_->changed_on_device();  // perhaps, by others who know the address
    PERGOLA_ASSIGN(const std::span<std::byte> bytes, mirror_->access(scheduler::Mode::kRead, std::nullopt));
    return std::span<const std::byte>(bytes);
  }
  const std::lock_guard lock(view_mutex_);
  if (view_ == nullptr) {
    const auto kind = managed_ ? device::MemoryKind::kHostVisible : device::MemoryKind::kDevice;
    PERGOLA_ASSIGN(view_, session_->raw_device().allocate(size_bytes(), kind));
  }
  const std::span<std::byte> bytes{view_->host_pointer(), static_cast<std::size_t>(size_bytes())};
  PERGOLA_TRY(read(0, bytes));
  return std::span<const std::byte>(bytes);
}

Result<std::span<std::byte>> LocalArray::host(session::Access wanted, std::optional<std::chrono::nanoseconds> timeout) {
  const auto mode = static_cast<scheduler::Mode>(wanted);
  if (mode != scheduler::Mode::kRead && mode != scheduler::Mode::kWrite && mode != scheduler::Mode::kReadWrite)
    return PERGOLA_ERROR(kInvalidArgument, "{} is no access of the host's to an array: it reads, writes or does both.",
                         static_cast<std::int32_t>(wanted));
  if (size_bytes() == 0) return std::span<std::byte>();
  PERGOLA_TRY(end_tasks());
  const auto deadline = deadline_in(timeout);
  if (!is_on_host()) {
    if (is_shared_) mirror_->changed_on_device();
    return mirror_->access(mode, deadline);
  }
  if (managed_) {  // which moves while nobody else's work comes
    const auto given = session_->scheduler().begin_host_access(access(0, size_bytes(), mode), deadline);
    PERGOLA_TRY(given.status());
    PERGOLA_TRY(managed_->give_to_host());
  } else {
    PERGOLA_TRY(session_->scheduler().await_access(access(0, size_bytes(), mode), deadline));
  }
  return std::span<std::byte>{buffer_->host_pointer(), static_cast<std::size_t>(size_bytes())};
}

Status LocalArray::prefetch(session::Location to) {
  if (to != session::Location::kDevice && to != session::Location::kHost)
    return PERGOLA_ERROR(kInvalidArgument, "{} is no side to prefetch to: 1 is the device, 2 the host.",
                         static_cast<std::int32_t>(to));
  if (size_bytes() == 0) return {};
  PERGOLA_TRY(end_tasks());
  if (managed_) return prefetch_managed(to);
  return is_on_host() ? Status() : mirror_->prefetch(to);
}

// Where access is restricted only work says which queue is to see the memory.
Status LocalArray::prefetch_managed(session::Location to) {
  const bool to_host = to == session::Location::kHost;
  const scheduler::Access moved = whole(scheduler::Mode::kReadWrite);  // nobody else is to move it back meanwhile
  // A launch that is held takes the array when it goes, which is before this.
  if (to_host) session_->scheduler().let_go_before(moved);
  if (to_host == managed_->is_on_host() || (!to_host && managed_->is_restricted())) return {};
  return session_->scheduler().submit(
      {.kind = to_host ? scheduler::WorkKind::kCopyToHost : scheduler::WorkKind::kCopyToDevice,
       .site = to_host ? session_->sites().download : session_->sites().upload,
       .accesses = std::span(&moved, 1),
       .host_waits = to_host},
      [&](device::Queue& queue) { return to_host ? managed_->give_to_host(queue) : managed_->take(queue); });
}

session::Location LocalArray::location() const {
  if (managed_) return managed_->is_on_host() ? session::Location::kHost : session::Location::kDevice;
  return is_on_host() ? session::Location::kBoth : mirror_->location();
}

Status LocalArray::fill(std::uint64_t offset_bytes, std::uint64_t size, std::span<const std::byte> value) {
  PERGOLA_TRY(check_range("fill", offset_bytes, size));
  if (value.empty() || size % value.size() != 0)
    return PERGOLA_ERROR(kInvalidArgument,
                         "The fill's value has {}, which do not go into {} a whole number of times.",
                         plural(value.size(), "byte"), plural(size, "byte"));
  if (size == 0) return {};
  const scheduler::Range bytes{offset_bytes, offset_bytes + size};
  const std::uint32_t period = fill_period(value);
  // Devices write whole patterns at multiples of their size (Queue::fill()); an adopted array may begin anywhere.
  if (period == 0 || offset_bytes % period != 0 || address() % period != 0) return fill_by_doubling(bytes, value);
  std::uint32_t pattern = 0;
  std::memcpy(&pattern, value.data(), period);
  return submit_fill(bytes,
                     [&](device::Queue& queue) { return queue.fill(buffer_, offset_bytes, size, pattern, period); });
}

Status LocalArray::submit_fill(scheduler::Range bytes, scheduler::Scheduler::Enqueue enqueue) {
  const scheduler::Access written = access(bytes.begin, bytes.end - bytes.begin, scheduler::Mode::kWrite);
  return submit({scheduler::WorkKind::kFill, session_->sites().fill, std::span(&written, 1)}, enqueue);
}

// Devices repeat up to 4 bytes; longer values are written a few times and then copied on, twice as much each time.
Status LocalArray::fill_by_doubling(scheduler::Range bytes, std::span<const std::byte> value) {
  constexpr std::size_t kSeedBytes = 64 * 1024;
  const std::uint64_t all = bytes.end - bytes.begin;
  const std::size_t times =
      std::min<std::uint64_t>(all / value.size(), std::max<std::size_t>(1, kSeedBytes / value.size()));
  std::vector<std::byte> seed(times * value.size());
  for (std::size_t i = 0; i < times; ++i) std::memcpy(seed.data() + i * value.size(), value.data(), value.size());
  return submit_fill(bytes, [&](device::Queue& queue) -> Status {
    PERGOLA_TRY(queue.copy_to_device(buffer_, bytes.begin, seed));
    for (std::uint64_t done = seed.size(); done < all;) {
      const std::uint64_t size = std::min(done, all - done);
      PERGOLA_TRY(queue.copy(buffer_, bytes.begin + done, buffer_, bytes.begin, size));
      done += size;
    }
    return {};
  });
}

Status LocalArray::copy_from(std::uint64_t offset_bytes, const session::ArrayPtr& source,
                             std::uint64_t source_offset_bytes, std::uint64_t size) {
  const auto* from = dynamic_cast<const LocalArray*>(source.get());
  if (from == nullptr || from->session_id() != session_id())
    return PERGOLA_ERROR(kInvalidArgument, "The copy's source is {}.",
                         source == nullptr ? "no array" : "of another session; read it there and write it here");
  PERGOLA_TRY(check_range("copy", offset_bytes, size));
  PERGOLA_TRY(from->check_range("copy", source_offset_bytes, size));
  if (size == 0 || (from == this && offset_bytes == source_offset_bytes)) return {};  // it has those bytes
  const scheduler::Access accesses[] = {from->access(source_offset_bytes, size, scheduler::Mode::kRead),
                                        access(offset_bytes, size, scheduler::Mode::kWrite)};
  return submit(
      {scheduler::WorkKind::kCopy, session_->sites().copy, accesses},
      [&](device::Queue& queue) { return queue.copy(buffer_, offset_bytes, from->buffer_, source_offset_bytes, size); },
      from);
}

Result<session::TexturePtr> LocalArray::create_texture(device::TextureDescription description) {
  description.buffer = buffer_;
  PERGOLA_TRY(settle());
  const auto host = session_->scheduler().begin_host_access(access(0, size_bytes(), scheduler::Mode::kRead));
  PERGOLA_TRY(host.status());
  if (is_restricted()) PERGOLA_TRY(managed_->give_to_host());  // the driver copies from where it is
  PERGOLA_ASSIGN(auto texture, session_->raw_device().create_texture(description));
  return session::TexturePtr(std::make_shared<LocalTexture>(session_, std::move(texture)));
}

}  // namespace pergola::runtime
