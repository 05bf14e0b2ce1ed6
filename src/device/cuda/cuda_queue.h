// A queue of a GPU: one non-blocking stream.
//
// Failures of running work are sticky and lose the device (context.h), so no failure is cleared by synchronize(): it
// reports kDeviceLost, and so does every later call. Launches wait for a resident kernel where the GPU has no room, and
// where they grow local memory; copies between host and device, events and streams do not.
//
// A queue that is destroyed waits for its work, while anything of it is seen to end. Where for
// CudaDeviceOptions::end_grace nothing is, the stream is left to itself, with all that its work uses
// (Context::leave()): nobody can stop a kernel.
//
// Thread-safe: one lock a queue, held over the driver's calls and, where staging is full, over a wait for a chunk.
#pragma once

#include <mutex>

#include "src/device/cuda/context.h"
#include "src/device/cuda/cuda_buffer.h"
#include "src/device/cuda/cuda_event.h"
#include "src/device/cuda/known_launches.h"
#include "src/device/cuda/retained.h"
#include "src/device/cuda/staging.h"
#include "src/device/device.h"

namespace pergola::device::cuda {

class CudaQueue final : public Queue {
 public:
  // `device` is kept alive for its DeviceInfo.
  static Result<std::unique_ptr<CudaQueue>> create(ContextPtr context, std::shared_ptr<const Device> device);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  Status launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                std::span<const std::byte> parameters) override;
  Status launch_between(Between& between, const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                        std::span<const std::byte> parameters) override;
  Status copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override;
  Status copy_to_host(std::span<std::byte> destination, const BufferPtr& source, std::size_t offset_bytes) override;
  Status copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
  Status fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes, std::uint32_t pattern,
              std::uint32_t pattern_bytes) override;
  Status take_managed(const BufferPtr& buffer) override;
  Status give_managed_to_host(const BufferPtr& buffer) override;
  Status wait(const EventPtr& event) override;
  bool records_again() const override { return true; }  // a failure loses the device, as all that follows tells
  Status wait_for_gate(const GatePtr& gate, std::uint32_t number) override;
  Result<EventPtr> record() override;
  Result<EventPtr> record_untimed() override;
  Result<EventPtr> record_for_host() override;
  std::optional<Status> poll() override;
  Status synchronize() override;
  void let_go_if_idle() override;
  Result<void*> native_handle() override;

  // Queues an instantiated graph; `state` is kept till it has ended.
  Status launch_graph(CUgraphExec executable, const std::shared_ptr<const void>& state);
  const Context* context() const { return context_.get(); }

 private:
  CudaQueue(ContextPtr context, std::shared_ptr<const Device> device, CUstream stream);
  Result<const CudaBuffer*> own(const BufferPtr& buffer) const;
  Status move_managed(const BufferPtr& buffer, bool to_host);
  // After each piece of work, under the lock: keeps its handles, and now and then drops those of ended work. Where no
  // event can be had for that they are kept for longer: the work has been queued, and its caller is told so.
  template <typename... T>
  void keep(Retained::Ended& ended, const std::shared_ptr<T>&... handles) {
    (retained_.keep(handles), ...);
    if (retained_.should_seal()) [[unlikely]]
      seal_kept(ended);
  }
  void seal_kept(Retained::Ended& ended);
  Result<const CudaKernel*> check_launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                                         std::size_t parameter_bytes);
  // Under the lock, these three. record_locked(): an event behind all work so far, which the handles kept so far wait
  // for.
  Status launch_locked(const CudaKernel& kernel, const ModulePtr& module, const LaunchConfig& config,
                       std::span<const std::byte> parameters, Retained::Ended& ended);
  void record_again(EventPtr& event, Retained::Ended& ended);
  Result<std::shared_ptr<CudaEvent>> record_locked(bool timed, Retained::Ended& ended, bool for_host = false);

  // A call of the driver on the stream, which says whose it is: so the context need not be the thread's, which costs a
  // call of the driver to see to (580.159 takes launches, records and waits from a thread without one and from one with
  // another's). A driver that wants it there says so; or the thread's is one of another device that is lost, whose
  // error this is. Nothing has been queued.
  template <typename Call>
  CUresult on_stream(const Call& call) const {
    const CUresult result = call();
    if (result == CUDA_SUCCESS) [[likely]]
      return result;
    const CUresult entered = context_->driver().cuCtxSetCurrent(context_->handle());
    return entered == CUDA_SUCCESS ? call() : entered;
  }
  HostWord tell_host();
  void note_launch(const Kernel* kernel, const ModulePtr& module);
  bool await_end(Retained::Ended& ended);
  void leave();

  const ContextPtr context_;
  const std::shared_ptr<const Device> device_;
  const CUstream stream_;
  std::mutex mutex_;  // guards the order of the stream, and all below
  StagingRing staging_;
  Retained retained_;
  KnownLaunches known_;
  HostWord word_;                  // taken when first wanted
  bool has_no_word_ = false;       // one could not be had, or not be written
  std::uint32_t word_number_ = 0;  // it comes to that when what is queued has ended
  // For messages: the last kernel launched, null if that was a graph, while its module is there; and how many launches
  // there have been since the queue was last seen idle.
  const Kernel* last_kernel_ = nullptr;
  std::weak_ptr<const Module> last_module_;
  std::uint64_t launches_ = 0;
};

// The driver's form of a launch; `attributes` must stay where it is. Most launches have none, for which 200 bytes need
// not be cleared each time.
struct LaunchAttributes {
  CUlaunchAttribute values[3];  // those behind `count` are anything
  unsigned count = 0;
};
void set_attributes(const LaunchConfig& config, LaunchAttributes& attributes);

// The `extra` list that hands the driver a packed parameter buffer, which it copies.
class ParameterList {
 public:
  explicit ParameterList(std::span<const std::byte> parameters);
  ParameterList(const ParameterList&) = delete;
  ParameterList& operator=(const ParameterList&) = delete;
  void** extra() { return bytes_ == 0 ? nullptr : extra_; }

 private:
  std::size_t bytes_;
  void* extra_[5];
};

}  // namespace pergola::device::cuda
