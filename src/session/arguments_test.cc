#include "src/session/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace pergola::session {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kSession = 7;

class FakeArray final : public Array {
 public:
  FakeArray(ElementType type, std::uint64_t count, device::DeviceAddress address, std::uint64_t session = kSession)
      : Array(type, session::size_bytes(type), count, session), address_(address) {}
  device::DeviceAddress address() const override { return address_; }
  Status write(std::uint64_t, std::span<const std::byte>) override { return {}; }
  Status wait(std::uint64_t, std::uint64_t, std::optional<std::chrono::nanoseconds>) override { return {}; }
  Status read(std::uint64_t, std::span<std::byte>) override { return {}; }
  Result<std::span<const std::byte>> view() override { return std::span<const std::byte>{}; }
  Result<std::span<std::byte>> host(Access, std::optional<std::chrono::nanoseconds>) override {
    return std::span<std::byte>{};
  }
  Status prefetch(Location) override { return {}; }
  Location location() const override { return Location::kDevice; }
  std::uint64_t number() const override { return 1; }
  Status fill(std::uint64_t, std::uint64_t, std::span<const std::byte>) override { return {}; }
  Status copy_from(std::uint64_t, const ArrayPtr&, std::uint64_t, std::uint64_t) override { return {}; }
  Result<TexturePtr> create_texture(device::TextureDescription) override { return TexturePtr(); }

 private:
  device::DeviceAddress address_;
};

ParameterInfo parameter(std::string name, ParameterKind kind, std::uint32_t offset, std::uint32_t size) {
  ParameterInfo info;
  info.name = std::move(name);
  info.kind = kind;
  info.offset_bytes = offset;
  info.size_bytes = size;
  return info;
}

// saxpy(float a, const float* x, float* y, int n), as NVRTC of CUDA 12 declares it
KernelInfo saxpy() {
  KernelInfo kernel;
  kernel.name = "saxpy";
  kernel.parameters = {parameter("saxpy_param_0", ParameterKind::kFloat, 0, 4),
                       parameter("saxpy_param_1", ParameterKind::kInteger, 8, 8),
                       parameter("saxpy_param_2", ParameterKind::kPointer, 16, 8),
                       parameter("saxpy_param_3", ParameterKind::kInteger, 24, 4)};
  kernel.parameter_bytes = 28;
  return kernel;
}

Argument f32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return Number{ElementType::kF32, bits};
}
Argument array(std::uint64_t address, std::uint64_t count = 16) {
  return ArrayArgument{std::make_shared<FakeArray>(ElementType::kF32, count, address), 0};
}

Result<std::vector<std::byte>> bound_by(const KernelInfo& kernel, std::uint64_t session_id,
                                        std::span<const Argument> arguments) {
  std::vector<std::byte> parameters(kernel.parameter_bytes, std::byte{0xFF});
  PERGOLA_TRY(bind_arguments(kernel, session_id, arguments, parameters));
  return parameters;
}

template <typename T>
T at(const std::vector<std::byte>& bound, std::size_t offset) {
  T value;
  std::memcpy(&value, bound.data() + offset, sizeof value);
  return value;
}

// The message for saxpy with argument `index` replaced.
std::string message_with(std::size_t index, Argument wrong) {
  std::vector<Argument> arguments{f32(2), array(0x1000), array(0x2000), Number{ElementType::kI32, 5}};
  arguments[index] = std::move(wrong);
  const auto bound = bound_by(saxpy(), kSession, arguments);
  EXPECT_EQ(bound.code(), Code::kInvalidArgument);
  return bound.ok() ? "" : bound.message();
}

TEST(Bind, GoodArguments_LieAtTheirOffsets) {
  const std::vector<Argument> arguments{f32(2), array(0x1000), array(0x2000), Number{ElementType::kU32, 5}};
  const auto bound = bound_by(saxpy(), kSession, arguments);
  ASSERT_TRUE(bound.ok()) << bound.message();
  ASSERT_EQ(bound->size(), 28u);
  EXPECT_EQ(at<float>(*bound, 0), 2.f);
  EXPECT_EQ(at<std::uint64_t>(*bound, 8), 0x1000u);
  EXPECT_EQ(at<std::uint64_t>(*bound, 16), 0x2000u);
  EXPECT_EQ(at<std::uint32_t>(*bound, 24), 5u);
  EXPECT_EQ(at<std::uint32_t>(*bound, 4), 0u) << "padding";
}

TEST(Bind, DoubleForInteger_SaysWhichAndWhat) {
  EXPECT_EQ(message_with(3, Number{ElementType::kF64, 0}),
            "Argument 3 (parameter saxpy_param_3) of kernel 'saxpy' should be a 4-byte integer; it is a double.");
}

TEST(Bind, WrongClassOrSize_IsRefused) {
  EXPECT_THAT(message_with(0, Number{ElementType::kF64, 0}), HasSubstr("should be a float; it is a double."));
  EXPECT_THAT(message_with(0, Number{ElementType::kI32, 0}), HasSubstr("should be a float; it is a 4-byte signed"));
  EXPECT_THAT(message_with(1, f32(1)), HasSubstr("should be an array or an 8-byte integer; it is a float."));
  EXPECT_THAT(message_with(1, Number{ElementType::kF64, 0}), HasSubstr("it is a double."));
  EXPECT_THAT(message_with(2, Number{ElementType::kI64, 0}), HasSubstr("should be an array; it is an 8-byte signed"));
  EXPECT_THAT(message_with(3, array(0x1000)), HasSubstr("should be a 4-byte integer; it is an array of f32."));
  EXPECT_THAT(message_with(3, Number{ElementType::kI64, 0}), HasSubstr("it is an 8-byte signed integer."));
  const std::byte four[4] = {};
  EXPECT_THAT(message_with(3, BytesArgument{four}), HasSubstr("it is a struct of 4 bytes."));
  EXPECT_THAT(message_with(2, ArrayArgument{}), HasSubstr("it is no array."));
}

TEST(Bind, BareU64_TakesIntegersAddressesAndArrays) {
  for (const Argument& fits : {Argument(Number{ElementType::kI64, 9}), Argument(Number{ElementType::kU64, 9}),
                               Argument(AddressArgument{9}), array(9)}) {
    const std::vector<Argument> arguments{f32(2), fits, array(0x2000), Number{ElementType::kI32, 5}};
    const auto bound = bound_by(saxpy(), kSession, arguments);
    ASSERT_TRUE(bound.ok()) << bound.message();
    EXPECT_EQ(at<std::uint64_t>(*bound, 8), 9u);
  }
}

TEST(Bind, WhatASignatureDeclares_IsAsked) {
  KernelInfo kernel = saxpy();
  kernel.parameters[1].declaration = "n: uint64";
  kernel.parameters[1].declared_type = ElementType::kU64;
  kernel.parameters[2].declaration = "y: out pointer sint32";
  kernel.parameters[2].declared_type = ElementType::kI32;
  const auto bind = [&](Argument n, ElementType elements) {
    const Argument arguments[] = {f32(2), std::move(n),
                                  ArrayArgument{std::make_shared<FakeArray>(elements, 16, 0x2000), 0},
                                  Number{ElementType::kI32, 5}};
    return bound_by(kernel, kSession, arguments);
  };
  const Number five{ElementType::kU64, 5};
  for (const ElementType fits : {ElementType::kI32, ElementType::kU32, ElementType::kBytes})
    EXPECT_TRUE(bind(five, fits).ok()) << to_string(fits);
  for (const ElementType other : {ElementType::kF32, ElementType::kI64, ElementType::kC64})
    EXPECT_THAT(bind(five, other).message(), HasSubstr("should be an array of i32; it is an array of"))
        << to_string(other);
  EXPECT_THAT(bind(array(0x1000), ElementType::kI32).message(),
              HasSubstr("should be an 8-byte integer; it is an array"));
  EXPECT_THAT(bind(AddressArgument{0x1000}, ElementType::kI32).message(), HasSubstr("it is a device address"));
  kernel.parameters[2].declared_type = ElementType::kF32;
  EXPECT_TRUE(bind(five, ElementType::kC64).ok()) << "pairs of floats";
}

// Without a signature: of integers and bytes a kernel may make floats.
TEST(Bind, FloatsForDoubles_AreRefused_WhereTheKernelsTextIsSureOfThem) {
  KernelInfo kernel = saxpy();
  std::string &floats = kernel.parameters[2].surely_f32, &doubles = kernel.parameters[2].surely_f64;
  const auto bind = [&](ElementType elements) {
    const Argument arguments[] = {f32(2), Number{ElementType::kU64, 5},
                                  ArrayArgument{std::make_shared<FakeArray>(elements, 16, 0x2000), 0},
                                  Number{ElementType::kI32, 5}};
    return bound_by(kernel, kSession, arguments);
  };
  const auto refused = [&] {
    std::string names;
    for (const ElementType type : {ElementType::kF32, ElementType::kC64, ElementType::kF64, ElementType::kC128,
                                   ElementType::kI32, ElementType::kI64, ElementType::kU8, ElementType::kBytes})
      if (!bind(type).ok()) names += fmt::format("{} ", to_string(type));
    return names;
  };
  EXPECT_EQ(refused(), "") << "nothing is known";
  floats = "`ld.global.f32`";
  EXPECT_EQ(refused(), "") << "something else may be there, too";
  kernel.parameters[2].is_all_f32 = true;
  EXPECT_EQ(refused(), "f64 c128 ");
  EXPECT_THAT(
      bind(ElementType::kF64).message(),
      AllOf(HasSubstr("Argument 2 (parameter saxpy_param_2) of kernel 'saxpy' is an array of f64, and the kernel "
                      "uses floats there alone, by `ld.global.f32`"),
            HasSubstr("or one of bytes if bytes are meant")));
  floats = "";
  EXPECT_EQ(refused(), "") << "the bits of floats, perhaps";
  kernel.parameters[2].is_all_f32 = false;
  doubles = "`st.global.f64`", kernel.parameters[2].is_all_f64 = true;
  EXPECT_EQ(refused(), "f32 c64 ");
  EXPECT_THAT(bind(ElementType::kF32).message(), HasSubstr("uses doubles there alone, by `st.global.f64`"));
  kernel.parameters[2].declaration = "y: out pointer";
  EXPECT_EQ(refused(), "") << "its bytes are meant";
}

TEST(Bind, WrongCount_ListsTheParameters) {
  const std::vector<Argument> one{f32(2)};
  const auto bound = bound_by(saxpy(), kSession, one);
  ASSERT_EQ(bound.code(), Code::kInvalidArgument);
  EXPECT_EQ(bound.message(),
            "Kernel 'saxpy' takes 4 arguments: saxpy_param_0 (a float), saxpy_param_1 (an array or an 8-byte integer), "
            "saxpy_param_2 (an array), saxpy_param_3 (a 4-byte integer); 1 is given.");
}

TEST(Bind, ArrayOfAnotherSession_IsRefused) {
  EXPECT_THAT(
      message_with(1, ArrayArgument{std::make_shared<FakeArray>(ElementType::kF32, 4, 0x1000, kSession + 1), 0}),
      HasSubstr("belongs to another session"));
}

TEST(Bind, ArrayOffset_MustLieAtAnElementInside) {
  const auto at_offset = [](std::uint64_t offset) {
    return ArrayArgument{std::make_shared<FakeArray>(ElementType::kF32, 4, 0x1000), offset};
  };
  EXPECT_THAT(message_with(1, at_offset(2)), HasSubstr("should start at an element"));
  EXPECT_THAT(message_with(1, at_offset(20)), HasSubstr("starts 20 bytes into an array of 16 bytes"));
  const std::vector<Argument> arguments{f32(2), at_offset(16), at_offset(4), Number{ElementType::kI32, 5}};
  const auto bound = bound_by(saxpy(), kSession, arguments);
  ASSERT_TRUE(bound.ok()) << bound.message();
  EXPECT_EQ(at<std::uint64_t>(*bound, 16), 0x1004u);
}

TEST(Bind, DeclaredPointerAlignment_IsChecked) {
  KernelInfo kernel = saxpy();
  kernel.parameters[2].pointer_align_bytes = 16;
  const auto y = std::make_shared<FakeArray>(ElementType::kF32, 64, 0x2000);
  const std::vector<Argument> arguments{f32(2), array(0x1000), ArrayArgument{y, 4}, Number{ElementType::kI32, 5}};
  const auto bound = bound_by(kernel, kSession, arguments);
  ASSERT_EQ(bound.code(), Code::kInvalidArgument);
  EXPECT_THAT(bound.message(), HasSubstr("aligned to 16 bytes"));
}

TEST(Bind, StructAndBits_GoBySize) {
  KernelInfo kernel;
  kernel.name = "k";
  kernel.parameters = {parameter("k_param_0", ParameterKind::kStruct, 0, 12),
                       parameter("k_param_1", ParameterKind::kBits, 12, 4),
                       parameter("k_param_2", ParameterKind::kStruct, 16, 2)};
  kernel.parameter_bytes = 18;
  const std::byte twelve[12] = {std::byte{1}};
  EXPECT_TRUE(bound_by(kernel, kSession,
                       std::vector<Argument>{BytesArgument{twelve}, f32(1), Number{ElementType::kF16, 0x3c00}})
                  .ok());
  EXPECT_TRUE(bound_by(kernel, kSession,
                       std::vector<Argument>{BytesArgument{twelve}, Number{ElementType::kI32, 1},
                                             Number{ElementType::kBF16, 0}})
                  .ok());
  const auto wrong =
      bound_by(kernel, kSession,
               std::vector<Argument>{BytesArgument{std::span(twelve, 8)}, f32(1), Number{ElementType::kF16, 0}});
  ASSERT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("should be a struct of 12 bytes; it is a struct of 8 bytes."));
}

TEST(ForEach, Shape_FollowsTheKernel) {
  KernelInfo kernel;
  kernel.name = "k";
  EXPECT_EQ(for_each_config(kernel, 1000)->grid.x, 4u);
  EXPECT_EQ(for_each_config(kernel, 1024)->grid.x, 4u);
  EXPECT_EQ(for_each_config(kernel, 0)->grid.x, 0u);
  kernel.max_threads_per_block = 64;
  EXPECT_EQ(for_each_config(kernel, 1000)->block.x, 64u);
  kernel.required_threads = {512, 1, 1};
  EXPECT_EQ(for_each_config(kernel, 1000)->block.x, 512u);
  kernel.required_threads = {16, 16, 1};
  EXPECT_EQ(for_each_config(kernel, 1000).code(), Code::kInvalidArgument);
  kernel.required_threads = {1, 1, 1};
  EXPECT_EQ(for_each_config(kernel, std::uint64_t{1} << 40).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::session
