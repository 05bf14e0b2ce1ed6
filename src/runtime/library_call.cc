// Calls of other libraries (Session::call): what is given is checked, and the function made safe to call; how its work
// is ordered is the scheduler's (scheduler_call.cc).
#include <cxxabi.h>

#include <exception>

#include "src/runtime/local_array.h"
#include "src/runtime/local_session.h"
#include "src/runtime/modes.h"

namespace pergola::runtime {
namespace {

Result<scheduler::Access> checked(const session::CallAccess& given, std::uint64_t session_id, std::string_view name,
                                  std::size_t index) {
  const auto* array = dynamic_cast<const LocalArray*>(given.array.get());
  if (array == nullptr || array->session_id() != session_id)
    return PERGOLA_ERROR(kInvalidArgument, "Access {} of the library call '{}' is to {}.", index, name,
                         given.array == nullptr ? "no array" : "an array of another session");
  if (given.mode == session::Access::kNone)
    return PERGOLA_ERROR(kInvalidArgument, "Access {} of the library call '{}' is none: it reads, writes, or both.",
                         index, name);
  std::uint64_t size = given.size_bytes;
  if (size == 0 && given.offset_bytes <= array->size_bytes()) size = array->size_bytes() - given.offset_bytes;
  PERGOLA_TRY(array->check_range("library call", given.offset_bytes, size));
  return array->access(given.offset_bytes, size, mode_of(given.mode));
}

Status run(session::CallFunction function, void* stream, std::string_view name) {
  try {
    const std::int32_t code = function(stream);
    if (code == 0) return {};
    return PERGOLA_ERROR(kCallFailed, "The library call '{}' failed: its function returned {}.", name, code);
  } catch (const std::exception& error) {
    return PERGOLA_ERROR(kCallFailed, "The library call '{}' failed: its function threw: {}", name, error.what());
  } catch (const ::abi::__forced_unwind&) {
    throw;  // the thread is cancelled
  } catch (...) {
    return PERGOLA_ERROR(kCallFailed, "The library call '{}' failed: its function threw.", name);
  }
}

}  // namespace

Status LocalSession::call(std::string_view name, std::span<const session::CallAccess> given, bool synchronous,
                          session::CallFunction function) {
  if (name.empty()) return PERGOLA_ERROR(kInvalidArgument, "A library call has a name, for pictures and messages.");
  if (synchronous) PERGOLA_TRY(refuse_where_restricted("A library call without a stream is not possible"));
  boost::container::small_vector<scheduler::Access, 8> accesses;
  for (const session::CallAccess& each : given) {
    PERGOLA_ASSIGN(const scheduler::Access access, checked(each, id_, name, accesses.size()));
    accesses.push_back(access);
    PERGOLA_TRY(static_cast<const LocalArray&>(*each.array).settle());
  }
  const auto take_all = [&](device::Queue& queue) -> Status {
    for (const session::CallAccess& each : given) PERGOLA_TRY(static_cast<const LocalArray&>(*each.array).take(queue));
    return {};
  };
  const FunctionRef<Status(device::Queue&)> prepare = take_all;
  scheduler::Work work{scheduler::WorkKind::kLibrary, scheduler_->site(name), accesses};
  if (managed_.any()) work.prepare = &prepare;
  const Status status = scheduler_->call(work, synchronous, [&](void* stream) { return run(function, stream, name); });
  for (std::size_t i = 0; i < given.size(); ++i)  // a function that failed may have queued something
    if (writes(accesses[i].mode)) static_cast<const LocalArray&>(*given[i].array).changed_on_device();
  return status;
}

// A vertex that everything before and after is ordered by, as the stream's work may have used any array.
Status LocalSession::wait_stream(std::uint64_t stream) {
  PERGOLA_TRY(end_tasks());
  PERGOLA_TRY(refuse_where_restricted("Another library's stream cannot use this session's arrays"));
  PERGOLA_ASSIGN(const device::EventPtr event, device_->record_foreign(stream));
  PERGOLA_TRY(scheduler_->submit({.kind = scheduler::WorkKind::kStreamWait,
                                  .site = sites_.stream_wait,
                                  .accesses = {},
                                  .universal = scheduler::Mode::kReadWrite},
                                 [&](device::Queue& queue) { return queue.wait(event); }));
  mirrors_.all_changed_on_device();
  return {};
}

Status LocalSession::make_stream_wait(std::uint64_t stream) {
  PERGOLA_TRY(end_tasks());
  PERGOLA_TRY(refuse_where_restricted("Another library's stream cannot use this session's arrays"));
  PERGOLA_TRY(mirrors_.settle_all());  // it may use any array
  PERGOLA_ASSIGN(const device::EventPtr event, scheduler_->record());
  return device_->make_foreign_wait(stream, event);
}

}  // namespace pergola::runtime
