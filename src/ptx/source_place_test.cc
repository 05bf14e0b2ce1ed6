#include "src/ptx/source_place.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"

namespace pergola::ptx {
namespace {

// Of the instructions of a kernel with this body, one after the other.
std::string places(const std::string& files, const std::string& body) {
  const auto module = parse(".version 8.0\n.target sm_80\n.address_size 64\n" + files +
                                ".visible .entry k() {\n.reg .b32 %r<4>;\n" + body + "}\n",
                            "k.ptx");
  if (!module.ok()) return module.message();
  std::string text;
  for (const Statement& statement : module->functions().front()->body)
    if (const Instruction* in = statement.instruction())
      text += (text.empty() ? "" : " ") + source_place(*module, *in);
  return text;
}

TEST(SourcePlace, IsTheSourcesLine_OrThatOfThePtx) {
  EXPECT_EQ(places(".file 1 \"/a/k.cu\"\n", "mov.u32 %r0, 1;\n.loc 1 7 3\nmov.u32 %r0, 1;\n"), "k.ptx:7 /a/k.cu:7");
}

TEST(SourcePlace, PathsAreBytes_WhichCompilersWriteAsOctal) {
  EXPECT_EQ(places(".file 1 \"/d \\303\\251/k\\\\\\\"\\1.cu\"\n", ".loc 1 7 3\nmov.u32 %r0, 1;\n"),
            "/d \303\251/k\\\"\1.cu:7");
}

TEST(SourcePlace, OfHeadersThatAreNoFiles_ItIsTheCall) {
  const std::string files =
      ".file 1 \"/a/k.cu\"\n.file 2 \"/a/__nv_nvrtc_builtin_header.h\"\n.file 3 \"/a/pergola/device/tasks.h\"\n"
      ".file 4 \"/a/own.h\"\n";
  const auto inlined = [](int file, int line, int caller, int caller_line) {
    return fmt::format(".loc {} {} 1, function_name $L__info_string0, inlined_at {} {} 1\n", file, line, caller,
                       caller_line);
  };
  const std::string move = "mov.u32 %r0, 1;\n";
  EXPECT_EQ(places(files, inlined(2, 90, 1, 11) + move + inlined(3, 60, 1, 12) + move + inlined(4, 5, 1, 13) + move),
            "/a/k.cu:11 /a/k.cu:12 /a/own.h:5");
  // A function of the header that another of it calls.
  EXPECT_EQ(places(files, inlined(2, 95, 1, 11) + move + inlined(2, 90, 2, 95) + move), "/a/k.cu:11 /a/k.cu:11");
  // What calls itself has no end.
  EXPECT_EQ(places(files, inlined(2, 90, 2, 90) + move), "/a/__nv_nvrtc_builtin_header.h:90");
}

}  // namespace
}  // namespace pergola::ptx
