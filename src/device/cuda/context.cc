#include "src/device/cuda/context.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>

namespace pergola::device::cuda {
namespace {

constexpr std::size_t kMaxFreeEvents = 4096;
constexpr std::size_t kMaxFreeStaging = 32;

Code code_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_VALUE: return Code::kInvalidArgument;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: return Code::kResourceExhausted;
    case CUDA_ERROR_NOT_FOUND: return Code::kNotFound;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION: return Code::kUnsupported;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return Code::kCompileError;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED: return Code::kUnavailable;
    default: return Code::kInternal;
  }
}

}  // namespace

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_DEINITIALIZED: return true;
    default: return false;
  }
}

namespace {

// Never destroyed: the last context may go while the process ends.
std::shared_ptr<Residents> residents_of(const Driver& driver, int ordinal) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<const Driver*, int>, std::shared_ptr<Residents>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Residents>& residents = all[{&driver, ordinal}];
  if (residents == nullptr) residents = std::make_shared<Residents>();
  return residents;
}

}  // namespace

Context::Context(std::shared_ptr<const Driver> driver, CUdevice device, CUcontext handle, int ordinal,
                 std::chrono::milliseconds end_grace)
    : driver_(std::move(driver)),
      device_(device),
      handle_(handle),
      id_(fmt::format("cuda:{}", ordinal)),
      end_grace_(end_grace),
      residents_(residents_of(*driver_, ordinal)) {}

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<const Driver> driver, int ordinal,
                                                 std::chrono::milliseconds end_grace) {
  int count = 0;
  if (const CUresult result = driver->cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return PERGOLA_ERROR(kUnavailable, "The GPUs cannot be counted: {}.", driver->describe(result));
  if (ordinal < 0 || ordinal >= count)
    return PERGOLA_ERROR(kUnavailable, "There is no GPU cuda:{}; the driver shows {} (cuda:0 is the first).", ordinal,
                         count);
  CUdevice device = 0;
  CUcontext handle = nullptr;
  CUresult result = driver->cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = driver->cuDevicePrimaryCtxRetain(&handle, device);
  if (result != CUDA_SUCCESS)
    return PERGOLA_ERROR(kUnavailable, "GPU cuda:{} cannot be opened: {}.", ordinal, driver->describe(result));
  return std::shared_ptr<Context>(new Context(std::move(driver), device, handle, ordinal, end_grace));
}

// Last of all handles: nothing of this context is in use any more. Results are not looked at: a lost context refuses
// every call, and its driver state goes with the process.
Context::~Context() {
  enter_quietly();
  free_kept();
  for (const auto& free : free_events_)
    for (CUevent event : free) driver_->cuEventDestroy(event);
  std::vector<void*> pages(free_staging_.begin(), free_staging_.end());
  pages.insert(pages.end(), word_pages_.begin(), word_pages_.end());
  if (slabs_ != nullptr && slabs_->is_empty()) slabs_ = nullptr;
  if (!pages.empty() || slabs_ != nullptr)  // as all memory: other contexts of the GPU may have work without end
    free([driver = driver_, pages = std::move(pages), slabs = slabs_] {
      for (void* page : pages) driver->cuMemFreeHost(page);
      if (slabs != nullptr) slabs->release();
    });
  if (upload_stream_ != nullptr) driver_->cuStreamDestroy(upload_stream_);
  arena_ = nullptr;
  driver_->cuCtxSetCurrent(nullptr);
  driver_->cuDevicePrimaryCtxRelease(device_);
}

Status Context::health() const {
  if (!is_lost()) return {};
  const std::lock_guard lock(mutex_);
  return cause_;
}

Status Context::lose(CUresult result, std::string_view doing) const {
  const std::lock_guard lock(mutex_);
  if (cause_.ok()) {
    cause_ = PERGOLA_ERROR(kDeviceLost,
                           "{} is lost to this process: {}, seen while {}. A kernel queued before did this; start a "
                           "new process to use the GPU again.",
                           id_, driver_->describe(result), doing);
    lost_.store(true, std::memory_order_release);
  }
  return cause_;
}

Status Context::failed(CUresult result, std::string_view doing) const {
  if (is_sticky(result)) return lose(result, doing);
  if (is_lost()) return health();
  return Error{code_of(result), fmt::format("{}: {} failed: {}.", id_, doing, driver_->describe(result)), __FILE__,
               __LINE__};
}

Result<CUevent> Context::take_event(bool timed) const {
  {
    const std::lock_guard lock(mutex_);
    std::vector<CUevent>& free = free_events_[timed];
    if (!free.empty()) {
      CUevent event = free.back();
      free.pop_back();
      return event;
    }
  }
  PERGOLA_TRY(enter());
  CUevent event = nullptr;
  PERGOLA_TRY(
      check(driver_->cuEventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING), "creating an event"));
  return event;
}

void Context::give_event(CUevent event, bool timed) const {
  {
    const std::lock_guard lock(mutex_);
    if (free_events_[timed].size() < kMaxFreeEvents) {
      free_events_[timed].push_back(event);
      return;
    }
  }
  enter_quietly();
  driver_->cuEventDestroy(event);
}

void Context::free(const std::function<void()>& call) const noexcept {
  free_kept();
  try {
    if (await_streams()) {
      const std::shared_lock freeing(residents_->mutex);
      if (residents_->count == 0) {
        enter_quietly();
        return call();
      }
    }
    const std::unique_lock lock(residents_->mutex);
    residents_->kept_frees.push_back(call);  // where the last has just left, for whoever frees next
  } catch (...) {                            // no memory for keeping it
    call();
  }
}

void Context::resident_begins() const {
  const std::unique_lock lock(residents_->mutex);
  ++residents_->count;
}

void Context::resident_ends() const {
  const std::unique_lock lock(residents_->mutex);
  --residents_->count;
}

void Context::leave(const std::shared_ptr<const Context>& self, CUstream stream,
                    std::shared_ptr<const void> used) const {
  const std::unique_lock lock(residents_->mutex);  // for all of it: who frees something sees it here or there
  residents_->left.push_back({self, stream, std::move(used)});
  std::erase(residents_->streams, std::pair<const Driver*, CUstream>(driver_.get(), stream));
  residents_->gave_up_at = std::chrono::steady_clock::now();
  ++residents_->count;
}

void Context::note_given_up() const {
  const std::unique_lock lock(residents_->mutex);
  residents_->gave_up_at = std::chrono::steady_clock::now();
}

void Context::add_stream(CUstream stream) const {
  const std::unique_lock lock(residents_->mutex);
  residents_->streams.emplace_back(driver_.get(), stream);
}

void Context::remove_stream(CUstream stream) const {
  const std::unique_lock lock(residents_->mutex);
  std::erase(residents_->streams, std::pair<const Driver*, CUstream>(driver_.get(), stream));
}

bool Context::streams_are_idle() const {
  return std::none_of(residents_->streams.begin(), residents_->streams.end(),
                      [](const auto& stream) { return may_go_on(stream.first->cuStreamQuery(stream.second)); });
}

// As the driver would, but not for ever: once somebody has waited in vain nobody does until they are idle.
bool Context::await_streams() const {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  constexpr microseconds kFirstNap(10), kLastNap(500);
  enter_quietly();
  const auto until = steady_clock::now() + end_grace_;
  for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLastNap)) {
    {
      const std::shared_lock lock(residents_->mutex);
      if (residents_->count != 0) return false;
      if (streams_are_idle()) return true;
      if (residents_->is_stuck) return false;
    }
    if (steady_clock::now() >= until) break;
    std::this_thread::sleep_for(nap);
  }
  const std::unique_lock lock(residents_->mutex);
  residents_->is_stuck = true;
  return false;
}

void Context::let_go(std::shared_ptr<const void> owner) const {
  look_after_left();
  const std::unique_lock lock(residents_->mutex);
  if (!residents_->left.empty()) residents_->kept_frees.push_back([owner = std::move(owner)] {});
}

bool Context::has_just_given_up() const {
  constexpr std::chrono::milliseconds kMoment(100);
  const std::shared_lock lock(residents_->mutex);
  return std::chrono::steady_clock::now() - residents_->gave_up_at < kMoment;
}

// What has ended goes without the lock, which freeing takes.
void Context::look_after_left() const {
  std::vector<Residents::Left> ended;
  {
    const std::shared_lock lock(residents_->mutex);
    if (residents_->left.empty()) return;
  }
  {
    const std::unique_lock lock(residents_->mutex);
    const auto goes_on = [](const Residents::Left& one) {
      one.context->enter_quietly();
      return may_go_on(one.context->driver().cuStreamQuery(one.stream));
    };
    const auto over = std::partition(residents_->left.begin(), residents_->left.end(), goes_on);
    std::move(over, residents_->left.end(), std::back_inserter(ended));
    residents_->left.erase(over, residents_->left.end());
    residents_->count -= static_cast<std::uint32_t>(ended.size());
  }
  for (const Residents::Left& one : ended) {
    one.context->enter_quietly();
    one.context->driver().cuStreamDestroy(one.stream);
  }
}

// None begins meanwhile.
void Context::free_kept() const {
  look_after_left();
  std::vector<std::function<void()>> called;  // goes after the lock
  const std::unique_lock lock(residents_->mutex);
  if (residents_->count != 0 || (residents_->kept_frees.empty() && !residents_->is_stuck)) return;
  enter_quietly();
  if (residents_->is_stuck && !streams_are_idle()) return;
  residents_->is_stuck = false;
  called = call_kept();
}

bool Context::free_kept_behind_work(std::uint64_t times_before) const {
  std::vector<std::function<void()>> called;  // goes after the lock
  const std::unique_lock lock(residents_->mutex);
  if (residents_->count != 0 || residents_->kept_frees.empty()) return residents_->times_freed != times_before;
  enter_quietly();
  called = call_kept();
  return true;
}

std::vector<std::function<void()>> Context::call_kept() const {
  for (const auto& call : residents_->kept_frees) call();
  ++residents_->times_freed;
  return std::exchange(residents_->kept_frees, {});
}

Result<HostWord> Context::take_word() const {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_words_.empty()) {
        const HostWord word = free_words_.back();
        free_words_.pop_back();
        return word;
      }
    }
    PERGOLA_TRY(add_words());  // other threads may be so fast as to take them all
  }
}

// Lines of the cache that one queue's word has to itself. Without the lock, which check() takes where the GPU is lost.
Status Context::add_words() const {
  constexpr std::size_t kPageBytes = 4096, kLineBytes = 64;
  constexpr std::string_view kDoing = "allocating page-locked memory for words that streams write or wait for";
  void* page = nullptr;
  PERGOLA_TRY(check(driver_->cuMemHostAlloc(&page, kPageBytes, CU_MEMHOSTALLOC_PORTABLE), kDoing));
  CUdeviceptr address = 0;
  if (const CUresult result = driver_->cuMemHostGetDevicePointer(&address, page, 0); result != CUDA_SUCCESS) {
    driver_->cuMemFreeHost(page);
    return check(result, kDoing);
  }
  std::memset(page, 0, kPageBytes);
  const std::lock_guard lock(mutex_);
  word_pages_.push_back(page);
  for (std::size_t at = 0; at < kPageBytes; at += kLineBytes)
    free_words_.push_back({reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(page) + at), address + at});
  return {};
}

void Context::give_word(HostWord word) const {
  if (!word) return;
  const std::lock_guard lock(mutex_);
  free_words_.push_back(word);
}

Result<CUstream> Context::upload_stream() const {
  {
    const std::lock_guard lock(mutex_);
    if (upload_stream_ != nullptr) return upload_stream_;
  }
  CUstream made = nullptr;  // without the lock, which check() takes where the GPU is lost
  PERGOLA_TRY(check(driver_->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "creating a stream for uploads of graphs"));
  const std::lock_guard lock(mutex_);
  if (upload_stream_ == nullptr)
    upload_stream_ = made;
  else
    driver_->cuStreamDestroy(made);  // another thread was first
  return upload_stream_;
}

Result<std::byte*> Context::take_staging() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_staging_.empty()) {
      std::byte* memory = free_staging_.back();
      free_staging_.pop_back();
      return memory;
    }
  }
  void* memory = nullptr;
  PERGOLA_TRY(check(driver_->cuMemHostAlloc(&memory, kStagingBytes, CU_MEMHOSTALLOC_PORTABLE),
                    "allocating page-locked staging memory"));
  return static_cast<std::byte*>(memory);
}

void Context::give_staging(std::byte* memory) const {
  {
    const std::lock_guard lock(mutex_);
    if (free_staging_.size() < kMaxFreeStaging) {
      free_staging_.push_back(memory);
      return;
    }
  }
  free([driver = driver_, memory] { driver->cuMemFreeHost(memory); });
}

void Context::add_host_range(const std::byte* begin, std::size_t size_bytes, std::weak_ptr<Buffer> buffer) const {
  const std::unique_lock lock(ranges_mutex_);
  host_ranges_[begin] = {size_bytes, std::move(buffer)};
}

void Context::remove_host_range(const std::byte* begin) const {
  const std::unique_lock lock(ranges_mutex_);
  host_ranges_.erase(begin);
}

BufferPtr Context::find_host_range(const std::byte* begin, std::size_t size_bytes) const {
  const std::shared_lock lock(ranges_mutex_);
  auto after = host_ranges_.upper_bound(begin);
  if (after == host_ranges_.begin()) return nullptr;
  const auto& [start, range] = *--after;
  const auto offset = static_cast<std::size_t>(begin - start);
  if (offset > range.size_bytes || size_bytes > range.size_bytes - offset) return nullptr;
  return range.buffer.lock();
}

}  // namespace pergola::device::cuda
