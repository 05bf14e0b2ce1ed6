#include "src/base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pergola {
namespace {

bool child_knows() {
  const pid_t child = fork();
  if (child == 0) _exit(is_forked_child() ? 1 : 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST(Fork, Child_KnowsOnlyOnceItsParentWatches) {
  EXPECT_FALSE(child_knows());
  watch_for_fork();
  watch_for_fork();
  EXPECT_TRUE(child_knows());
  EXPECT_FALSE(is_forked_child());
}

}  // namespace
}  // namespace pergola
