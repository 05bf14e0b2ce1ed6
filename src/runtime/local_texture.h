// A texture of the in-process session: the device's, which work in flight keeps.
#pragma once

#include "src/runtime/local_session.h"

namespace pergola::runtime {

class LocalTexture final : public session::Texture {
 public:
  LocalTexture(std::shared_ptr<LocalSession> session, device::TexturePtr texture)
      : Texture(session->id()), session_(std::move(session)), texture_(std::move(texture)),
        resource_(session_->scheduler().create_resource(1, scheduler::ResourceKind::kTexture)) {}
  ~LocalTexture() override { session_->scheduler().retire(std::move(resource_), std::move(texture_)); }

  // Launches read it: so it stays until they have ended.
  scheduler::Resource& resource() const { return *resource_; }
  std::uint64_t handle() const override { return texture_->handle(); }

 private:
  const std::shared_ptr<LocalSession> session_;
  device::TexturePtr texture_;                     // never null but in the destructor, as the next
  std::unique_ptr<scheduler::Resource> resource_;
};

}  // namespace pergola::runtime
