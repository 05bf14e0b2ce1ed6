#include "src/device/cuda/fake/fake_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace pergola::device::cuda {

FakeState& fake() {
  static FakeState* const state = new FakeState;  // threads may outlive static objects
  return *state;
}

CUresult FakeState::enter_always(const char* function) {
  const std::lock_guard lock(mutex);
  ++calls[function];
  if (const auto found = failures.find(function); found != failures.end() && found->second.skip-- == 0) {
    const auto result = static_cast<CUresult>(found->second.result);
    if (found->second.is_last) sticky = result;
    found->second.skip = 0;
    if (--found->second.times == 0) failures.erase(found);
    return result;
  }
  return CUDA_SUCCESS;
}

namespace {

thread_local bool has_context = false;

// Whether a thread may call it that has no context.
bool goes_without_context(std::string_view function) {
  constexpr std::string_view kFree[] = {"cuInit",           "cuDriverGetVersion", "cuCtxSetCurrent",
                                        "cuLaunchKernelEx", "cuEventRecord",      "cuStreamWaitEvent"};
  return function.starts_with("cuDevice") || std::ranges::find(kFree, function) != std::end(kFree);
}

}  // namespace

void set_has_context(bool has) {
  has_context = has;
}

CUresult FakeState::enter(const char* function) {
  const CUresult result = enter_always(function);
  if (result != CUDA_SUCCESS) return result;
  if (sticky != 0 || has_context || goes_without_context(function)) return static_cast<CUresult>(sticky.load());
  const std::lock_guard lock(mutex);
  ++strays;
  return CUDA_ERROR_INVALID_CONTEXT;
}

void FakeState::count(const char* kind, int change) {
  const std::lock_guard lock(mutex);
  alive[kind] += change;
}

void FakeState::note(const std::string& line) {
  const std::lock_guard lock(mutex);
  log += line + "\n";
}

bool FakeState::use(CUdeviceptr address, CUstream stream) {
  const std::lock_guard lock(mutex);
  auto after = managed.upper_bound(address);
  if (is_concurrent != 0 || after == managed.begin()) return true;
  --after;
  if (address >= after->first + after->second.bytes || (stream != nullptr && after->second.seen_by == stream))
    return true;
  sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  return false;
}

void FakeState::settle_if_lost() {
  if (sticky.load() == 0) return;
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return busy_streams == 0; });
}

CUstream_st::CUstream_st() {
  {
    const std::lock_guard lock(fake().mutex);
    fake().streams.insert(this);
  }
  thread = std::thread([this] {
    std::unique_lock lock(fake().mutex);
    for (;;) {
      fake().changed.wait(lock, [this] { return ending || (!work.empty() && !fake().held); });
      if (work.empty()) return;
      Piece next = std::move(work.front());
      work.pop_front();
      if (takes_place(next.kind)) --waiting;
      busy = true;
      ++fake().busy_streams;
      fake().changed.notify_all();
      lock.unlock();
      if (is_mark(next.kind) || fake().sticky.load() == 0) next.run();
      next.run = nullptr;
      lock.lock();
      busy = false;
      --fake().busy_streams;
      fake().changed.notify_all();
    }
  });
}

CUstream_st::~CUstream_st() {
  drain();
  {
    const std::lock_guard lock(fake().mutex);
    ending = true;
    fake().streams.erase(this);
    fake().changed.notify_all();
  }
  thread.join();
}

void CUstream_st::push(std::function<void()> next, Kind kind) {
  std::unique_lock lock(fake().mutex);
  if (takes_place(kind)) {
    fake().changed.wait(lock, [this] { return waiting < kMostWaiting; });
    ++waiting;
  }
  work.push_back({std::move(next), kind});
  fake().changed.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(fake().mutex);
  fake().changed.wait(lock, [this] { return work.empty() && !busy; });
}

}  // namespace pergola::device::cuda
