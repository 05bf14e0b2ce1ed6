// A file of several kernels, of which the device may refuse some.
#include "src/runtime/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "src/runtime/devices.h"

namespace pergola::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHead = ".version 7.0\n.target sm_70\n.address_size 64\n";
constexpr std::string_view kStore = R"(
.visible .entry _Z5storePj(.param .u64 p) {
  .reg .b64 %a;
  ld.param.u64 %a, [p];
  st.global.u32 [%a], 7;
  ret;
}
)";
constexpr std::string_view kRefused = ".visible .entry _Z5wrongv() {\n  nosuch.instruction.u32;\n  ret;\n}\n";

class Load : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = open_device("cpu");
    ASSERT_TRUE(device) << device.message();
    auto session = LocalSession::create(std::move(device).value(), "");
    ASSERT_TRUE(session) << session.message();
    session_ = std::move(session).value();
  }
  Result<session::ModulePtr> load_ptx(const std::string& text) {
    session::LoadOptions options;
    options.name = "both.ptx";
    return load(session_, text_source(text, options));
  }

  std::shared_ptr<LocalSession> session_;
};

TEST_F(Load, RefusedKernel_LeavesTheOthersOfItsFile) {
  for (const bool refused_first : {false, true}) {
    const std::string text =
        std::string(kHead).append(refused_first ? kRefused : kStore).append(refused_first ? kStore : kRefused);
    const auto module = load_ptx(text);
    ASSERT_TRUE(module) << module.message();
    EXPECT_THAT((*module)->kernel_names(), ::testing::UnorderedElementsAre("_Z5storePj", "_Z5wrongv"));
    const std::size_t line =
        1 + static_cast<std::size_t>(
                std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("nosuch")), '\n'));
    for (const char* name : {"_Z5wrongv", "wrong"}) {
      const auto refused = (*module)->kernel(name);
      ASSERT_EQ(refused.code(), Code::kUnsupported) << name;
      EXPECT_THAT(refused.message(), HasSubstr(fmt::format("both.ptx:{}:", line)));
      EXPECT_THAT(refused.message(), HasSubstr("nosuch"));
      EXPECT_THAT(refused.message(), HasSubstr("'_Z5wrongv'"));
    }

    const auto store = (*module)->kernel("store");
    ASSERT_TRUE(store) << store.message();
    EXPECT_EQ((*store)->info().name, "_Z5storePj");
    const auto array = session_->allocate(session::ElementType::kU32, 4, 1);
    ASSERT_TRUE(array) << array.message();
    const session::Argument argument = session::ArrayArgument{*array, 0};
    session::EventPtr event;
    const Status launched = (*store)->launch({.grid = {1, 1, 1}, .block = {1, 1, 1}}, {&argument, 1}, &event);
    ASSERT_TRUE(launched) << launched.message();
    ASSERT_TRUE(event->wait(std::nullopt).ok());
    std::uint32_t value = 0;
    ASSERT_TRUE((*array)->read(0, std::as_writable_bytes(std::span(&value, 1))).ok());
    EXPECT_EQ(value, 7u);
  }
}

TEST_F(Load, RefusedKernel_SaysWhyByItsIndex) {
  const auto module = load_ptx(std::string(kHead).append(kStore).append(kRefused));
  ASSERT_TRUE(module) << module.message();
  const auto& names = (*module)->kernel_names();
  ASSERT_EQ(names.size(), 2u);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "_Z5storePj")
      EXPECT_EQ((*module)->refusal(i), "");
    else
      EXPECT_THAT((*module)->refusal(i), HasSubstr("nosuch"));
  }
}

TEST_F(Load, AddressesOf32Bits_AreRefused) {
  const auto module = load_ptx(".version 7.0\n.target sm_70\n.address_size 32\n" + std::string(kStore));
  ASSERT_EQ(module.code(), Code::kUnsupported);
  EXPECT_THAT(module.message(), HasSubstr("'both.ptx' has .address_size 32"));
}

TEST_F(Load, Alias_IsRefusedByName) {
  const auto module =
      load_ptx(std::string(kHead).append(".func f() { ret; }\n.func g();\n.alias g, f;\n").append(kStore));
  ASSERT_EQ(module.code(), Code::kUnsupported);
  EXPECT_THAT(module.message(), HasSubstr("'both.ptx' has '.alias g, f;'"));
}

TEST(PtxName, OfWhatWasCompiled_NamesItsSource) {
  source::CompiledSource compiled;
  compiled.name = "folder/saxpy.cu";
  compiled.compiler = source::Compiler::kNvrtc;
  EXPECT_EQ(ptx_name(compiled), "<PTX of saxpy.cu>");
  compiled.compiler = source::Compiler::kNone;
  EXPECT_EQ(ptx_name(compiled), "folder/saxpy.cu");
  compiled.name = "<string>";
  EXPECT_EQ(ptx_name(compiled), "<string>");
  compiled.compiler = source::Compiler::kClang;
  EXPECT_EQ(ptx_name(compiled), "<PTX of <string>>") << "lines of the one are no lines of the other";
}

TEST_F(Load, TextWithoutAName_IsNoOtherTextThanItsPtx) {
  const auto module = load(session_, text_source("extern \"C\" __global__ void k(int* p) {\n  p[1] = 7;\n}\n", {}));
  if (module.code() == Code::kUnavailable) GTEST_SKIP() << module.message();
  ASSERT_TRUE(module) << module.message();
  const auto kernel = (*module)->kernel("k");
  ASSERT_TRUE(kernel) << kernel.message();
  EXPECT_THAT((*kernel)->info().parameters.at(0).reason, HasSubstr("at <PTX of <string>>:"));
}

TEST_F(Load, CudaSource_GivesFaultsItsLines) {
  session::LoadOptions options;
  options.name = "blur.cu";
  const auto module =
      load(session_, text_source("extern \"C\" __global__ void k(int* p) {\n  p[1] = 7;\n}\n", options));
  if (module.code() == Code::kUnavailable) GTEST_SKIP() << module.message();
  ASSERT_TRUE(module) << module.message();
  if ((*module)->ptx().find("NVIDIA NVVM") == std::string::npos) GTEST_SKIP() << "clang has no lines (source.h)";
  auto kernel = (*module)->kernel("k");
  ASSERT_TRUE(kernel) << kernel.message();
  const std::vector<session::Argument> arguments{session::AddressArgument{16}};
  session::LaunchShape shape;
  shape.grid = shape.block = {1, 1, 1};
  session::EventPtr end;
  ASSERT_TRUE((*kernel)->launch(shape, arguments, &end).ok());
  EXPECT_THAT(end->wait().message(), HasSubstr("Kernel 'k' at blur.cu:2 (st.global.u32)"));
  EXPECT_FALSE(session_->synchronize().ok());
}

TEST_F(Load, FileOfRefusedKernels_IsRefused) {
  const auto module = load_ptx(std::string(kHead).append(kRefused));
  ASSERT_EQ(module.code(), Code::kUnsupported);
  EXPECT_THAT(module.message(), HasSubstr("both.ptx:5:"));
  EXPECT_THAT(module.message(), HasSubstr("nosuch"));
}

TEST_F(Load, FileWithoutKernels_Loads) {
  const auto module = load_ptx(std::string(kHead));
  ASSERT_TRUE(module) << module.message();
  EXPECT_THAT((*module)->kernel_names(), ElementsAre());
}

}  // namespace
}  // namespace pergola::runtime
