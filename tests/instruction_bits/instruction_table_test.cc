// The parts of instruction_bits: rows expand, operands hold what they promise, comparisons see what differs.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "src/base/file.h"
#include "tests/instruction_bits/compare.h"

namespace pergola::instruction_bits {
namespace {

Results results(std::vector<std::uint64_t> values) { return {{}, std::move(values)}; }

TEST(InstructionTable, Patterns_ExpandToEveryAlternative) {
  EXPECT_EQ(expand("a{b,c}d{,e}"), (std::vector<std::string>{"abd", "abde", "acd", "acde"}));
  EXPECT_EQ(expand("{x{1,2},y}"), (std::vector<std::string>{"x1", "x2", "y"}));
}

TEST(InstructionTable, Spellings_StandOnceAndFillTheirTemplates) {
  std::set<std::string> seen;
  for (const Instruction& one : all_instructions()) {
    EXPECT_TRUE(seen.insert(one.text + one.kinds).second) << one.text;
    EXPECT_LE(one.kinds.size(), kMaxSources + 1 + 0u) << one.text;
    EXPECT_EQ(one.text.find('{'), std::string::npos) << one.text;
  }
  EXPECT_GT(seen.size(), 1500u);
}

// What the GPU's own assembler takes: a spelling that it refuses is a mistake of the table.
TEST(InstructionTable, Spellings_AreTakenByPtxas) {
  const char* chosen = std::getenv("PERGOLA_PTXAS");
  const std::string ptxas = chosen != nullptr ? chosen : "/usr/local/cuda/bin/ptxas";
  if (::access(ptxas.c_str(), X_OK) != 0) GTEST_SKIP() << "ptxas is not on this machine";
  const std::string path = testing::TempDir() + "/pergola_spellings_" + std::to_string(::getpid()) + ".ptx";
  std::map<std::string, std::vector<Instruction>> groups;
  for (const Instruction& one : all_instructions()) groups[std::to_string(one.minimum_sm) + one.kinds].push_back(one);
  for (const auto& [name, members] : groups) {
    const int sm = members[0].minimum_sm;
    ASSERT_TRUE(write_file_atomically(path, batch_text(members, sm)).ok());
    const std::string command = fmt::format("'{}' -O0 -arch=sm_{} -o /dev/null '{}' > '{}.log' 2>&1", ptxas, sm, path, path);
    const bool taken = std::system(command.c_str()) == 0;
    const auto log = read_file(path + ".log");
    EXPECT_TRUE(taken) << (log.ok() ? log->substr(0, 2000) : log.message());
    if (!taken) std::filesystem::copy_file(path, path + "." + name, std::filesystem::copy_options::overwrite_existing);
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".log");
}

TEST(Operands, OfOneSource_HoldEverySpecialValue) {
  const std::vector<Case> cases = make_cases("f", 4096, 1);
  std::set<std::uint64_t> found;
  for (const Case& one : cases) found.insert(one[0]);
  for (const std::uint64_t value : {0x00000000u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u,
                                    0xff800001u, 0x00000001u, 0x807fffffu, 0x3f800000u, 0x4f000000u, 0x40200000u}) {
    EXPECT_TRUE(found.contains(value)) << std::hex << value;
  }
}

TEST(Operands, SameSeed_SameValues) {
  EXPECT_EQ(make_cases("gd", 1000, 5), make_cases("gd", 1000, 5));
  EXPECT_NE(make_cases("gd", 1000, 5), make_cases("gd", 1000, 6));
}

TEST(Compare, OneDifferentBit_IsCountedAndShown) {
  const Instruction add{"add.f32", "add.f32 $0, $1, $2", "fff", 90, false};
  const std::vector<Case> cases = {{1, 2}, {3, 4}};
  const Comparison found = compare(add, cases, results({0x3f800000, 5}), "interpreter", results({0x3f800001, 5}), "jit");
  EXPECT_EQ(found.agree, 1u);
  EXPECT_EQ(found.differ, 1u);
  EXPECT_EQ(found.max_ulp, 1u);
  EXPECT_TRUE(found.bits_wrong());
  EXPECT_EQ(found.first, "(0x1, 0x2): interpreter 0x3f800000, jit 0x3f800001");
}

TEST(Compare, NansThatDifferInPayload_AreCountedApart) {
  const Instruction add{"add.f16x2", "add.f16x2 $0, $1, $2", "EEE", 90, false};
  const std::vector<Case> cases = {{}, {}};
  const Comparison found = compare(add, cases, results({0x7fff3c00, 0x7fff3c00}), "interpreter", results({0x7e003c00, 0x7e003c01}), "jit");
  EXPECT_EQ(found.nan_bits, 1u);
  EXPECT_EQ(found.differ, 1u);
}

TEST(Compare, Integers_HaveNoNans) {
  EXPECT_FALSE(same_but_for_nan_bits(Kind::kInt32, 0x7fc00000, 0x7fc00001));
  EXPECT_EQ(ulp_distance(Kind::kF32, 0x80000000, 0), 0u);
  EXPECT_EQ(ulp_distance(Kind::kF32, 0x80000001, 1), 2u);
  EXPECT_EQ(ulp_distance(Kind::kF64, 0x7ff8000000000000, 0), kNoDistance);
}

TEST(Compare, Refusal_IsTold) {
  const Instruction add{"add.f32", "add.f32 $0, $1, $2", "fff", 90, false};
  Results refused;
  refused.status = PERGOLA_ERROR(kUnsupported, "not here");
  const Comparison found = compare(add, {}, results({}), "interpreter", refused, "jit");
  EXPECT_EQ(found.refused_by, "jit");
  EXPECT_EQ(found.refusal, "not here");
}

}  // namespace
}  // namespace pergola::instruction_bits
