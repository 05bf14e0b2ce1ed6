// Our verifier's verdict on forms against ptxas's, both ways: every form of the table (src/ptx/spellings.cc), and each of them
// with one modifier more, one less, or another type. A sample of them; PERGOLA_SPELLINGS=all takes all (some 130,000).
#include "src/ptx/spellings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "src/base/file.h"
#include "src/ptx/semantics.h"

namespace pergola::ptx {
namespace {

constexpr std::string_view kTypes[] = {"b16", "b32",   "b64",  "u8",     "u16", "u32",   "u64", "s8",    "s16",   "s32", "s64",
                                       "f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "u16x2", "s16x2", "pred"};
constexpr std::string_view kEverywhere[] = {"ftz", "sat", "rn", "rz", "relu", "NaN", "abs", "approx", "cc", "xorsign", "lo", "satfinite"};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t dot = std::min(text.find('.', at), text.size());
    all.push_back(text.substr(at, dot - at));
    at = dot + 1;
  }
  return all;
}

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ".")); }

bool is_type(std::string_view word) { return std::find(std::begin(kTypes), std::end(kTypes), word) != std::end(kTypes); }

// Sources besides the destination.
std::size_t source_count(const Instruction& in) {
  switch (in.op) {
    case Op::kAbs: case Op::kNeg: case Op::kNot: case Op::kCnot: case Op::kBrev: case Op::kPopc: case Op::kClz: case Op::kBfind:
    case Op::kRcp: case Op::kSqrt: case Op::kRsqrt: case Op::kSin: case Op::kCos: case Op::kLg2: case Op::kEx2: case Op::kTanh:
    case Op::kTestp: case Op::kCvt: return 1;
    case Op::kMad: case Op::kMadc: case Op::kSad: case Op::kFma: case Op::kMad24: case Op::kBfe: case Op::kFns: case Op::kPrmt:
    case Op::kShf: case Op::kDp4a: case Op::kDp2a: case Op::kSelp: case Op::kSlct: return 3;
    case Op::kBfi: return 4;
    case Op::kLop3: return in.has(Mod::kOr) || in.has(Mod::kAnd) ? 5 : 4;
    case Op::kSet:
    case Op::kSetp: return in.has(Mod::kAnd) || in.has(Mod::kOr) || in.has(Mod::kXor) ? 3 : 2;
    case Op::kMin:
    case Op::kMax: return in.has(Mod::kAbs) && !in.has(Mod::kXorsign) && in.type() == Type::kF32 ? 3 : 2;  // that of three inputs
    default: return video_lanes(in.op) != 0 ? 3 : 2;
  }
}

// The instruction of a form, with as many operands as it takes; empty where a modifier is unknown.
std::optional<Instruction> instruction_of(const std::string& form) {
  const std::vector<std::string> parts = words(form);
  Instruction in;
  const auto op = parse_op(parts[0]);
  if (!op) return std::nullopt;
  in.op = *op;
  for (std::size_t n = 1; n < parts.size(); ++n) {
    const auto mod = parse_mod(parts[n]);
    if (!mod) return std::nullopt;
    in.mods.push_back(*mod);
  }
  for (std::size_t n = source_count(in) + 1; n > 0; --n) in.operands.push_back(Operand::make_register(0));
  return in;
}

std::string text_of(const std::string& form, const Instruction& in) {
  std::string text = form;
  for (std::size_t n = 0; n < in.operands.size(); ++n) {
    Type type = operand_type(in, n);
    if (in.op == Op::kLop3) type = n == 5 ? Type::kPred : Type::kB32;
    const std::uint32_t bytes = size_bytes(type);
    const char kind = type == Type::kPred ? 'p' : type == Type::kF32 ? 'f' : type == Type::kF64 ? 'g' : bytes <= 2 ? 'h' : bytes == 4 ? 'r' : 'd';
    text += fmt::format("{} %{}{}", n == 0 ? "" : ",", kind, n + 1);
    if (n == 0 && in.op == Op::kSetp && size_bytes(in.type()) == 4 && (in.type() == Type::kF16x2 || in.type() == Type::kBF16x2)) text += "|%p7";
    if (n == 0 && in.op == Op::kLop3 && in.operands.size() == 6) text += "|%p7";
    if (n == 4 && in.op == Op::kLop3) text.replace(text.rfind('%'), std::string::npos, "0x96");
  }
  return text + ";\n";
}

// What a form is but for the order of its modifiers, in which ptxas is less free than it is with most.
std::string identity(const std::string& form) {
  std::vector<std::string> parts = words(form), types, rest;
  for (std::size_t n = 1; n < parts.size(); ++n) (is_type(parts[n]) ? types : rest).push_back(parts[n]);
  std::sort(rest.begin(), rest.end());
  return parts[0] + " " + join(types) + " " + join(rest);
}

std::vector<std::string> candidates() {
  std::set<std::string> all, tables;
  std::map<std::string, std::set<std::string>> pools;
  for (const std::string& pattern : spelling_patterns()) {
    for (const std::string& form : expand_spellings(pattern)) {
      tables.insert(form);
      const std::vector<std::string> parts = words(form);
      for (std::size_t n = 1; n < parts.size(); ++n) {
        if (!is_type(parts[n])) pools[parts[0]].insert(parts[n]);
      }
    }
  }
  for (const std::string& form : tables) {
    all.insert(form);
    const std::vector<std::string> parts = words(form);
    for (std::size_t n = 1; n < parts.size(); ++n) {
      std::vector<std::string> other = parts;
      other.erase(other.begin() + static_cast<std::ptrdiff_t>(n));
      if (is_type(parts.back())) all.insert(join(other));
      for (const std::string_view type : kTypes) {
        other = parts;
        other[n] = type;
        if (is_type(parts[n])) all.insert(join(other));
      }
    }
    std::set<std::string> more = pools[parts[0]];
    more.insert(std::begin(kEverywhere), std::end(kEverywhere));
    for (const std::string& one : more) {
      if (std::find(parts.begin(), parts.end(), one) != parts.end()) continue;
      all.insert(parts[0] + "." + one + form.substr(parts[0].size()));
    }
  }
  std::vector<std::string> chosen;  // the table's own order first
  std::set<std::string> seen;
  for (const auto* forms : {&tables, &all}) {
    for (const std::string& form : *forms) {
      if (seen.insert(identity(form)).second) chosen.push_back(form);
    }
  }
  return chosen;
}

// Which of `texts` ptxas takes for a target. An error of syntax hides others, so what is refused is taken out and the rest is
// tried again until nothing is refused.
std::vector<bool> taken_by_ptxas(const std::string& ptxas, const std::string& target, const std::vector<std::string>& texts) {
  const std::string path = testing::TempDir() + "/pergola_forms_" + std::to_string(::getpid()) + ".ptx";
  const std::string head = ".version 8.8\n.target " + target +
                           "\n.address_size 64\n.visible .entry k() {\n.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; "
                           ".reg .f64 %g<9>; .reg .pred %p<9>;\n";
  constexpr std::size_t kHeadLines = 5;
  std::vector<bool> taken(texts.size(), true);
  for (bool again = true; again;) {
    again = false;
    std::string text = head;
    std::vector<std::size_t> lines;
    for (std::size_t n = 0; n < texts.size(); ++n) {
      if (!taken[n]) continue;
      lines.push_back(n);
      text += texts[n];
    }
    EXPECT_TRUE(write_file_atomically(path, text + "ret;\n}\n").ok());
    const std::string command = fmt::format("'{}' -O0 -arch={} -o /dev/null '{}' > '{}.log' 2>&1", ptxas, target, path, path);
    if (std::system(command.c_str()) == 0) break;
    const auto log = read_file(path + ".log");
    static const std::regex kError("line ([0-9]+); (error|fatal)");
    if (!log.ok()) break;
    for (std::sregex_iterator it(log->begin(), log->end(), kError), end; it != end; ++it) {
      const std::size_t line = std::strtoull((*it)[1].str().c_str(), nullptr, 10);
      if (line <= kHeadLines || line - kHeadLines > lines.size()) continue;
      again = again || taken[lines[line - kHeadLines - 1]];
      taken[lines[line - kHeadLines - 1]] = false;
    }
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".log");
  return taken;
}

// ptxas takes these, and the ISA has no such form: testp without a test, fma.relu of bf16 in a directed mode.
// Of cvt the table has what goes between two scalar types.
bool is_excused(const Instruction& in) {
  const auto scalar = [](Type type) {
    const TypeClass kind = class_of(type);
    return type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64 || kind == TypeClass::kSigned ||
           kind == TypeClass::kUnsigned;
  };
  if (in.op == Op::kCvt && (!scalar(in.type(0)) || !scalar(in.type(1)) || in.type(2) != Type::kNone)) return true;
  return (in.op == Op::kTestp && in.mods.size() == 1) ||
         (in.op == Op::kFma && in.has(Mod::kRelu) && !in.has(Mod::kRn));
}

TEST(Spellings, Forms_AreThoseOfPtxas) {
  const char* chosen = std::getenv("PERGOLA_PTXAS");
  const std::string ptxas = chosen != nullptr ? chosen : "/usr/local/cuda/bin/ptxas";
  if (::access(ptxas.c_str(), X_OK) != 0) GTEST_SKIP() << "ptxas is not on this machine";
  const char* how_many = std::getenv("PERGOLA_SPELLINGS");
  const std::size_t step = how_many != nullptr && std::string_view(how_many) == "all" ? 1 : 29;
  std::vector<Instruction> instructions;
  std::vector<std::string> texts;
  std::size_t number = 0;
  for (const std::string& form : candidates()) {
    if (number++ % step != 0) continue;
    auto in = instruction_of(form);
    if (!in) continue;
    texts.push_back(text_of(form, *in));
    instructions.push_back(std::move(*in));
  }
  std::vector<bool> taken(texts.size(), false);
  for (const char* target : {"sm_90", "sm_100a"}) {
    constexpr std::size_t kAtOnce = 4000;
    for (std::size_t first = 0; first < texts.size(); first += kAtOnce) {
      const std::vector<std::string> part(texts.begin() + static_cast<std::ptrdiff_t>(first),
                                          texts.begin() + static_cast<std::ptrdiff_t>(std::min(first + kAtOnce, texts.size())));
      const std::vector<bool> verdicts = taken_by_ptxas(ptxas, target, part);
      for (std::size_t n = 0; n < part.size(); ++n) taken[first + n] = taken[first + n] || verdicts[n];
    }
  }
  std::size_t accepted = 0;
  for (std::size_t n = 0; n < texts.size(); ++n) {
    const bool ours = !check_spelling(instructions[n]).has_value();
    accepted += ours ? 1 : 0;
    if (ours == taken[n] || is_excused(instructions[n])) continue;
    ADD_FAILURE() << texts[n] << (ours ? "our verifier takes it, ptxas refuses it" : "ptxas takes it, our verifier refuses it");
  }
  EXPECT_GT(accepted, texts.size() / 100);
  fmt::print("{} forms, {} of them taken\n", texts.size(), accepted);
}

TEST(Spellings, WrongForm_IsNamed) {
  const auto wrong = check_spelling(*instruction_of("add.sat.u32"));
  ASSERT_TRUE(wrong.has_value());
  EXPECT_NE(wrong->find("'add.sat.u32'"), std::string::npos) << *wrong;
  EXPECT_FALSE(check_spelling(*instruction_of("add.ftz.rn.sat.f32")).has_value()) << "modifiers may stand in any order";
  EXPECT_FALSE(check_spelling(*instruction_of("cvt.sat.rni.s32.f32")).has_value());
  EXPECT_TRUE(check_spelling(*instruction_of("cvt.f32.s32")).has_value()) << "a conversion to a float says how it rounds";
}

}  // namespace
}  // namespace pergola::ptx
