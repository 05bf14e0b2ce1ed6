// For tests of random graphs of launches (merged_graphs_test.cc, stacked_graphs_test.cc): kernels and arrays on a
// device, what nodes use of these, and the bits that a graph leaves.
//
// PERGOLA_CHAINS_DEVICE: another device than the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <random>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"
#include "src/runtime/block_kernel.h"
#include "src/runtime/devices.h"

namespace pergola::runtime {

class RandomGraphs : public testing::Test {
 protected:
  // Kernels of `text`, and so many arrays.
  void open(std::string_view text, const std::string& name, std::initializer_list<const char*> kernels,
            std::size_t arrays, std::size_t array_bytes) {
    const char* const asked = std::getenv("PERGOLA_CHAINS_DEVICE");
    device_ = open_device(asked == nullptr ? "cpu" : asked).value();
    auto module = ptx::parse(text, name);
    ASSERT_TRUE(module.ok()) << module.message();
    const Status right = ptx::verify(*module);
    ASSERT_TRUE(right.ok()) << right.message();
    module_ = device_->load({&*module, text, name}).value();
    const auto kept = std::make_shared<const std::string>(text);
    for (const char* kernel : kernels)
      kernels_.push_back(std::make_shared<BlockKernel>(device_, kept, name, kernel, ""));
    for (std::size_t i = 0; i < arrays; ++i)
      arrays_.push_back(device_->allocate(array_bytes, device::MemoryKind::kDevice).value());
    queue_ = device_->create_queue().value();
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  // Of arrays_.
  struct Uses {
    std::size_t writes = 0, reads = 0;
  };
  static bool conflict(const Uses& a, const Uses& b) {
    return a.writes == b.writes || a.writes == b.reads || a.reads == b.writes;
  }

  // A node more, behind those it conflicts with. `kernel`: null where nobody knows it.
  void add_node(device::GraphSpec& spec, device::GraphNode node, std::shared_ptr<BlockKernel> kernel,
                const Uses& uses) {
    for (std::size_t i = 0; i < uses_.size(); ++i)
      if (conflict(uses_[i], uses)) node.after.push_back(static_cast<device::NodeId>(i));
    known_.push_back(std::move(kernel));
    uses_.push_back(uses);
    spec.nodes.push_back(std::move(node));
  }

  // Of all arrays, after two launches.
  std::vector<std::uint32_t> run(const device::GraphSpec& spec) {
    const std::size_t elements = arrays_[0]->size_bytes() / 4;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      std::vector<std::uint32_t> values(elements);
      for (std::uint32_t k = 0; k < elements; ++k) values[k] = static_cast<std::uint32_t>(7 * i + 13 * k);
      EXPECT_TRUE(queue_->copy_to_device(arrays_[i], 0, std::as_bytes(std::span(values))).ok());
    }
    auto graph = device_->instantiate(spec);
    EXPECT_TRUE(graph.ok()) << graph.message();
    if (!graph.ok()) return {};
    for (int round = 0; round < 2; ++round) EXPECT_TRUE((*graph)->launch(*queue_).ok());
    std::vector<std::uint32_t> all(arrays_.size() * elements);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const auto part = std::as_writable_bytes(std::span(all).subspan(i * elements, elements));
      EXPECT_TRUE(queue_->copy_to_host(part, arrays_[i], 0).ok());
    }
    const Status status = queue_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return all;
  }

  // By node of the spec: all that it comes after, near or far.
  static std::vector<std::vector<bool>> reached(const device::GraphSpec& spec) {
    std::vector<std::vector<bool>> reached;
    for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
      reached.emplace_back(spec.nodes.size());
      for (const device::NodeId earlier : spec.nodes[i].after) {
        reached[i][earlier] = true;
        for (std::size_t k = 0; k < earlier; ++k)
          if (reached[earlier][k]) reached[i][k] = true;
      }
    }
    return reached;
  }

  device::DevicePtr device_;
  device::ModulePtr module_;
  std::vector<std::shared_ptr<BlockKernel>> kernels_;
  std::vector<device::BufferPtr> arrays_;
  std::unique_ptr<device::Queue> queue_;
  std::mt19937 random_;
  std::vector<std::shared_ptr<BlockKernel>> known_;  // by node
  std::vector<Uses> uses_;
};

}  // namespace pergola::runtime
