// Random chains of launches of two kernels, for tests of what is made of chains (lowered_chains_test.cc,
// early_chains_test.cc): the launches, their arrays on a device, and the bits that they leave.
//
// PERGOLA_CHAINS: how many. PERGOLA_SEED takes a seed. PERGOLA_CHAINS_DEVICE: another device than the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/runtime/block_lowering.h"
#include "src/runtime/devices.h"

namespace pergola::runtime {

// mix: out[i * step + a] = out[...] * 3 + in[i + b], threads beyond n return at once.
// turn: a block's elements of x turned round by way of shared memory, so that its threads meet at a barrier.
inline constexpr std::string_view kChainsPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry mix(.param .u64 out, .param .u64 in, .param .u32 n, .param .u32 step, .param .u32 a, .param .u32 b) {
  .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  ld.param.u32 %r1, [n]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 ret;
  ld.param.u32 %r6, [b]; add.s32 %r7, %r5, %r6;
  ld.param.u64 %rd1, [in]; mul.wide.s32 %rd2, %r7, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.nc.u32 %r8, [%rd3];
  ld.param.u32 %r9, [step]; ld.param.u32 %r10, [a]; mad.lo.s32 %r7, %r5, %r9, %r10;
  ld.param.u64 %rd4, [out]; mul.wide.s32 %rd5, %r7, 4; add.s64 %rd6, %rd4, %rd5;
  ld.global.u32 %r11, [%rd6]; mad.lo.s32 %r11, %r11, 3, %r8; st.global.u32 [%rd6], %r11;
  exit;
}
.visible .entry turn(.param .u64 x) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[512];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r3, %r2, %r1;
  ld.param.u64 %rd1, [x]; mul.wide.s32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r5, [%rd1];
  mov.u32 %r6, tile; shl.b32 %r7, %r1, 2; add.s32 %r7, %r7, %r6; st.shared.u32 [%r7], %r5;
  bar.sync 0;
  sub.s32 %r5, %r2, %r1; add.s32 %r5, %r5, -1; shl.b32 %r5, %r5, 2; add.s32 %r5, %r5, %r6;
  ld.shared.u32 %r5, [%r5]; st.global.u32 [%rd1], %r5;
  ret;
}
)";

inline constexpr std::uint32_t kElements = 512;

class LoweredChains : public testing::Test {
 protected:
  void SetUp() override {
    device_ = open();
    auto module = ptx::parse(kChainsPtx, "chains.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    ASSERT_TRUE(ptx::verify(*module).ok());
    module_ = device_->load({&*module, kChainsPtx, "chains.ptx"}).value();
    const auto text = std::make_shared<const std::string>(kChainsPtx);
    for (const char* name : {"mix", "turn"})
      kernels_.push_back(std::make_shared<BlockKernel>(device_, text, "chains.ptx", name, ""));
    for (int i = 0; i < 3; ++i) {
      arrays_.push_back(device_->allocate(kElements * 4, device::MemoryKind::kDevice).value());
      allocations_.push_back({arrays_.back()->address(), arrays_.back()->size_bytes()});
    }
    for (std::size_t i = 0; i < kQueues; ++i) queues_.push_back(device_->create_queue().value());
  }

  virtual device::DevicePtr open() {
    const char* const asked = std::getenv("PERGOLA_CHAINS_DEVICE");
    return open_device(asked == nullptr ? "cpu" : asked).value();
  }

  // How many chains are asked for, and their seed, which is printed.
  static int asked_chains(int otherwise) {
    const char* const asked = std::getenv("PERGOLA_CHAINS");
    return asked == nullptr ? otherwise : std::atoi(asked);
  }
  unsigned start_random() {
    const char* const given = std::getenv("PERGOLA_SEED");
    const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
    std::printf("seed %u\n", seed);
    random_.seed(seed);
    return seed;
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void add_launch(device::GraphSpec& spec, std::vector<std::shared_ptr<BlockKernel>>& kernels) {
    device::KernelNode work;
    const bool turns = below(4) == 0;
    const std::uint32_t threads = 1 + below(70), blocks = 1 + below(7);
    work.module = module_;
    work.kernel = module_->kernel(turns ? "turn" : "mix").value();
    work.config.grid = {blocks, 1, 1};
    work.config.block = {threads, 1, 1};
    work.parameters.resize(work.kernel->signature().parameter_bytes);
    const auto put = [&](std::size_t offset, const auto& value) {
      std::memcpy(work.parameters.data() + offset, &value, sizeof value);
    };
    if (turns) {
      put(0, arrays_[below(3)]->address());
      work.config.block.x = std::min(threads, kElements / blocks);
    } else {
      const std::uint32_t step = 1 + below(3), a = below(9), b = below(9);
      const std::uint32_t out = below(3);
      put(0, arrays_[out]->address());
      put(8, arrays_[(out + 1 + below(2)) % 3]->address());
      put(16, std::min({1 + below(blocks * threads), (kElements - 1 - a) / step, kElements - b}));
      put(20, step);
      put(24, a);
      put(28, b);
    }
    kernels.push_back(kernels_[turns ? 1 : 0]);
    device::GraphNode node;
    node.work = std::move(work);
    if (!spec.nodes.empty()) node.after = {static_cast<device::NodeId>(spec.nodes.size() - 1)};
    spec.nodes.push_back(std::move(node));
  }

  // So many launches, one after the other.
  device::GraphSpec random_chain(std::uint32_t length, std::vector<std::shared_ptr<BlockKernel>>& kernels) {
    device::GraphSpec spec;
    spec.buffers = arrays_;
    for (std::uint32_t k = 0; k < length; ++k) add_launch(spec, kernels);
    return spec;
  }
  // What is in the arrays after it.
  std::vector<std::uint32_t> in_stream_order(const device::GraphSpec& plain) {
    reset();
    for (const device::GraphNode& node : plain.nodes) start(node, *queues_[0]);
    wait();
    return contents();
  }

  void start(const device::GraphNode& node, device::Queue& queue) {
    const auto& work = std::get<device::KernelNode>(node.work);
    const Status status = queue.launch(work.module, *work.kernel, work.config, work.parameters);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void reset() {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      std::vector<std::uint32_t> values(kElements);
      for (std::uint32_t k = 0; k < kElements; ++k) values[k] = static_cast<std::uint32_t>(7 * i + 13 * k);
      ASSERT_TRUE(queues_[0]->copy_to_device(arrays_[i], 0, std::as_bytes(std::span(values))).ok());
    }
    ASSERT_TRUE(queues_[0]->synchronize().ok());
  }
  std::vector<std::uint32_t> contents() {
    std::vector<std::uint32_t> all(arrays_.size() * kElements);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const auto part = std::as_writable_bytes(std::span(all).subspan(i * kElements, kElements));
      EXPECT_TRUE(queues_[0]->copy_to_host(part, arrays_[i], 0).ok());
    }
    EXPECT_TRUE(queues_[0]->synchronize().ok());
    return all;
  }
  void wait() {
    for (const auto& queue : queues_) {
      const Status status = queue->synchronize();
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }

  // Twice.
  void expect_as_graph(const device::GraphSpec& spec, const std::vector<std::uint32_t>& right, const char* what) {
    const auto graph = device_->instantiate(spec);
    ASSERT_TRUE(graph.ok()) << graph.message();
    for (int round = 0; round < 2; ++round) {
      reset();
      ASSERT_TRUE((*graph)->launch(*queues_[0]).ok());
      wait();
      ASSERT_EQ(contents(), right) << what << ", round " << round;
    }
  }

  // All launches at once, the last one first, again and again in one form: from the second run on blocks wait only as
  // far as they know which run it is.
  void expect_at_once(const LoweredBlocks& lowered, const std::vector<std::uint32_t>& right) {
    const auto& nodes = lowered.spec.nodes;
    for (int run = 0; run < 3; ++run) {
      reset();
      // griddepcontrol.wait is nothing here: a launch that waits for all is started when all have ended.
      std::size_t begin = 0;
      for (std::size_t i = 0; i <= nodes.size(); ++i) {
        if (i < nodes.size() && !lowered.steps[i].waits_for_all) continue;
        for (std::size_t k = i; k-- > begin;) start(nodes[k], *queues_[k]);
        wait();
        begin = i;
      }
      ASSERT_EQ(contents(), right) << "all at once, run " << run;
    }
  }

  static constexpr std::size_t kQueues = 8;
  device::DevicePtr device_;
  device::ModulePtr module_;
  std::vector<std::shared_ptr<BlockKernel>> kernels_;
  std::vector<device::BufferPtr> arrays_;
  std::vector<BlockAllocation> allocations_;
  std::vector<std::unique_ptr<device::Queue>> queues_;
  std::mt19937 random_;
};

}  // namespace pergola::runtime
