#include "tests/instruction_bits/coverage.h"

#include <algorithm>

#include "src/ptx/parser.h"
#include "tests/instruction_bits/instruction_table.h"

namespace pergola::instruction_bits {
namespace {

constexpr std::string_view kDeclarations = R"(.global .align 64 .b8 gv[1024];
.const .align 16 .b32 cv[16];
.func (.param .b32 result) twice(.param .b32 a) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [a];
  add.u32 %r2, %r1, %r1;
  st.param.u32 [result], %r2;
  ret;
}
.func leaf { ret; }
.visible .entry k(.param .u64 p0) {
  .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<16>; .reg .f64 %g<8>; .reg .b128 %q<4>;
  .shared .align 128 .b8 sv[2048];
  .local .align 16 .b8 lv[64];
  shape: .callprototype (.param .b64 _) _ (.param .b64 _);
)";

// The register of the last type that the opcode names.
std::string register_of(const std::string& opcode) {
  const std::string type = opcode.substr(opcode.rfind('.') + 1);
  if (type == "f32") return "%f1";
  if (type == "f64") return "%g1";
  if (type.ends_with("64")) return "%d2";
  return type.ends_with("32") ? "%r1" : "%h1";
}

std::vector<std::string> alternatives(const std::string& pattern) {
  const std::size_t open = pattern.find('<');
  if (open == std::string::npos) return {pattern};
  const std::size_t close = pattern.find('>', open);
  const std::vector<std::string> tails = alternatives(pattern.substr(close + 1));
  std::vector<std::string> all;
  std::size_t at = open + 1;
  while (at <= close) {
    const std::size_t end = std::min(pattern.find('|', at), close);
    for (const std::string& tail : tails) all.push_back(pattern.substr(0, open) + pattern.substr(at, end - at) + tail);
    at = end + 1;
  }
  return all;
}

Status load(device::Device& device, const std::vector<std::string>& instructions) {
  const std::string text = frame_text(instructions, "sm_90");
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(text, "coverage.ptx"));
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, text, "coverage.ptx"}));
  return module->kernel("k").status();
}

// "ld.global.u32" of "ld.global.u32 %r1, [%d1]"; special registers, branches and selectors need their operands.
std::string title(const std::string& text) {
  const bool with_operands = text.starts_with("@") || text.starts_with("mov") || text.starts_with("call") ||
                             text.find("%r2.") != std::string_view::npos;
  std::string shown;
  bool inside = false;
  for (const char c : text) {
    if (c == ' ' && !inside && !with_operands) break;
    if (c == '<' || c == '>') inside = c == '<';
    shown += c == '<' ? '{' : c == '>' ? '}' : c == '|' && inside ? ',' : c;
  }
  return shown;
}

std::string cell(const Coverage& one) {
  std::vector<std::string> refused;
  for (std::size_t n = 0; n < one.spellings.size(); ++n) {
    if (!one.verdicts[n].ok()) refused.push_back(title(one.spellings[n]));
  }
  if (refused.empty()) return "runs";
  if (refused.size() == one.spellings.size()) return "refused";
  if (refused.size() > 6) return fmt::format("runs, but for {} of {} spellings", refused.size(), one.spellings.size());
  return fmt::format("runs, but for `{}`", fmt::join(refused, "`, `"));
}

}  // namespace

std::vector<std::string> spellings_of(const CoverageRow& row) {
  std::vector<std::string> all = alternatives(row.pattern);
  for (std::string& one : all) {
    const std::size_t at = one.find("$T");
    if (at != std::string::npos) one.replace(at, 2, register_of(one.substr(0, one.find(' '))));
  }
  return all;
}

std::string frame_text(const std::vector<std::string>& instructions, const std::string& target) {
  std::string text = ".version 8.8\n.target " + target + "\n.address_size 64\n" + std::string(kDeclarations);
  text += "  table: .branchtargets done, done;\n";
  if (std::any_of(instructions.begin(), instructions.end(), [](const std::string& one) { return one.find("%v") != std::string::npos; })) {
    text += "  .reg .v4 .f32 %v1; .reg .v4 .f32 %v2;\n";
  }
  for (const std::string& one : instructions) {
    // What ends a block stands under a guard, so that what follows is reached.
    const bool ends = one.starts_with("ret") || one.starts_with("exit") || one.starts_with("trap") || one.starts_with("br");
    text += std::string("  ") + (ends ? "@%p7 " : "") + one + ";\n";
  }
  return text + "done:\n  ret;\n}\n";
}

std::vector<Coverage> coverage_of(device::Device& device) {
  std::vector<Coverage> all;
  for (const CoverageRow& row : coverage_rows()) {
    Coverage one{&row, spellings_of(row), {}};
    one.verdicts.resize(one.spellings.size());
    if (!load(device, one.spellings).ok()) {
      for (std::size_t n = 0; n < one.spellings.size(); ++n) one.verdicts[n] = load(device, {one.spellings[n]});
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::string coverage_page(const std::vector<Coverage>& interpreter, const std::vector<Coverage>& jit) {
  std::string text =
      "# Instructions of the CPU device\n\n"
      "Written by `instruction_bits --coverage`, which loads each spelling on both tiers; a test holds this page against it.\n"
      "What is refused is refused when its kernel is loaded, by file, line and instruction, never when it runs.\n\n"
      "## What computes on registers\n\nBoth tiers run all of these, with the same bits but for signs and payloads of NaNs that the ISA leaves open (the test `instruction_bits`):\n\n";
  for (const std::string& pattern : arithmetic_patterns()) text += "`" + pattern + "` ";
  text.back() = '\n';
  const char* section = "";
  for (std::size_t n = 0; n < interpreter.size(); ++n) {
    const CoverageRow& row = *interpreter[n].row;
    if (std::string_view(section) != row.section) {
      section = row.section;
      text += fmt::format("\n## {}\n\n| instruction | interpreter | JIT |\n|---|---|---|\n", section);
    }
    std::string shown;
    for (const char c : title(row.pattern)) shown += c == '|' ? std::string("\\|") : std::string(1, c);
    text += fmt::format("| `{}` | {} | {} |\n", shown, cell(interpreter[n]), cell(jit[n]));
  }
  return text;
}

}  // namespace pergola::instruction_bits
