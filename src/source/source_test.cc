#include "src/source/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "src/base/file.h"
#include "src/source/child_process.h"
#include "src/source/clang.h"
#include "src/source/compiler.h"
#include "src/source/nvrtc.h"
#include "tests/support/environment.h"

namespace pergola::source {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using test_support::ScopedEnvironment;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "pergola_source_XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name, std::string_view text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  fs::path path() const { return path_; }

 private:
  fs::path path_;
};

constexpr const char* kScale = R"(
extern "C" __global__ void scale(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
template <class T> __global__ void add(T* x, const T* y) { x[threadIdx.x] += y[threadIdx.x]; }
template __global__ void add<double>(double*, const double*);
namespace deep { __global__ void plain(int* x) { x[0] = 1; } }
)";

// The standard headers that NVRTC and clang without a toolkit both lack, and what they are for.
constexpr const char* kHeaders = R"(
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <inttypes.h>
#include <limits>
#include <new>
#include <stdint.h>
#include <type_traits>
#include <utility>
template <class T> __device__ std::enable_if_t<std::is_integral_v<T>, T> twice(T x) { return x + x; }
extern "C" __global__ void headers(float* out, const std::uint8_t* bytes, uint64_t* wide) {
  static_assert(sizeof(std::size_t) == 8 && sizeof(int64_t) == 8 && INT_MAX == std::numeric_limits<int>::max());
  static_assert(std::is_same_v<std::make_unsigned_t<int>, unsigned>);
  float x = std::sqrt(static_cast<float>(bytes[threadIdx.x])) + std::abs(-1.5f);
  x = std::max(x, std::numeric_limits<float>::lowest());
  float y = FLT_EPSILON;
  std::swap(x, y);
  out[threadIdx.x] = x + std::pow(y, 2.0f) + (std::isnan(x) ? 1.0f : 0.0f) + static_cast<float>(M_PI);
  wide[threadIdx.x] = twice(UINT64_C(1) << 40);
  char buffer[8];
  memcpy(buffer, bytes, 8);
  assert(buffer[0] != 7);
  if (x > 1e30f) printf("%f\n", x);
}
)";

TEST(Ptx, IsTold_ByItsFirstDirective) {
  EXPECT_TRUE(is_ptx(".version 8.0\n"));
  EXPECT_TRUE(is_ptx("\n// made by hand\n/* and\n more */ .version 8.0"));
  EXPECT_FALSE(is_ptx("// .version 8.0\n__global__ void f() {}"));
  EXPECT_FALSE(is_ptx(".versions 8.0"));
  EXPECT_FALSE(is_ptx(".version"));
  EXPECT_FALSE(is_ptx("/* never closed .version 8.0"));
  EXPECT_FALSE(is_ptx(""));
}

TEST(Ptx, PassesThrough_WithItsAliases) {
  const std::string text =
      "\n.version 8.0\n.target sm_75\n.visible .entry _Z3addIfEvPT_PKS0_i(.param .u64 p) { ret; }\n"
      ".visible .entry plain() { ret; }\n";
  const auto result = compile({.name = "x.ptx", .text = text, .compiler = Compiler::kNone});
  ASSERT_TRUE(result) << result.message();
  EXPECT_EQ(result->ptx, text);
  EXPECT_EQ(result->compiler, Compiler::kNone);
  EXPECT_THAT(result->kernel_aliases, ElementsAre(KernelAlias{"add<float>", "_Z3addIfEvPT_PKS0_i"}));
}

TEST(Ptx, Aliases_LoseParametersAndResult) {
  const auto aliases = kernel_aliases(
      ".entry _Z4copyPfPKf( .weak .entry _ZN4deep5plainEPi( .visible .entry\n_Z5applyIXadL_Z3addiiEEEvPi(\n"
      ".entry _Zbroken( .entry ordinary( .entry_count 3");
  EXPECT_THAT(aliases, ElementsAre(KernelAlias{"copy", "_Z4copyPfPKf"}, KernelAlias{"deep::plain", "_ZN4deep5plainEPi"},
                                   KernelAlias{"apply<&(add(int, int))>", "_Z5applyIXadL_Z3addiiEEEvPi"}));
}

TEST(Ptx, UnresolvedMath_IsNamedOnce) {
  EXPECT_THAT(unresolved_math(".extern .func (.param .b32 r) __pergola_sinf\n(\n.param .b32 x\n)\n;\n"
                              ".extern .func vprintf(.param .b64 x);\n.extern .shared .b8 __pergola_not[];\n"
                              ".extern .func (.param .b64 r) __pergola_pow (.param .b64 x);"
                              ".extern .func (.param .b64 r) __pergola_pow (.param .b64 x);"),
              ElementsAre("__pergola_pow", "__pergola_sinf"));
  EXPECT_THAT(unresolved_math(".version 8.0\n"), IsEmpty());
}

TEST(Arch, IsParsedAndLowered) {
  EXPECT_EQ(parse_arch("sm_90a").value().number, 90u);
  EXPECT_EQ(parse_arch("sm_90a").value().suffix, "a");
  EXPECT_EQ(parse_arch("compute_75").value().number, 75u);
  for (const char* wrong : {"", "sm_", "90", "sm_9x", "sm_-1", "compute_75 "})
    EXPECT_EQ(parse_arch(wrong).code(), Code::kInvalidArgument) << wrong;
  const std::uint32_t known[] = {75, 80, 90};
  std::string log;
  EXPECT_EQ(choose_arch({80, ""}, known, "x", log).value(), 80u);
  EXPECT_EQ(log, "");
  EXPECT_EQ(choose_arch({89, ""}, known, "x", log).value(), 80u);
  EXPECT_THAT(log, HasSubstr("sm_80, the highest up to sm_89"));
  EXPECT_EQ(choose_arch({70, ""}, known, "x", log).code(), Code::kUnsupported);
  EXPECT_EQ(choose_arch({100, "a"}, known, "x", log).code(), Code::kUnsupported);
}

TEST(LoadFile, TellsContentAndRefusesTheRest) {
  const TemporaryFolder folder;
  const auto cuda = load_file(folder.file("a/k.cu", kScale));
  ASSERT_TRUE(cuda) << cuda.message();
  EXPECT_EQ(cuda->text, kScale);
  EXPECT_EQ(cuda->name, (folder.path() / "a/k.cu").string());
  EXPECT_TRUE(load_file(folder.file("k.ptx", std::string(".version 8.0\n\0", 14))));
  EXPECT_EQ(load_file(folder.file("bad.ptx", "__global__ void f();")).code(), Code::kParseError);
  EXPECT_EQ(load_file(folder.file("empty.cu", " \n")).code(), Code::kInvalidArgument);
  EXPECT_EQ(load_file(folder.file("binary.cu", std::string("\x7f"
                                                           "ELF\0\0\1",
                                                           7)))
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(load_file(folder.path() / "absent.cu").code(), Code::kNotFound);
  EXPECT_EQ(load_file(folder.path()).code(), Code::kInvalidArgument);
}

TEST(Compile, WithoutAnyCompiler_SaysWhatToInstall) {
  const ScopedEnvironment nvrtc("PERGOLA_NVRTC", "/nonexistent/libnvrtc.so.13"), clang("PERGOLA_CLANG", "none");
  const auto result = compile({.name = "k.cu", .text = kScale});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.code(), Code::kUnavailable);
  EXPECT_THAT(result.message(), HasSubstr("apt install clang-19"));
  EXPECT_THAT(result.message(), HasSubstr("pip install nvidia-cuda-nvrtc"));
  EXPECT_THAT(result.message(), HasSubstr("/nonexistent/libnvrtc.so.13"));
  EXPECT_EQ(compile({.text = kScale, .compiler = Compiler::kNvrtc}).code(), Code::kUnavailable);
  EXPECT_EQ(compile({.text = kScale, .compiler = Compiler::kClang}).code(), Code::kUnavailable);
  EXPECT_EQ(compile({.text = kScale, .compiler = Compiler::kNone}).code(), Code::kInvalidArgument);
}

TEST(Compile, ClangThatIsNoProgram_IsUnavailable) {
  const TemporaryFolder folder;
  const ScopedEnvironment clang("PERGOLA_CLANG", folder.file("clang", "not executable"));
  EXPECT_EQ(compile({.text = kScale, .compiler = Compiler::kClang}).code(), Code::kUnavailable);
}

TEST(Compile, AProgramThatIsNoClang_IsTold) {
  const ScopedEnvironment clang("PERGOLA_CLANG", "/bin/true");
  const auto made = compile({.text = kScale, .compiler = Compiler::kClang});
  EXPECT_EQ(made.code(), Code::kUnavailable);
  EXPECT_THAT(made.message(), HasSubstr("'/bin/true' has made no PTX"));
}

TEST(ChildProcess, GivesOutputAndExitCode) {
  const auto child = run_child({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, {}, std::chrono::seconds(20));
  ASSERT_TRUE(child) << child.message();
  EXPECT_EQ(child->exit_code, 3);
  EXPECT_EQ(child->output, "out\nerr\n");
  EXPECT_EQ(run_child({"/nonexistent/program"}, {}, std::chrono::seconds(20)).code(), Code::kUnavailable);
}

TEST(ChildProcess, ThatNeverEnds_IsKilled) {
  const auto start = std::chrono::steady_clock::now();
  const auto child =
      run_child({"/bin/sh", "-c", "sleep 100 & sleep 100"}, {"PATH=/usr/bin:/bin"}, std::chrono::milliseconds(200));
  EXPECT_EQ(child.code(), Code::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Everything below is asked of each compiler that this machine has.
class WithCompiler : public testing::TestWithParam<Compiler> {
 protected:
  void SetUp() override {
    const bool found = GetParam() == Compiler::kNvrtc ? Nvrtc::find().ok() : Clang::find().ok();
    if (!found) GTEST_SKIP() << to_string(GetParam()) << " is not on this machine";
  }
  SourceRequest request(std::string text) const {
    return {.name = "kernel.cu", .text = std::move(text), .compiler = GetParam()};
  }

  TemporaryFolder folder_;
  ScopedEnvironment cache_{"PERGOLA_CACHE_DIR", (folder_.path() / "cache").string()};
};
INSTANTIATE_TEST_SUITE_P(Compilers, WithCompiler, testing::Values(Compiler::kNvrtc, Compiler::kClang),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(WithCompiler, Kernel_BecomesPtxForItsArch) {
  SourceRequest wanted = request(kScale);
  wanted.arch = "sm_86";
  const auto result = compile(wanted);
  ASSERT_TRUE(result) << result.message();
  EXPECT_TRUE(is_ptx(result->ptx));
  EXPECT_THAT(result->ptx, HasSubstr(".entry scale("));
  EXPECT_THAT(result->ptx, HasSubstr(".target sm_86"));
  EXPECT_EQ(result->compiler, GetParam());
  EXPECT_THAT(result->compiler_version, HasSubstr(GetParam() == Compiler::kNvrtc ? "NVRTC" : "clang version"));
  EXPECT_THAT(result->kernel_aliases, Contains(KernelAlias{"add<double>", "_Z3addIdEvPT_PKS0_"}));
  EXPECT_THAT(result->kernel_aliases, Contains(KernelAlias{"deep::plain", "_ZN4deep5plainEPi"}));
}

TEST_P(WithCompiler, StandardHeaders_AreThere) {
  const auto result = compile(request(kHeaders));
  ASSERT_TRUE(result) << result.message();
  EXPECT_THAT(result->ptx, HasSubstr(".entry headers("));
}

TEST_P(WithCompiler, Error_NamesFileAndLine) {
  const auto result = compile(request("extern \"C\" __global__ void f(int* x) {\n  *x = undefined_name;\n}\n"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.code(), Code::kCompileError);
  EXPECT_THAT(result.message(), HasSubstr("kernel.cu:2:"));
  EXPECT_THAT(result.message(), HasSubstr("undefined_name"));
}

TEST_P(WithCompiler, Warning_IsInTheLogAlsoOfAHit) {
  const std::string text = "extern \"C\" __global__ void f(int* x) {\n#warning look here\n  *x = 1;\n}\n";
  for (const bool hit : {false, true}) {
    const auto result = compile(request(text));
    ASSERT_TRUE(result) << result.message();
    EXPECT_EQ(result->cache_hit, hit);
    EXPECT_THAT(result->log, HasSubstr("look here"));
    EXPECT_THAT(result->compiler_version, Not(IsEmpty()));
  }
}

TEST_P(WithCompiler, Arch_UnknownOrTooNew) {
  SourceRequest wanted = request(kScale);
  wanted.arch = "sm_999";
  const auto lowered = compile(wanted);
  ASSERT_TRUE(lowered) << lowered.message();
  EXPECT_THAT(lowered->log, HasSubstr("pergola: compiled for sm_"));
  wanted.arch = "sm_20";
  EXPECT_EQ(compile(wanted).code(), Code::kUnsupported);
  wanted.arch = "volta";
  EXPECT_EQ(compile(wanted).code(), Code::kInvalidArgument);
}

TEST_P(WithCompiler, Cache_KnowsWhatItDependsOn) {
  folder_.file("dir/own.h", "#define VALUE 1\n#include \"second.h\"\n");
  folder_.file("dir/second.h", "#define SECOND 1\n");
  SourceRequest wanted =
      request("#include <own.h>\nextern \"C\" __global__ void f(int* x) { *x = VALUE + SECOND + N; }\n");
  wanted.include_dirs = {(folder_.path() / "dir").string()};
  wanted.defines = {"N=40"};
  const auto hit = [](const SourceRequest& asked) {
    const auto result = compile(asked);
    EXPECT_TRUE(result) << result.message();
    return result.ok() && result->cache_hit;
  };
  EXPECT_FALSE(hit(wanted));
  EXPECT_TRUE(hit(wanted));
  const std::string ptx = compile(wanted).value().ptx;

  folder_.file("dir/second.h", "#define SECOND 2\n");
  EXPECT_FALSE(hit(wanted));
  EXPECT_TRUE(hit(wanted));
  EXPECT_NE(compile(wanted).value().ptx, ptx);
  folder_.file("dir/second.h", "#define SECOND 1\n");
  EXPECT_TRUE(hit(wanted));
  EXPECT_EQ(compile(wanted).value().ptx, ptx);

  SourceRequest changed = wanted;
  changed.defines = {"N=41"};
  EXPECT_FALSE(hit(changed));
  changed = wanted;
  changed.arch = "sm_86";
  EXPECT_FALSE(hit(changed));
  changed = wanted;
  changed.use_cache = false;
  EXPECT_FALSE(hit(changed));

  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "cache"))
    if (entry.is_regular_file()) std::ofstream(entry.path(), std::ios::trunc) << "foreign";
  EXPECT_FALSE(hit(wanted));
  EXPECT_TRUE(hit(wanted));
}

TEST_P(WithCompiler, ComputedInclude_IsNotCached) {
  folder_.file("dir/own.h", "#define VALUE 1\n");
  SourceRequest wanted =
      request("#define WHICH <own.h>\n#include WHICH\nextern \"C\" __global__ void f(int* x) { *x = VALUE; }\n");
  wanted.include_dirs = {(folder_.path() / "dir").string()};
  for (int round = 0; round < 2; ++round) {
    const auto result = compile(wanted);
    ASSERT_TRUE(result) << result.message();
    EXPECT_FALSE(result->cache_hit);
  }
}

TEST_P(WithCompiler, Cache_SeesTheHeadersThatTheCompilerFinds) {
  // v.h lies beside the source, not beside y.h. NVRTC does not know #import.
  folder_.file("k/sub/y.h", GetParam() == Compiler::kClang ? "#import \"v.h\"\n" : "#include \"v.h\"\n");
  for (const char* value : {"41231", "41232"}) {
    folder_.file("k/v.h", std::string("#define V ") + value + "\n");
    auto wanted = load_file(folder_.file("k/k.cu",
                                         "/* the\n value */ #inc\\\nlude \"sub/y.h\"\n"
                                         "extern \"C\" __global__ void f(int* x) { *x = V; }\n"));
    ASSERT_TRUE(wanted) << wanted.message();
    wanted->compiler = GetParam();
    for (const bool hit : {false, true}) {
      const auto result = compile(*wanted);
      ASSERT_TRUE(result) << result.message();
      EXPECT_EQ(result->cache_hit, hit);
      EXPECT_THAT(result->ptx, HasSubstr(value));
    }
  }
}

TEST_P(WithCompiler, Clock_IsNotCached) {
  SourceRequest wanted = request("extern \"C\" __global__ void f(char* x) { *x = NOW[0]; }\n");
  wanted.defines = {"NOW=__TIME__"};
  for (int round = 0; round < 2; ++round) {
    const auto result = compile(wanted);
    ASSERT_TRUE(result) << result.message();
    EXPECT_FALSE(result->cache_hit);
  }
}

TEST_P(WithCompiler, QuotedInclude_IsFoundBesideTheFile) {
  folder_.file("kernels/part.h", "__device__ int part() { return 7; }\n");
  auto wanted = load_file(
      folder_.file("kernels/k.cu", "#include \"part.h\"\nextern \"C\" __global__ void f(int* x) { *x = part(); }\n"));
  ASSERT_TRUE(wanted) << wanted.message();
  wanted->compiler = GetParam();
  const auto result = compile(*wanted);
  ASSERT_TRUE(result) << result.message();
  EXPECT_THAT(result->ptx, HasSubstr(".entry f("));
}

TEST_P(WithCompiler, CacheFolderThatCannotBeMade_IsDoneWithout) {
  const ScopedEnvironment nowhere("PERGOLA_CACHE_DIR", folder_.file("file", "x") + "/cache");
  const auto result = compile(request(kScale));
  ASSERT_TRUE(result) << result.message();
  EXPECT_FALSE(result->cache_hit);
}

TEST_P(WithCompiler, ManyThreads_CompileAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      SourceRequest wanted = request(kScale);
      wanted.defines = {"WHICH=" + std::to_string(i / 2)};  // pairs race for one entry
      good[static_cast<std::size_t>(i)] = compile(wanted).ok();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, testing::Each(1));
}

TEST(Clang, MathFunctions_AreDeclaredForTheCpuDevice) {
  if (!Clang::find()) GTEST_SKIP() << "clang is not on this machine";
  const TemporaryFolder folder;
  const ScopedEnvironment cache("PERGOLA_CACHE_DIR", folder.path().string());
  const auto result = compile({.text = "extern \"C\" __global__ void f(float* x, double* y) {\n"
                                       "  x[0] = sinf(x[1]) + sqrtf(x[2]); y[0] = pow(y[1], 2.0) + floor(y[2]); }",
                               .compiler = Compiler::kClang});
  ASSERT_TRUE(result) << result.message();
  EXPECT_THAT(unresolved_math(result->ptx), ElementsAre("__pergola_pow", "__pergola_sinf"));
}

TEST(Nvrtc, LineInfo_NamesTheFileAsItWasGiven) {
  if (!Nvrtc::find()) GTEST_SKIP() << "NVRTC is not on this machine";
  SourceRequest request{.name = "blur.cu", .text = kScale, .compiler = Compiler::kNvrtc};
  const auto without = compile(request);
  ASSERT_TRUE(without.ok()) << without.message();
  EXPECT_THAT(without->ptx, Not(HasSubstr(".loc")));
  request.line_info = true;
  for (const std::vector<std::string>& own : {std::vector<std::string>{}, {"-lineinfo"}, {"--generate-line-info"}}) {
    request.options = own;
    const auto with = compile(request);
    ASSERT_TRUE(with.ok()) << with.message();
    EXPECT_THAT(with->ptx, AllOf(HasSubstr(".loc"), HasSubstr("\"blur.cu\"")));
  }
}

// Of NVRTC alone, which is found at run time and need not be there; clang reads on behind such a byte.
TEST(Nvrtc, AByteThatItTakesForTheEnd_IsTold) {
  if (const auto nvrtc = Nvrtc::find(); !nvrtc) GTEST_SKIP() << nvrtc.message();
  const auto compiled =
      compile({.name = "latin.cu", .text = "// first\n// M\xff\n" + std::string(kScale), .compiler = Compiler::kNvrtc});
  EXPECT_EQ(compiled.code(), Code::kInvalidArgument);
  EXPECT_THAT(compiled.message(), HasSubstr("'latin.cu' has a byte 0xFF in line 2"));
}

TEST(Nvrtc, ToolkitHeaders_AreFound) {
  const auto nvrtc = Nvrtc::find();
  if (!nvrtc) GTEST_SKIP() << nvrtc.message();
  if ((*nvrtc)->include_dirs().empty()) GTEST_SKIP() << "NVRTC came without its headers";
  const TemporaryFolder folder;
  const ScopedEnvironment cache("PERGOLA_CACHE_DIR", folder.path().string());
  SourceRequest request{.text =
                            "#include <cstdint>\n#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n"
                            "#include <cuda/std/cstdint>\n"
                            "extern \"C\" __global__ void f(__half* x) { x[0] = __hadd(x[1], x[2]); }",
                        .compiler = Compiler::kNvrtc};
  const auto result = compile(request);
  ASSERT_TRUE(result) << result.message();
  EXPECT_TRUE(compile(request).value().cache_hit);
}

}  // namespace
}  // namespace pergola::source
