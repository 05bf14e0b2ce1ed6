// What a device says of itself, and its memory.
#include <cmath>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Info);
CONFORMANCE_SUITE(Allocation);

TEST_P(Info, Limits_AreThoseOfAUsableDevice) {
  const device::DeviceInfo& info = device().info();
  EXPECT_FALSE(info.id.empty());
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.driver.empty());
  EXPECT_GE(info.compute_major * 10 + info.compute_minor, 70u);
  EXPECT_GE(info.sm_count, 1u);
  EXPECT_EQ(info.warp_size_threads, 32u);
  EXPECT_GE(info.max_threads_per_block, 1024u);
  EXPECT_GE(info.max_block.x, 1024u);
  EXPECT_GE(info.max_block.z, 64u);
  EXPECT_GE(info.max_grid.x, 0x7fffffffu);
  EXPECT_GE(info.max_grid.y, 65535u);
  EXPECT_GE(info.max_shared_bytes_per_block, 48u << 10);
  EXPECT_GE(info.max_blocks_per_sm, 1u);
  EXPECT_GE(info.memory_bytes, 1u << 20);
}

TEST_P(Info, Health_OfAWorkingDevice_IsSuccess) { EXPECT_TRUE(device().health().ok()); }

TEST_P(Allocation, ZeroBytes_IsABuffer) {
  const BufferPtr buffer = allocate(0);
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_TRUE(queue().fill(buffer, 0, 0, 0, 4).ok());
  EXPECT_TRUE(queue().copy_to_device(buffer, 0, {}).ok());
  EXPECT_TRUE(queue().synchronize().ok());
}

TEST_P(Allocation, Addresses_AreAlignedAndDistinct) {
  std::vector<BufferPtr> kept;
  for (std::size_t size : {1, 3, 255, 256, 257, 4097, 1 << 20}) kept.push_back(allocate(size));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i]->address() % 256, 0u) << kept[i]->size_bytes();
    EXPECT_NE(kept[i]->address(), 0u);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = kept[i]->address() >= kept[j]->address() + kept[j]->size_bytes() ||
                         kept[j]->address() >= kept[i]->address() + kept[i]->size_bytes();
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST_P(Allocation, MoreThanTheDeviceHas_IsResourceExhausted) {
  EXPECT_CODE(kResourceExhausted, "", device().allocate(device().info().memory_bytes * 2, MemoryKind::kDevice));
  EXPECT_CODE(kResourceExhausted, "", device().allocate(std::size_t{1} << 62, MemoryKind::kDevice));
  EXPECT_CODE(kResourceExhausted, "", device().allocate(~std::size_t{0}, MemoryKind::kHostVisible));
  EXPECT_TRUE(device().allocate(1 << 20, MemoryKind::kDevice).ok()) << "after the refusals the device goes on";
}

TEST_P(Allocation, DroppedBuffers_GiveTheirMemoryBack) {
  const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(device().info().memory_bytes / 4, 1 << 28));
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(device().allocate(size, MemoryKind::kDevice).ok()) << i;
}

TEST_P(Allocation, HostVisible_IsReadAndWrittenByBothSides) {
  const BufferPtr both = allocate(4096, MemoryKind::kHostVisible);
  ASSERT_EQ(both->kind(), MemoryKind::kHostVisible);
  ASSERT_NE(both->host_pointer(), nullptr);
  std::memset(both->host_pointer(), 0x11, 4096);
  const BufferPtr other = allocate(4096);
  need(queue().copy(other, 0, both, 0, 4096));
  need(queue().fill(both, 1024, 1024, 0xee, 1));
  need(queue().copy(both, 2048, other, 0, 1024));
  need(queue().synchronize());
  EXPECT_EQ(both->host_pointer()[1023], std::byte{0x11});
  EXPECT_EQ(both->host_pointer()[1024], std::byte{0xee});
  EXPECT_EQ(both->host_pointer()[2047], std::byte{0xee});
  EXPECT_EQ(both->host_pointer()[2048], std::byte{0x11});
}

TEST_P(Allocation, DeviceKind_IsReported) { EXPECT_EQ(allocate(16)->kind(), MemoryKind::kDevice); }

}  // namespace
}  // namespace pergola::conformance
