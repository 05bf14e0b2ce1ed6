// Kernels taken with a signature, through the C and the C++ interface on the CPU device: what it changes in the order
// of work, what it changes at a launch, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.hpp>

#include <atomic>
#include <cstring>

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64

// *done = 1 once *stop is not 0
.visible .entry spin(.param .u64 stop, .param .u64 done) {
  .reg .pred %p; .reg .b64 %rd<2>; .reg .b32 %r;
  ld.param.u64 %rd0, [stop]; ld.param.u64 %rd1, [done];
again:
  ld.volatile.global.u32 %r, [%rd0]; setp.eq.u32 %p, %r, 0; @%p bra again;
  st.global.u32 [%rd1], %r;
  ret;
}
// *table[i] += 1; rows is what the pointers point into
.visible .entry _Z5chasePPjS_(.param .u64 table, .param .u64 rows) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>;
  ld.param.u64 %rd0, [table]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 8; add.s64 %rd2, %rd0, %rd1;
  ld.global.u64 %rd3, [%rd2];
  ld.global.u32 %r1, [%rd3]; add.u32 %r2, %r1, 1; st.global.u32 [%rd3], %r2;
  ret;
}
// y[0] += a * x[n]; of x and n either may be the pointer
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 n) {
  .reg .b64 %rd<4>; .reg .f32 %f<4>;
  ld.param.f32 %f0, [a]; ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; ld.param.u64 %rd2, [n];
  add.s64 %rd3, %rd0, %rd2;
  ld.global.f32 %f1, [%rd3];
  ld.global.f32 %f2, [%rd1];
  fma.rn.f32 %f3, %f0, %f1, %f2;
  st.global.f32 [%rd1], %f3;
  ret;
}
.visible .entry nothing() { ret; }
// out[0] = image(0, 0)
.visible .entry sample(.param .u64 image, .param .u64 out) {
  .reg .b64 %t, %o; .reg .f32 %x, %r, %g, %b, %a;
  ld.param.u64 %t, [image]; ld.param.u64 %o, [out]; mov.f32 %x, 0f3F000000;
  tex.2d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%x, %x}];
  st.global.f32 [%o], %r;
  ret;
}
)";

std::uint64_t address_of(pergola_array array) {
  pergola_array_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_info);
  EXPECT_EQ(pergola_array_get_info(array, &info), PERGOLA_OK) << pergola_last_error();
  return info.address;
}

// What depends on what where `chase` follows a kernel that is still running, and writes `rows` or not; and the rows.
struct Chased {
  std::string dag;
  std::vector<std::uint32_t> rows;
};
Chased chase_behind_spin(const char* signature, bool spin_writes_rows) {  // null: none
  pergola::Session session("cpu");
  const pergola::Module module = session.load_text(kPtx);
  const char* const name = "_Z5chasePPjS_";
  const auto spin = module.kernel("spin");
  const auto chase = signature == nullptr ? module.kernel(name) : module.kernel(name, signature);
  auto stop = session.array<std::uint32_t>(1, 0), other = session.array<std::uint32_t>(1, 0);
  auto rows = session.array<std::uint32_t>(4, 0);
  const std::uint64_t first = address_of(rows.handle());
  auto table = session.array<std::uint64_t>(std::vector<std::uint64_t>{first, first + 4, first + 8, first + 12});
  session.synchronize();
  spin(pergola::grid(1, 1), stop, spin_writes_rows ? rows : other);
  chase(pergola::grid(1, 4), table, rows);
  Chased chased{session.dag(), {}};
  // The CPU device's memory is the host's; nothing of the library is asked, as that would wait for the kernel.
  auto* flag = reinterpret_cast<std::uint32_t*>(address_of(stop.handle()));  // NOLINT(performance-no-int-to-ptr)
  std::atomic_ref<std::uint32_t>(*flag).store(1);
  session.synchronize();
  const auto read = rows.read();
  chased.rows.assign(read.begin(), read.end());
  return chased;
}

constexpr const char* kDirections = "chase(table: in pointer uint64, rows: inout pointer uint32)";

TEST(SignatureOrder, WithoutOne_KernelFollowsEverything) {
  const Chased chased = chase_behind_spin(nullptr, false);
  EXPECT_THAT(chased.dag, HasSubstr("[label=\"any\"]"));
  EXPECT_THAT(chased.rows, ElementsAre(1, 1, 1, 1));
}

TEST(SignatureOrder, DirectionForEachPointer_FollowsItsArgumentsAlone) {
  const Chased apart = chase_behind_spin(kDirections, false);
  EXPECT_THAT(apart.dag, Not(HasSubstr("c4 -> c5")));
  EXPECT_THAT(apart.rows, ElementsAre(1, 1, 1, 1));

  const Chased behind = chase_behind_spin(kDirections, true);
  EXPECT_THAT(behind.dag, HasSubstr("c4 -> c5"));
  EXPECT_THAT(behind.dag, HasSubstr("[label=\"argument 1, array "));
  EXPECT_THAT(behind.dag, Not(HasSubstr("[label=\"any\"]")));
  EXPECT_THAT(behind.rows, ElementsAre(2, 1, 1, 1)) << "spin's 1, and then chase's";
}

TEST(SignatureOrder, PointerWithoutDirection_LeavesTheKernelUniversal) {
  EXPECT_THAT(chase_behind_spin("in pointer, pointer", false).dag, HasSubstr("[label=\"any\"]"));
}

class Signatures : public ::testing::Test {
 protected:
  std::string refusal(const std::string& kernel, const std::string& signature, pergola::Code code) {
    try {
      module_.kernel(kernel, signature);
    } catch (const pergola::Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "taken";
  }

  pergola::Session session_{"cpu"};
  pergola::LoadOptions options_{PERGOLA_LANGUAGE_PTX, "axpy.ptx", {}};
  pergola::Module module_ = session_.load_text(kPtx, options_);
};

TEST_F(Signatures, WhatIsDeclared_IsInTheKernelsParameters) {
  const auto plain = module_.kernel("axpy"),
             declared = module_.kernel("axpy", "float, x: const pointer float, pointer, n: uint64");
  EXPECT_EQ(plain.parameters()[1].declaration, "");
  EXPECT_EQ(plain.parameters()[1].direction, pergola::Direction::kNone);
  EXPECT_EQ(plain.parameters()[3].access, pergola::Access::kRead) << "x and n cannot be told apart";
  const auto& parameters = declared.parameters();
  EXPECT_EQ(parameters[1].declaration, "x: in pointer float");
  EXPECT_EQ(parameters[1].direction, pergola::Direction::kIn);
  EXPECT_EQ(parameters[1].access, pergola::Access::kRead);
  EXPECT_EQ(parameters[1].kind, pergola::ParameterKind::kPointer);
  EXPECT_THAT(parameters[1].reason, HasSubstr("declared 'in'; in the PTX read by `ld.global.f32 %f1, [%rd3];`"));
  EXPECT_EQ(parameters[2].declaration, "pointer");
  EXPECT_EQ(parameters[2].access, pergola::Access::kReadWrite);
  EXPECT_EQ(parameters[3].access, pergola::Access::kNone);
  EXPECT_EQ(parameters[3].kind, pergola::ParameterKind::kInteger);
  EXPECT_EQ(module_.kernel("chase").info().universal_access, PERGOLA_ACCESS_READ_WRITE);
  EXPECT_EQ(module_.kernel("chase", kDirections).info().universal_access, PERGOLA_ACCESS_NONE);
}

TEST_F(Signatures, Launch_TakesWhatIsDeclared) {
  const auto axpy = module_.kernel("axpy", "float, in pointer float, inout pointer float, n: uint64");
  auto x = session_.array<float>(4, 2.f), y = session_.array<float>(1, 1.f);
  auto wide = session_.array<double>(4, 0.);
  axpy(pergola::grid(1, 1), 3.f, x, y, 4);
  EXPECT_EQ(y.read()[0], 7.f);
  const auto message = [&](const auto& second, const auto& fourth) -> std::string {
    try {
      axpy(pergola::grid(1, 1), 3.f, second, y, fourth);
    } catch (const pergola::Error& error) {
      return error.what();
    }
    return "launched";
  };
  EXPECT_THAT(message(wide, 0), HasSubstr("should be an array of f32; it is an array of f64."));
  EXPECT_THAT(message(x, wide), HasSubstr("should be an 8-byte integer; it is an array of f64."));
  EXPECT_THAT(message(16, 0), HasSubstr("should be an array of f32"));
  EXPECT_EQ(y.read()[0], 7.f);
}

TEST_F(Signatures, Texture_IsGivenForANumber) {
  const auto sample = module_.kernel("sample", "image: uint64, out: out pointer float");
  EXPECT_EQ(module_.kernel("sample").info().universal_access, PERGOLA_ACCESS_READ);
  EXPECT_EQ(sample.info().universal_access, PERGOLA_ACCESS_NONE);
  auto image = session_.array(std::vector<float>{5, 6, 7, 8});
  auto out = session_.array<float>(1, 0.f);
  sample(pergola::grid(1, 1), pergola::texture(image, 2, 2), out);
  EXPECT_EQ(out.read()[0], 5.f);
}

TEST_F(Signatures, Contradiction_NamesTheInstruction) {
  EXPECT_EQ(
      refusal("axpy", "float, in pointer, in pointer, uint64", pergola::Code::kInvalidArgument),
      "The signature declares parameter 2 (y) of kernel 'axpy' as 'in pointer', and the kernel writes through it, by "
      "`st.global.f32 [%rd1], %f3;` at axpy.ptx:31:3: declare it 'inout'.");
  EXPECT_EQ(
      refusal("axpy", "float, in pointer, out pointer, uint64", pergola::Code::kInvalidArgument),
      "The signature declares parameter 2 (y) of kernel 'axpy' as 'out pointer', and the kernel reads through it, "
      "by `ld.global.f32 %f2, [%rd1];` at axpy.ptx:29:3: declare it 'inout'.");
  EXPECT_THAT(refusal("axpy", "float, in pointer, uint64, uint64", pergola::Code::kInvalidArgument),
              HasSubstr("as 'uint64', and the kernel reads through it, by `ld.global.f32 %f2, [%rd1];`"));
  EXPECT_THAT(
      refusal("axpy", "float, pointer double, pointer double, uint64", pergola::Code::kInvalidArgument),
      HasSubstr("parameter 2 (y) of kernel 'axpy' as 'pointer double', and the kernel uses floats there alone, by "
                "`ld.global.f32 %f2, [%rd1];` at axpy.ptx:29:3: declare it 'pointer float'."));
  EXPECT_THAT(refusal("axpy", "float, pointer, pointer", pergola::Code::kInvalidArgument),
              HasSubstr("declares 3 parameters; kernel 'axpy' has 4"));
  EXPECT_THAT(refusal("axpy", "float, pointer, pointer, uint32", pergola::Code::kInvalidArgument),
              HasSubstr("as 'uint32', and in the PTX it is an array or an 8-byte integer"));
  EXPECT_EQ(refusal("axpy", "saxpy(float, pointer, pointer, uint64)", pergola::Code::kInvalidArgument),
            "The signature is of kernel 'saxpy', and the kernel is 'axpy': name the same, or leave the name out.");
  EXPECT_EQ(refusal("axpy", "float, float*", pergola::Code::kParseError),
            "The signature is wrong at column 13: ',' should stand here, not '*'.");
  EXPECT_EQ(refusal("chase", "_Z5chasePPjS_(pointer, pointer)", pergola::Code::kOk), "taken");
}

// "" is a signature, and no word for none.
TEST_F(Signatures, Empty_IsOfAKernelWithoutParameters) {
  for (const char* empty : {"", " ", "()"}) {
    EXPECT_EQ(
        refusal("axpy", empty, pergola::Code::kInvalidArgument),
        "The signature declares 0 parameters; kernel 'axpy' has 4: a (a float), x (an array or an 8-byte integer), y "
        "(an array or an 8-byte integer), n (an array or an 8-byte integer). Declare each, or give no signature.");
    module_.kernel("nothing", empty)(pergola::grid(1, 1));
    pergola_kernel kernel = nullptr;
    EXPECT_EQ(pergola_module_kernel_as(module_.handle(), "axpy", empty, &kernel), PERGOLA_INVALID_ARGUMENT);
    EXPECT_EQ(kernel, nullptr);
    ASSERT_EQ(pergola_module_kernel_as(module_.handle(), "nothing", empty, &kernel), PERGOLA_OK)
        << pergola_last_error();
    EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);
  }
  session_.synchronize();
}

TEST_F(Signatures, ThroughC_NothingIsDeclaredByNull_AndAnOlderStructIsFilled) {
  pergola_kernel kernel = nullptr;
  ASSERT_EQ(pergola_module_kernel_as(module_.handle(), "axpy", nullptr, &kernel), PERGOLA_OK) << pergola_last_error();
  pergola_parameter_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_parameter_info);
  ASSERT_EQ(pergola_kernel_parameter(kernel, 1, &info), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(info.direction, PERGOLA_DIRECTION_NONE);
  EXPECT_STREQ(info.declaration, "");
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);

  ASSERT_EQ(pergola_module_kernel_as(module_.handle(), "axpy", "float,in pointer,pointer,uint64", &kernel), PERGOLA_OK);
  ASSERT_EQ(pergola_kernel_parameter(kernel, 1, &info), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(info.direction, PERGOLA_DIRECTION_IN);
  EXPECT_STREQ(info.declaration, "in pointer");
  pergola_parameter_info older{};
  older.struct_size = offsetof(pergola_parameter_info, direction);
  ASSERT_EQ(pergola_kernel_parameter(kernel, 1, &older), PERGOLA_OK) << pergola_last_error();
  EXPECT_EQ(older.access, PERGOLA_ACCESS_READ);
  EXPECT_EQ(older.declaration, nullptr);
  EXPECT_EQ(pergola_kernel_destroy(kernel), PERGOLA_OK);

  kernel = nullptr;
  EXPECT_EQ(pergola_module_kernel_as(module_.handle(), "axpy", "in", &kernel), PERGOLA_PARSE_ERROR);
  EXPECT_EQ(pergola_module_kernel_as(module_.handle(), nullptr, "pointer", &kernel), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_module_kernel_as(module_.handle(), "axpy", "pointer", nullptr), PERGOLA_INVALID_ARGUMENT);
  EXPECT_EQ(pergola_module_kernel_as(module_.handle(), "nosuch", "pointer", &kernel), PERGOLA_NOT_FOUND);
  EXPECT_EQ(kernel, nullptr);
}

}  // namespace
