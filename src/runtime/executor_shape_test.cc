// The executor's shape follows from what its bodies need, on a driver that tells of spills as it is asked to.
#include <gtest/gtest.h>

#include "src/device/cuda/cuda_device.h"
#include "src/executor/executor.h"
#include "src/executor/generation.h"
#include "src/ptx/parser.h"

namespace pergola::executor {
namespace {

class ExecutorShapeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    ASSERT_TRUE(device.ok()) << device.message();
    sms_ = (*device)->info().sm_count;
    auto made = Executor::create(*device, {});
    ASSERT_TRUE(made.ok()) << made.message();
    executor_ = *made;
  }
  // A kernel with a register of that name.
  void add(const std::string& name) {
    const auto module = ptx::parse(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry kernel(.param .u64 out) {\n"
        "  .reg .b32 %" +
            name + ";\n  .reg .b64 %to;\n  ld.param.u64 %to, [out];\n  mov.u32 %" + name +
            ", 1;\n  st.global.u32 [%to], %" + name + ";\n  ret;\n}\n",
        "test.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    auto body = transform::entry_to_task(*module, "kernel", task_config(8, 48 * 1024));
    ASSERT_TRUE(body.ok()) << body.message();
    const auto number = executor_->add_body(*std::move(body));
    ASSERT_TRUE(number.ok()) << number.message();
  }
  std::uint32_t sms_ = 0;
  std::shared_ptr<Executor> executor_;
};

TEST_F(ExecutorShapeTest, TwoBlocksAMultiprocessor_WhileNothingSpills) {
  add("plain");
  add("plain");
  EXPECT_EQ(executor_->info().blocks_per_sm, 2u);
  EXPECT_EQ(executor_->info().blocks, 2 * sms_);
}

TEST_F(ExecutorShapeTest, OneBlock_FromTheFirstBodyThatSpills) {
  add("plain");
  add("spills");
  EXPECT_EQ(executor_->info().blocks_per_sm, 1u);
  EXPECT_EQ(executor_->info().blocks, sms_);
  EXPECT_EQ(executor_->info().local_bytes_per_thread, 0u);
  add("plain");
  EXPECT_EQ(executor_->info().blocks_per_sm, 1u) << "for good";
}

}  // namespace
}  // namespace pergola::executor
