// conformance_test [--report=PATH] [GoogleTest's options]
//
// Runs every suite on every device of this machine. --report writes PATH.json and PATH.md (report.h). Exit code 0 where
// all passed, 1 where one failed, 2 where a report cannot be written.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/conformance/registry.h"
#include "tests/conformance/report.h"

int main(int argc, char** argv) {
  using namespace pergola::conformance;
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  ::testing::InitGoogleTest(&argc, argv);
  std::string path;
  constexpr const char* kReport = "--report=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kReport, std::strlen(kReport)) == 0) {
      path = argv[i] + std::strlen(kReport);
    } else {
      std::fprintf(stderr, "conformance_test: there is no option '%s'; --report=PATH and GoogleTest's own are.\n",
                   argv[i]);
      return 2;
    }
  }
  for (const std::string& line : missing_devices()) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  Report report(command);
  if (!path.empty()) ::testing::UnitTest::GetInstance()->listeners().Append(report.make_listener());
  const int failed = RUN_ALL_TESTS();
  if (path.empty()) return failed;
  if (const pergola::Status status = report.write(path); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 2;
  }
  std::printf("The report is in %s.json and %s.md.\n", path.c_str(), path.c_str());
  return failed;
}
