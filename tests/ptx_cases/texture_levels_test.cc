// tex.level, tex.grad and tex.base on textures of one level: what chooses a level is read and chooses nothing, on every
// tier.
#include <gtest/gtest.h>

#include <vector>

#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/tier_test.h"

namespace pergola {
namespace {

class TextureLevels : public test_support::TierTest {};
PERGOLA_ON_EVERY_TIER(TextureLevels);

constexpr const char* kKernel = R"(
.visible .entry k(.param .u64 texture, .param .u64 out, .param .f32 level) {
  .reg .b64 %t, %o; .reg .f32 %l, %x, %y, %v<5>;
  ld.param.u64 %t, [texture]; ld.param.u64 %o, [out]; ld.param.f32 %l, [level];
  mov.f32 %x, 0f3FC00000; mov.f32 %y, 0f40200000;
)";

struct Form {
  int dimensions;
  const char *name, *at, *chosen;
};
constexpr Form kForms[] = {
    {1, "tex.1d", "{%x}", ""},
    {1, "tex.base.1d", "{%x}", ""},
    {1, "tex.level.1d", "{%x}", ", %l"},
    {1, "tex.grad.1d", "{%x}", ", {%l}, {%y}"},
    {2, "tex.2d", "{%x, %y}", ""},
    {2, "tex.base.2d", "{%x, %y}", ""},
    {2, "tex.level.2d", "{%x, %y}", ", %l"},
    {2, "tex.level.2d", "{%x, %y}", ", 0f40000000"},
    {2, "tex.grad.2d", "{%x, %y}", ", {%l, %y}, {%x, %l}"},
    {3, "tex.3d", "{%x, %y, %x, %x}", ""},
    {3, "tex.base.3d", "{%x, %y, %x, %x}", ""},
    {3, "tex.level.3d", "{%x, %y, %x, %x}", ", %l"},
    {3, "tex.grad.3d", "{%x, %y, %x, %x}", ", {%l, %y, %l, %l}, {%x, %l, %x, %x}"},
};

TEST_P(TextureLevels, ChooseNothing_WhereThereIsOne) {
  const device::DevicePtr device = open();
  for (const Form& form : kForms) {
    SCOPED_TRACE(fmt::format("{}{}", form.name, form.chosen));
    ptx_cases::PtxProgram program(
        device,
        fmt::format("{}  {}.v4.f32.f32 {{%v1, %v2, %v3, %v4}}, [%t, {}]{};\n  st.global.f32 [%o], %v1;\n  ret;\n}}\n",
                    kKernel, form.name, form.at, form.chosen));
    // Texel (x, y, z) of 4 x 4 x 4 is x + 10 y + 100 z.
    const auto texels = program.zeros(64 * 4), out = program.zeros(4);
    auto* const values = reinterpret_cast<float*>(texels->host_pointer());
    for (int n = 0; n < 64; ++n) values[n] = static_cast<float>(n % 4 + 10 * (n / 4 % 4) + 100 * (n / 16));
    device::TextureDescription description;
    description.buffer = texels;
    description.dimensions = static_cast<std::uint32_t>(form.dimensions);
    description.width = 4;
    description.height = form.dimensions > 1 ? 4 : 1;
    description.depth = form.dimensions > 2 ? 4 : 1;
    const auto texture = device->create_texture(description);
    ASSERT_TRUE(texture.ok()) << texture.message();
    for (const float level : {0.0f, 3.5f, -1.0f}) {
      const Status status = program.run("k", {}, (*texture)->handle(), out->address(), level);
      ASSERT_TRUE(status.ok()) << status.message();
      const float want[] = {1, 21, 121};
      EXPECT_EQ(*reinterpret_cast<const float*>(out->host_pointer()), want[form.dimensions - 1]);
    }
  }
}

}  // namespace
}  // namespace pergola
