#include "src/transform/joined_kernels.h"

#include "src/base/check.h"

namespace pergola::transform {
namespace {

std::string label_of(std::size_t part) {
  return fmt::format("$pergola_part_{}", part);
}

Status write_choice(KernelOfParts& parts) {
  ptx::Function& entry = parts.entry();
  BodyEditor editor(entry);
  std::string choice = ".reg .b32 %block, %first; .reg .pred %p;\nmov.u32 %block, %ctaid.x;\n";
  for (std::size_t n = 1; n < parts.count(); ++n)
    choice += fmt::format("ld.param.u32 %first, [{}+12];\nsetp.lt.u32 %p, %block, %first;\n@%p bra {};\n",
                          parts.parameter(n), label_of(n - 1));
  choice += fmt::format("bra {};\n", label_of(parts.count() - 1));
  PERGOLA_ASSIGN(entry.body, editor.statements(choice));
  for (std::size_t n = 0; n < parts.count(); ++n) {
    entry.body.push_back({ptx::Label{label_of(n)}, {}});
    PERGOLA_ASSIGN(const Statements body, parts.body(n));
    entry.body.insert(entry.body.end(), body.begin(), body.end());
    PERGOLA_ASSIGN(const Statements end, editor.statements("ret;\n"));
    entry.body.insert(entry.body.end(), end.begin(), end.end());
  }
  return {};
}

}  // namespace

Result<ptx::Module> join_kernels(std::span<const KernelPart> parts, const std::array<std::uint32_t, 3>& block) {
  PERGOLA_CHECK(!parts.empty());
  KernelOfParts whole(kJoinedKernel, "joined with others", block);
  for (const KernelPart& part : parts) PERGOLA_TRY(whole.add(part));
  PERGOLA_TRY(write_choice(whole));
  return whole.take();
}

}  // namespace pergola::transform
