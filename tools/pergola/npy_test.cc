#include "tools/pergola/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace pergola::tool {
namespace {

using session::ElementType;
using ::testing::HasSubstr;

// A file of `version` with this header and data.
std::string file(std::string header, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  header += '\n';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

TEST(Npy, WhatNumpyWrites_IsRead) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      ";
  for (const int version : {1, 2, 3}) {
    const auto array = parse_npy(file(header, std::string(24, 'x'), version), "a.npy");
    ASSERT_TRUE(array.ok()) << array.message();
    EXPECT_EQ(array->type, ElementType::kF32);
    EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{2, 3}));
    EXPECT_EQ(array->data, std::string(24, 'x'));
  }
}

TEST(Npy, EveryType_RoundTrips) {
  for (int t = 1; t <= 15; ++t) {
    const auto type = static_cast<ElementType>(t);
    if (type == ElementType::kBF16) continue;  // NumPy has none; see below
    for (const std::vector<std::uint64_t>& shape :
         {std::vector<std::uint64_t>{}, {5}, {0}, {2, 3}, {2, 3, 4}}) {
      NpyArray array{type, session::size_bytes(type), shape, ""};
      for (std::size_t i = 0; i < array.count() * array.element_bytes; ++i) array.data += static_cast<char>(i);
      const std::string bytes = print_npy(array);
      EXPECT_EQ((bytes.size() - array.data.size()) % 64, 0u) << "elements begin at a multiple of 64 bytes";
      const auto back = parse_npy(bytes, "a.npy");
      ASSERT_TRUE(back.ok()) << back.message();
      EXPECT_EQ(back->type, type);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->data, array.data);
    }
  }
}

TEST(Npy, Bfloat16_IsOpaqueBytes) {
  const auto back = parse_npy(print_npy({ElementType::kBF16, 2, {2}, "abcd"}), "a.npy");
  ASSERT_TRUE(back.ok()) << back.message();
  EXPECT_EQ(back->type, ElementType::kBytes);
  EXPECT_EQ(back->element_bytes, 2u);
}

TEST(Npy, WhatIsNotSupported_IsNamed) {
  const auto code = [](const std::string& header, std::string_view part) {
    const auto array = parse_npy(file(header, ""), "a.npy");
    EXPECT_EQ(array.code(), Code::kInvalidArgument) << header;
    if (!array.ok()) {
      EXPECT_THAT(array.message(), HasSubstr(std::string(part)));
    }
  };
  code("{'descr': '>f4', 'fortran_order': False, 'shape': (0,), }", "big-endian");
  code("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 2), }", "Fortran order");
  code("{'descr': '<U5', 'fortran_order': False, 'shape': (0,), }", "'<U5'");
  code("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }", "'|O'");
  code("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }", "structured");
}

TEST(Npy, MalformedFiles_AreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::vector<std::string> bad = {
      "",
      "\x93NUMPY",
      "\x93NUMPX\1\0",
      std::string("\x93NUMPY\1\0\xff\xff", 10),
      file("", ""),
      file("{", ""),
      file("{}", ""),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", std::string(8, 0)),
      file("{'descr': '<f4', 'fortran_order': False, }", std::string(8, 0)),
      file("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", std::string(8, 0)),
      file("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", std::string(8, 0)),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", std::string(8, 0)),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", std::string(24, 0)),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", ""),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999, 9999999999), }", ""),
      file(good + " x", std::string(8, 0)),
      file(good, std::string(7, 0)),
      file(good, std::string(9, 0)),
  };
  for (const std::string& bytes : bad) EXPECT_EQ(parse_npy(bytes, "a.npy").code(), Code::kParseError) << bytes;
}

// The fuzz target's property on a fixed set of mutations: what is accepted prints to what reads back the same.
TEST(Npy, MutatedFiles_NeverCrash) {
  const std::string base = print_npy({ElementType::kF32, 4, {2, 3}, std::string(24, 'd')});
  std::mt19937 random(20240517);
  SCOPED_TRACE("seed 20240517");
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = base;
    for (unsigned changes = random() % 4 + 1; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      if (random() % 3 == 0) bytes.erase(at, random() % 5 + 1);
      else bytes[at] = static_cast<char>(random() % 3 == 0 ? random() : "0123456789'{}(),:<>|fiubcV "[random() % 27]);
      if (bytes.empty()) break;
    }
    const auto array = parse_npy(bytes, "a.npy");
    if (!array.ok()) continue;
    ++accepted;
    const auto again = parse_npy(print_npy(*array), "b.npy");
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_EQ(again->data, array->data);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace pergola::tool
