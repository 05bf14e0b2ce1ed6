// How the kernels that stay on a device are had to leave, by whoever has them (Device::add_resident).
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/device/device.h"

namespace pergola::device {

// Thread-safe. None is called with the lock: a kernel that leaves may end in here.
class SendAways {
 public:
  void add(const void* owner, const Device::SendAway& send_away) {
    const std::lock_guard lock(mutex_);
    all_.emplace_back(owner, send_away);
  }
  void remove(const void* owner) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [&](const auto& one) { return one.first == owner; });
  }
  // All stay away as long as what it gives lives.
  Result<std::vector<std::shared_ptr<void>>> without_residents() const {
    std::vector<Device::SendAway> send_away;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : all_) send_away.push_back(one.second);
    }
    std::vector<std::shared_ptr<void>> away;
    for (const Device::SendAway& one : send_away) {
      PERGOLA_ASSIGN(std::shared_ptr<void> gone, one());
      away.push_back(std::move(gone));
    }
    return away;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<const void*, Device::SendAway>> all_;  // guarded by mutex_
};

}  // namespace pergola::device
