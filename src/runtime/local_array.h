// An array of the in-process session: a buffer of the device, and a host copy for view() once somebody asks.
#pragma once

#include <mutex>

#include "src/runtime/local_session.h"

namespace pergola::runtime {

class LocalArray final : public session::Array {
 public:
  LocalArray(std::shared_ptr<LocalSession> session, device::BufferPtr buffer, session::ElementType type,
             std::uint32_t element_bytes, std::uint64_t count)
      : Array(type, element_bytes, count, session->id()), session_(std::move(session)), buffer_(std::move(buffer)) {}

  const device::BufferPtr& buffer() const { return buffer_; }

  device::DeviceAddress address() const override { return buffer_->address(); }
  Status write(std::uint64_t offset_bytes, std::span<const std::byte> source) override;
  Status read(std::uint64_t offset_bytes, std::span<std::byte> destination) override;
  Result<std::span<const std::byte>> view() override;
  Status fill(std::span<const std::byte> value) override;
  Status copy_from(std::uint64_t offset_bytes, const session::ArrayPtr& source, std::uint64_t source_offset_bytes,
                   std::uint64_t size_bytes) override;

 private:
  Status check_range(std::string_view what, std::uint64_t offset_bytes, std::uint64_t size_bytes) const;
  Status fill_by_doubling(std::span<const std::byte> value);

  const std::shared_ptr<LocalSession> session_;
  const device::BufferPtr buffer_;
  std::mutex view_mutex_;
  device::BufferPtr view_;  // host-visible, made by the first view(); guarded by view_mutex_
};

}  // namespace pergola::runtime
