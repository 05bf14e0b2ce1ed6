// What a fault takes that a GPU does not get over, as its driver tells it: all arrays, and whoever asks is told of each.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "src/device/cuda/cuda_device.h"
#include "src/runtime/fake_driver.h"
#include "src/runtime/local_session.h"
#include "src/runtime/test_arrays.h"

namespace pergola::runtime {
namespace {

using session::ArrayPtr;
using ::testing::HasSubstr;
using ::testing::Not;

// After it every call of the fake driver fails.
constexpr std::string_view kFaultPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry illegal_address(.param .u64 x) {
  .reg .b64 %a;
  ld.param.u64 %a, [x];
  st.global.u32 [%a], 1;
  ret;
}
)";

class LostDevice : public ::testing::Test, protected TestArrays {
 protected:
  void SetUp() override {
    control().reset();
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    ASSERT_TRUE(device) << device.message();
    session_ = LocalSession::create(std::move(device).value(), "").value();
    module_ = session_->load_text(std::string(kFaultPtx), {.name = "fault.ptx"}).value();
  }
  ArrayPtr array(std::uint64_t count) { return session_->allocate(session::ElementType::kU32, 4, count).value(); }
  std::string message_of_fault(const ArrayPtr& on) {
    const std::vector<session::Argument> arguments{session::ArrayArgument{on}};
    const auto kernel = module_->kernel("illegal_address").value();
    EXPECT_TRUE(kernel->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments, nullptr, nullptr).ok());
    const Status lost = session_->synchronize();
    EXPECT_EQ(lost.code(), Code::kDeviceLost);
    return lost.message();
  }

  std::shared_ptr<LocalSession> session_;
  session::ModulePtr module_;
};

TEST_F(LostDevice, TheArraysThatLive_AreNamed) {
  const ArrayPtr x = array(64), y = array(100);
  const std::string gone = fmt::format("({} bytes at", 4 * 77);
  array(77);
  const std::string told = message_of_fault(x);
  EXPECT_THAT(told, HasSubstr("'illegal_address'"));
  EXPECT_THAT(told, HasSubstr("The contents of 2 arrays are lost: array "));
  EXPECT_THAT(told, HasSubstr(fmt::format("(256 bytes at {:#x})", x->address())));
  EXPECT_THAT(told, HasSubstr(fmt::format("(400 bytes at {:#x})", y->address())));
  EXPECT_THAT(told, Not(HasSubstr(gone)));
}

TEST_F(LostDevice, OfMany_TheFirstAreInTheMessage) {
  std::vector<ArrayPtr> arrays;
  for (int n = 0; n < 40; ++n) arrays.push_back(array(64));
  const std::string told = message_of_fault(arrays[0]);
  EXPECT_THAT(told, HasSubstr("The contents of 40 arrays are lost: array "));
  EXPECT_THAT(told, HasSubstr(" and others, which a warning in the log names."));
}

}  // namespace
}  // namespace pergola::runtime
