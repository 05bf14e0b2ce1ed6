#include "src/base/nvtx.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace pergola::nvtx {
namespace {

std::string told() {
  void* const library = dlopen(PERGOLA_FAKE_NVTX, RTLD_NOW | RTLD_LOCAL);
  const auto log = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_nvtx_log"));
  return log == nullptr ? dlerror() : log();
}

TEST(Nvtx, WithoutATool_AreNoRanges) {
  const Range range(nullptr, "nothing");
  EXPECT_EQ(told(), "");
}

TEST(Nvtx, Library_IsToldOfRanges) {
  told();
  const auto functions = from_library(PERGOLA_FAKE_NVTX);
  ASSERT_TRUE(functions.ok()) << functions.message();
  {
    const Range outer(&*functions, "outer");
    const Range inner(&*functions, "inner");
  }
  EXPECT_EQ(told(), "+outer;+inner;-;-;");
}

TEST(Nvtx, WhatIsNone_IsRefusedByName) {
  for (const auto& from : {+[](const std::string& name) { return from_library(name); },
                           +[](const std::string& name) { return from_tool(name); }}) {
    EXPECT_EQ(from("libno_such.so").code(), Code::kNotFound);
    const auto other = from("libm.so.6");
    EXPECT_EQ(other.code(), Code::kNotFound);
    EXPECT_NE(other.message().find("'libm.so.6'"), std::string::npos) << other.message();
  }
}

TEST(Nvtx, Tool_TakesTheFunctionsThatItWants_OnceAProcess) {
  told();
  const auto functions = from_tool(PERGOLA_FAKE_NVTX);
  ASSERT_TRUE(functions.ok()) << functions.message();
  {
    const Range range(&*functions, "saxpy");
  }
  EXPECT_EQ(told(), "+saxpy;-;");
  EXPECT_EQ(from_tool(PERGOLA_FAKE_NVTX).code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace pergola::nvtx
