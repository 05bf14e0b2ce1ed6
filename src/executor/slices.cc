// The executor's slices: when its tasks ran (ExecutorOptions::slices).
#include "src/executor/executor.h"

namespace pergola::executor {

Status Executor::keep_slices() {
  if (traces_ == nullptr) return {};
  std::unique_lock lock(lifecycle_);
  await_stay(lock);
  PERGOLA_TRY(park_locked());
  PERGOLA_TRY(traces_->clear(*copies_));
  lock.unlock();
  wake_keeper();  // tasks may have come meanwhile
  return {};
}

Result<device::TaskSlices> Executor::take_slices() {
  if (traces_ == nullptr) return device::TaskSlices();
  std::unique_lock lock(lifecycle_);
  await_stay(lock);
  PERGOLA_TRY(park_locked());
  PERGOLA_ASSIGN(device::TaskSlices slices, traces_->read(*copies_, heads()));
  for (const transform::TaskBody& body : bodies_) slices.kernels.push_back(body.kernel);
  PERGOLA_TRY(traces_->clear(*copies_));
  lock.unlock();
  wake_keeper();
  return slices;
}

}  // namespace pergola::executor
