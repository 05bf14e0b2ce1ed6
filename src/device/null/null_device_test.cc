#include "src/device/null/null_device.h"

#include <gtest/gtest.h>

namespace pergola::device {
namespace {

TEST(NullDevice, Allocate_BeyondItsMemory_IsResourceExhausted) {
  const DevicePtr device = create_null_device({.memory_bytes = 1000});
  const auto first = device->allocate(600, MemoryKind::kDevice);
  ASSERT_TRUE(first.ok());
  const auto second = device->allocate(600, MemoryKind::kDevice);
  EXPECT_EQ(second.code(), Code::kResourceExhausted);
  EXPECT_NE(second.message().find("400 of 1000"), std::string::npos) << second.message();
}

TEST(NullDevice, Allocate_AfterABufferIsDropped_HasItsBytesAgain) {
  const DevicePtr device = create_null_device({.memory_bytes = 1000});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(device->allocate(1000, MemoryKind::kHostVisible).ok());
}

TEST(NullDevice, Queue_WithAnotherDevicesBuffer_IsInvalidArgument) {
  const DevicePtr one = create_null_device(), other = create_null_device();
  const auto buffer = one->allocate(16, MemoryKind::kDevice);
  const auto queue = other->create_queue();
  ASSERT_TRUE(buffer.ok() && queue.ok());
  EXPECT_EQ((*queue)->fill(*buffer, 0, 16, 0, 1).code(), Code::kInvalidArgument);
}

TEST(NullDevice, Handles_OutliveTheDevice) {
  DevicePtr device = create_null_device();
  auto queue = std::move(device->create_queue()).value();
  const BufferPtr buffer = std::move(device->allocate(8, MemoryKind::kHostVisible)).value();
  device.reset();
  EXPECT_TRUE(queue->fill(buffer, 0, 8, 0xabcd, 2).ok());
  EXPECT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(buffer->host_pointer()[7], std::byte{0xab});
}

TEST(NullDevice, Texture_IsRefusedByName) {
  const DevicePtr device = create_null_device();
  TextureDescription description;
  description.buffer = *device->allocate(64, MemoryKind::kDevice);
  description.width = 16;
  const auto texture = device->create_texture(description);
  ASSERT_EQ(texture.code(), Code::kUnsupported);
  EXPECT_NE(texture.message().find("has no textures"), std::string::npos) << texture.message();
}

}  // namespace
}  // namespace pergola::device
