// Every instruction of the tests' PTX with an operand too few or too many, as a slip leaves it: it is refused with its
// place, or what it is now has a form of its own and is loaded or refused by name. Nothing goes beyond the operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "src/base/file.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"
#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/source_dir.h"
#include "tests/support/tier_test.h"

namespace pergola {
namespace {

namespace fs = std::filesystem;

// What instructions of one form have in common: the opcode, the modifiers and the operands' kinds.
std::string form_of(const ptx::Instruction& instruction) {
  std::string form(ptx::spelling(instruction.op));
  for (const ptx::Mod mod : instruction.mods) (form += '.') += ptx::spelling(mod);
  for (const ptx::Operand& operand : instruction.operands)
    (form += ' ') += std::to_string(static_cast<int>(operand.kind));
  return form;
}

class Operands : public test_support::TierTest {
 protected:
  void SetUp() override { device_ = open(); }

  // `changed` is `function` of `module` but for one instruction.
  void look_at(ptx::Module& module, ptx::Function& function, const ptx::Instruction& changed) {
    if (const Status verified = ptx::verify(module); !verified.ok()) {
      ++refused_;
      EXPECT_EQ(verified.code(), Code::kParseError) << verified.message();
      return;
    }
    ++accepted_;
    const std::string text = ptx::print(module), line = ptx::print(changed, function);
    const auto parsed = ptx::parse(text, "changed.ptx");
    ASSERT_TRUE(parsed.ok()) << parsed.message() << '\n' << line;
    const auto loaded = device_->load({&*parsed, text, "changed.ptx"});
    if (!loaded.ok()) {
      EXPECT_NE(loaded.code(), Code::kInternal) << loaded.message() << '\n' << line;
      return;
    }
    if (!function.is_entry) return;
    const auto kernel = (*loaded)->kernel(function.name);
    if (!kernel.ok()) {
      EXPECT_NE(kernel.code(), Code::kInternal) << kernel.message() << '\n' << line;
    }
  }

  void change_each(ptx::Module& module) {
    for (ptx::Item& item : module.items) {
      auto* const function = std::get_if<ptx::Function>(&item.node);
      if (function == nullptr || !function->has_body) continue;
      for (ptx::Statement& statement : function->body) {
        ptx::Instruction* const instruction = statement.instruction();
        if (instruction == nullptr || instruction->op == ptx::Op::kOpaque ||
            !seen_.insert(form_of(*instruction)).second)
          continue;
        const ptx::Instruction before = *instruction;
        for (std::size_t i = 0; i < before.operands.size(); ++i) {
          const auto at = static_cast<std::ptrdiff_t>(i);
          instruction->operands.erase(instruction->operands.begin() + at);
          look_at(module, *function, *instruction);
          *instruction = before;
          instruction->operands.insert(instruction->operands.begin() + at, before.operands[i]);
          look_at(module, *function, *instruction);
          *instruction = before;
          if (HasFatalFailure()) return;
        }
      }
    }
  }

  device::DevicePtr device_;
  std::set<std::string> seen_;
  int refused_ = 0, accepted_ = 0;
};

PERGOLA_ON_EVERY_TIER(Operands);

TEST_P(Operands, OneTooFewOrTooMany_IsRefusedOrAnotherForm) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(test_support::source_path("tests") / "ptx"))
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    const auto text = read_file(file);
    ASSERT_TRUE(text.ok()) << text.message();
    auto module = ptx::parse(*text, file.filename().string());
    ASSERT_TRUE(module.ok()) << module.message();
    change_each(*module);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen_.size(), 500u);
  EXPECT_GT(refused_, 2000);
  EXPECT_GT(accepted_, 50);
}

}  // namespace
}  // namespace pergola
