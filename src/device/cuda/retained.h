// What queued work uses, kept alive until that work has ended.
//
//   keep(handle) ─▶ [open batch] ── seal(event) ─▶ [sealed batches, oldest first] ── the event has ended ─▶ dropped
//
// Handles are dropped by their last owner, which may call the driver: so they are handed out, and the queue drops
// them after its lock. Owned and guarded by its queue.
#pragma once

#include <deque>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "src/device/cuda/cuda_event.h"

namespace pergola::device::cuda {

class Retained {
 public:
  using Handles = std::vector<std::shared_ptr<const void>>;
  // What its owner is to drop. Nearly always nothing, and then a pointer is all that a launch has to look at.
  class Ended {
   public:
    using value_type = std::shared_ptr<const void>;
    void push_back(value_type handle) {
      if (handles_ == nullptr) handles_ = std::make_unique<Handles>();
      handles_->push_back(std::move(handle));
    }

   private:
    std::unique_ptr<Handles> handles_;
  };

  template <typename T>
  void keep(const std::shared_ptr<T>& handle) {
    // The same handle again and again (a module, an array in a loop) is kept once a batch.
    if (open_.empty() || open_.back() != handle) open_.push_back(handle);
  }
  bool should_seal() const { return open_.size() >= kBatch; }
  bool wants_event() const { return open_.size() >= kSmallBatch; }  // whether the next would seal the open batch
  // `event` is recorded behind all work that uses the open batch. True now and then: it is time for release_ended(),
  // which asks the driver. Unless `always`, a small batch is left open for the next event.
  bool seal(const std::shared_ptr<const CudaEvent>& event, bool always) {
    if (open_.size() < (always ? 1 : kSmallBatch)) return false;
    sealed_.push_back({event, std::exchange(open_, {})});
    return true;
  }
  // Takes out what ended work used, without waiting. The context is current.
  void release_ended(Ended& out) {
    while (!sealed_.empty()) {
      const CudaEvent& event = *sealed_.front().event;
      if (event.context()->driver().cuEventQuery(event.handle()) != CUDA_SUCCESS) return;
      pop(out);
    }
  }
  // How many batches' work is not known to have ended.
  std::size_t batches() const { return sealed_.size(); }
  // Takes out everything: all work has ended, or the device is lost.
  void release_all(Ended& out) {
    while (!sealed_.empty()) pop(out);
    std::move(open_.begin(), open_.end(), std::back_inserter(out));
    open_.clear();
  }

 private:
  static constexpr std::size_t kBatch = 64, kSmallBatch = 16;
  struct Batch {
    std::shared_ptr<const CudaEvent> event;
    Handles handles;
  };
  void pop(Ended& out) {
    Batch& batch = sealed_.front();
    std::move(batch.handles.begin(), batch.handles.end(), std::back_inserter(out));
    out.push_back(std::move(batch.event));
    sealed_.pop_front();
  }

  Handles open_;
  std::deque<Batch> sealed_;
};

}  // namespace pergola::device::cuda
