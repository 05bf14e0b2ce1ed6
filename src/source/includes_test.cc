// The scan must see every file that a compiler may read: each test edits one and asks for another fingerprint, or asks
// that there be none. The texts are forms that NVRTC or clang follow.
#include "src/source/includes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace pergola::source {
namespace {
namespace fs = std::filesystem;

class Includes : public testing::Test {
 protected:
  Includes() {
    std::string pattern = (fs::temp_directory_path() / "pergola_includes_XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    file("v.h", "#define V 1\n");
  }
  ~Includes() override {
    std::error_code ec;
    fs::remove_all(root_, ec);
  }

  void file(const std::string& name, std::string_view text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  std::string dir(const std::string& name) const { return (root_ / name).string(); }

  // Of a source in root_, with root_/inc and root_/inc2 to search.
  std::optional<std::string> fingerprint(std::string_view text) const {
    return include_fingerprint(text, root_.string(), {dir("inc"), dir("inc2")}, {dir("toolkit")});
  }
  // An edit of `name` changes the fingerprint of `text`, and undoing it brings the old one back.
  void expect_depends(std::string_view text, const std::string& name = "v.h") const {
    SCOPED_TRACE(text);
    const auto before = fingerprint(text);
    ASSERT_TRUE(before);
    std::ifstream in(root_ / name, std::ios::binary);
    const std::string old((std::istreambuf_iterator<char>(in)), {});
    file(name, old + "// edited\n");
    EXPECT_NE(fingerprint(text), before);
    file(name, old);
    EXPECT_EQ(fingerprint(text), before);
  }
  void expect_unknown(std::string_view text) const { EXPECT_FALSE(fingerprint(text)) << text; }

  fs::path root_;
};

TEST_F(Includes, PlainForms_AreSeen) {
  for (const char* text :
       {"#include \"v.h\"\n", "#include\"v.h\"", "  #\t include \"v.h\"", "%:include \"v.h\"",
        "int x;\n#include <v.h>\n", "#if 0\n#include \"v.h\"\n#endif", "\xef\xbb\xbf#include \"v.h\"",
        "#if __has_include(\"v.h\")\n#endif", "#if defined(__has_include) && __has_include( <v.h> )"})
    expect_depends(text);
}

TEST_F(Includes, Import_IsSeen) {
  expect_depends("#import \"v.h\"\n");
}

TEST_F(Includes, CommentsInAndBeforeADirective_HideNothing) {
  for (const char* text :
       {"/* x */ #include \"v.h\"\n", "/* x\n y */ #include \"v.h\"\n", "#/* x */include \"v.h\"\n",
        "#include/* x */\"v.h\"\n", "/* \" */ #include \"v.h\"\n", "# /* a */ /* b\n */ include <v.h>\n",
        "#if __has_include /* x */ ( /* y */ \"v.h\")\n#endif\n", "/* ' */ /**/ %:include \"v.h\""})
    expect_depends(text);
}

TEST_F(Includes, WhatLooksLikeAStringOrComment_HidesNothing) {
  for (const char* text :
       {"const char* s = \"/*\";\n#include \"v.h\"\n//*/\n", "#error don't /* stop\n#include \"v.h\"\n",
        "auto s = R\"x(/* \" )y\" )x\";\n#include \"v.h\"\n", "// a comment /* that ends\n#include \"v.h\"\n",
        "char c = '\"';\n#include \"v.h\"\n", "int n = 1'000'000;\n#include \"v.h\"\n",
        "auto s = R\"(\n)\"\n#include \"v.h\"\n"})
    expect_depends(text);
}

TEST_F(Includes, Splices_AreUndone) {
  for (const char* text : {"#inc\\\nlude \"v.h\"\n", "#\\\n\\\ninclude \"v.h\"\n", "#include \\\r\n\"v.h\"\r\n",
                           "#inc\\  \nlude \"v.h\"\n", "#inc\\\rlude \"v.h\"\r", "#include \"v\\\n.h\"\n",
                           "/\\\n* x *\\\n/ #include \"v.h\"\n", "#if __has_\\\ninclude(\"v.h\")\n#endif\n"})
    expect_depends(text);
}

TEST_F(Includes, EndsOfLines_OfAllKinds) {
  for (const char* text :
       {"// x\r#include \"v.h\"\rint x;\r", "// x\r\n#include \"v.h\"\r\n", "// x\n\r#include \"v.h\"\n\r"})
    expect_depends(text);
}

TEST_F(Includes, BlanksBeyondAscii_AreBlanks) {
  expect_depends("#\xc2\xa0include \"v.h\"\n");
}

TEST_F(Includes, NestedHeader_IsSearchedBesideItsIncluderTheSourceAndInEachFolder) {
  file("sub/y.h", "#include \"z.h\"\n#include <w.h>\n#include \"v.h\"\n");
  file("sub/z.h", "");
  file("inc/w.h", "");
  file("inc2/w.h", "");  // hidden by the first, but for #include_next and the like
  for (const char* name : {"v.h", "sub/y.h", "sub/z.h", "inc/w.h", "inc2/w.h"})
    expect_depends("#include \"sub/y.h\"\n", name);
}

TEST_F(Includes, FileThatAppears_Counts) {
  const std::string text = "#include <w.h>\n#include \"late.h\"\n";
  const auto before = fingerprint(text);
  ASSERT_TRUE(before);
  file("inc2/w.h", "");
  const auto second = fingerprint(text);
  EXPECT_NE(second, before);
  file("inc/w.h", "");
  EXPECT_NE(fingerprint(text), second);
}

TEST_F(Includes, ToolkitHeader_CountsByTimeAndSize) {
  file("toolkit/t.h", "#include MACRO\n");
  expect_depends("#include <v.h>\n#include <t.h>\n");
  const auto before = fingerprint("#include <t.h>\n");
  ASSERT_TRUE(before);
  file("toolkit/t.h", "#include MACRO_2\n");
  EXPECT_NE(fingerprint("#include <t.h>\n"), before);
}

TEST_F(Includes, SymbolicLink_IsSearchedWhereItLies) {
  file("sub/y.h", "#include \"z.h\"\n");
  file("other/z.h", "");
  fs::create_symlink(root_ / "sub/y.h", root_ / "other/y.h");
  expect_depends("#include \"sub/y.h\"\n#include \"other/y.h\"\n", "other/z.h");
}

TEST_F(Includes, HeaderThatIncludesItself_Ends) {
  file("sub/self.h", "#include \"../sub/self.h\"\n#include \"self.h\"\n");
  expect_depends("#include \"sub/self.h\"\n", "sub/self.h");
}

TEST_F(Includes, WhatCannotBeFollowed_IsUnknown) {
  for (const char* text :
       {"#include WHICH\n", "/* x */ #include WHICH\n", "#include NAME(x)\n", "#include /* x */ WHICH\n",
        "#include \xce\xb1\n", "#include_next <v.h>\n", "#if __has_include_next(<v.h>)\n", "#embed \"v.h\"\n",
        "#if __has_embed(\"v.h\")\n", "#if __has_include(WHICH)\n", "#define HAS __has_include\n",
        "#define HAS(x) __has_include(x)\n", "#pragma include_alias(\"a.h\", \"v.h\")\n", "#include \"sub\\v.h\"\n",
        "#include \"v.h\n", "?\?=include \"v.h\"\n", "#inc?\?/\nlude \"v.h\"\n"})
    expect_unknown(text);
  expect_unknown(std::string("#") + '\0' + "include \"v.h\"");
}

TEST_F(Includes, Clock_IsUnknown) {
  for (const char* text : {"const char* t = __TIME__;", "f(__DATE__)", "__TIMESTAMP__", "__TI\\\nME__"})
    expect_unknown(text);
  file("clock.h", "#define WHEN __TIME__\n");
  expect_unknown("#include \"clock.h\"\n");
}

TEST_F(Includes, HeaderThatCannotBeFollowed_IsUnknown) {
  file("sub/y.h", "#include <v.h>\n#include_next <v.h>\n");
  expect_unknown("#include \"sub/y.h\"\n");
  ASSERT_EQ(::mkfifo((root_ / "pipe.h").c_str(), 0600), 0);
  expect_unknown("#include \"pipe.h\"\n");
}

TEST_F(Includes, OrdinaryText_IsKnown) {
  for (const char* text : {"", "#", "#define V 1\n#pragma once\n#if V\n#endif", "a ## b # c", "// is #included by f.cu",
                           "#ifdef __has_include\n#endif", "#if !defined(__has_include)", "// #include \"gone.h\"",
                           "#include <absent>", "char c = '\\\\';", "#include \".\"", "\\"})
    EXPECT_TRUE(fingerprint(text)) << text;
}

// A scan that looked ahead from each '#' to the end would take hours for these.
TEST_F(Includes, HostileText_TakesLinearTime) {
  for (const std::string_view piece : {"#/*", "#include <", "#include \"", "__has_include(<", "# /* */ ", "\\ "}) {
    std::string text;
    while (text.size() < (std::size_t{4} << 20)) text += piece;
    fingerprint(text + "*/>\"");
  }
}

}  // namespace
}  // namespace pergola::source
