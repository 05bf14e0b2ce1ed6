#include "src/device/cpu/engine_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "src/device/cpu/fake_engine.h"
#include "src/device/cpu/jit_loader.h"
#include "src/ptx/parser.h"

namespace pergola::device::cpu {
namespace {

using testing::FakeEngine;

std::shared_ptr<const ptx::Module> parse(const std::string& text) {
  Result<ptx::Module> module = ptx::parse(".version 8.3\n.target sm_90\n.address_size 64\n" + text, "test.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? std::make_shared<const ptx::Module>(std::move(module).value()) : nullptr;
}

// The engine whose script a kernel's code runs: each script leaves its engine's number in the fault's message.
class Fallback : public ::testing::Test {
 protected:
  Fallback() {
    first->engine_name = "first";
    second->engine_name = "second";
  }
  static void give(FakeEngine& engine, const std::string& kernel) {
    engine.scripts.emplace(kernel, [name = engine.engine_name](const Block& block, std::uint64_t) {
      block.launch->fault->raise(PERGOLA_ERROR(kDeviceFault, "{}", name));
      return Progress::kFinished;
    });
  }
  std::string runs_in(ModuleCode& code, const std::string& kernel) {
    const auto made = code.kernel(kernel);
    if (!made.ok()) return made.message();
    FaultSlot fault;
    Launch launch;
    launch.fault = &fault;
    Block block{.launch = &launch};
    EXPECT_EQ((*made)->start(block)->step(1), Progress::kFinished);
    return fault.status().message();
  }
  std::unique_ptr<ModuleCode> compile(const std::string& text) {
    auto made = make_fallback_engine(first, second)->compile(parse(text), {});
    EXPECT_TRUE(made.ok()) << made.message();
    return std::move(made).value();
  }

  std::shared_ptr<FakeEngine> first = std::make_shared<FakeEngine>(), second = std::make_shared<FakeEngine>();
  const std::string two = ".entry a() { ret; }\n.entry b() { ret; }\n";
};

TEST_F(Fallback, KernelThatTheFirstRefuses_RunsInTheSecond) {
  give(*first, "a");
  give(*second, "a");
  give(*second, "b");
  const auto code = compile(two);
  EXPECT_EQ(runs_in(*code, "a"), "first");
  EXPECT_EQ(runs_in(*code, "b"), "second");
}

// As the JIT does where a block would have to be compiled while the process ends.
TEST_F(Fallback, BlockThatTheFirstDoesNotStart_RunsInTheSecond) {
  give(*first, "a");
  give(*second, "a");
  first->starts = false;
  EXPECT_EQ(runs_in(*compile(two), "a"), "second");
  give(*first, "b");
  EXPECT_NE(runs_in(*compile(two), "b").find("second engine has no script for 'b'"), std::string::npos);
}

TEST_F(Fallback, KernelThatBothRefuse_IsRefusedBySecond) {
  const auto code = compile(two);
  EXPECT_NE(runs_in(*code, "a").find("second engine has no script for 'a'"), std::string::npos);
}

TEST_F(Fallback, ModuleThatTheFirstRefuses_RunsInTheSecond) {
  first->compile_error = PERGOLA_ERROR(kUnsupported, "No textures.");
  give(*second, "a");
  EXPECT_EQ(runs_in(*compile(two), "a"), "second");
}

TEST_F(Fallback, OtherErrors_AreNotFallenBackFrom) {
  first->compile_error = PERGOLA_ERROR(kInternal, "A bug.");
  EXPECT_EQ(make_fallback_engine(first, second)->compile(parse(two), {}).code(), Code::kInternal);
}

TEST_F(Fallback, ModuleThatTakesFunctionAddresses_RunsInOneTier) {
  const std::string text = two + ".func f() { ret; }\n.global .u64 table = f;\n";
  give(*first, "a");
  give(*second, "a");
  give(*second, "b");
  second->functions.emplace("f", 77);
  const auto code = compile(text);
  EXPECT_EQ(runs_in(*code, "a"), "second");
  EXPECT_EQ(*code->function_address("f"), 77u);
  give(*first, "b");
  EXPECT_EQ(runs_in(*compile(text), "a"), "first");
}

TEST(EngineChoice, Names) {
  EXPECT_EQ(*parse_engine_choice("interpreter"), EngineChoice::kInterpreter);
  EXPECT_EQ(*parse_engine_choice("jit"), EngineChoice::kJit);
  EXPECT_EQ(*parse_engine_choice("auto"), EngineChoice::kAuto);
  EXPECT_EQ(parse_engine_choice("fast").code(), Code::kInvalidArgument);
}

TEST(EngineChoice, WithoutTheJit_AutoInterprets_JitIsRefusedWithTheReason) {
  ::setenv("PERGOLA_CPU_JIT", "/nonexistent/libjit.so", 1);
  const auto interpreter = std::make_shared<FakeEngine>();
  EXPECT_EQ(*choose_engine(EngineChoice::kInterpreter, interpreter), interpreter);
  EXPECT_EQ(*choose_engine(EngineChoice::kAuto, interpreter), interpreter);
  const auto refused = choose_engine(EngineChoice::kJit, interpreter);
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_NE(refused.message().find("/nonexistent/libjit.so"), std::string::npos) << refused.message();
  ::unsetenv("PERGOLA_CPU_JIT");
}

TEST(JitLoader, ForeignLibrary_IsRefusedByName) {
  ::setenv("PERGOLA_CPU_JIT", "libm.so.6", 1);
  const auto refused = load_jit_engine();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_NE(refused.message().find("pergola_cpu_jit_abi"), std::string::npos) << refused.message();
  ::unsetenv("PERGOLA_CPU_JIT");
}

TEST(JitLoader, Candidates_StandBesideTheProgram) {
  ::unsetenv("PERGOLA_CPU_JIT");
  const std::vector<std::string> names = jit_library_candidates();
  ASSERT_EQ(names.size(), 3u);
  EXPECT_NE(names[0].find("/libpergola_cpu_jit.so"), std::string::npos);
  EXPECT_NE(names[1].find("/lib/libpergola_cpu_jit.so"), std::string::npos);
  EXPECT_EQ(names[2], "libpergola_cpu_jit.so");
}

}  // namespace
}  // namespace pergola::device::cpu
