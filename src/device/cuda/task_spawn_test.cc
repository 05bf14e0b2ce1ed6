#include "src/device/cuda/task_spawn.h"

#include <gtest/gtest.h>

namespace pergola::device::cuda {
namespace {

TEST(TaskSpawn, Declaration_BecomesADefinitionThatSpawnsNothing) {
  const std::string before = ".version 8.0\n.extern .func  (.param .b32 r) vprintf\n(\n.param .b64 a\n)\n;\n";
  EXPECT_EQ(with_task_spawn(before + ".extern .func  (.param .b32 func_retval0) pergola_task_spawn\n(\n\t.param .b64 "
                                     "pergola_task_spawn_param_0\n)\n;\n.visible .entry k() { ret; }"),
            before + " .func  (.param .b32 func_retval0) pergola_task_spawn\n(\n\t.param .b64 "
                     "pergola_task_spawn_param_0\n)\n { .reg .b32 %pergola_none; mov.b32 %pergola_none, 0; st.param.b32 "
                     "[func_retval0], %pergola_none; ret; }\n.visible .entry k() { ret; }");
}

TEST(TaskSpawn, EverythingElse_StaysAsItIs) {
  for (const char* text :
       {"", ".extern", ".extern .func pergola_task_spawn", ".extern .func f (.param .b64 pergola_task_spawn);",
        ".extern .shared .b8 pergola_task_spawn[];", ".visible .func (.param .b32 r) pergola_task_spawn(.param .b64 a) {}",
        ".extern .func (.param .b32 r) pergola_task_spawn_more(.param .b64 a);"})
    EXPECT_EQ(with_task_spawn(text), text);
}

}  // namespace
}  // namespace pergola::device::cuda
